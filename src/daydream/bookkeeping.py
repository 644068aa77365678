"""Between the online world and the run folder: what was paid for, what may still be spent."""

import threading
from collections.abc import Callable

import msgspec

from daydream.agents.base import Earlier
from daydream.errors import Stopped
from daydream.llm.budget import Allowance
from daydream.llm.client import Client, Line
from daydream.online import Attempt, Plan
from daydream.store.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    Measured,
    RootEvaluated,
    Usage,
    UsageSpent,
)
from daydream.store.run_folder import RunFolder
from daydream.store.state import RunState
from daydream.tasks.base import Artifact, Evaluation
from daydream.wording import counted

STOP_FILE = "STOP"


class Budget(msgspec.Struct, frozen=True):
    """What one command may spend."""

    max_calls: int | None = None
    """Attempts over the whole run, those of earlier commands included."""
    max_time: float | None = None
    """Seconds of wall time of this command."""
    allowance: Allowance = Allowance()
    """Money and tokens; its calls and seconds stand beside the two above."""

    @classmethod
    def of(cls, max_calls: int | None, max_time: float | None, allowance: Allowance) -> "Budget":
        """Return the tighter of both ways to state calls and time."""
        calls = [one for one in (max_calls, allowance.calls) if one is not None]
        times = [one for one in (max_time, allowance.seconds) if one is not None]
        return cls(min(calls, default=None), min(times, default=None), allowance)


