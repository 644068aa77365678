"""What a developer starts from: a file that decides exactly as the built-in policy it shows."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from daydream.isolation import replay_apart
from daydream.policies.adaptive import Adaptive
from daydream.policies.base import PolicySpec
from daydream.policies.parallel_refine import ParallelRefine
from daydream.policies.python_file import PythonFileSpec
from daydream.proposers.developer import FILE, source_of
from daydream.replay import Record, ReplayWorld
from daydream.search import Outcome, Revealed, solve
from daydream.testing.strategies import adaptives, limits, parallel_refines, scales, trees
from daydream.testing.worlds import table_tree
from daydream.tree import Batch, Tree, TreeView


class _Noted:
    """A replay that keeps its batches."""

    def __init__(self, record: Record) -> None:
        self._world = ReplayWorld(record)
        self.batches: list[list[int]] = []

    def view(self) -> TreeView:
        return self._world.view()

    def advance(self, batch: Batch) -> Revealed:
        self.batches.append(list(batch))
        return self._world.advance(batch)


def _batches(spec: PolicySpec, tree: Tree, scale: float, limit: int) -> list[list[int]]:
    world = _Noted(Record(tree))
    solve(spec.build(scale), world, limit=limit, max_batches=60)
    return world.batches


# A gain of 0.12 - 0.1 is a little less than 0.02 in floats, and counts as 0.02.
@example(table_tree([[0.1, 0.12, 0.14, 0.16]]), Adaptive(1, 4, 1, 0.02), 4, 1.0)
@example(table_tree([[0.1, 0.2]]), Adaptive(2, 4, 1, 1e308), 4, 10.0)
@example(table_tree([[0.1, 0.2]]), ParallelRefine(10**9, 4), 3, 1.0)
@given(trees(), st.one_of(parallel_refines(), adaptives()), limits(), scales())
def test_the_file_of_a_built_in_policy_names_the_same_batches(
    tree: Tree, spec: ParallelRefine | Adaptive, limit: int, scale: float
) -> None:
    file = PythonFileSpec(FILE, source_of(spec, scale), trusted=True)
    assert _batches(file, tree, scale, limit) == _batches(spec, tree, scale, limit)


@settings(max_examples=3)
@given(
    st.lists(trees(max_attempts=20), min_size=1, max_size=6),
    st.one_of(parallel_refines(), adaptives()),
    limits(),
    scales(),
)
def test_the_file_replays_isolated_as_the_built_in_policy_does_here(
    pool: list[Tree], spec: ParallelRefine | Adaptive, limit: int, scale: float
) -> None:
    records = [Record(tree) for tree in pool]
    done = [
        solve(spec.build(scale), ReplayWorld(record), limit=limit, max_batches=60)
        for record in records
    ]
    file = PythonFileSpec(FILE, source_of(spec, scale))
    assert replay_apart(file, records, limit=limit, max_batches=60) == [
        Outcome(one.attempts, one.batches, one.off_record, one.best) for one in done
    ]


def test_the_file_of_a_file_is_its_source() -> None:
    spec = PythonFileSpec(FILE, "def select_batch(view, limit):\n    return []\n", {"beta": 1})
    assert source_of(spec, 1.0) == spec.source
