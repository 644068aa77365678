"""One selection in an open run: who proposes, which worlds are held out, what is deployed.

A model that proposes is asked over the run's line, so its requests stand in the ledger and keep to
the budget. Each revision is in the journal before the next is asked for: a dream that was cut off
goes on where it stopped and pays for no revision again. Held-out worlds are the newest, which no
dream has shown before; they take no part in the choice and judge it afterwards.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

import msgspec

from daydream import registry
from daydream.agents.chat.agent import ChatAgent, chat
from daydream.bookkeeping import Book
from daydream.canonical import JsonObject, JsonValue, content_hash, hash_of
from daydream.config import RunSettings, mocking
from daydream.errors import ModelError, PolicyError, RegistryError, Stopped, UsageError
from daydream.intervals import Interval, interval
from daydream.isolation import PolicyLimits, open_policy, replay_apart
from daydream.llm.base import Message, Request
from daydream.llm.client import Client
from daydream.objective import Objective
from daydream.policies.base import BuiltinSpec, PolicySpec
from daydream.policies.python_file import PythonFileSpec
from daydream.prompting import prompt
from daydream.proposers.asked import Asking, Decision, Question, Revision, Shown, Terms
from daydream.proposers.base import Proposer, Scored
from daydream.replay import ReplayWorld
from daydream.search import Revealed, solve
from daydream.selection import Apart, Guard, Scorer, Selection, Settings, describe, report, select
from daydream.store import events as log
from daydream.store.run_folder import tree_bytes
from daydream.tree import Batch, Pool, TreeView

ANSWER: Final = "answer.md"
POLICY: Final = "policy"


class Dreaming(msgspec.Struct, frozen=True):
    """What one selection was asked to do."""

    dreamer: str = "auto"
    developer: str = ""
    """Model string of a dreamer that asks one, with its options."""
    revisions: int = 4
    settings: Settings = Settings()
    explore_margin: int = 0
    holdout: int = 0
    holdout_margin: float | None = None
    policy_timeout: float = 5.0
    """CPU seconds that a policy file may take for one decision."""

    @property
    def limits(self) -> PolicyLimits:
        """What a policy file may use in replay."""
        return PolicyLimits(decision_s=self.policy_timeout)

    @property
    def apart(self) -> Apart:
        """How policy files are replayed."""
        return partial(replay_apart, limits=self.limits)


class HeldOut(msgspec.Struct, frozen=True):
    """The choice and the incumbent in worlds that took no part in the choice."""

    worlds: tuple[int, ...]
    """Rounds of the trees."""
    choice: str
    """The policy that selection chose."""
    incumbent: float | None
    """Mean replay score; None for a disqualified policy."""
    chosen: float | None
    gain: Interval | None
    """Choice minus incumbent, world by world; None where one of the two is disqualified."""
    refused: str = ""
    """Why the choice gave way to the incumbent; empty where it did not."""


class Dreamt(msgspec.Struct, frozen=True):
    """What a dream came to."""

    selection: Selection
    deployed: Scored
    """The replay of what goes online: the choice, widened by the margin."""
    held_out: HeldOut | None = None
    revisions: tuple[Mapping[str, JsonValue], ...] = ()
    """What a model proposed, in order."""
    usage: log.Usage = log.Usage()
    """What this dream asked models for; without what an earlier process had paid."""

    def report(self, *, most: int = 8) -> JsonObject:
        """Return the dream as JSON for the journal and the screen."""
        told = dict(report(self.selection, deployed=self.deployed, most=most))
        if self.held_out is not None:
            told["held_out"] = cast("JsonValue", msgspec.to_builtins(self.held_out))
        if self.revisions:
            told["revisions"] = list(self.revisions)
        return told


def dreaming_of(settings: RunSettings) -> Dreaming:
    """Return what a selection does under the settings of a run."""
    return Dreaming(
        dreamer=settings.dreamer,
        developer=developer_of(settings),
        revisions=settings.revisions,
        settings=Settings(
            objective=Objective(
                settings.cost_weight, settings.parallel_weight, settings.normalised
            ),
            sweep=settings.objective == "sweep",
            guard=settings.guard or default_guard(settings.dreamer),
            limit=settings.max_parallelism,
            max_batches=settings.replay_batches or settings.max_batches,
        ),
        explore_margin=0 if settings.dreamer == "none" else settings.explore_margin,
        holdout=settings.holdout,
        holdout_margin=settings.holdout_margin,
        policy_timeout=settings.policy_timeout,
    )


def default_guard(dreamer: str) -> Guard:
    """Return the guard of a dreamer: code is judged by the plain argmax, as in the paper."""
    return "none" if dreamer == "developer" else "quality"


def developer_of(settings: RunSettings) -> str:
    """Return the model that proposes policies: the one that was set, else the agent's."""
    agent = settings.agent.removeprefix("chat:") if settings.agent.startswith("chat:") else ""
    model = settings.developer or agent or ("mock:" if mocking() else "")
    wanted = settings.developer_temperature
    head = model.partition(":")[0]
    if not model or wanted is None or "temperature=" in head:
        return model
    return f"temperature={wanted:g}{',' if '=' in head else ':'}{model}"


