"""What a journal amounts to: the state of a run, folded from its events one by one."""

from collections.abc import Iterable
from typing import TypeAlias

from daydream.errors import StoreError
from daydream.store.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    RevisionMade,
    RootEvaluated,
    RoundStarted,
    RunFinished,
    RunResumed,
    RunStarted,
    SelectionMade,
    Stopped,
    TreeFinished,
    Usage,
    UsageSpent,
)
from daydream.tree import Status

Slot: TypeAlias = tuple[int, int]
"""(batch, slot): where an attempt stands in its round."""

REUSABLE = (Status.OK, Status.INVALID)
"""Verdicts on the artifact; an error or a timeout may be the machine's and is tried again."""


class RoundState:
    """One round, as far as the journal tells it."""

    __slots__ = (
        "finished",
        "lost_usage",
        "pending",
        "revisions",
        "root",
        "selection",
        "started",
        "tree",
    )

    def __init__(self, started: RoundStarted) -> None:
        self.started = started
        self.root: RootEvaluated | None = None
        self.finished: dict[Slot, AttemptFinished] = {}
        """In the order in which they finished."""
        self.pending: dict[Slot, Usage] = {}
        """Dispatched and not finished, with what each has spent so far."""
        self.lost_usage = Usage()
        """What attempts that a crash or a budget cut off had spent."""
        self.tree: TreeFinished | None = None
        self.revisions: list[RevisionMade] = []
        """Policies that a model proposed since the last selection."""
        self.selection: SelectionMade | None = None


class RunState:
    """A run, as far as its journal tells it. :meth:`apply` is the only way in; read the rest.

    A call is one finished attempt; an attempt lost to a crash is redone and counted once, and what
    it spent is in ``lost_usage``.
    """

    __slots__ = (
        "_evaluator",
        "best",
        "finished",
        "lost",
        "lost_usage",
        "other_usage",
        "rounds",
        "started",
        "stopped",
        "usage",
        "verdicts",
    )

    def __init__(self) -> None:
        self.started: RunStarted | None = None
        self.rounds: dict[int, RoundState] = {}
        self.verdicts: dict[str, AttemptFinished | RootEvaluated] = {}
        """Artifact hash -> its evaluation by the current evaluator, where it may be reused."""
        self.best: AttemptFinished | None = None
        """The earliest ``ok`` attempt with the greatest score under the current evaluator."""
        self.lost = 0
        """Dispatches that a crash cut off."""
        self.lost_usage = Usage()
        self.other_usage: dict[int, Usage] = {}
        """Round -> what no attempt spent: a policy developer, a question before the start."""
        self.usage = Usage()
        """Everything spent, lost usage included, usage of attempts in flight excluded."""
        self.stopped: str | None = None
        """Why the run stopped, as long as nobody resumed it."""
        self.finished = False
        """Every round was played."""
        self._evaluator: str | None = None

    @property
    def calls(self) -> int:
        """Number of finished attempts."""
        return sum(len(state.finished) for state in self.rounds.values())

    @property
    def open_round(self) -> RoundState | None:
        """The round whose rollout has begun and not ended, or None."""
        last = self.rounds[max(self.rounds)] if self.rounds else None
        return last if last is not None and last.tree is None else None

    def apply(self, event: AnyEvent) -> None:
        """Take in the next event of the journal.

        Raises :class:`StoreError` for an event of a round that never started, a second start of
        one, or a second end of the same attempt: two writers made the journal.
        """
        match event:
            case AttemptDispatched():
                self._dispatch(event)
            case AttemptFinished():
                self._finish(event)
            case UsageSpent():
                self._spend(event)
            case RoundStarted():
                self._start_round(event)
            case RootEvaluated():
                self._round(event.round).root = event
                if event.status in REUSABLE:
                    self.verdicts.setdefault(event.artifact, event)
            case TreeFinished():
                self._round(event.round).tree = event
            case SelectionMade():
                self._round(event.round).selection = event
                self._round(event.round).revisions = []
            case RevisionMade():
                self._round(event.round).revisions.append(event)
            case RunStarted() | RunResumed() | Stopped() | RunFinished():
                self._turn(event)

    def _turn(self, event: RunStarted | RunResumed | Stopped | RunFinished) -> None:
        """Follow the run itself: begun, taken up again, stopped, done."""
        if isinstance(event, RunStarted):
            self.started = event
            self._evaluator = event.evaluator
        elif isinstance(event, RunResumed):
            self._lose_pending()
            self.finished = False
        else:
            self.finished = isinstance(event, RunFinished)
        self.stopped = event.reason if isinstance(event, Stopped) else None

    def _round(self, number: int) -> RoundState:
        state = self.rounds.get(number)
        if state is None:
            raise StoreError(
                f"journal tells of round {number}, which it never started (expected one of "
                f"{sorted(self.rounds)}); restore journal.jsonl from a copy"
            )
        return state

    def _start_round(self, event: RoundStarted) -> None:
        if event.round in self.rounds:
            raise StoreError(
                f"journal starts round {event.round} twice (expected once); two writers made it: "
                "restore journal.jsonl from a copy"
            )
        if event.evaluator != self._evaluator:
            self._evaluator = event.evaluator
            self.verdicts.clear()
            self.best = None
        self.rounds[event.round] = RoundState(event)

    def _dispatch(self, event: AttemptDispatched) -> None:
        state = self._round(event.round)
        key = (event.batch, event.slot)
        if key in state.pending:
            self._lose(state, state.pending[key])
        state.pending[key] = Usage()

    def _finish(self, event: AttemptFinished) -> None:
        state = self._round(event.round)
        key = (event.batch, event.slot)
        if key in state.finished:
            raise StoreError(
                f"journal finishes attempt {event.slot} of batch {event.batch} in round "
                f"{event.round} twice (expected once); two writers made it: restore journal.jsonl "
                "from a copy"
            )
        state.pending.pop(key, None)
        state.finished[key] = event
        self.usage += event.usage
        if event.artifact is not None and event.status in REUSABLE:
            self.verdicts.setdefault(event.artifact, event)
        if event.status is Status.OK and (self.best is None or _rank(event) > _rank(self.best)):
            self.best = event

    def _spend(self, event: UsageSpent) -> None:
        if event.batch is None or event.slot is None:
            self.usage += event.usage
            before = self.other_usage.get(event.round, Usage())
            self.other_usage[event.round] = before + event.usage
            return
        pending = self._round(event.round).pending
        key = (event.batch, event.slot)
        pending[key] = pending.get(key, Usage()) + event.usage

    def _lose_pending(self) -> None:
        for state in self.rounds.values():
            for spent in state.pending.values():
                self._lose(state, spent)
            state.pending.clear()

    def _lose(self, state: RoundState, spent: Usage) -> None:
        self.lost += 1
        state.lost_usage += spent
        self.lost_usage += spent
        self.usage += spent


def _rank(event: AttemptFinished) -> tuple[float, int, int]:
    """Order by score, then earlier in creation order: the order of finishing is an accident."""
    return event.score, -event.round, -event.node


def fold(events: Iterable[AnyEvent]) -> RunState:
    """Return the state after ``events``; raises what :meth:`RunState.apply` raises."""
    state = RunState()
    for event in events:
        state.apply(event)
    return state
