"""The closed form gives the numbers of step-by-step replay, for every tree, spec and limit."""

import math
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daydream.closed_form import ClosedForm, covers, score_specs
from daydream.objective import Objective
from daydream.policies.adaptive import Adaptive
from daydream.policies.base import PolicySpec
from daydream.policies.best_first import BestFirst
from daydream.policies.parallel_refine import ParallelRefine
from daydream.proposers.grid import revision_grid
from daydream.replay import Record, ReplayWorld, replay, score_world
from daydream.search import Outcome, solve
from daydream.testing.strategies import adaptives, limits, parallel_refines, trees
from daydream.testing.worlds import table_tree
from daydream.tree import Pool, Tree, make_pool

FAR = 10**6
SCORES = [-0.5, 0.0, 0.1, 0.115, 0.12, 0.13, 0.3, 0.31, 0.5]
GAINS = [0.0, 0.005, 0.015, 0.02, 0.2, 2.0]

Covered = list[ParallelRefine | Adaptive]


def _covered() -> st.SearchStrategy[Covered]:
    return st.lists(st.one_of(parallel_refines(), adaptives()), min_size=1, max_size=8)


def _plain(outcome: Outcome) -> Outcome:
    return Outcome(outcome.attempts, outcome.batches, outcome.off_record, outcome.best)


def _step_by_step(
    spec: PolicySpec, tree: Tree, record: Record, scale: float, *, limit: int, most: int = FAR
) -> Outcome:
    return _plain(
        replay(lambda: spec.build(scale), tree, record=record, limit=limit, max_batches=most)
    )


@given(trees(), _covered(), limits(), st.sampled_from([1.0, 0.25]), st.sampled_from([1, 3, 7, FAR]))
def test_the_closed_form_equals_step_by_step_replay(
    tree: Tree, specs: Covered, limit: int, scale: float, most: int
) -> None:
    record = Record(tree)
    outcomes, where = ClosedForm(record, scale, limit=limit).outcomes(specs, max_batches=most)
    for spec, place in zip(specs, where, strict=True):
        expected = _step_by_step(spec, tree, record, scale, limit=limit, most=most)
        assert _plain(outcomes[place]) == expected


@given(
    st.lists(trees("chain"), min_size=1, max_size=3),
    _covered(),
    limits(),
    st.booleans(),
    st.sampled_from([2, FAR]),
)
def test_scores_of_specs_over_a_pool_equal_the_scores_of_their_replays(
    members: list[Tree], specs: Covered, limit: int, normalised: bool, most: int
) -> None:
    pool, objective = make_pool(members), Objective(normalised=normalised)
    found = score_specs(specs, pool, objective, limit=limit, max_batches=most)
    for spec, scores in zip(specs, found, strict=True):
        for tree, score in zip(pool.trees, scores, strict=True):
            outcome = _step_by_step(spec, tree, Record(tree), pool.scale, limit=limit, most=most)
            assert score == score_world(pool, tree, objective, outcome, limit=limit)


@given(trees("any"), _covered(), limits())
def test_a_branching_record_under_chain_rules_is_scored_as_it_replays(
    tree: Tree, specs: Covered, limit: int
) -> None:
    record = Record(tree, "chain")
    outcomes, where = ClosedForm(record, 1.0, limit=limit).outcomes(specs, max_batches=FAR)
    for spec, place in zip(specs, where, strict=True):
        assert outcomes[place] == _step_by_step(spec, tree, record, 1.0, limit=limit)


def _random_tree(rng: np.random.Generator) -> Tree:
    lengths = rng.integers(1, 9, size=rng.integers(0, 9))
    failed, picks = rng.random((9, 9)) < 0.2, rng.integers(0, len(SCORES), (9, 9))
    return table_tree(
        [
            [None if failed[b, d] else SCORES[picks[b, d]] for d in range(length)]
            for b, length in enumerate(lengths)
        ]
    )


