"""Events, trees and folders that the tests of the store share."""

from pathlib import Path

from daydream.store.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    RoundStarted,
    RunStarted,
    Usage,
)
from daydream.store.run_folder import RunFolder
from daydream.tree import Node, Status, Tree


def clock() -> float:
    return 1_800_000_000.0


def make_run(path: Path) -> RunFolder:
    return RunFolder.create(path, {"task": "t", "seed": 3}, clock=clock)


def started() -> RunStarted:
    return RunStarted(task="t", evaluator="e1", seed=3, config={"limit": 8})


def round_started(number: int = 1, evaluator: str = "e1") -> RoundStarted:
    return RoundStarted(
        round=number,
        policy="adaptive-w4-d4-p3-g0.02",
        spec={"kind": "adaptive"},
        limit=8,
        seed=3,
        evaluator=evaluator,
    )


def dispatched(batch: int, slot: int = 0, round: int = 1) -> AttemptDispatched:
    return AttemptDispatched(
        round=round, batch=batch, slot=slot, parent=0, branch=0, depth=1, attempt_seed=7
    )


def finished(
    batch: int,
    slot: int = 0,
    *,
    round: int = 1,
    node: int | None = None,
    status: Status = Status.OK,
    score: float = 0.5,
    artifact: str | None = None,
    usage: Usage = Usage(),
) -> AttemptFinished:
    return AttemptFinished(
        round=round,
        batch=batch,
        slot=slot,
        node=batch if node is None else node,
        parent=0,
        branch=0,
        depth=1,
        status=status,
        score=score if status is Status.OK else 0.0,
        artifact=artifact,
        usage=usage,
    )


def run_events(attempts: int) -> list[AnyEvent]:
    events: list[AnyEvent] = [started(), round_started()]
    for batch in range(1, attempts + 1):
        events += [dispatched(batch), finished(batch)]
    return events


def small_tree(number: int = 1, score: float = 0.5) -> Tree:
    root = Node(0, None, -1, 0, 0, 0, Status.OK, 0.1)
    first = Node(1, 0, 0, 1, 1, 0, Status.OK, score)
    second = Node(2, 0, 1, 1, 1, 1, Status.INVALID, 0.0, "overlap", "ab" * 32)
    return Tree(
        task="t",
        evaluator="e1",
        round=number,
        policy="p",
        limit=8,
        scale=1.0,
        seed=3,
        nodes=(root, first, second),
    )
