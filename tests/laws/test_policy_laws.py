"""The built-in families follow their written rules, read here as slowly and plainly as possible."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daydream.canonical import dumps
from daydream.errors import UsageError
from daydream.objective import MARGIN
from daydream.policies.adaptive import Adaptive
from daydream.policies.best_first import BestFirst
from daydream.policies.parallel_refine import ParallelRefine
from daydream.policies.specs import parse_spec, spec_from_json
from daydream.replay import Record, ReplayWorld, replay
from daydream.search import Policy
from daydream.testing.strategies import adaptives, best_firsts, limits, specs, trees
from daydream.testing.worlds import table_tree
from daydream.tree import OK, ROOT, Tree, TreeView, VisibleNode

Spec = ParallelRefine | Adaptive | BestFirst


def _branches(view: TreeView) -> dict[int, list[VisibleNode]]:
    chains: dict[int, list[VisibleNode]] = {}
    for node in view.nodes[1:]:
        chains.setdefault(node.branch, []).append(node)
    return chains


def _flat(chain: list[VisibleNode], step: int, threshold: float) -> bool:
    """Return whether the step to ``chain[step]`` gains less than the threshold."""
    node = chain[step]
    earlier = [before.score for before in chain[:step] if before.status is OK]
    if node.status is not OK:
        gain = 0.0
    elif not earlier:
        return False
    else:
        gain = max(0.0, node.score - max(earlier))
    return gain < threshold


def _pruned(chain: list[VisibleNode], spec: Adaptive, scale: float) -> bool:
    """Return whether some prefix of the branch ended in P flat steps."""
    threshold = spec.min_gain * scale - MARGIN
    flat = [_flat(chain, step, threshold) for step in range(1, len(chain))]
    last = [flat[end - spec.patience : end] for end in range(spec.patience, len(flat) + 1)]
    return any(all(steps) for steps in last)


def _refine_batch(
    view: TreeView, spec: ParallelRefine | Adaptive, scale: float, limit: int
) -> list[int]:
    missing = 0 if view.nodes[ROOT].exhausted else max(0, spec.width - view.branches)
    leaves = []
    for chain in _branches(view).values():
        leaf = chain[-1]
        pruned = isinstance(spec, Adaptive) and _pruned(chain, spec, scale)
        if not pruned and not leaf.exhausted and leaf.depth < spec.depth:
            leaves.append(leaf.id)
    return ([ROOT] * missing + sorted(leaves))[:limit]


@given(
    trees("chain"),
    st.one_of(
        adaptives(), st.builds(ParallelRefine, width=st.integers(1, 9), depth=st.integers(1, 9))
    ),
    limits(),
    st.sampled_from([1.0, 0.25]),
)
def test_refine_batches_are_missing_openings_then_the_oldest_leaves_that_go_on(
    tree: Tree, spec: ParallelRefine | Adaptive, limit: int, scale: float
) -> None:
    world, policy = ReplayWorld(Record(tree)), spec.build(scale)
    view = world.view()
    while True:
        batch = list(policy.select_batch(view, limit))
        assert batch == _refine_batch(view, spec, scale, limit)
        if not batch:
            break
        world.advance(batch)


@given(trees("chain"), best_firsts(), limits())
def test_best_first_opens_then_extends_the_best_leaves_until_patience_is_spent(
    tree: Tree, spec: BestFirst, limit: int
) -> None:
    world, policy = ReplayWorld(Record(tree)), spec.build(1.0)
    view = world.view()
    stale = 0
    while True:
        batch = list(policy.select_batch(view, limit))
        missing = spec.width - view.branches
        opening = missing > 0 and not view.nodes[ROOT].exhausted
        if opening:
            assert batch == [ROOT] * min(missing, limit)
        elif stale >= spec.patience:
            assert batch == []
        else:
            leaves = [node for node in view.nodes if node.id in view.frontier and node.id != ROOT]
            ranked = sorted(
                (node for node in leaves if not node.exhausted),
                key=lambda node: (not node.ok, -node.score if node.ok else 0.0, node.id),
            )
            assert batch == [node.id for node in ranked[: min(spec.k, limit)]]
        if not batch:
            break
        best = view.best
        world.advance(batch)
        if not opening:
            stale = 0 if view.best != best else stale + 1


def _played(policy: Policy, tree: Tree, limit: int) -> dict[int, int]:
    view = replay(lambda: policy, tree, limit=limit).view
    return {branch: len(chain) for branch, chain in _branches(view).items()}


@given(trees("chain"), adaptives(), limits(), limits())
def test_the_limit_changes_the_order_of_refinement_and_never_what_is_revealed(
    tree: Tree, spec: Adaptive, one: int, other: int
) -> None:
    scale = tree.scale
    assert _played(spec.build(scale), tree, one) == _played(spec.build(scale), tree, other)


@given(trees("chain"), adaptives(), st.integers(1, 3))
def test_more_width_depth_or_patience_or_less_gain_never_reveals_less(
    tree: Tree, spec: Adaptive, more: int
) -> None:
    base = _played(spec.build(1.0), tree, 8)
    for larger in (
        Adaptive(spec.width + more, spec.depth, spec.patience, spec.min_gain),
        Adaptive(spec.width, spec.depth + more, spec.patience, spec.min_gain),
        Adaptive(spec.width, spec.depth, spec.patience + more, spec.min_gain),
        Adaptive(spec.width, spec.depth, spec.patience, spec.min_gain / (1 + more)),
    ):
        found = _played(larger.build(1.0), tree, 8)
        assert all(found.get(branch, 0) >= count for branch, count in base.items())


def test_a_threshold_scales_with_the_task() -> None:
    tree = table_tree([[0.0, 0.01, 0.02, 0.03]])
    spec = Adaptive(1, 4, 1, 0.02)
    assert _played(spec.build(1.0), tree, 8) == {0: 2}
    assert _played(spec.build(0.5), tree, 8) == {0: 4}, "a gain of exactly 0.02 x 0.5 is not flat"
    assert _played(spec.build(0.51), tree, 8) == {0: 2}


def test_a_step_is_flat_when_it_gains_less_than_the_threshold_less_the_margin() -> None:
    spec = Adaptive(1, 3, 1, 0.02)
    assert 0.12 - 0.1 < 0.02, "in floats this step falls short by rounding"
    for second, attempts in ((0.12, 3), (0.1 + 0.02 - 2 * MARGIN, 2)):
        assert _played(spec.build(1.0), table_tree([[0.1, second, 0.5]]), 8) == {0: attempts}
    edge = table_tree([[0.0, 0.02 - MARGIN, 0.5]])
    assert _played(spec.build(1.0), edge, 8) == {0: 3}


@given(specs())
def test_a_spec_reads_back_equal_from_its_name_and_from_its_json(spec: Spec) -> None:
    assert parse_spec(spec.name) == spec
    assert parse_spec(f"  {spec.name}\n") == spec
    assert spec_from_json(spec.to_json()) == spec
    assert parse_spec(dumps(spec.to_json()).decode()) == spec
    assert spec_from_json(json.loads(dumps(spec.to_json()))).name == spec.name


@given(st.floats(0, 1e6), st.integers(1, 10**9))
def test_any_gain_has_a_name_without_exponent_that_reads_back_equal(
    gain: float, width: int
) -> None:
    spec = Adaptive(width, 4, 3, gain)
    assert "e" not in spec.name.removeprefix("adaptive")
    again = parse_spec(spec.name)
    assert again == spec
    assert again.name == spec.name


def test_letters_may_stand_in_any_order_and_whole_gains_are_gains() -> None:
    assert parse_spec("adaptive-g1-p3-d4-w2") == Adaptive(2, 4, 3, 1.0)
    whole = {"kind": "adaptive", "width": 2, "depth": 4, "patience": 3, "min_gain": 1}
    assert spec_from_json(whole) == Adaptive(2, 4, 3, 1.0)
    assert Adaptive(4, 4, 3, 0.02).name == "adaptive-w4-d4-p3-g0.02"
    assert ParallelRefine(6, 8).to_json() == {"kind": "parallel_refine", "width": 6, "depth": 8}


@pytest.mark.parametrize(
    "text",
    [
        "adaptive",
        "adaptive-w4-d4-p3",
        "adaptive-w4-d4-p3-g0.02-w4",
        "adaptive-w4-d4-p3-g0.02-x1",
        "adaptive-w4-d4-p3-g-0.02",
        "adaptive-w4-d4-p3-gnan",
        "adaptive-w0-d4-p3-g0.02",
        "adaptive-w4.5-d4-p3-g0.02",
        "parallel_refine-w4-d",
        "parallel_refine-w4-d4-",
        "paralel_refine-w4-d4",
        "best_first-w4-k0-p1",
        "",
        "{",
        '{"kind": "adaptive", "width": 4}',
        '{"kind": "adaptive", "width": true, "depth": 4, "patience": 3, "min_gain": 0.02}',
        '{"kind": "adaptive", "width": 4, "depth": 4, "patience": 3, "min_gain": "0.02"}',
        '{"kind": "parallel_refine", "width": 4, "depth": 4, "patience": 3}',
        '{"kind": 3}',
        '{"width": 4}',
        '{"kind": "adaptive", "width": 4, "depth": 4, "patience": 3, "min_gain": NaN}',
    ],
)
def test_a_malformed_spec_is_refused_with_an_example_or_what_was_expected(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"expected|for example|did you mean|known:|malformed|lacks"
    ):
        parse_spec(text)


@pytest.mark.parametrize("value", [None, 3, "adaptive-w4-d4-p3-g0.02", [], ["adaptive"]])
def test_json_that_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match=r"expected an object"):
        spec_from_json(value)
