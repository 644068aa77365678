"""branch-world reproduces the worked example and rewards a search that widens."""

import json
from functools import partial

import pytest

from daydream.errors import TaskError
from daydream.policies.adaptive import Adaptive
from daydream.policies.parallel_refine import ParallelRefine
from daydream.proposers.auto import Auto
from daydream.proposers.system1 import fast_proposal
from daydream.replay import replay
from daydream.selection import select
from daydream.tasks.base import Artifact, json_artifact
from daydream.tasks.branch_world import PUBLISHED_DEPTH, PUBLISHED_WIDTH, TABLE, build, score_at
from daydream.tree import Status, make_pool
from tests.unit.tasks.growing import grow


def prefix_best(width: int, depth: int) -> float:
    return max(score_at(b, d) for b in range(width) for d in range(1, depth + 1))


def test_branch_3_pays_nothing_new_for_three_attempts_and_the_top_from_the_fourth() -> None:
    assert TABLE[3] == (0.2, 0.2, 0.2, 0.95, 0.95, 0.95, 0.95, 0.95)


def test_only_branch_3_pays_the_top_and_nothing_pays_more() -> None:
    places = [(b, d) for b in range(40) for d in range(1, 60)]
    assert max(score_at(b, d) for b, d in places) == 0.95
    assert {b for b, d in places if score_at(b, d) == 0.95} == {3}
    assert min(d for b, d in places if score_at(b, d) == 0.95) == 4


def test_the_published_table_is_six_branches_of_eight_attempts() -> None:
    assert (len(TABLE), {len(row) for row in TABLE}) == (PUBLISHED_WIDTH, {PUBLISHED_DEPTH})
    assert TABLE[0] == (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
    assert TABLE[1] == (0.16, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65)
    assert TABLE[2] == (0.18, 0.18, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85)
    assert TABLE[4] == (0.22, 0.22, 0.22, 0.22, 0.7, 0.75, 0.8, 0.85)
    assert TABLE[5] == (0.24, 0.24, 0.24, 0.24, 0.24, 0.8, 0.85, 0.9)


def test_the_rule_continues_the_table_wider_and_deeper() -> None:
    assert [score_at(9, d) for d in (1, 9, 10, 11, 12, 30)] == [0.32, 0.32, 0.8, 0.85, 0.9, 0.9]
    assert score_at(1_000, 7) == 0.4
    assert score_at(0, 12) == 0.65
    assert score_at(0, 1_000) == 0.9


def test_each_step_wider_and_deeper_from_one_by_one_finds_something_better() -> None:
    assert [prefix_best(n, n) for n in range(1, 6)] == [0.1, 0.35, 0.6, 0.95, 0.95]
    for width in range(1, 8):
        for depth in range(1, 10):
            assert prefix_best(width, depth) <= prefix_best(width + 1, depth)
            assert prefix_best(width, depth) <= prefix_best(width, depth + 1)
    assert [prefix_best(w, 1) for w in range(1, 7)] == [0.1, 0.16, 0.18, 0.2, 0.22, 0.24]


def test_the_scripted_world_reproduces_the_replay_scores_of_the_worked_example() -> None:
    tree = grow("branch-world")
    assert tree.attempts == 48
    selection = select(ParallelRefine(6, 8), Auto(), make_pool([tree]))
    (before,), (after,) = selection.incumbent.worlds, selection.chosen.worlds
    assert selection.chosen.spec.name == "adaptive-w4-d4-p3-g0.02"
    assert before.breakdown.score == pytest.approx(0.884, abs=1e-12)
    assert (before.breakdown.attempts, before.breakdown.batches) == (48, 8)
    assert after.breakdown.score == pytest.approx(0.938, abs=1e-12)
    assert (after.breakdown.attempts, after.breakdown.batches) == (16, 4)
    assert (before.breakdown.quality, after.breakdown.quality) == (0.95, 0.95)


def test_system_1_asks_for_the_least_patience_that_reaches_the_top() -> None:
    tree = grow("branch-world")
    assert fast_proposal(make_pool([tree])) == Adaptive(4, 4, 3, 0.02)
    found = []
    for patience in (1, 2, 3):
        spec = Adaptive(4, 4, patience, 0.02)
        found.append(replay(partial(spec.build, 1.0), tree).best)
    assert found == [0.45, 0.65, 0.95]


def test_a_wider_and_deeper_world_grows_under_a_wider_policy() -> None:
    tree = grow("branch-world", policy="parallel_refine-w10-d12")
    assert (tree.attempts, tree.baseline) == (120, 0.0)
    assert fast_proposal(make_pool([tree])) == Adaptive(4, 4, 3, 0.02)


@pytest.mark.parametrize(
    "text",
    [
        '{"branch": 3}',
        '{"branch": 3, "depth": 4.0}',
        '{"branch": true, "depth": 1}',
        '{"branch": 3, "depth": "4"}',
        '{"branch": -1, "depth": 4}',
        '{"branch": 3, "depth": 0}',
        '{"branch": 3, "depth": 1000001}',
        "[3, 4]",
    ],
)
def test_a_place_that_does_not_exist_is_refused(text: str) -> None:
    found = build({}).evaluate(Artifact({"artifact.json": text.encode()}))
    assert (found.status, found.score) == (Status.INVALID, 0.0)
    assert "expected" in found.message


def test_a_claim_beside_the_place_is_not_read() -> None:
    place = {"branch": 0, "depth": 1, "score": 0.95, "table": [[1.0]]}
    assert build({}).evaluate(json_artifact(place)).score == 0.1


def test_it_has_no_parameters() -> None:
    with pytest.raises(TaskError, match="no parameter 'width'"):
        build({"width": "6"})


def test_the_statement_explains_the_root_that_it_hands_out() -> None:
    task = build({})
    root = json.loads(task.root().files["artifact.json"])
    assert json.dumps(root) in task.info.statement
    assert task.evaluate(task.root()).score == 0