def check_dreaming(dreaming: Dreaming) -> ChatAgent | None:
    """Return who is asked, None where nobody is.

    Raises :class:`RegistryError` for an unknown dreamer, :class:`UsageError` where a model is
    missing or an objective does not fit, :class:`EnvironmentMissing` where its key is not set.
    """
    if dreaming.settings.sweep and dreaming.settings.objective.normalised:
        raise UsageError(
            "the sweep objective is normalised by itself (expected --objective sweep without "
            "--normalised); drop one of them"
        )
    margin = dreaming.holdout_margin
    if margin is not None and not math.isfinite(margin):
        raise UsageError(f"holdout margin is {margin} (expected a finite number)")
    if margin is not None and dreaming.holdout == 0:
        raise UsageError(
            f"holdout margin {margin:g} has no held-out world to hold in (expected --holdout K as "
            "well); add it, or drop the margin"
        )
    factory = _factory(dreaming.dreamer)
    if not _asks(factory):
        return None
    if not dreaming.developer:
        raise UsageError(
            f"dreamer {dreaming.dreamer} has no model (expected its model string; `daydream "
            "models` lists some); mock: needs no key"
        )
    return chat(dreaming.developer)


def _factory(name: str) -> Callable[..., Proposer]:
    factory = registry.load("proposer", name)
    if not callable(factory):
        raise RegistryError(f"proposer plug-in {name!r} is {factory!r} (expected a class)")
    return cast("Callable[..., Proposer]", factory)


def _asks(factory: Callable[..., Proposer]) -> bool:
    return isinstance(factory, type) and issubclass(factory, Asking)


def dream(
    book: Book,
    number: int,
    pool: Pool,
    incumbent: PolicySpec,
    *,
    earlier: Sequence[PolicySpec],
    dreaming: Dreaming,
    asking: "Asked",
) -> Dreamt:
    """Select the policy that follows round ``number``; nothing is deployed yet.

    Raises :class:`Stopped` when a budget, an interrupt or a silent model ends it early; what was
    paid for is kept, and the same call goes on from there.
    """
    seen, held = split(pool, dreaming.holdout)
    agent, factory = check_dreaming(dreaming), _factory(dreaming.dreamer)
    studio = None if agent is None else _Studio(book, number, seen, incumbent, dreaming, asking)
    proposer = factory() if studio is None else factory(studio, studio.terms)
    selection = select(
        incumbent,
        proposer,
        seen,
        settings=dreaming.settings,
        earlier=earlier,
        apart=dreaming.apart,
    )
    held_out = None if held is None else _judged_apart(selection, held, dreaming)
    if held_out is not None and held_out.refused:
        selection = msgspec.structs.replace(selection, chosen=selection.incumbent)
    return Dreamt(
        selection=selection,
        deployed=widened(selection, dreaming.explore_margin, seen, dreaming.settings),
        held_out=held_out,
        revisions=() if studio is None else tuple(studio.told()),
        usage=log.Usage() if studio is None else studio.usage,
    )


def split(pool: Pool, holdout: int) -> tuple[Pool, Pool | None]:
    """Return the pool without its ``holdout`` newest worlds, and those; at least one world stays.

    The newest world is one that no selection before this could know.
    """
    count = min(holdout, len(pool.trees) - 1)
    if count == 0:
        return pool, None
    trees = sorted(pool.trees, key=lambda tree: tree.round)
    parts = (tuple(trees[:-count]), tuple(trees[-count:]))
    seen, held = (msgspec.structs.replace(pool, trees=part, known=pool.trees) for part in parts)
    return seen, held


