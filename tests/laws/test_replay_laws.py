"""Replay: what a recorded search reveals, when it ends, and what it counts."""

from collections import Counter
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daydream.errors import PolicyError
from daydream.objective import Objective
from daydream.policies.adaptive import Adaptive
from daydream.policies.base import PolicySpec
from daydream.policies.parallel_refine import ParallelRefine
from daydream.replay import Record, ReplayWorld, replay, score_world
from daydream.search import Policy, World, check_batch, solve
from daydream.testing.strategies import limits, specs, tables, trees
from daydream.testing.worlds import RandomPolicy, Setting, Shown, TableWorld
from daydream.tree import OK, ROOT, Node, Tree, TreeView, VisibleNode, make_pool

Table = Callable[[int, int], Shown]
seeds = st.integers(0, 1 << 30)


def _shown(node: VisibleNode | Node) -> tuple[object, ...]:
    return (node.branch, node.depth, node.status, node.score, node.error_class)


class _Watched:
    """A policy that also notes every batch, and every view as it stood before it."""

    def __init__(self, inner: Policy) -> None:
        self._inner = inner
        self.batches: list[list[int]] = []
        self.prefixes: list[list[VisibleNode]] = []

    def select_batch(self, view: TreeView, limit: int) -> list[int]:
        batch = list(self._inner.select_batch(view, limit))
        self.prefixes.append(list(view.nodes))
        if batch:
            self.batches.append(batch)
        return batch


@given(trees(), seeds, limits())
def test_a_view_only_grows_and_changes_no_node_but_to_mark_it_exhausted(
    tree: Tree, seed: int, limit: int
) -> None:
    watched = _Watched(RandomPolicy(seed))
    rollout = replay(lambda: watched, tree, limit=limit)
    for before, after in zip(
        watched.prefixes, [*watched.prefixes[1:], rollout.view.nodes], strict=True
    ):
        assert len(after) <= len(before) + limit
        for old, new in zip(before, after, strict=False):
            assert new == old or new == msgspec.structs.replace(old, exhausted=True)
    assert [node.id for node in rollout.view.nodes] == list(range(len(rollout.view.nodes)))


def _reachable(view: TreeView) -> list[object]:
    """Return every object that a policy can get at by following the attributes of its view."""
    found: list[object] = []
    known: set[int] = set()
    left: list[object] = [view]
    while left:
        thing = left.pop()
        if id(thing) in known:
            continue
        known.add(id(thing))
        found.append(thing)
        if isinstance(thing, dict):
            left += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set):
            left += thing
        elif isinstance(thing, VisibleNode):
            left += msgspec.structs.astuple(thing)
        else:
            slots = [
                name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())
            ]
            names = [*slots, *vars(thing)] if hasattr(thing, "__dict__") else slots
            left += [getattr(thing, name) for name in names if hasattr(thing, name)]
    return found


@given(trees(), seeds, limits())
def test_a_view_holds_nothing_that_is_not_revealed(tree: Tree, seed: int, limit: int) -> None:
    view = replay(lambda: RandomPolicy(seed, batches=3), tree, limit=limit).view
    found = _reachable(view)
    assert not [thing for thing in found if isinstance(thing, Node | Tree | Record | ReplayWorld)]
    assert len([thing for thing in found if isinstance(thing, VisibleNode)]) == len(view.nodes)
    assert view.attempts == len(view.nodes) - 1


@given(trees(), seeds, limits())
def test_what_is_revealed_is_stored_and_each_pick_shows_the_earliest_child_left(
    tree: Tree, seed: int, limit: int
) -> None:
    watched = _Watched(RandomPolicy(seed))
    view = replay(lambda: watched, tree, limit=limit).view
    stored: dict[int, list[Node]] = {node.id: [] for node in tree.nodes}
    for node in tree.nodes[1:]:
        stored[node.parent or ROOT].append(node)
    origin = {ROOT: ROOT}
    revealed = iter(view.nodes[1:])
    for parent in (parent for batch in watched.batches for parent in batch):
        left = stored[origin[parent]]
        if left:
            child, seen = left.pop(0), next(revealed)
            assert seen.parent == parent
            assert _shown(seen) == _shown(child)
            origin[seen.id] = child.id
    assert next(revealed, None) is None
    assert view.branches == sum(node.depth == 1 for node in view.nodes)
    assert view.best == max((node.score for node in view.nodes[1:] if node.ok), default=None)


