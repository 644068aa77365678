"""The gate: an adapter is promoted only when it is better on the frozen probe set.

Owns the decision, the pointer to what is deployed and the history. ``gate/deployed`` is the one
pointer, replaced in one step; ``gate/history.jsonl`` is append-only; ``gate/answers/`` keeps what
each contender answered, so that an incumbent is asked once. A decision is

* ``promoted``: better by the one-sided exact test, and no protected stratum significantly worse;
* ``rejected``: significantly worse over all probes, or in a protected stratum;
* ``undecided``: neither; the incumbent stays.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from daydream.canonical import dumps
from daydream.errors import StoreError, UsageError
from daydream.store.files import disk_errors, replace_file
from daydream.store.shared_log import SharedLog, alone
from daydream.weights.answerers import LOCAL, Answerer, Contender
from daydream.weights.paired_test import ALPHA, Trial, compare
from daydream.weights.probes import Answered, ProbeSet, answer_probes, need_probes
from daydream.wording import counted

Decision = Literal["promoted", "rejected", "undecided"]
POINTER: Final = "deployed"
HISTORY: Final = "history.jsonl"


class Verdict(msgspec.Struct, frozen=True):
    """What the gate decided, and why."""

    decision: Decision
    reason: str
    trial: Trial
    strata: Mapping[str, Trial]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the history."""

    at: str
    kind: Literal["check", "rollback"]
    candidate: Contender
    """What was judged, or what a rollback went back to."""
    candidate_id: str
    incumbent: Contender
    probes: str
    """Hash of the probe set."""
    evaluator: str
    verdict: Verdict | None = None
    """None for a rollback."""
    tokens: int = 0
    """Of the candidate's answers, and of those of an incumbent behind an endpoint."""
    cost_usd: float | None = None
    """Of the same; None where no price is known."""
    attempts: int = 0
    """Episodes that the bank held by then."""
    schema_version: int = 1


def decide(probes: ProbeSet, candidate: Answered, incumbent: Answered) -> Verdict:
    """Return the verdict on two rows of answers to the same probe set."""
    if not candidate.probes == incumbent.probes == probes.hash:
        raise StoreError(
            "the answers belong to different probe sets (expected one); delete gate/answers and "
            "check again"
        )
    trial = compare(candidate.scores, incumbent.scores)
    strata: dict[str, Trial] = {}
    for stratum in probes.strata:
        places = [n for n, probe in enumerate(probes.probes) if probe.stratum == stratum]
        strata[stratum] = compare(
            [candidate.scores[n] for n in places], [incumbent.scores[n] for n in places]
        )
    decision, reason = _decide(trial, {name: strata[name] for name in probes.protected})
    return Verdict(decision, reason, trial, strata)


def _decide(trial: Trial, protected: Mapping[str, Trial]) -> tuple[Decision, str]:
    rates = (
        f"{100 * trial.candidate:.1f} % against {100 * trial.incumbent:.1f} %, "
        f"{counted(trial.wins, 'probe')} won and {trial.losses} lost"
    )
    hurt = [name for name, one in protected.items() if one.worse]
    if hurt:
        one = protected[hurt[0]]
        return "rejected", (
            f"protected stratum {hurt[0]!r} is worse: {100 * one.candidate:.1f} % against "
            f"{100 * one.incumbent:.1f} %, p = {one.p_worse:.2g}; over all {rates}"
        )
    if trial.worse:
        return "rejected", f"worse: {rates}, p = {trial.p_worse:.2g}"
    if trial.better:
        return "promoted", f"better: {rates}, p = {trial.p_better:.2g}"
    return "undecided", (
        f"no clear difference: {rates}, p = {trial.p_better:.2g} (expected below {ALPHA:g})"
    )


def _deploys(entry: Entry) -> bool:
    """Return whether what ``entry`` is about was deployed by it."""
    return entry.verdict is None or entry.verdict.decision == "promoted"


def _is_here(contender: Contender) -> bool:
    return contender.model.startswith(LOCAL)


