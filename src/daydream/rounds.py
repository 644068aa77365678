"""The outer loop: an online rollout, its tree joins the pool, selection, the next round.

Everything that was paid for is in the run folder before the next step begins, so a run continues
from any instant: finished attempts are read back, the rest of the rollout is made.
"""

import platform
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TypeAlias, cast

import msgspec

from daydream.agents.base import MeteredAgent, reads_history
from daydream.bookkeeping import (
    Book,
    Budget,
    Gate,
    Metering,
    RoundLedger,
    root_record,
    verdict_of,
)
from daydream.canonical import JsonObject
from daydream.config import RunSettings, cores
from daydream.dreams import Asked, deploy, dream, dreaming_of, policy_file
from daydream.errors import DaydreamError, Stopped
from daydream.isolation import PolicyLimits, open_policy
from daydream.llm.budget import Purse, parse_budget
from daydream.llm.cache import ReplyCache
from daydream.llm.client import Around, Client
from daydream.manifests import Archive
from daydream.online import Attempt, Attempts, OnlineSettings, OnlineWorld, Start
from daydream.policies.base import PolicySpec
from daydream.policies.python_file import PythonFileSpec
from daydream.policies.specs import spec_from_json
from daydream.proposers.base import Scored
from daydream.search import Rollout, solve
from daydream.selection import Selection
from daydream.store import events as log
from daydream.store.run_folder import REPLIES
from daydream.summaries import RunResult, result_of_state, summary_json
from daydream.tasks.base import Artifact, TaskInfo
from daydream.tree import Grid, Status, Tree, make_pool


class RoundBegan(msgspec.Struct, frozen=True):
    """A rollout starts or continues."""

    task: TaskInfo
    round: int
    rounds: int
    policy: str
    planned: int | None
    """Attempts that the policy makes at most, where its spec tells."""


class AttemptDone(msgspec.Struct, frozen=True):
    """An attempt is finished and kept."""

    round: int
    calls: int
    """Attempts of the whole run."""
    status: Status
    score: float
    best: float | None
    """Best score of the run."""
    message: str
    reused: bool


class Selected(msgspec.Struct, frozen=True):
    """A selection was made after a round."""

    round: int
    selection: Selection
    deployed: Scored


Notice: TypeAlias = RoundBegan | AttemptDone | Selected


class Surroundings(msgspec.Struct, frozen=True):
    """What a run gets from outside: clocks, a way to be interrupted, somebody to tell."""

    now: Callable[[], float] = time.time  # noqa: TID251 - the one place where the clock comes in
    """Seconds since 1970, for the journal only."""
    timer: Callable[[], float] = time.monotonic
    interrupted: threading.Event = threading.Event()
    notify: Callable[[Notice], None] = lambda notice: None
    replies: Path | None = None
    """Answers of models that this run shares with others; None keeps its own."""


class Plan(msgspec.Struct, frozen=True):
    """The resolved request: what runs, under which settings."""

    settings: RunSettings
    spec: PolicySpec
    """Starting policy."""
    source: str
    """Name or absolute path from which the task is built again."""


def play(
    book: Book,
    attempts: Attempts,
    plan: Plan,
    surroundings: Surroundings,
    *,
    explore: bool = False,
) -> RunResult:
    """Play what is left of a run in its open folder and return what it amounts to.

    A budget, a STOP file or an interrupt ends it early; the result says so and the run stays
    resumable. ``explore`` plays one rollout, the unfinished one where there is one, and no
    selection. Raises :class:`PolicyError` when the policy breaks a rule online.
    """
    run = _Run(book, attempts, plan, surroundings)
    stopped: Stopped | None = None
    try:
        if explore:
            run.explore()
        else:
            run.play()
    except Stopped as reason:
        stopped = reason
        book.emit(log.Stopped(reason=reason.reason), durable=True)
    except DaydreamError as error:
        book.emit(log.Stopped(reason=f"{type(error).__name__}: {error}"), durable=True)
        raise
    finally:
        run.close()
        run.write_summary()
    return result_of_state(book.folder.path, book.state, stopped)