@given(trees(), seeds, limits())
def test_empty_slots_count_as_off_the_record_and_mark_their_parent_exhausted(
    tree: Tree, seed: int, limit: int
) -> None:
    watched = _Watched(RandomPolicy(seed))
    rollout = replay(lambda: watched, tree, limit=limit)
    picks = sum(map(len, watched.batches))
    assert rollout.off_record == picks - rollout.attempts
    assert rollout.batches == len(watched.batches) == len(rollout.sizes)
    assert rollout.sizes == tuple(map(len, watched.batches))
    picked = Counter(parent for batch in watched.batches for parent in batch)
    got = Counter(node.parent for node in rollout.view.nodes[1:])
    for node in rollout.view.nodes:
        assert node.exhausted == (picked[node.id] > got[node.id])


@given(trees(), seeds, limits())
def test_a_replay_ends_exactly_when_no_eligible_node_has_a_recorded_child_left(
    tree: Tree, seed: int, limit: int
) -> None:
    world, policy = ReplayWorld(Record(tree)), RandomPolicy(seed, batches=60)
    view = world.view()
    left: dict[int, list[int]] = {node.id: [] for node in tree.nodes}
    for node in tree.nodes[1:]:
        left[node.parent or ROOT].append(node.id)
    origin = {ROOT: ROOT}
    while batch := policy.select_batch(view, limit):
        check_batch(view, batch, limit)
        revealed = world.advance(batch)
        for seen in revealed.nodes:
            origin[seen.id] = left[origin[seen.parent]].pop(0)
        assert revealed.ended == (not any(left[origin[number]] for number in view.frontier))
        if revealed.ended:
            assert view.attempts == tree.attempts
            break


@given(trees("any"), seeds, limits())
def test_a_branching_record_under_chain_rules_ends_when_first_children_are_revealed(
    tree: Tree, seed: int, limit: int
) -> None:
    # Second children of leaves can then never be reached, and must not keep the replay open.
    record = Record(tree, "chain")
    rollout = replay(lambda: RandomPolicy(seed, batches=200), tree, record=record, limit=limit)
    children = Counter(node.parent for node in rollout.view.nodes)
    assert all(count == 1 for parent, count in children.items() if parent > ROOT)
    assert rollout.attempts <= record.reachable <= tree.attempts
    wide = ParallelRefine(width=40, depth=40)
    assert replay(lambda: wide.build(1.0), tree, record=record).attempts == record.reachable


def _record(policy: Policy, table: Table, setting: Setting) -> tuple[Tree, TreeView, int]:
    world = TableWorld(table, setting)
    rollout = solve(policy, world, limit=setting.limit, max_batches=40)
    return world.tree(), rollout.view, rollout.off_record


@given(specs(), tables(), limits(), st.one_of(st.none(), st.floats(-1, 1)))
def test_replaying_the_recording_policy_on_its_own_tree_gives_the_same_rollout(
    spec: PolicySpec, table: Table, limit: int, baseline: float | None
) -> None:
    setting = Setting(depth=12, baseline=baseline, limit=limit)
    tree, view, empty = _record(spec.build(1.0), table, setting)
    again = replay(lambda: spec.build(1.0), tree, limit=limit, max_batches=40)
    assert again.view.nodes[1:] == view.nodes[1:] or empty > 0
    assert list(map(_shown, again.view.nodes)) == list(map(_shown, view.nodes))
    assert [node.parent for node in again.view.nodes] == [node.parent for node in view.nodes]
    assert again.batches == max(node.batch for node in tree.nodes)
    pool = make_pool([tree])
    if empty == 0:
        assert again.batches == view.batches
        assert again.off_record == 0
        online = msgspec.structs.replace(again, attempts=view.attempts, batches=view.batches)
        assert score_world(pool, tree, Objective(), online, limit=limit) == (
            score_world(pool, tree, Objective(), again, limit=limit)
        )


@given(seeds, tables(), limits(), st.sampled_from(["chain", "any"]))
def test_replaying_any_recording_policy_gives_its_nodes_and_marks_up_to_the_end(
    seed: int, table: Table, limit: int, eligibility: str
) -> None:
    setting = Setting(branches=4, depth=4, limit=limit)
    setting = msgspec.structs.replace(setting, eligibility=eligibility)
    world = TableWorld(table, setting)
    online = _Watched(RandomPolicy(seed))
    view = solve(online, world, limit=limit).view
    offline = _Watched(RandomPolicy(seed))
    again = replay(lambda: offline, world.tree(), limit=limit)
    assert list(map(_shown, again.view.nodes)) == list(map(_shown, view.nodes))
    # Where no pick came back empty online, replay knows no less than the online world did.
    if not any(node.exhausted for node in view.nodes):
        assert offline.prefixes == online.prefixes[: len(offline.prefixes)]
        assert offline.batches == online.batches[: len(offline.batches)]


