"""Trees, views and pools keep their invariants, and refuse what breaks them."""

import math

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from daydream.canonical import dumps
from daydream.errors import TreeError
from daydream.replay import Record, ReplayWorld
from daydream.testing.strategies import trees
from daydream.testing.worlds import RandomPolicy, table_tree
from daydream.tree import OK, ROOT, Node, Status, Tree, TreeView, check_tree, make_pool


def _with_node(tree: Tree, number: int, **changes: object) -> Tree:
    nodes = list(tree.nodes)
    nodes[number] = msgspec.structs.replace(nodes[number], **changes)
    return msgspec.structs.replace(tree, nodes=tuple(nodes))


@given(trees())
def test_a_tree_reads_back_equal_from_its_canonical_json(tree: Tree) -> None:
    data = dumps(tree)
    again = check_tree(msgspec.json.decode(data, type=Tree))
    assert again == tree
    assert dumps(again) == data


@given(trees(), st.data())
def test_a_tree_with_one_broken_field_is_refused(tree: Tree, data: st.DataObject) -> None:
    assume(tree.attempts > 0)
    number = data.draw(st.integers(1, tree.attempts))
    node = tree.nodes[number]
    broken: dict[str, object] = data.draw(
        st.sampled_from(
            [
                {"id": node.id + 1},
                {"parent": None},
                {"parent": node.id},
                {"parent": tree.attempts + 1},
                {"parent": -1},
                {"branch": node.branch + 1},
                {"depth": node.depth + 1},
                {"score": math.nan},
                {"score": math.inf},
                {"status": None},
                {"status": Status.TIMEOUT, "score": 1.0},
            ]
        )
    )
    with pytest.raises(TreeError, match=r"expected"):
        check_tree(_with_node(tree, number, **broken))


@given(trees(), st.sampled_from([{"parent": 0}, {"depth": 1}, {"branch": 0}, {"score": math.nan}]))
def test_a_tree_with_a_broken_root_is_refused(tree: Tree, broken: dict[str, object]) -> None:
    with pytest.raises(TreeError, match=r"node 0"):
        check_tree(_with_node(tree, ROOT, **broken))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_a_tree_with_a_scale_that_is_no_positive_number_is_refused(scale: float) -> None:
    with pytest.raises(TreeError, match=r"scale"):
        check_tree(msgspec.structs.replace(table_tree([[0.5]]), scale=scale))


def test_a_tree_without_nodes_is_refused() -> None:
    with pytest.raises(TreeError, match=r"no nodes"):
        check_tree(msgspec.structs.replace(table_tree([]), nodes=()))


@given(trees("any"))
def test_a_chain_tree_is_one_whose_nodes_below_the_root_have_one_child(tree: Tree) -> None:
    parents = [node.parent for node in tree.nodes if node.parent]
    claimed = msgspec.structs.replace(tree, eligibility="chain")
    if len(parents) == len(set(parents)):
        assert check_tree(claimed) is claimed
    else:
        with pytest.raises(TreeError, match=r"second child"):
            check_tree(claimed)


@given(trees())
def test_best_is_the_first_greatest_ok_attempt_and_never_the_root_or_a_failure(tree: Tree) -> None:
    succeeded = [node for node in tree.nodes[1:] if node.status is OK]
    if succeeded:
        top = max(node.score for node in succeeded)
        assert tree.best == next(node for node in succeeded if node.score == top)
    else:
        assert tree.best is None
    root = tree.nodes[ROOT]
    assert tree.baseline == (root.score if root.status is OK else None)


def _legal(view: TreeView, eligibility: str) -> list[int]:
    if eligibility == "any":
        return [node.id for node in view.nodes]
    parents = {node.parent for node in view.nodes}
    return [ROOT] + [node.id for node in view.nodes[1:] if node.id not in parents]


