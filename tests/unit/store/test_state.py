"""Folding a journal: what was paid for, what was lost, what may be reused."""

import pytest

from daydream.errors import StoreError
from daydream.store.events import (
    AnyEvent,
    RootEvaluated,
    RunFinished,
    RunResumed,
    SelectionMade,
    Stopped,
    TreeFinished,
    Usage,
    UsageSpent,
)
from daydream.store.state import fold
from daydream.tree import Status
from tests.unit.store.samples import dispatched, finished, round_started, started

BEGUN: list[AnyEvent] = [started(), round_started()]


def spent(tokens: int, batch: int | None = None) -> UsageSpent:
    slot = None if batch is None else 0
    usage = Usage(requests=1, input_tokens=tokens)
    return UsageSpent(round=1, purpose="model", usage=usage, batch=batch, slot=slot)


def test_finished_attempts_are_found_by_batch_and_slot() -> None:
    state = fold([*BEGUN, dispatched(1, 0), dispatched(1, 1), finished(1, 1)])
    assert state.calls == 1
    assert list(state.rounds[1].finished) == [(1, 1)]
    assert list(state.rounds[1].pending) == [(1, 0)]
    assert state.open_round is state.rounds[1]


def test_an_attempt_lost_to_a_kill_is_counted_once_and_its_usage_is_kept_as_lost() -> None:
    state = fold(
        [
            *BEGUN,
            dispatched(1),
            spent(100, batch=1),
            RunResumed(),
            dispatched(1),
            finished(1, usage=Usage(requests=2, input_tokens=30)),
        ]
    )
    assert state.calls == 1
    assert state.lost == 1
    assert state.lost_usage == Usage(requests=1, input_tokens=100)
    assert state.usage == Usage(requests=3, input_tokens=130)


def test_what_is_in_flight_is_lost_as_soon_as_the_run_is_taken_up_again() -> None:
    flying: list[AnyEvent] = [*BEGUN, dispatched(1), dispatched(1, 1), spent(5, batch=1)]
    assert fold(flying).lost == 0
    state = fold([*flying, RunResumed()])
    assert (state.calls, state.lost, state.lost_usage.input_tokens) == (0, 2, 5)
    assert state.rounds[1].pending == {}


def test_a_dispatch_repeated_without_a_resume_record_is_lost_too() -> None:
    state = fold([*BEGUN, dispatched(1), spent(10, batch=1), dispatched(1), finished(1)])
    assert (state.calls, state.lost, state.lost_usage.input_tokens) == (1, 1, 10)


def test_usage_of_an_attempt_in_flight_is_replaced_by_the_attempts_own() -> None:
    usage = Usage(requests=1, input_tokens=100, cost_usd=0.5)
    state = fold([*BEGUN, dispatched(1), spent(100, batch=1), finished(1, usage=usage)])
    assert state.usage == usage
    assert state.lost_usage == Usage()


def test_usage_outside_attempts_is_spent_for_good() -> None:
    assert fold([*BEGUN, spent(7)]).usage == Usage(requests=1, input_tokens=7)


def test_a_cost_is_unknown_until_one_is_known() -> None:
    assert (Usage() + Usage()).cost_usd is None
    assert (Usage(cost_usd=0.25) + Usage()).cost_usd == 0.25
    assert (Usage(cost_usd=0.25) + Usage(cost_usd=0.5)).cost_usd == 0.75


def test_only_verdicts_on_the_artifact_are_reused() -> None:
    events = [
        finished(batch, status=status, artifact=digest)
        for batch, (status, digest) in enumerate(
            [
                (Status.OK, "a"),
                (Status.INVALID, "b"),
                (Status.ERROR, "c"),
                (Status.TIMEOUT, "d"),
                (Status.OK, None),
            ],
            start=1,
        )
    ]
    state = fold([*BEGUN, *events])
    assert {key: event.status for key, event in state.verdicts.items()} == {
        "a": Status.OK,
        "b": Status.INVALID,
    }


def test_the_root_is_no_call_and_its_verdict_is_reused() -> None:
    root = RootEvaluated(round=1, artifact="r", status=Status.OK, score=1.0)
    state = fold([*BEGUN, root])
    assert state.calls == 0
    assert state.best is None
    assert state.verdicts == {"r": root}
    assert state.rounds[1].root is root
    crashed = RootEvaluated(round=1, artifact="r", status=Status.ERROR, score=0.0)
    assert fold([*BEGUN, crashed]).verdicts == {}


def test_the_best_is_the_earliest_in_the_tree_whatever_finished_first() -> None:
    late, early = finished(1, 1, node=2, score=0.5), finished(1, 0, node=1, score=0.5)
    worse = finished(2, node=3, score=-1.0)
    failure = finished(3, node=4, status=Status.ERROR)
    assert fold([*BEGUN, failure]).best is None
    assert fold([*BEGUN, failure, worse]).best is worse
    assert fold([*BEGUN, worse, late, early, failure]).best is early
    assert fold([*BEGUN, early, late, worse]).best is early


def test_a_changed_evaluator_starts_a_new_pool() -> None:
    old = finished(1, artifact="a")
    state = fold([*BEGUN, old, round_started(2, evaluator="e2")])
    assert state.verdicts == {}
    assert state.best is None
    assert state.calls == 1
    same = fold([*BEGUN, old, round_started(2)])
    assert same.best is old
    assert same.verdicts == {"a": old}


def test_a_round_is_open_until_its_tree_is_finished() -> None:
    ended = TreeFinished(round=1, attempts=0, batches=0, off_record=0, best=None, tree="00")
    chosen = SelectionMade(round=1, deployed="p", spec={})
    state = fold([*BEGUN, ended, chosen])
    assert state.open_round is None
    assert state.rounds[1].tree is ended
    assert state.rounds[1].selection is chosen
    assert fold([]).open_round is None


def test_a_stop_holds_until_the_run_is_taken_up_again() -> None:
    stopped = [*BEGUN, Stopped(reason="spent")]
    assert fold(stopped).stopped == "spent"
    assert fold([*stopped, RunResumed()]).stopped is None
    done = [*stopped, RunResumed(), RunFinished()]
    assert fold(done).finished
    assert not fold([*done, RunResumed()]).finished


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([started(), finished(1)], "round 1, which it never started"),
        ([*BEGUN, round_started()], "starts round 1 twice"),
        ([*BEGUN, finished(1), finished(1)], "finishes attempt 0 of batch 1 in round 1 twice"),
    ],
)
def test_a_journal_of_two_writers_is_refused(events: list[AnyEvent], said: str) -> None:
    with pytest.raises(StoreError, match=f"{said}.*restore journal.jsonl"):
        fold(events)
