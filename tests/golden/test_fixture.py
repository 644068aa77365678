"""The published numbers: the fixture that pins the pruning rules, and branch-world's arithmetic."""

import pytest

from daydream.closed_form import score_specs
from daydream.objective import Objective
from daydream.policies.adaptive import Adaptive
from daydream.policies.base import PolicySpec
from daydream.policies.parallel_refine import ParallelRefine
from daydream.policies.specs import parse_spec
from daydream.proposers.auto import Auto
from daydream.proposers.system1 import fast_proposal
from daydream.replay import WorldScore, replay, score_world
from daydream.search import DEFAULT_LIMIT, Rollout
from daydream.selection import Settings, select
from daydream.testing.worlds import table_tree
from daydream.tree import Tree, make_pool

F = None
FIXTURE = table_tree(
    [
        [0.30] * 8,
        [0.100, 0.115, 0.130, 0.145, 0.160, 0.175, 0.190, 0.205],
        [0.20] * 3 + [0.95] * 5,
        [0.40, 0.10] * 4,
        [0.50, F, 0.50, F, 0.55, 0.55, 0.55, 0.55],
        [F, F, -0.50, -0.25, 0.0, 0.03125, 0.03125, 0.03125],
    ]
)


def _run(spec: PolicySpec, tree: Tree, limit: int) -> tuple[Rollout, WorldScore]:
    rollout = replay(lambda: spec.build(1.0), tree, limit=limit)
    score = score_world(make_pool([tree]), tree, Objective(), rollout, limit=limit)
    return rollout, score


def _per_branch(rollout: Rollout, branches: int) -> list[int]:
    depths = [node.branch for node in rollout.view.nodes[1:]]
    return [depths.count(branch) for branch in range(branches)]


@pytest.mark.parametrize(
    ("name", "limit", "attempts", "batches", "value"),
    [
        ("adaptive-w6-d8-p1-g0.02", 8, [2, 2, 2, 2, 2, 2], 2, 0.506),
        ("adaptive-w6-d8-p2-g0.02", 8, [3, 3, 3, 3, 3, 8], 8, 0.468375),
        ("adaptive-w6-d8-p3-g0.02", 8, [4, 4, 7, 4, 4, 8], 8, 0.907375),
        ("adaptive-w4-d8-p2-g0.02", 8, [3, 3, 3, 3, 0, 0], 3, 0.396),
        ("adaptive-w6-d8-p3-g0.02", 4, [4, 4, 7, 4, 4, 8], 10, 0.9035),
        ("adaptive-w6-d4-p9-g0.02", 4, [4, 4, 4, 4, 4, 4], 6, 0.922),
    ],
)
def test_the_fixture_is_reproduced_line_by_line(
    name: str, limit: int, attempts: list[int], batches: int, value: float
) -> None:
    spec = parse_spec(name)
    rollout, score = _run(spec, FIXTURE, limit)
    assert _per_branch(rollout, 6) == attempts
    assert (rollout.attempts, rollout.batches) == (sum(attempts), batches)
    assert score.breakdown.score == pytest.approx(value, abs=1e-12)
    assert score_specs([spec], make_pool([FIXTURE]), Objective(), limit=limit) == [[score]]


def test_a_gain_of_exactly_the_threshold_is_not_flat() -> None:
    tree = table_tree([[0.0, 0.25, 0.5, 0.5, 0.5, 0.5], [0.5] * 6])
    rollout, _ = _run(Adaptive(6, 8, 1, 0.25), tree, 8)
    assert _per_branch(rollout, 2) == [4, 2]
    assert rollout.batches == 4


@pytest.mark.parametrize(("limit", "batches", "empty"), [(8, 4, 2), (4, 5, 4)])
def test_a_wider_and_deeper_policy_on_a_full_four_by_four_tree(
    limit: int, batches: int, empty: int
) -> None:
    tree = table_tree([[0.1 * depth for depth in range(1, 5)]] * 4)
    rollout, _ = _run(ParallelRefine(6, 8), tree, limit)
    assert (rollout.attempts, rollout.batches, rollout.off_record) == (16, batches, empty)


@pytest.mark.parametrize(
    ("width", "depth", "limit", "batches"),
    [(6, 8, 8, 8), (6, 8, 5, 10), (6, 8, 4, 12), (12, 4, 8, 6)],
)
def test_batches_that_a_full_table_takes(width: int, depth: int, limit: int, batches: int) -> None:
    tree = table_tree([[0.5] * depth] * width)
    rollout, _ = _run(ParallelRefine(width, depth), tree, limit)
    assert (rollout.attempts, rollout.batches, rollout.off_record) == (width * depth, batches, 0)


# Branch 3 is flat at 0.20 and pays 0.95 from depth 4; nothing else reaches 0.95 early, nothing
# exceeds it. Any table like this gives the published numbers; this one is ours.
BRANCH_WORLD = table_tree(
    [
        [0.31, 0.42, 0.47, 0.50, 0.52, 0.53, 0.54, 0.54],
        [0.12, 0.30, 0.44, 0.55, 0.61, 0.66, 0.69, 0.71],
        [0.55, 0.57, 0.58, 0.58, 0.59, 0.59, 0.60, 0.60],
        [0.20, 0.20, 0.20, 0.95, 0.95, 0.95, 0.95, 0.95],
        [0.40, 0.38, 0.49, 0.47, 0.56, 0.95, 0.62, 0.65],
        [0.05, 0.07, 0.09, 0.10, 0.10, 0.11, 0.11, 0.12],
    ]
)
FIXED = ParallelRefine(6, 8)
FOUND = Adaptive(4, 4, 3, 0.02)


def test_fixed_exploration_of_branch_world_is_worth_0_884() -> None:
    rollout, score = _run(FIXED, BRANCH_WORLD, DEFAULT_LIMIT)
    terms = score.breakdown
    assert (terms.quality, terms.attempts, terms.batches) == (0.95, 48, 8)
    assert terms.parallelism == 6.0
    assert terms.cost == pytest.approx(0.096, abs=1e-12)
    assert terms.bonus == pytest.approx(0.03, abs=1e-12)
    assert terms.score == pytest.approx(0.884, abs=1e-12)
    assert rollout.off_record == 0


def test_the_policy_that_system_1_finds_in_branch_world_is_worth_0_938() -> None:
    assert fast_proposal(make_pool([BRANCH_WORLD])) == FOUND
    rollout, score = _run(FOUND, BRANCH_WORLD, DEFAULT_LIMIT)
    terms = score.breakdown
    assert (terms.quality, terms.attempts, terms.batches) == (0.95, 16, 4)
    assert terms.cost == pytest.approx(0.032, abs=1e-12)
    assert terms.bonus == pytest.approx(0.02, abs=1e-12)
    assert terms.score == pytest.approx(0.938, abs=1e-12)
    assert _per_branch(rollout, 6) == [4, 4, 4, 4, 0, 0]


@pytest.mark.parametrize("guard", ["quality", "none"])
def test_selection_deploys_it_in_place_of_fixed_exploration(guard: str) -> None:
    settings = Settings(guard="quality" if guard == "quality" else "none")
    selection = select(FIXED, Auto(), make_pool([BRANCH_WORLD]), settings=settings)
    assert selection.chosen.spec.name == "adaptive-w4-d4-p3-g0.02"
    assert selection.chosen.mean == pytest.approx(0.938, abs=1e-12)
    assert selection.incumbent.mean == pytest.approx(0.884, abs=1e-12)
    assert len(selection.candidates) == 1, "the grid is not searched when the fast proposal wins"