def _refusal(world: World, batch: list[int], limit: int) -> str | None:
    try:
        check_batch(world.view(), batch, limit)
    except PolicyError as error:
        return str(error)
    return None


@given(
    tables(),
    seeds,
    st.sampled_from(["chain", "any"]),
    st.lists(st.one_of(st.integers(-1, 9), st.sampled_from([True, 1.0, "1", None])), max_size=7),
)
def test_a_batch_is_refused_with_the_same_words_online_and_in_replay(
    table: Table, seed: int, eligibility: str, batch: list[int]
) -> None:
    setting = msgspec.structs.replace(Setting(limit=4), eligibility=eligibility)
    online = TableWorld(table, setting)
    solve(RandomPolicy(seed, batches=3), online, limit=4)
    twin = TableWorld(table, setting)
    solve(RandomPolicy(seed, batches=6), twin, limit=4)
    offline = ReplayWorld(Record(twin.tree()))
    solve(RandomPolicy(seed, batches=3), offline, limit=4)
    assert list(map(_shown, offline.view().nodes)) == list(map(_shown, online.view().nodes))
    problem = _refusal(online, batch, 5)
    assert problem == _refusal(offline, batch, 5)
    legal = list(online.view().frontier)
    others = [parent for parent in batch if parent != ROOT]
    assert (problem is None) == (
        len(batch) <= 5
        and all(type(parent) is int and parent in legal for parent in batch)
        and len(set(others)) == len(others)
    )


def test_the_root_may_be_named_often_and_a_leaf_once() -> None:
    world = TableWorld(lambda branch, depth: Shown(OK, 0.1 * branch + depth, None))
    check_batch(world.view(), [ROOT] * 8, 8)
    assert len(world.advance([ROOT] * 8).nodes) == 8
    check_batch(world.view(), [1, ROOT, 2, ROOT], 8)
    with pytest.raises(PolicyError, match=r"named node 2 twice in batch 2"):
        check_batch(world.view(), [2, 1, 2], 8)
    with pytest.raises(PolicyError, match=r"9 parents in batch 2 \(expected at most 8\)"):
        check_batch(world.view(), [ROOT] * 9, 8)
    world.advance([1])
    with pytest.raises(PolicyError, match=r"named parent 1 in batch 3"):
        check_batch(world.view(), [1], 8)


@given(trees(), st.integers(1, 9), st.integers(1, 9), limits(), st.integers(0, 3))
def test_patience_of_at_least_depth_minus_one_never_prunes(
    tree: Tree, width: int, depth: int, limit: int, more: int
) -> None:
    patient = Adaptive(width, depth, max(1, depth - 1 + more), 1e9)
    fixed = ParallelRefine(width, depth)
    ours = replay(lambda: patient.build(tree.scale), tree, limit=limit)
    theirs = replay(lambda: fixed.build(tree.scale), tree, limit=limit)
    assert ours.view.nodes == theirs.view.nodes
    assert (ours.sizes, ours.off_record, ours.best) == (
        theirs.sizes,
        theirs.off_record,
        theirs.best,
    )


@given(trees(), specs(), st.integers(0, 6), limits())
def test_the_cap_on_batches_cuts_a_replay_and_changes_nothing_before_the_cut(
    tree: Tree, spec: PolicySpec, most: int, limit: int
) -> None:
    whole = replay(lambda: spec.build(tree.scale), tree, limit=limit)
    cut = replay(lambda: spec.build(tree.scale), tree, limit=limit, max_batches=most)
    assert cut.batches == min(most, whole.batches)
    assert cut.sizes == whole.sizes[:most]
    assert list(map(_shown, cut.view.nodes)) == list(
        map(_shown, whole.view.nodes[: len(cut.view.nodes)])
    )


@given(trees(), seeds)
def test_a_record_serves_any_number_of_replays_unchanged(tree: Tree, seed: int) -> None:
    record = Record(tree)
    first = replay(lambda: RandomPolicy(seed), tree, record=record)
    second = replay(lambda: RandomPolicy(seed), tree, record=record)
    fresh = replay(lambda: RandomPolicy(seed), tree)
    assert first.view.nodes == second.view.nodes == fresh.view.nodes
    assert first.sizes == second.sizes == fresh.sizes