def _random_specs(rng: np.random.Generator, count: int) -> Covered:
    specs: Covered = []
    for width, depth, patience, gain in rng.integers(
        [1, 1, 0, 0], [13, 11, 5, len(GAINS)], size=(count, 4)
    ).tolist():
        fixed = ParallelRefine(width, depth)
        specs.append(Adaptive(width, depth, patience, GAINS[gain]) if patience else fixed)
    return specs


def _corners(spec: PolicySpec, record: Record, limit: int, outcome: Outcome) -> Sequence[str]:
    """Replay ``spec`` and name the hard cases that it hits; ``outcome`` must be what comes out."""
    policy, world = spec.build(1.0), ReplayWorld(record)
    rollout = solve(policy, world, limit=limit, max_batches=FAR)
    assert outcome == _plain(rollout), (spec.name, limit)
    view, branches = rollout.view, 1 + max(node.branch for node in record.nodes)
    ended = rollout.attempts == record.reachable
    left = ended and bool(policy.select_batch(view, limit))
    found = {
        "ended by a full batch with picks left": left and rollout.sizes[-1] == limit,
        "ended by a short batch with picks left": left and rollout.sizes[-1] < limit,
        "ended inside a batch of empty picks": ended and rollout.off_record > 0,
        "drained off the record": not ended and rollout.off_record > 0,
        "root picked in vain": view.nodes[0].exhausted,
        "root picked in vain by a full batch": view.nodes[0].exhausted
        and view.branches % limit == 0,
        "a short batch": rollout.sizes[-1:] < (limit,),
        "only full batches": set(rollout.sizes) == {limit},
        "never a full batch": bool(rollout.sizes) and max(rollout.sizes) < limit,
        "pruned": isinstance(spec, Adaptive) and rollout.attempts < record.reachable,
        "narrower than the record": len(view.nodes) > 1 and view.branches < branches,
        "nothing recorded": record.reachable == 0,
        "nothing succeeded": rollout.best is None,
    }
    return [corner for corner, hit in found.items() if hit]


def _compare(seed: int, count: int) -> Counter[str]:
    rng = np.random.default_rng(seed)
    hits: Counter[str] = Counter()
    for _ in range(count):
        record, specs = Record(_random_tree(rng)), _random_specs(rng, 6)
        for limit in range(1, 13):
            closed = ClosedForm(record, 1.0, limit=limit)
            outcomes, where = closed.outcomes(specs, max_batches=FAR)
            for spec, place in zip(specs, where, strict=True):
                hits.update(_corners(spec, record, limit, outcomes[place]))
    return hits


def test_random_specs_on_random_records_agree_at_every_limit_from_1_to_12() -> None:
    hits = _compare(seed=20, count=120)
    assert len(hits) == 13, hits
    assert min(hits.values()) >= 20, hits


@pytest.mark.slow
def test_sixty_thousand_random_replays_agree() -> None:
    hits = _compare(seed=21, count=850)
    assert min(hits.values()) >= 150, hits


@given(trees("chain"), _covered(), limits())
def test_arrays_and_outcomes_tell_the_same(tree: Tree, specs: Covered, limit: int) -> None:
    closed = ClosedForm(Record(tree), 1.0, limit=limit)
    counts = closed.counts(specs)
    outcomes, where = closed.outcomes(specs, max_batches=FAR)
    assert counts.attempts.tolist() == [outcomes[i].attempts for i in where]
    assert counts.batches.tolist() == [outcomes[i].batches for i in where]
    assert counts.off_record.tolist() == [outcomes[i].off_record for i in where]
    best = [outcomes[i].best for i in where]
    assert counts.best.tolist() == [-math.inf if value is None else value for value in best]


def _pool(branches: int, depth: int, seed: int) -> Pool:
    rng = np.random.default_rng(seed)
    gains = rng.choice([0.0, 0.0, 0.004, 0.03, 0.2], size=(branches, depth))
    failed = rng.random((branches, depth)) < 0.1
    levels = gains.cumsum(axis=1)
    return make_pool(
        [
            table_tree(
                [
                    [None if bad else float(level) for level, bad in zip(row, gone, strict=True)]
                    for row, gone in zip(levels, failed, strict=True)
                ]
            )
        ]
    )