@given(trees(), st.integers(0, 1 << 30), st.integers(1, 9))
def test_the_frontier_is_the_sequence_of_the_root_and_the_eligible_nodes_in_order(
    tree: Tree, seed: int, limit: int
) -> None:
    world, policy = ReplayWorld(Record(tree)), RandomPolicy(seed)
    view = world.view()
    while batch := policy.select_batch(view, limit):
        expected = _legal(view, tree.eligibility)
        frontier = view.frontier
        assert list(frontier) == expected
        assert len(frontier) == len(expected)
        assert [number for number in range(-2, len(view.nodes) + 2) if number in frontier] == (
            expected
        )
        assert list(reversed(frontier)) == expected[::-1]
        assert frontier[-1] == expected[-1]
        assert list(frontier[1:3]) == expected[1:3]
        assert frontier.index(expected[-1]) == len(expected) - 1
        with pytest.raises(IndexError, match=r"asked for position"):
            frontier[len(expected)]
        world.advance(batch)


@given(
    trees(),
    st.integers(0, 1 << 30),
    st.lists(st.one_of(st.integers(-2, 12), st.booleans(), st.sampled_from([1.0, "1", None]))),
)
def test_a_batch_is_accepted_when_it_names_eligible_ids_each_once_but_the_root(
    tree: Tree, seed: int, batch: list[object]
) -> None:
    world = ReplayWorld(Record(tree))
    world.advance(RandomPolicy(seed).select_batch(world.view(), 6))
    legal = _legal(world.view(), tree.eligibility)
    others = [parent for parent in batch if parent != ROOT]
    fine = (
        all(type(parent) is int for parent in batch)
        and all(parent in legal for parent in batch)
        and len(others) == len(set(others))
    )
    assert world.view().frontier.accepts(batch) is fine  # type: ignore[arg-type]


def test_in_a_tree_that_branches_anywhere_every_revealed_id_is_legal_and_no_other() -> None:
    world = ReplayWorld(Record(table_tree([[0.1, 0.2], [0.3]]), "any"))
    world.advance([ROOT, ROOT])
    frontier = world.view().frontier
    assert frontier.accepts([ROOT, 2, 1, ROOT])
    assert frontier.accepts([2])
    for beyond in (3, -1):
        assert not frontier.accepts([beyond])
        assert not frontier.accepts([1, beyond])


@given(st.lists(trees("chain", max_attempts=6), min_size=2, max_size=4), st.booleans())
def test_a_pool_of_several_tasks_or_evaluators_is_refused(
    members: list[Tree], evaluators: bool
) -> None:
    field = "evaluator" if evaluators else "task"
    members[-1] = msgspec.structs.replace(members[-1], **{field: "another"})
    with pytest.raises(TreeError, match=r"pool mixes (tasks|evaluator versions): another"):
        make_pool(members)


def test_a_pool_without_trees_is_refused() -> None:
    with pytest.raises(TreeError, match=r"no trees"):
        make_pool([])


@given(st.lists(trees(max_attempts=8), min_size=1, max_size=4))
def test_one_tree_that_branches_anywhere_makes_the_whole_pool_so(members: list[Tree]) -> None:
    pool = make_pool(members)
    assert (pool.eligibility == "any") == any(tree.eligibility == "any" for tree in members)
    assert pool.scale == members[0].scale


@given(
    st.lists(trees(max_attempts=8), min_size=1, max_size=4),
    st.one_of(st.none(), st.floats(-3, 3)),
)
def test_quality_without_success_is_the_floor_then_the_root_then_the_lowest_score_then_zero(
    members: list[Tree], floor: float | None
) -> None:
    pool = make_pool(members, floor=floor)
    lowest = min(
        (node.score for tree in members for node in tree.nodes[1:] if node.status is OK),
        default=0.0,
    )
    for tree in members:
        if floor is not None:
            assert pool.fallback(tree) == floor
        elif tree.baseline is not None:
            assert pool.fallback(tree) == tree.baseline
        else:
            assert pool.fallback(tree) == lowest


def test_a_node_reads_no_field_that_is_missing() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"branch"):
        msgspec.json.decode(b'{"id":0,"parent":null}', type=Node)