class Book:
    """The journal and its folded state, kept in step. The only writer of a run's events.

    Attempts journal what they spend from their own threads; all else comes from one.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.state: RunState = folder.state()
        self._guard = threading.Lock()

    def emit(self, event: AnyEvent, *, durable: bool | None = None) -> None:
        """Append ``event`` and fold it in, stamped."""
        with self._guard:
            self.state.apply(self.folder.journal.append(event, durable=durable))

    def artifact(self, digest: str) -> Artifact:
        """Return the stored artifact with this hash."""
        return Artifact(self.folder.get_artifact(digest))

    def earlier(self, number: int) -> tuple[Earlier, ...]:
        """Return the finished attempts of the rounds before ``number``, oldest first."""
        return tuple(
            Earlier.of(
                event,
                past,
                verdict_of(event),
                None if event.artifact is None else self.artifact(event.artifact),
                event.rationale,
            )
            for past, known in sorted(self.state.rounds.items())
            if past < number
            for event in sorted(known.finished.values(), key=lambda one: one.node)
        )

    def settled(self) -> dict[str, Evaluation]:
        """Return the evaluations that may be reused, by artifact hash."""
        return {digest: verdict_of(event) for digest, event in self.state.verdicts.items()}


class Gate:
    """Says when a run has to stop dispatching. Checked before every attempt."""

    def __init__(
        self,
        book: Book,
        budget: Budget,
        *,
        clock: Callable[[], float],
        interrupted: threading.Event,
    ) -> None:
        self._book = book
        self._budget = budget
        self._clock = clock
        self._begun = clock()
        self._interrupted = interrupted

    def check(self, in_flight: int) -> None:
        """Raise :class:`Stopped` when nothing more may be dispatched."""
        budget = self._budget
        if self._interrupted.is_set():
            raise Stopped("interrupted", exit_code=130)
        stop = self._book.folder.path / STOP_FILE
        if stop.exists():
            raise Stopped(f"found the file {stop}; delete it before you resume")
        calls = self._book.state.calls + in_flight
        if budget.max_calls is not None and calls >= budget.max_calls:
            raise Stopped(f"the budget of {counted(budget.max_calls, 'call')} is spent")
        if budget.max_time is not None and self._clock() - self._begun >= budget.max_time:
            raise Stopped(f"the budget of {budget.max_time:g} s is spent")
        spent = budget.allowance.spent_by(self._book.state.usage)
        if spent is not None:
            raise Stopped(f"the budget of {spent} is spent")


class Metering(msgspec.Struct, frozen=True):
    """How the attempts of a model agent are watched."""

    client: Client
    max_failures: int
    """Attempts in a row without an artifact before the run stops; 0 never stops it."""


class RoundLedger:
    """The ledger of one online rollout: reads what is paid for, journals what is new."""

    def __init__(
        self,
        book: Book,
        number: int,
        gate: Gate,
        *,
        on_attempt: Callable[[AttemptFinished, Attempt], None],
        layers: tuple[str, ...] = (),
        metering: Metering | None = None,
    ) -> None:
        self._metering = metering
        self._failures = 0
        self._cause = ""
        self._book = book
        self._round = number
        self._gate = gate
        self._on_attempt = on_attempt
        self._layers = layers
        self._in_flight = 0

    def finished(self, batch: int, slot: int) -> Attempt | None:
        """Return the journaled attempt of this place, with its artifact, or None."""
        event = self._book.state.rounds[self._round].finished.get((batch, slot))
        if event is None:
            return None
        return Attempt(
            plan=Plan(
                node=event.node,
                batch=batch,
                slot=slot,
                parent=event.parent,
                branch=event.branch,
                depth=event.depth,
                attempt_seed=0,
                world_seed=0,
            ),
            evaluation=verdict_of(event),
            artifact=None if event.artifact is None else self._book.artifact(event.artifact),
            rationale=event.rationale,
            reused=event.reused,
        )

    def may_dispatch(self) -> None:
        """Raise :class:`Stopped` when a budget is spent or somebody asked to stop.

        It is raised as well, for an exit code of 1, when the model left too many attempts in a row
        without an answer that can be used.
        """
        most = 0 if self._metering is None else self._metering.max_failures
        if 0 < most <= self._failures:
            raise Stopped(
                f"{self._failures} attempts in a row brought no files; the last: {self._cause}",
                exit_code=1,
            )
        self._gate.check(self._in_flight)

    def dispatched(self, plan: Plan) -> None:
        """Journal that an attempt starts."""
        self._in_flight += 1
        self._book.emit(
            AttemptDispatched(
                round=self._round,
                batch=plan.batch,
                slot=plan.slot,
                parent=plan.parent,
                branch=plan.branch,
                depth=plan.depth,
                attempt_seed=plan.attempt_seed,
            )
        )

    def line(self, plan: Plan) -> Line | None:
        """Return the line over which this attempt asks models; None for agents that ask none."""
        if self._metering is None:
            return None

        def journal(usage: Usage) -> None:
            self._book.emit(
                UsageSpent(
                    round=self._round,
                    purpose="attempt",
                    usage=usage,
                    batch=plan.batch,
                    slot=plan.slot,
                )
            )

        return self._metering.client.line(journal)

    def record(self, attempt: Attempt) -> None:
        """Store the artifact, then its record, both durably."""
        self._in_flight -= 1
        self._failures = self._failures + 1 if attempt.artifact is None else 0
        self._cause = attempt.evaluation.message
        plan, verdict = attempt.plan, attempt.evaluation
        digest = None
        if attempt.artifact is not None:
            digest = self._book.folder.put_artifact(attempt.artifact.files)
        event = AttemptFinished(
            round=self._round,
            batch=plan.batch,
            slot=plan.slot,
            node=plan.node,
            parent=plan.parent,
            branch=plan.branch,
            depth=plan.depth,
            status=verdict.status,
            score=verdict.score,
            error_class=verdict.error_class,
            message=verdict.message,
            diagnostics=verdict.diagnostics,
            feedback=verdict.feedback,
            artifact=digest,
            rationale=attempt.rationale,
            notes=attempt.notes,
            reused=attempt.reused,
            usage=attempt.usage,
            measured=Measured(wall_s=attempt.wall_s, cpu_s=attempt.cpu_s, layers=self._layers),
        )
        self._book.emit(event, durable=True)
        self._on_attempt(event, attempt)


def verdict_of(event: AttemptFinished | RootEvaluated) -> Evaluation:
    """Return the evaluation that a journal record holds."""
    return Evaluation(
        status=event.status,
        score=event.score,
        error_class=event.error_class,
        message=event.message,
        diagnostics=event.diagnostics,
        feedback=event.feedback,
    )


def root_record(number: int, artifact: str, verdict: Evaluation) -> RootEvaluated:
    """Return the journal record of a root's evaluation."""
    return RootEvaluated(
        round=number,
        artifact=artifact,
        status=verdict.status,
        score=verdict.score,
        error_class=verdict.error_class,
        message=verdict.message,
        diagnostics=verdict.diagnostics,
        feedback=verdict.feedback,
    )
