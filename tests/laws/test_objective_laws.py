"""What a rollout is worth: equation 1, its normalised variant, and the sweep."""

import math

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from daydream.objective import MARGIN, Objective, SweepPoint, attainment, mean, sweep
from daydream.replay import Gauge, score_world
from daydream.search import Outcome
from daydream.testing.strategies import scales, scores, trees
from daydream.testing.worlds import table_tree
from daydream.tree import OK, Tree, make_pool

attempts = st.integers(0, 5_000)
batches = st.integers(0, 1_000)
qualities = st.floats(-100, 100)


@given(qualities, attempts, batches, scales(), st.floats(0, 1), st.floats(0, 1))
def test_the_score_is_quality_minus_cost_plus_bonus_as_written(
    quality: float, n: int, k: int, scale: float, cost: float, parallel: float
) -> None:
    terms = Objective(cost, parallel).raw(quality, n, k, scale)
    assert terms.score == terms.quality - terms.cost + terms.bonus
    assert terms.parallelism == n / max(1, k)
    expected = quality - cost * scale * n + parallel * scale * n / max(1, k)
    assert terms.score == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(qualities, qualities, attempts, batches, scales())
def test_at_equal_cost_the_better_quality_scores_higher(
    one: float, other: float, n: int, k: int, scale: float
) -> None:
    assume(one > other + MARGIN)
    objective = Objective()
    assert objective.raw(one, n, k, scale).score > objective.raw(other, n, k, scale).score


@given(qualities, st.integers(1, 500), st.integers(1, 100), scales())
def test_a_worthless_attempt_more_pays_only_in_at_most_two_batches(
    quality: float, n: int, k: int, scale: float
) -> None:
    objective = Objective()
    change = (
        objective.raw(quality, n + 1, k, scale).score - objective.raw(quality, n, k, scale).score
    )
    expected = scale * (objective.parallel_weight / k - objective.cost_weight)
    assert change == pytest.approx(expected, abs=1e-11)
    assert (change > 0) == (k <= 2)


def test_padding_pays_what_the_definitions_say() -> None:
    objective = Objective()
    for k, gain in ((1, 0.003), (2, 0.0005), (3, 0.005 / 3 - 0.002)):
        before, after = objective.raw(0.5, 10, k, 1.0).score, objective.raw(0.5, 11, k, 1.0).score
        assert after - before == pytest.approx(gain, abs=1e-12)


@given(qualities, st.integers(0, 200), st.integers(1, 100))
def test_more_batches_for_the_same_attempts_never_score_higher(
    quality: float, n: int, k: int
) -> None:
    objective = Objective()
    assert objective.raw(quality, n, k + 1, 1.0).score <= objective.raw(quality, n, k, 1.0).score


@given(qualities, qualities, qualities)
def test_attainment_is_a_share_that_grows_with_quality(
    quality: float, base: float, best: float
) -> None:
    share = attainment(quality, base, best)
    assert 0.0 <= share <= 1.0
    assert attainment(quality + 1.0, base, best) >= share
    if not best > base:
        assert share == 1.0
    else:
        assert attainment(base, base, best) == 0.0
        assert attainment(best, base, best) == 1.0


def test_attainment_is_clipped_to_a_share() -> None:
    assert attainment(0.75, 0.5, 1.0) == 0.5
    assert attainment(0.25, 0.5, 1.0) == 0.0
    assert attainment(2.0, 0.5, 1.0) == 1.0
    assert attainment(math.nan, 0.5, 1.0) == 0.0


@given(trees(), st.integers(1, 12), st.booleans())
def test_normalised_costs_are_shares_of_the_record_and_of_the_limit(
    tree: Tree, limit: int, everything: bool
) -> None:
    pool = make_pool([tree])
    count = tree.attempts if everything else tree.attempts // 2
    best = None if tree.best is None else tree.best.score
    found = score_world(
        pool, tree, Objective(normalised=True), Outcome(count, 3, 0, best), limit=limit
    ).breakdown
    assert found.quality == 1.0, "the world's best is attained in full"
    assert found.cost == 0.002 * count / max(1, tree.attempts)
    assert found.bonus == 0.005 * (count / 3) / limit
    assert found.score == found.quality - found.cost + found.bonus