class _Run:
    def __init__(
        self, book: Book, attempts: Attempts, plan: Plan, surroundings: Surroundings
    ) -> None:
        self._book = book
        self._attempts = attempts
        self._task = attempts.task
        self._info: TaskInfo = attempts.task.info
        self._plan = plan
        self._settings = plan.settings
        self._around = surroundings
        self._gate = Gate(
            book,
            Budget.of(
                plan.settings.max_calls,
                plan.settings.max_time,
                parse_budget(plan.settings.budget),
            ),
            clock=surroundings.timer,
            interrupted=surroundings.interrupted,
        )
        self._metering: Metering | None = None
        self._opened: Client | None = None
        self._root = self._first_root()
        self._trees = [
            tree for tree in book.folder.trees() if tree.evaluator == self._info.evaluator
        ]

    def play(self) -> None:
        book, state = self._book, self._book.state
        # A kill may have come between the record of the best attempt and its folder.
        self._write_best()
        book.folder.write_policy(*policy_file(self._plan.spec), deploy=not state.rounds)
        spec = self._plan.spec
        first = self._first_round()
        for number in range(1, first):
            spec = self._deployed(number, spec)
        for number in range(first, first + self._settings.rounds):
            known = state.rounds.get(number)
            if known is None or known.tree is None:
                self._roll_out(number, spec)
            if number not in state.rounds or state.rounds[number].selection is None:
                self._select(number, spec)
            spec = self._deployed(number, spec)
        if not state.finished:
            book.emit(log.RunFinished(), durable=True)

    def explore(self) -> None:
        """Play one rollout with the policy that the last selection deployed."""
        state = self._book.state
        self._write_best()
        self._book.folder.write_policy(*policy_file(self._plan.spec), deploy=not state.rounds)
        number = max(self._first_round(), max(state.rounds, default=0))
        known = state.rounds.get(number)
        if known is not None and known.tree is not None:
            number += 1
        spec = self._plan.spec
        for past in range(1, number):
            spec = self._deployed(past, spec)
        self._roll_out(number, spec)

    def close(self) -> None:
        """Close what talks to models."""
        if self._opened is not None:
            self._opened.close()

    def _client(self) -> Client:
        """Return the one client of this run: all that it asks shares one budget."""
        if self._opened is None:
            self._opened = client_of(self._book, self._settings, self._around)
        return self._opened

    def _metered(self, number: int) -> Metering | None:
        """Return how the model agent is watched, after one tiny question; None for other agents."""
        agent, settings = self._attempts.agent, self._settings
        if self._metering is not None or not isinstance(agent, MeteredAgent):
            return self._metering
        client = self._client()
        self._metering = Metering(client, settings.max_failures)
        if settings.preflight and settings.cache != "only":
            agent.preflight(
                client.line(
                    lambda usage: self._book.emit(
                        log.UsageSpent(round=number, purpose="preflight", usage=usage)
                    )
                )
            )
        return self._metering

    def _first_round(self) -> int:
        """The first round of the current evaluator; earlier ones belong to another pool."""
        other = [
            number
            for number, known in self._book.state.rounds.items()
            if known.started.evaluator != self._info.evaluator
        ]
        return 1 + max(other, default=0)

    def _first_root(self) -> Artifact:
        """The initial artifact; that of the pool's first round, once there is one."""
        known = self._book.state.rounds.get(self._first_round())
        if known is None or known.started.root is None:
            return self._task.root()
        return self._book.artifact(known.started.root)

    def _deployed(self, number: int, spec: PolicySpec) -> PolicySpec:
        known = self._book.state.rounds.get(number)
        if known is None or known.selection is None:
            return spec
        return spec_from_json(known.selection.spec, trust=_trusted(self._plan.spec))

    @property
    def _scale(self) -> float | None:
        if self._trees:
            return self._trees[0].scale
        return self._info.scale

    def _roll_out(self, number: int, spec: PolicySpec) -> None:
        settings, book = self._settings, self._book
        artifact = self._start_artifact(number)
        if number not in book.state.rounds:
            book.emit(
                log.RoundStarted(
                    round=number,
                    policy=spec.name,
                    spec=spec.to_json(),
                    limit=settings.max_parallelism,
                    seed=settings.seed,
                    evaluator=self._info.evaluator,
                    root=book.folder.put_artifact(artifact.files),
                    scale=self._scale,
                ),
                durable=True,
            )
        start = self._evaluated(number, artifact)
        metering = self._metered(number)
        self._around.notify(
            RoundBegan(
                self._info,
                number,
                max(number, self._last_round()),
                spec.name,
                planned_attempts(spec),
            )
        )
        past = book.earlier(number) if reads_history(self._attempts.agent) else ()
        world = OnlineWorld(
            self._attempts,
            RoundLedger(
                book,
                number,
                self._gate,
                on_attempt=self._after_attempt,
                layers=self._info.isolation,
                metering=metering,
            ),
            msgspec.structs.replace(start, earlier=past),
            OnlineSettings(
                seed=settings.seed,
                round=number,
                max_branches=settings.max_branches,
                max_depth=settings.max_depth,
                fresh=settings.fresh,
            ),
            before=Archive(self._trees).before(
                number, Grid(max_branches=settings.max_branches, max_depth=settings.max_depth)
            ),
        )
        limit = settings.max_parallelism
        limits = PolicyLimits(decision_s=settings.policy_timeout)
        scale = self._scale or 1.0
        with open_policy(spec, scale, limit=limit, limits=limits) as policy:
            rollout = solve(policy, world, limit=limit, max_batches=settings.max_batches)
        planned: Grid | None = getattr(policy, "grid", None)
        self._finish(number, spec, world, rollout, planned)

    def _last_round(self) -> int:
        return self._first_round() + self._settings.rounds - 1

    def _start_artifact(self, number: int) -> Artifact:
        best = self._book.state.best
        known = self._book.state.rounds.get(number)
        if known is not None and known.started.root is not None:
            return self._book.artifact(known.started.root)
        if self._settings.start == "best" and best is not None and best.artifact is not None:
            return self._book.artifact(best.artifact)
        return self._root

    def _evaluated(self, number: int, artifact: Artifact) -> Start:
        book = self._book
        told = book.state.rounds[number].root
        verdict = told or book.state.verdicts.get(artifact.hash)
        if verdict is not None:
            return Start(artifact, verdict_of(verdict))
        evaluation = self._attempts.evaluate_root(artifact)
        book.emit(root_record(number, artifact.hash, evaluation), durable=True)
        return Start(artifact, evaluation)

    def _after_attempt(self, event: log.AttemptFinished, attempt: Attempt) -> None:
        state = self._book.state
        best = state.best
        if best is not None and (best.round, best.node) == (event.round, event.node):
            self._write_best()
        self._around.notify(
            AttemptDone(
                round=event.round,
                calls=state.calls,
                status=event.status,
                score=event.score,
                best=None if state.best is None else state.best.score,
                message=event.message,
                reused=event.reused,
            )
        )

    def _write_best(self) -> None:
        best = self._book.state.best
        if best is not None and best.artifact is not None:
            files = self._book.artifact(best.artifact).files
            self._book.folder.write_best(files, self._root.files)

    def _finish(
        self,
        number: int,
        spec: PolicySpec,
        world: OnlineWorld,
        rollout: Rollout,
        planned: Grid | None,
    ) -> None:
        book = self._book
        scale = self._scale
        if scale is None:
            scale = spread([n.score for n in world.nodes[1:] if n.status is Status.OK])
            book.folder.write_config({**cast("JsonObject", book.folder.config()), "scale": scale})
        tree = Tree(
            task=self._info.name,
            evaluator=self._info.evaluator,
            round=number,
            policy=spec.name,
            limit=self._settings.max_parallelism,
            scale=scale,
            seed=self._settings.seed,
            nodes=world.nodes,
            grid=_grid(planned, self._settings),
        )
        digest = book.folder.write_tree(tree)
        self._trees.append(tree)
        book.emit(
            log.TreeFinished(
                round=number,
                attempts=rollout.attempts,
                batches=rollout.batches,
                off_record=rollout.off_record,
                best=rollout.best,
                tree=digest,
            ),
            durable=True,
        )

    def _select(self, number: int, incumbent: PolicySpec) -> None:
        settings, book = self._settings, self._book
        pool = make_pool([t for t in self._trees if t.round <= number], floor=self._info.floor)
        earlier = [self._plan.spec]
        for past in range(1, number):
            earlier.insert(0, self._deployed(past, self._plan.spec))
        dreamt = dream(
            book,
            number,
            pool,
            incumbent,
            earlier=[spec for spec in earlier if spec != incumbent],
            dreaming=dreaming_of(settings),
            asking=Asked(self._client, self._around.interrupted),
        )
        deploy(book, number, dreamt)
        self.write_summary()
        self._around.notify(Selected(number, dreamt.selection, dreamt.deployed))

    def write_summary(self) -> None:
        """Rewrite ``summary.json`` from the journal's state."""
        result = result_of_state(self._book.folder.path, self._book.state)
        self._book.folder.write_summary(summary_json(result, self._info, self._settings))


