"""The scripted methods of sum-diff and autocorrelation compute; they look nothing up."""

from functools import lru_cache
from itertools import pairwise

import pytest

from daydream.agents.base import AttemptContext
from daydream.agents.load import load_agent
from daydream.canonical import seed_of
from daydream.tasks.base import Artifact, Evaluation, Task
from daydream.tasks.load import load_task
from daydream.tree import Status

NAMES = ("sum-diff", "autocorrelation")


def _attempt(task: Task, parent: Artifact, branch: int, depth: int, seed: int) -> Artifact:
    agent = load_agent("scripted", task.info)
    return agent.propose(
        AttemptContext(
            task=task.info,
            round=1,
            branch=branch,
            depth=depth,
            attempt_seed=seed + 1,
            world_seed=seed_of(seed, branch, depth),
            parent=parent,
            evaluation=None,
        )
    ).artifact


@lru_cache(maxsize=16)
def _world(name: str, seed: int) -> list[list[Evaluation]]:
    task = load_task(name)
    rows: list[list[Evaluation]] = []
    for branch in range(6):
        parent, row = task.root(), []
        for depth in range(1, 5):
            parent = _attempt(task, parent, branch, depth, seed)
            row.append(task.evaluate(parent))
        rows.append(row)
    return rows


@pytest.mark.parametrize("name", NAMES)
def test_equal_contexts_give_equal_artifacts(name: str) -> None:
    assert _world.__wrapped__(name, 2) == _world(name, 2)


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_gives_another_world_with_gains_and_flat_steps(name: str) -> None:
    worlds = [_world(name, seed) for seed in range(3)]
    assert worlds[0] != worlds[1] != worlds[2]
    steps = [
        b.score - a.score
        for world in worlds
        for row in world
        for a, b in pairwise(row)
        if a.status is b.status is Status.OK
    ]
    assert any(step > 1e-3 for step in steps)
    assert any(step <= 0 for step in steps)


@pytest.mark.parametrize(
    ("name", "other"),
    [("sum-diff", "sum-diff:cap=10,span=30"), ("autocorrelation", "autocorrelation:bins=15")],
)
def test_another_instance_changes_the_scores(name: str, other: str) -> None:
    first = [e.score for row in _world(name, 0) for e in row]
    second = [e.score for row in _world(other, 0) for e in row]
    assert first != second


def test_some_autocorrelation_attempts_fail_and_say_why() -> None:
    failures = [e for seed in range(3) for row in _world("autocorrelation", seed) for e in row]
    reasons = {e.error_class for e in failures if e.status is not Status.OK}
    assert reasons == {"negative"}