def test_normalised_quality_is_measured_from_the_baseline_or_the_floor() -> None:
    tree = table_tree([[0.2, 0.6], [0.4]])
    half = Outcome(2, 2, 0, 0.4)
    with_floor = make_pool([tree], floor=0.2)
    scored = Gauge(with_floor, tree, Objective(normalised=True), limit=8).score(half)
    assert scored.breakdown.quality == pytest.approx(0.5)
    # A root that scored comes before the floor.
    root = msgspec.structs.replace(tree.nodes[0], status=OK, score=0.3)
    rooted = msgspec.structs.replace(tree, nodes=(root, *tree.nodes[1:]))
    pool = make_pool([rooted], floor=0.2)
    scored = Gauge(pool, rooted, Objective(normalised=True), limit=8).score(half)
    assert scored.breakdown.quality == pytest.approx(1 / 3)
    # Without floor and baseline the lowest ok score of the pool stands in, here the same 0.2.
    scored = Gauge(make_pool([tree]), tree, Objective(normalised=True), limit=8).score(half)
    assert scored.breakdown.quality == pytest.approx(0.5)


@given(trees(), st.one_of(st.none(), scores()), attempts, batches)
def test_quality_is_the_best_revealed_score_or_what_stands_in_for_it(
    tree: Tree, best: float | None, n: int, k: int
) -> None:
    pool = make_pool([tree])
    found = score_world(pool, tree, Objective(), Outcome(n, k, 2, best), limit=8)
    expected = Objective().raw(pool.fallback(tree) if best is None else best, n, k, tree.scale)
    assert found.breakdown == expected
    assert (found.tree, found.off_record, found.recorded) == (tree.round, 2, tree.attempts)


@given(trees())
def test_a_failure_never_beats_a_valid_negative_score(tree: Tree) -> None:
    succeeded = [node.score for node in tree.nodes[1:] if node.status is OK]
    assume(succeeded and tree.baseline is None)
    pool = make_pool([tree])
    failed = score_world(pool, tree, Objective(), Outcome(1, 1, 0, None), limit=8)
    for score in succeeded:
        valid = score_world(pool, tree, Objective(), Outcome(1, 1, 0, score), limit=8)
        assert failed.breakdown.score <= valid.breakdown.score


@given(st.lists(st.floats(-1e9, 1e9), max_size=20))
def test_a_mean_does_not_depend_on_the_order(values: list[float]) -> None:
    assert mean(sorted(values)) == mean(values)
    assert mean([]) == 0.0


def _point(attained: float, share: float, probes: int = 4, waves: int = 2) -> SweepPoint:
    return SweepPoint(attained=attained, share=share, probes=probes, waves=waves)


def test_the_area_of_a_hand_computed_sweep() -> None:
    # Means: beta 0 attains 0.4 for a share of 0.25, beta 1 0.8 for 0.5, beta 2 less for more.
    points = [
        [_point(0.3, 0.2), _point(0.5, 0.3)],
        [_point(0.8, 0.5), _point(0.8, 0.5)],
        [_point(0.7, 0.75), _point(0.7, 0.75)],
    ]
    found = sweep(points)
    assert found.area == pytest.approx(0.25 * 0.0 + 0.25 * 0.4 + 0.5 * 0.8)
    assert found.penalty == pytest.approx(0.5)
    assert found.reward == pytest.approx(0.5 - 0.1 * 0.5)


def test_one_point_is_a_single_step() -> None:
    assert sweep([[_point(0.9, 0.4)]]).area == pytest.approx(0.9 * 0.6)
    assert sweep([[_point(0.9, 0.0)]]).area == pytest.approx(0.9)
    assert sweep([[_point(0.9, 1.0)]]).area == 0.0
    assert sweep([]).reward == 0.0


def test_the_penalty_counts_waves_a_probe_and_survives_a_sweep_without_probes() -> None:
    points = [[_point(1.0, 0.5, probes=6, waves=3), _point(1.0, 0.5, probes=0, waves=0)]]
    found = sweep(points, penalty_weight=0.2)
    assert found.penalty == pytest.approx(0.25)
    assert found.reward == pytest.approx(found.area - 0.05)


@given(
    st.lists(
        st.lists(st.builds(_point, st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=2),
        min_size=1,
        max_size=6,
    )
)
def test_the_area_is_the_integral_of_the_best_attainment_so_far(
    points: list[list[SweepPoint]],
) -> None:
    rows = [(mean([p.share for p in row]), mean([p.attained for p in row])) for row in points]
    steps = 1_000
    integral = 0.0
    for i in range(steps):
        x = (i + 0.5) / steps
        integral += max((attained for share, attained in rows if share <= x), default=0.0) / steps
    found = sweep(points)
    assert found.area == pytest.approx(integral, abs=len(rows) / steps)
    assert sweep(points[::-1]).area == pytest.approx(found.area)
    assert sweep([*points, [_point(0.0, 0.5)] * 2]).area == pytest.approx(found.area)