def _judged_apart(selection: Selection, held: Pool, dreaming: Dreaming) -> HeldOut:
    scorer = Scorer(held, dreaming.settings, apart=dreaming.apart)
    incumbent, chosen = scorer.score([selection.incumbent.spec, selection.chosen.spec])
    out = chosen.disqualified
    gain = None
    refused = ""
    if out is not None and selection.changed:
        refused = f"it is disqualified in world {out.world}, batch {out.batch}: {out.reason}"
    elif out is None and incumbent.disqualified is None:
        gain = interval(
            [
                mine.breakdown.score - theirs.breakdown.score
                for mine, theirs in zip(chosen.worlds, incumbent.worlds, strict=True)
            ]
        )
        least = dreaming.holdout_margin
        if selection.changed and least is not None and not gain.mean >= least:
            refused = f"it gains {gain.mean:.6g} (expected at least {least:g})"
    return HeldOut(
        worlds=tuple(tree.round for tree in held.trees),
        choice=selection.chosen.spec.name,
        incumbent=None if incumbent.disqualified is not None else incumbent.mean,
        chosen=None if out is not None else chosen.mean,
        gain=gain,
        refused=refused,
    )


def first_question(
    book: Book, number: int, pool: Pool, incumbent: PolicySpec, dreaming: Dreaming, asking: "Asked"
) -> Question | None:
    """Return what a model would be asked first; None where no model is asked. Asks nothing."""
    factory = _factory(dreaming.dreamer)
    if check_dreaming(dreaming) is None:
        return None
    seen, _ = split(pool, dreaming.holdout)
    studio = _Studio(book, number, seen, incumbent, dreaming, asking)
    return cast("Asking", factory(studio, studio.terms)).question(seen, incumbent, 1)


class Asked(msgspec.Struct, frozen=True):
    """How a dream reaches its model. The client is opened when the first question is asked."""

    open_client: Callable[[], Client]
    interrupted: threading.Event


class _Studio:
    """Asks, replays and keeps for one dream, as a :class:`daydream.proposers.asked.Studio`."""

    def __init__(
        self,
        book: Book,
        number: int,
        pool: Pool,
        incumbent: PolicySpec,
        dreaming: Dreaming,
        asking: Asked,
    ) -> None:
        self._book = book
        self._number = number
        self._pool = pool
        self._asking = asking
        self._agent = chat(dreaming.developer)
        self._settings = dreaming.settings
        self._scorer = Scorer(pool, dreaming.settings, apart=dreaming.apart)
        self._limits = dreaming.limits
        self._notes: dict[int, dict[str, JsonValue]] = {}
        self.usage = log.Usage()
        self.terms = Terms(
            worth=worth(dreaming.settings),
            limit=dreaming.settings.limit,
            max_batches=dreaming.settings.max_batches,
            revisions=dreaming.revisions,
        )
        self._id = hash_of(
            [
                dreaming.dreamer,
                dreaming.developer,
                dict(incumbent.to_json()),
                [content_hash(tree_bytes(tree)) for tree in pool.trees],
                self.terms.worth,
                self.terms.limit,
                self.terms.max_batches,
            ]
        )

    def ask(self, question: Question, number: int) -> str:
        if self._asking.interrupted.is_set():
            raise Stopped("interrupted", exit_code=130)
        line = self._asking.open_client().line(self._journal)
        messages = (Message("system", question.system), Message("user", question.user))
        try:
            reply = line.ask(
                self._agent.chat,
                Request(messages, self._agent.parameters, number),
                self._agent.terms,
            )
        except ModelError as error:
            raise Stopped(f"the developer did not answer: {error}", exit_code=1) from None
        return reply.text

    def _journal(self, usage: log.Usage) -> None:
        self.usage += usage
        self._book.emit(log.UsageSpent(round=self._number, purpose="developer", usage=usage))

    def kept(self) -> Sequence[Revision]:
        found: list[Revision] = []
        for event in self._book.state.rounds[self._number].revisions:
            if event.dream == self._id:
                files = self._book.folder.get_artifact(event.artifact)
                revision = Revision(
                    event.number,
                    files[ANSWER].decode("utf-8"),
                    files[POLICY].decode("utf-8"),
                    event.problem,
                )
                self._note(revision)
                found.append(revision)
        return found

    def keep(self, revision: Revision) -> None:
        files = {ANSWER: revision.answer, POLICY: revision.text}
        stored = {name: text.encode("utf-8", "replace") for name, text in files.items()}
        event = log.RevisionMade(
            round=self._number,
            dream=self._id,
            number=revision.number,
            artifact=self._book.folder.put_artifact(stored),
            problem=revision.problem,
        )
        self._book.emit(event, durable=True)
        self._note(revision)

    def _note(self, revision: Revision) -> None:
        if revision.number in self._notes:
            return
        note: dict[str, JsonValue] = {"number": revision.number, "problem": revision.problem}
        self._notes[revision.number] = note
        self._write(revision.number, "answer.md", revision.answer)
        if not revision.problem:
            ending = "json" if revision.text.lstrip().startswith("{") else "py"
            self._write(revision.number, ending, revision.text)
        else:
            self._write(revision.number, "scores.json", note)

    def judged(self, number: int, scored: Scored) -> None:
        self._notes[number].update(describe(scored))
        self._write(number, "scores.json", self._notes[number])

    def _write(self, number: int, ending: str, body: JsonObject | str) -> None:
        place = f"{self._number:03d}-{self._id[:8]}"
        self._book.folder.write_revision(place, f"version-{number}.{ending}", body)

    def told(self) -> list[Mapping[str, JsonValue]]:
        """Return one row for each revision."""
        rows: list[Mapping[str, JsonValue]] = []
        for note in self._notes.values():
            row = {key: value for key, value in note.items() if key != "worlds"}
            rows.append({**row, "dream": self._id[:8]})
        return rows

    def score(self, spec: PolicySpec) -> Scored:
        return self._scorer.score([spec])[0]

    def watch(self, spec: PolicySpec, world: int, batches: int | None = None) -> Sequence[Decision]:
        watched = _Watched(ReplayWorld(self._scorer.records[world]))
        settings = self._settings
        try:
            scale, limit = self._pool.scale, settings.limit
            with open_policy(spec, scale, limit=limit, limits=self._limits) as policy:
                solve(
                    policy,
                    watched,
                    limit=settings.limit,
                    max_batches=batches or settings.max_batches,
                )
        except PolicyError:
            # What it did until then is what the next version is to learn from.
            pass
        return watched.decisions


