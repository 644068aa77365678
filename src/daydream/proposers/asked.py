"""Proposals that are answers to questions: what the one who answers is shown, and what came of it.

Owns the loop over revisions and the text of the evidence. Who answers, how decisions are replayed
and where revisions are kept comes from outside as a :class:`Studio`, so nothing here reaches a
model or a disk. What is shown was revealed to a policy; a held-out world is not in the pool.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from daydream.canonical import clean_text
from daydream.errors import UsageError
from daydream.objective import MARGIN
from daydream.policies.base import PolicySpec
from daydream.prompting import prompt
from daydream.proposers.base import Scored
from daydream.tree import Pool

WORLDS_SHOWN: Final = 3
"""Worlds of which decisions are shown, for each of at most two versions."""
DECISIONS_SHOWN: Final = 24
"""Decisions shown of one rollout: the first and the last of a longer one."""
WORLDS_LISTED: Final = 12
"""Worlds whose score is shown in its terms, those that changed the most first."""
TEXT_SHOWN: Final = 20_000
"""Characters of one version that a question shows."""


class Question(msgspec.Struct, frozen=True):
    """What is asked for one revision."""

    system: str
    user: str


class Revision(msgspec.Struct, frozen=True):
    """One answer, as kept."""

    number: int
    """From 1."""
    answer: str
    text: str
    """The policy that it holds, as text; empty where it holds none."""
    problem: str = ""
    """Why it is no policy; empty where it is one."""


class Shown(msgspec.Struct, frozen=True):
    """One revealed node."""

    id: int
    parent: int
    branch: int
    depth: int
    score: float | None
    """None for a failed attempt."""


class Decision(msgspec.Struct, frozen=True):
    """One batch: what was known before it, what was asked, what it revealed."""

    attempts: int
    best: float | None
    batch: tuple[int, ...]
    revealed: tuple[Shown, ...]


class Terms(msgspec.Struct, frozen=True):
    """What a question says of the selection."""

    worth: str
    """How a version is scored, in words."""
    limit: int
    max_batches: int
    revisions: int


class Studio(Protocol):
    """What a proposer that asks is given."""

    def ask(self, question: Question, number: int) -> str:
        """Return the answer; raises when there is none to be had or the budget forbids to ask."""
        ...

    def kept(self) -> Sequence[Revision]:
        """Return the revisions that were paid for before, in order."""
        ...

    def keep(self, revision: Revision) -> None:
        """Keep a revision; durable when it returns."""
        ...

    def judged(self, number: int, scored: Scored) -> None:
        """Take note of what became of revision ``number``."""
        ...

    def score(self, spec: PolicySpec) -> Scored:
        """Return the replay scores of ``spec`` in the pool of this selection."""
        ...

    def watch(self, spec: PolicySpec, world: int, batches: int | None = None) -> Sequence[Decision]:
        """Return the decisions of ``spec`` in the world of this position, the first ``batches``."""
        ...


class Version(msgspec.Struct, frozen=True):
    """One revision with what came of it."""

    revision: Revision
    scored: Scored | None = None


class Asking(ABC):
    """Proposes one revision after another, each asked for with what the earlier ones did."""

    def __init__(self, studio: Studio, terms: Terms) -> None:
        self._studio = studio
        self.terms = terms
        self._versions: list[Version] = []
        self._incumbent: Scored | None = None

    def propose(
        self, pool: Pool, incumbent: PolicySpec, evidence: Sequence[Scored]
    ) -> Sequence[PolicySpec]:
        """Return the next version that holds a policy; nothing once all revisions are made."""
        self._learn(evidence)
        while len(self._versions) < self.terms.revisions:
            spec, revision = self._next(pool, incumbent)
            self._versions.append(Version(revision))
            if spec is not None:
                return [spec]
        return []

    def _learn(self, evidence: Sequence[Scored]) -> None:
        if self._versions and evidence and self._versions[-1].scored is None:
            last = self._versions[-1]
            if not last.revision.problem:
                self._versions[-1] = Version(last.revision, evidence[-1])
                self._studio.judged(last.revision.number, evidence[-1])

    def _next(self, pool: Pool, incumbent: PolicySpec) -> tuple[PolicySpec | None, Revision]:
        number = len(self._versions) + 1
        kept = [one for one in self._studio.kept() if one.number == number]
        if kept:
            return self.read(kept[0].text) if not kept[0].problem else None, kept[0]
        answer = self._studio.ask(self.question(pool, incumbent, number), number)
        text, spec, problem = "", None, ""
        try:
            text = self.extract(answer)
            spec = self.read(text)
            self._check_new(spec, incumbent)
        except UsageError as error:
            spec, problem = None, clean_text(str(error), 1_000)
        revision = Revision(number, answer, text, problem)
        self._studio.keep(revision)
        return spec, revision

    def _check_new(self, spec: PolicySpec, incumbent: PolicySpec) -> None:
        if self.same(spec, incumbent):
            raise UsageError("it is the policy in use again (expected another one)")
        for version in self._versions:
            old = version.revision
            if not old.problem and self.same(self.read(old.text), spec):
                raise UsageError(f"it is version {old.number} again (expected another one)")

    def question(self, pool: Pool, incumbent: PolicySpec, number: int) -> Question:
        """Return what is asked for revision ``number``."""
        if self._incumbent is None:
            self._incumbent = self._studio.score(incumbent)
        terms = self.terms
        values = {
            "objective": terms.worth.rstrip(),
            "limit": str(terms.limit),
            "max_batches": str(terms.max_batches),
            "scale": f"{pool.scale:.10g}",
            "incumbent": self.shown(incumbent, pool) + "\n\n" + _result(self._incumbent, None),
            "versions": self._told(),
            "trajectories": self._decisions(pool, incumbent),
            "number": str(number),
            "revisions": str(terms.revisions),
        }
        system, user = self.prompts
        return Question(self.system(system), prompt(user, **values))

    def _told(self) -> str:
        parts: list[str] = []
        valid = [v for v in self._versions if v.scored and v.scored.disqualified is None]
        best = max(valid, key=lambda v: v.scored.mean if v.scored else 0.0, default=None)
        for version in self._versions:
            old = version.revision
            head = f"Version {old.number}: "
            if old.problem:
                parts.append(head + f"no policy: {old.problem}.")
                continue
            scored = version.scored
            parts.append(head + ("not scored." if scored is None else self._judged(scored)))
            if version is best or version is self._versions[-1]:
                parts.append(self.listed(old.text))
        return "\n\n".join(parts) or "None yet."

    def _judged(self, scored: Scored) -> str:
        out = scored.disqualified
        if out is not None:
            return f"disqualified in world {out.world}, batch {out.batch}: {out.reason}."
        return _result(scored, self._incumbent)

    def _decisions(self, pool: Pool, incumbent: PolicySpec) -> str:
        """The decisions of the policy in use and of the last version, where they differ the most.

        Without a version it is where the policy in use is worth the least, and of a version that is
        out it is the world where it went wrong, up to the decision before: a file that took too
        long once is not played again. Equal worlds stand in the order of their trees.
        """
        last = next((v for v in reversed(self._versions) if v.scored is not None), None)
        out = None if last is None or last.scored is None else last.scored.disqualified
        worlds = _worlds(self._incumbent, None if last is None else last.scored)
        if out is not None:
            fatal = next(n for n, tree in enumerate(pool.trees) if tree.round == out.world)
            worlds = [fatal, *(n for n in worlds if n != fatal)] if worlds else []
        parts = []
        for position in worlds[:WORLDS_SHOWN]:
            where = f"world {position + 1}:\n"
            parts.append(
                f"The policy in use, {where}" + _lines(self._studio.watch(incumbent, position))
            )
            if last is None or (out is not None and position != worlds[0]):
                continue
            head = f"Version {last.revision.number}, {where}"
            spec = self.read(last.revision.text)
            if out is None:
                parts.append(head + _lines(self._studio.watch(spec, position)))
            elif out.batch > 1:
                parts.append(head + _lines(self._studio.watch(spec, position, out.batch - 1)))
        return "\n\n".join(parts) or "Nothing: it was disqualified."

    @property
    @abstractmethod
    def prompts(self) -> tuple[str, str]:
        """Names of the system prompt and of the question."""

    def system(self, name: str) -> str:
        """Return the system prompt."""
        return prompt(name)

    @abstractmethod
    def extract(self, answer: str) -> str:
        """Return the policy in an answer as text; raises :class:`UsageError` with what is amiss."""

    @abstractmethod
    def read(self, text: str) -> PolicySpec:
        """Return the policy that ``text`` is; raises :class:`UsageError` when it is none."""

    def same(self, one: PolicySpec, other: PolicySpec) -> bool:
        """Return whether two policies are the same."""
        return one == other

    @abstractmethod
    def shown(self, spec: PolicySpec, pool: Pool) -> str:
        """Return the policy in use as a question shows it."""

    @abstractmethod
    def listed(self, text: str) -> str:
        """Return an earlier version as a question shows it."""


def fenced(name: str, text: str, language: str) -> str:
    """Return a file as questions show it."""
    shown = clean_text(text, TEXT_SHOWN).rstrip()
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"File: {name}\n{fence}{language}\n{shown}\n{fence}"


def _result(scored: Scored, beside: Scored | None) -> str:
    """One version's score, then its terms in the worlds that changed the most."""
    if scored.disqualified is not None:
        return f"It is disqualified: {scored.disqualified.reason}."
    against = "" if beside is None else f" ({scored.mean - beside.mean:+.6g} to the policy in use)"
    lines = [f"score {scored.mean:.10g}{against}, {scored.attempts} attempts in all."]
    if scored.sweep is not None:
        swept = scored.sweep
        lines[0] += f" Area {swept.area:.6g}, penalty {swept.penalty:.6g}."
        lines += [
            f"- beta {'none' if p.beta is None else f'{p.beta:g}'}: attains {p.attained:.4f} with "
            f"{p.share:.4f} of the recorded attempts"
            for p in swept.points
        ]
    for position in _worlds(scored, beside)[:WORLDS_LISTED]:
        world = scored.worlds[position]
        terms = world.breakdown
        lines.append(
            f"- world {position + 1}: quality {terms.quality:.10g}, {terms.attempts} attempts in "
            f"{terms.batches} batches, {world.off_record} picks off the record, score "
            f"{terms.score:.10g}"
        )
    if len(scored.worlds) > WORLDS_LISTED:
        lines.append(f"- and {len(scored.worlds) - WORLDS_LISTED} more worlds")
    return "\n".join(lines)