@pytest.mark.parametrize(("branches", "depth", "every"), [(6, 8, 3), (32, 20, 41), (900, 5, 150)])
def test_the_whole_grid_of_larger_records_agrees(branches: int, depth: int, every: int) -> None:
    pool, objective = _pool(branches, depth, seed=branches), Objective()
    specs = revision_grid(pool)[:9_000]
    found = score_specs(specs, pool, objective, max_batches=FAR)
    record = Record(pool.trees[0])
    for spec, scores in list(zip(specs, found, strict=True))[::every]:
        outcome = _step_by_step(spec, pool.trees[0], record, 1.0, limit=8)
        assert scores == [score_world(pool, pool.trees[0], objective, outcome, limit=8)]


def test_one_deep_branch_beside_short_ones_agrees() -> None:
    rng = np.random.default_rng(5)
    deep = rng.choice([0.0, 0.01, 0.5], size=2_000).cumsum()
    tree = table_tree([[0.1], [float(score) for score in deep], [0.2, None]])
    record = Record(tree)
    specs: Covered = [
        ParallelRefine(3, 5_000),
        ParallelRefine(2, 1_999),
        Adaptive(3, 5_000, 4, 0.02),
        Adaptive(9, 2_000, 1_999, 0.3),
    ]
    for limit in (1, 2, 3, 8):
        outcomes, where = ClosedForm(record, 1.0, limit=limit).outcomes(specs, max_batches=FAR)
        for spec, place in zip(specs, where, strict=True):
            assert outcomes[place] == _step_by_step(spec, tree, record, 1.0, limit=limit)


def test_specs_far_beyond_any_record_are_counted_in_whole_numbers() -> None:
    tree = table_tree([[0.1, 0.2], [0.3]])
    huge = Adaptive(10**30, 10**30, 10**30, 0.02)
    closed = ClosedForm(Record(tree), 1.0, limit=4)
    outcomes, where = closed.outcomes([huge, ParallelRefine(10**30, 10**30)])
    # Batch 1: two openings and two root picks in vain; batch 2: two leaves, of which one has ended.
    assert [outcomes[i] for i in where] == [Outcome(3, 2, 3, 0.3)] * 2
    one = ClosedForm(Record(tree), 1.0, limit=10**30).outcomes([ParallelRefine(2, 3)])[0]
    assert one == [Outcome(3, 2, 1, 0.3)]


def test_many_rules_that_prune_alike_share_their_work_and_all_agree() -> None:
    pool = _pool(12, 10, seed=8)
    specs: Covered = [
        Adaptive(12, 10, patience, gain / 400) for patience in (1, 2, 3) for gain in range(100)
    ]
    record = Record(pool.trees[0])
    outcomes, where = ClosedForm(record, 1.0, limit=8).outcomes(specs)
    assert len(outcomes) < len(specs)
    for spec, place in list(zip(specs, where, strict=True))[::7]:
        assert outcomes[place] == _step_by_step(spec, pool.trees[0], record, 1.0, limit=8)


def test_a_spec_of_another_family_is_refused_and_no_specs_give_no_scores() -> None:
    pool = make_pool([table_tree([[0.1, 0.2]])])
    other = BestFirst(2, 1, 1)
    assert not covers(other)
    assert covers(ParallelRefine(1, 1))
    assert covers(Adaptive(1, 1, 1, 0.0))
    with pytest.raises(TypeError, match=r"best_first-w2-k1-p1 has no closed form"):
        score_specs([ParallelRefine(1, 1), other], pool, Objective())
    assert score_specs([], pool, Objective()) == []


def test_records_that_are_handed_over_are_used() -> None:
    # A record under other rules than the pool's would give other numbers.
    tree = table_tree([[0.1, 0.9], [0.2]])
    shorter = Record(table_tree([[0.1], [0.2]]))
    pool = make_pool([tree])
    spec = ParallelRefine(2, 2)
    assert score_specs([spec], pool, Objective())[0][0].breakdown.quality == 0.9
    found = score_specs([spec], pool, Objective(), records=[shorter])
    assert found[0][0].breakdown.quality == 0.2
    assert msgspec.structs.asdict(found[0][0])["recorded"] == 3