class Gate:
    """The gate in one folder."""

    def __init__(self, folder: Path, *, now: Callable[[], float]) -> None:
        self.folder = folder
        self._now = now
        self._log = SharedLog(folder / HISTORY)

    def probes(self) -> ProbeSet:
        """Return the frozen probe set; raises as :func:`daydream.weights.probes.need_probes`."""
        return need_probes(self.folder)

    def deployed(self) -> Contender:
        """Return what is deployed: the base until something was promoted."""
        base = Contender(self.probes().model)
        path = self.folder / POINTER
        if not path.exists():
            return base
        with disk_errors("read", path):
            data = path.read_bytes()
        try:
            return msgspec.json.decode(data, type=Contender)
        except msgspec.MsgspecError as error:
            raise StoreError(
                f"{path} names nothing that can be deployed: {error}; write the 'candidate' of the "
                f"last promotion in {HISTORY} into it"
            ) from None

    def history(self) -> list[Entry]:
        """Return every check and rollback, oldest first."""
        entries = []
        for number, line in enumerate(self._log.read().lines, start=1):
            try:
                entries.append(msgspec.json.decode(line, type=Entry))
            except msgspec.MsgspecError as error:
                raise StoreError(
                    f"line {number} of {self._log.path} is no entry: {error}; restore the file "
                    "from a copy"
                ) from None
        return entries

    def checks(self) -> int:
        """Return how many checks were finished."""
        return sum(entry.kind == "check" for entry in self.history())

    def check(
        self,
        candidate: Contender,
        answerer_of: Callable[[Contender], Answerer],
        *,
        once: bool = False,
        attempts: int = 0,
    ) -> Entry:
        """Judge ``candidate`` against what is deployed, and deploy it when it is promoted.

        ``attempts`` is how many episodes there are, for the report over cycles. With ``once`` a
        check that was made of the same weights stands. Raises what
        :func:`daydream.weights.probes.answer_probes` raises; then nothing changed.
        """
        with alone(self.folder / "lock"):
            self._mend()
            if once and (made := self._made(candidate)) is not None:
                return made
            probes, incumbent = self.probes(), self.deployed()
            if candidate.identity() == incumbent.identity():
                raise UsageError(
                    f"{candidate.name} is what is deployed already (expected another adapter)"
                )
            before = self._answered(probes, incumbent, answerer_of)
            after = self._answered(probes, candidate, answerer_of)
            verdict = decide(probes, after, before)
            # What an endpoint answered was paid for now; local answers may be from before.
            paid = [after] if _is_here(incumbent) else [after, before]
            costs = [one.cost_usd for one in paid if one.cost_usd is not None]
            entry = Entry(
                at=self._stamp(),
                kind="check",
                candidate=candidate,
                candidate_id=after.identity,
                incumbent=incumbent,
                probes=probes.hash,
                evaluator=probes.evaluator,
                verdict=verdict,
                tokens=sum(one.tokens for one in paid),
                cost_usd=sum(costs) if len(costs) == len(paid) else None,
                attempts=attempts,
            )
            self._log.append([dumps(entry)])
            if verdict.decision == "promoted":
                self._point(candidate)
            return entry

    def rollback(self) -> Entry:
        """Deploy what was deployed before; raises :class:`UsageError` when there is nothing."""
        with alone(self.folder / "lock"):
            self._mend()
            probes, now = self.probes(), self.deployed()
            line = self._deployments()
            if now in line:
                line = line[: len(line) - line[::-1].index(now)]
            if len(line) < 2:
                raise UsageError(
                    "there is nothing to go back to: the base is deployed (expected a promotion "
                    "before); see: daydream gate history"
                )
            before = line[-2]
            entry = Entry(
                at=self._stamp(),
                kind="rollback",
                candidate=before,
                candidate_id=before.identity(),
                incumbent=now,
                probes=probes.hash,
                evaluator=probes.evaluator,
            )
            self._log.append([dumps(entry)])
            self._point(before)
            return entry

    def _made(self, candidate: Contender) -> Entry | None:
        """Return the last check of ``candidate`` with the weights that it has now."""
        identity = candidate.identity()
        made = [
            one
            for one in self.history()
            if (one.kind, one.candidate, one.candidate_id) == ("check", candidate, identity)
        ]
        return made[-1] if made else None

    def _mend(self) -> None:
        """Set the pointer where a kill came between the last line of the history and it."""
        history = self.history()
        last = history[-1] if history else None
        if last is not None and _deploys(last) and self.deployed() != last.candidate:
            self._point(last.candidate)

    def _deployments(self) -> list[Contender]:
        """Return what is deployed and what it replaced, the base first."""
        line = [Contender(self.probes().model)]
        for entry in self.history():
            if entry.kind == "rollback":
                line.pop()
            elif _deploys(entry):
                line.append(entry.candidate)
        return line

    def _answered(
        self, probes: ProbeSet, contender: Contender, answerer_of: Callable[[Contender], Answerer]
    ) -> Answered:
        path = self.folder / "answers" / f"{contender.identity()}.json"
        # What an endpoint serves under a name may change; only weights that are here are known.
        if _is_here(contender) and path.is_file():
            with disk_errors("read", path):
                data = path.read_bytes()
            try:
                found = msgspec.json.decode(data, type=Answered)
            except msgspec.MsgspecError as error:
                raise StoreError(f"{path} holds no answers: {error}; delete it") from None
            if found.probes == probes.hash:
                return found
        answerer = answerer_of(contender)
        try:
            found = answer_probes(probes, contender, answerer)
        finally:
            answerer.close()
        with disk_errors("write", path):
            path.parent.mkdir(exist_ok=True)
            replace_file(path, dumps(found) + b"\n")
        return found

    def _point(self, contender: Contender) -> None:
        path = self.folder / POINTER
        with disk_errors("write", path):
            replace_file(path, dumps(contender) + b"\n")

    def _stamp(self) -> str:
        return datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="milliseconds")