def _worlds(scored: Scored | None, beside: Scored | None) -> list[int]:
    """Positions of worlds: by how much two versions differ there, else by how little one gets."""
    if scored is None or not scored.worlds:
        return []
    mine = [world.breakdown.score for world in scored.worlds]
    if beside is None or not beside.worlds:
        return sorted(range(len(mine)), key=lambda n: mine[n])
    other = [world.breakdown.score for world in beside.worlds]
    gaps = [abs(a - b) for a, b in zip(mine, other, strict=True)]
    return sorted(range(len(mine)), key=lambda n: (-gaps[n] if gaps[n] > MARGIN else 0.0, n))


def _lines(decisions: Sequence[Decision]) -> str:
    shown = list(enumerate(decisions, 1))
    left_out = len(shown) - DECISIONS_SHOWN
    if left_out > 0:
        half = DECISIONS_SHOWN // 2
        shown = shown[:half] + shown[-half:]
    lines: list[str] = []
    for number, one in shown:
        if left_out > 0 and number == shown[DECISIONS_SHOWN // 2][0]:
            lines.append(f"  ... {left_out} batches left out ...")
        best = "none" if one.best is None else f"{one.best:.6g}"
        lines.append(f"batch {number}: {one.attempts} attempts so far, best {best}")
        lines.append(f"  picked {', '.join(map(str, one.batch))}")
        found = "; ".join(
            f"node {n.id} (branch {n.branch}, depth {n.depth}) "
            + ("failed" if n.score is None else f"{n.score:.6g}")
            for n in one.revealed
        )
        lines.append(f"  revealed {found or 'nothing'}")
    return "\n".join(lines) or "(no decision)"
