"""The scripted world of circle packing: computed, the same every round, with failures and gains."""

import msgspec
import pytest

from daydream.agents.base import AttemptContext
from daydream.agents.scripted.circle_packing import propose
from daydream.tasks.base import json_artifact
from daydream.tasks.circle_packing import build, packing_artifact, read_packing
from daydream.tree import Status, Tree
from tests.unit.tasks.growing import grow, grow_artifacts


def branches(tree: Tree) -> list[list[float | None]]:
    rows: list[list[float | None]] = [[] for _ in range(4)]
    for node in tree.nodes[1:]:
        rows[node.branch].append(node.score if node.status is Status.OK else None)
    return rows


@pytest.mark.parametrize("seed", range(6))
def test_a_world_has_four_full_branches_with_failures_and_gains(seed: int) -> None:
    rows = branches(grow("circle-packing", seed=seed))
    assert [len(row) for row in rows] == [4, 4, 4, 4]
    assert any(score is None for row in rows for score in row)
    for row in rows:
        scores = [score for score in row if score is not None]
        assert scores[-1] > scores[0] + 0.05
    assert len({row[-1] for row in rows}) > 1, "branches end in different packings"


@pytest.mark.parametrize("seed", range(6))
def test_staggered_rows_reach_the_best_known_packing_within_eight_calls(seed: int) -> None:
    tree = grow("circle-packing", seed=seed)
    best = max(node.score for node in tree.nodes)
    assert best >= 1.4238
    least = min((node.branch + 1) * node.depth for node in tree.nodes[1:] if node.score == best)
    assert least <= 8


def test_bold_branches_fail_by_overlap_or_at_a_wall_and_then_recover() -> None:
    tree = grow("circle-packing")
    failed = [node for node in tree.nodes[1:] if node.status is not Status.OK]
    assert {node.branch for node in failed} <= {0, 2}
    assert {node.error_class for node in failed} <= {"outside", "overlap", "radius"}
    rows = branches(tree)
    assert rows[0][-1] is not None
    assert rows[2][-1] is not None


def test_another_number_of_circles_is_another_world() -> None:
    _, eight = grow_artifacts("circle-packing")
    nine, places = grow_artifacts("circle-packing:n=9", policy="parallel_refine-w4-d4")
    assert all(len(read_packing(artifact)) == 9 for artifact in places.values())
    assert max(node.score for node in nine.nodes) > 1.45
    assert set(eight) == set(places)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 26])
@pytest.mark.parametrize("branch", range(8))
def test_any_size_and_branch_comes_to_valid_packings(n: int, branch: int) -> None:
    task = build({"n": str(n)})
    parent, scores = task.root(), []
    for depth in range(1, 8):
        context = AttemptContext(task.info, 1, branch, depth, 0, depth, parent, None)
        parent = propose(context).artifact
        found = task.evaluate(parent)
        if found.status is Status.OK:
            scores.append(found.score)
    assert len(scores) >= 2
    assert max(scores) > scores[0]


def test_a_parent_that_is_no_packing_is_replaced_by_the_layout() -> None:
    task = build({})
    opening = AttemptContext(task.info, 1, 1, 1, 0, 5, task.root(), None)
    layout = propose(opening).artifact
    for parent in (json_artifact({"circles": "none"}), packing_artifact([(0.5, 0.5, 0.5)])):
        again = msgspec.structs.replace(opening, depth=3, parent=parent)
        assert propose(again).artifact == layout