def client_of(book: Book, settings: RunSettings, around: Surroundings) -> Client:
    """Return what asks models for the run in ``book``, within its budget. Close it when done."""
    return Client(
        Purse(parse_budget(settings.budget), settings.prices, book.state.usage),
        Around(around.timer, around.interrupted.wait, random.Random(settings.seed)),
        cache=ReplyCache(around.replies or book.folder.path / REPLIES),
        use=settings.cache,
    )


def _grid(planned: Grid | None, settings: RunSettings) -> Grid | None:
    """Return the plan under the caps of the run, None where there is neither."""
    found = msgspec.structs.replace(
        Grid() if planned is None else planned,
        max_branches=settings.max_branches,
        max_depth=settings.max_depth,
    )
    return None if found == Grid() else found


def _trusted(spec: PolicySpec) -> bool:
    return isinstance(spec, PythonFileSpec) and spec.trusted


def planned_attempts(spec: PolicySpec) -> int | None:
    """Return the most attempts that ``spec`` makes in one rollout, where its numbers tell."""
    width, depth = getattr(spec, "width", None), getattr(spec, "depth", None)
    return width * depth if isinstance(width, int) and isinstance(depth, int) else None


def spread(scores: Sequence[float]) -> float:
    """Return the score scale of a task that declares none: best minus median, 1 where that is 0."""
    return (max(scores) - median(scores) or 1.0) if scores else 1.0


def versions() -> Mapping[str, str]:
    """Return the versions of what could change a number."""
    found = {"python": platform.python_version()}
    for package in ("daydream-rsi", "numpy", "scipy", "msgspec"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def workers_of(settings: RunSettings) -> int:
    """Return how many attempts run at a time."""
    return settings.workers or cores()