class _Watched:
    """A replay that takes down what was decided."""

    def __init__(self, world: ReplayWorld) -> None:
        self._world = world
        self.decisions: list[Decision] = []

    def view(self) -> TreeView:
        return self._world.view()

    def advance(self, batch: Batch) -> Revealed:
        view = self._world.view()
        attempts, best = view.attempts, view.best
        revealed = self._world.advance(batch)
        shown = tuple(
            Shown(node.id, node.parent, node.branch, node.depth, node.score if node.ok else None)
            for node in revealed.nodes
        )
        self.decisions.append(Decision(attempts, best, tuple(batch), shown))
        return revealed


def worth(settings: Settings) -> str:
    """Return how a version is scored, in words."""
    if settings.sweep:
        return prompt("worth_sweep")
    objective = settings.objective
    name = "worth_normalised" if objective.normalised else "worth_equation1"
    return prompt(
        name, cost=f"{objective.cost_weight:g}", parallel=f"{objective.parallel_weight:g}"
    )


def widened(selection: Selection, margin: int, pool: Pool, settings: Settings) -> Scored:
    """Return what goes online after ``selection``: the choice, widened by ``margin``, replayed."""
    spec = widen(selection.chosen.spec, margin)
    if spec == selection.chosen.spec:
        return selection.chosen
    return Scorer(pool, settings, apart=replay_apart).score([spec])[0]


def widen(spec: PolicySpec, margin: int) -> PolicySpec:
    """Return ``spec`` with width and depth larger by ``margin``; other specs come back as they are.

    Replay cannot reward what was never recorded, so a search that became too narrow recovers only
    by trying more than replay asks for.
    """
    if margin == 0 or not isinstance(spec, BuiltinSpec):
        return spec
    values = {key: getattr(spec, key) for key in spec.LETTERS.values()}
    for key in ("width", "depth"):
        if key in values:
            values[key] += margin
    return cast("PolicySpec", type(spec)(**values))


def deploy(book: Book, number: int, dreamt: Dreamt) -> None:
    """Journal the selection after round ``number``, keep the policy's version and point at it."""
    spec = dreamt.deployed.spec
    book.folder.write_policy(*policy_file(spec))
    book.emit(
        log.SelectionMade(
            round=number,
            deployed=spec.name,
            spec=spec.to_json(),
            report=dreamt.report(),
        ),
        durable=True,
    )


def policy_file(spec: PolicySpec) -> tuple[str, JsonObject | str]:
    """Return the name and the content of the file that keeps ``spec``."""
    if isinstance(spec, PythonFileSpec):
        return spec.file.removesuffix(".py"), spec.source
    return spec.name, spec.to_json()
