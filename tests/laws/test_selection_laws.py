"""Selection is monotone: whatever is proposed, what is deployed never replays worse."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daydream.errors import PolicyError, SelectionError
from daydream.objective import MARGIN
from daydream.policies.adaptive import Adaptive
from daydream.policies.base import PolicySpec
from daydream.policies.parallel_refine import ParallelRefine
from daydream.proposers.auto import Auto
from daydream.proposers.base import Scored
from daydream.proposers.grid import Grid, revision_grid
from daydream.proposers.none import Nothing
from daydream.proposers.system1 import System1, fast_proposal
from daydream.search import Policy
from daydream.selection import Guard, Scorer, Selection, Settings, build_policy, select
from daydream.testing.strategies import limits, parallel_refines, specs, trees
from daydream.testing.worlds import table_tree
from daydream.tree import Pool, Status, Tree, make_pool


class Listed:
    """Proposes a fixed list once."""

    def __init__(self, specs: Sequence[PolicySpec]) -> None:
        self._specs = specs

    def propose(
        self, pool: Pool, incumbent: PolicySpec, evidence: Sequence[Scored]
    ) -> Sequence[PolicySpec]:
        return [] if evidence else self._specs


def pools() -> st.SearchStrategy[Pool]:
    return st.lists(trees("chain"), min_size=1, max_size=3).map(
        lambda found: make_pool(found, scale=1.0)
    )


def _select(
    incumbent: PolicySpec, candidates: Sequence[PolicySpec], pool: Pool, guard: Guard = "none"
) -> Selection:
    return select(incumbent, Listed(candidates), pool, settings=Settings(guard=guard))


@given(pools(), specs(), st.lists(specs(), max_size=5), st.sampled_from(["quality", "none"]))
def test_the_chosen_policy_never_replays_worse_than_the_incumbent(
    pool: Pool, incumbent: PolicySpec, candidates: list[PolicySpec], guard: Guard
) -> None:
    found = _select(incumbent, candidates, pool, guard)
    again = Scorer(pool, Settings()).step_by_step(incumbent)
    assert found.incumbent.mean == again.mean
    assert found.chosen.mean >= again.mean
    if found.changed:
        assert found.chosen.mean > again.mean + MARGIN


@given(pools(), specs())
def test_a_tie_keeps_the_incumbent(pool: Pool, incumbent: PolicySpec) -> None:
    assert not _select(incumbent, [incumbent, incumbent], pool).changed


@given(pools(), specs(), st.lists(specs(), min_size=1, max_size=5))
def test_the_quality_guard_keeps_the_quality_of_every_world(
    pool: Pool, incumbent: PolicySpec, candidates: list[PolicySpec]
) -> None:
    found = _select(incumbent, candidates, pool, "quality")
    for mine, theirs in zip(found.chosen.worlds, found.incumbent.worlds, strict=True):
        assert mine.breakdown.quality >= theirs.breakdown.quality - MARGIN
    assert found.guarded.mean <= found.plain.mean + MARGIN


@given(pools(), specs(), st.lists(specs(), min_size=2, max_size=5))
def test_the_order_of_candidates_matters_for_ties_only(
    pool: Pool, incumbent: PolicySpec, candidates: list[PolicySpec]
) -> None:
    first = _select(incumbent, candidates, pool)
    other = _select(incumbent, candidates[::-1], pool)
    assert first.chosen.mean == pytest.approx(other.chosen.mean, abs=2 * MARGIN)
    assert first.chosen.attempts == other.chosen.attempts


@given(pools(), parallel_refines(), st.lists(specs(), max_size=4), limits())
def test_a_disqualified_candidate_never_wins(
    pool: Pool, incumbent: PolicySpec, candidates: list[PolicySpec], limit: int
) -> None:
    bad = Adaptive(99, 99, 1, 0.5)

    def factory(spec: PolicySpec, scale: float) -> Policy:
        if spec == bad:
            raise PolicyError("it breaks")
        return build_policy(spec, scale)

    found = select(
        incumbent,
        Listed([bad, *candidates, bad]),
        pool,
        settings=Settings(guard="none", limit=limit),
        factory=factory,
    )
    assert found.chosen.spec != bad
    out = found.candidates[0].disqualified
    assert out is not None
    assert (out.world, out.batch, out.reason) == (pool.trees[0].round, 1, "it breaks")


def test_a_disqualified_incumbent_gives_way_to_the_best_valid_earlier_version() -> None:
    pool = make_pool([table_tree([[0.1, 0.2], [0.1, 0.9]])])
    broken, weak, strong = ParallelRefine(2, 2), ParallelRefine(1, 1), ParallelRefine(2, 1)

    def factory(spec: PolicySpec, scale: float) -> Policy:
        if spec == broken:
            raise PolicyError("a later tree broke it")
        return build_policy(spec, scale)

    found = select(broken, Nothing(), pool, earlier=[weak, strong], factory=factory)
    assert found.replaced is not None
    assert found.chosen.spec == strong
    with pytest.raises(SelectionError, match="a later tree broke it"):
        select(broken, Nothing(), pool, earlier=[broken], factory=factory)


def _targets_reached(pool: Pool, spec: PolicySpec) -> bool:
    scored = Scorer(pool, Settings(limit=1_000)).step_by_step(spec)
    return all(
        tree.best is None or world.breakdown.quality == tree.best.score
        for tree, world in zip(pool.trees, scored.worlds, strict=True)
    )


@given(pools())
def test_system1_reaches_every_worlds_best_with_the_least_patience(pool: Pool) -> None:
    spec = fast_proposal(pool)
    if spec is None:
        assert all(n.status is not Status.OK for t in pool.trees for n in t.nodes[1:])
        return
    assert spec.min_gain == 0.02
    assert _targets_reached(pool, spec)
    if spec.patience > 1:
        smaller = Adaptive(spec.width, spec.depth, spec.patience - 1, spec.min_gain)
        deeper = all(_single_target(tree) for tree in pool.trees)
        assert not (deeper and _targets_reached(pool, smaller))


def _single_target(tree: Tree) -> bool:
    best = tree.best
    return (
        best is None
        or sum(n.status is Status.OK and n.score == best.score for n in tree.nodes[1:]) == 1
    )


@given(pools(), specs())
def test_auto_is_system1_where_that_wins_and_the_grid_where_it_does_not(
    pool: Pool, incumbent: PolicySpec
) -> None:
    fast = select(incumbent, System1(), pool)
    auto = select(incumbent, Auto(), pool)
    if fast.changed:
        assert auto.chosen.spec == fast.chosen.spec
        assert len(auto.candidates) == 1
    else:
        grid = select(incumbent, Grid(), pool)
        assert auto.chosen.mean >= grid.chosen.mean - MARGIN


def test_the_grid_stands_in_its_stated_order() -> None:
    grid = revision_grid(make_pool([table_tree([[0.1, 0.2], [0.3]])]))
    names = [spec.name for spec in grid]
    assert len(grid) == 4 + 4 * 12
    assert names[:4] == [f"parallel_refine-w{w}-d{d}" for w in (1, 2) for d in (1, 2)]
    assert names[4:8] == [
        "adaptive-w1-d1-p1-g0.005",
        "adaptive-w1-d1-p1-g0.02",
        "adaptive-w1-d1-p1-g0.05",
        "adaptive-w1-d1-p2-g0.005",
    ]
    assert names[-1] == "adaptive-w2-d2-p4-g0.05"


@given(pools(), st.lists(specs(), min_size=30, max_size=40))
def test_many_candidates_score_as_each_does_alone(pool: Pool, many: list[PolicySpec]) -> None:
    scorer = Scorer(pool, Settings())
    for together, spec in zip(scorer.score(many), many, strict=True):
        assert together == scorer.step_by_step(spec)
