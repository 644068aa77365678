"""Plans see finished rollouts of earlier rounds: the same online and in replay, and no others."""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from daydream.canonical import JsonValue
from daydream.isolation import Seat, SeatedPolicy, replay_apart
from daydream.manifests import MOST, MOST_SCORES, Archive, manifest
from daydream.objective import Objective
from daydream.policies.optimal_policy import GridContext, GridPlan, Question, Solving
from daydream.policies.python_file import PythonFileSpec
from daydream.policy_child import Reply, Turn
from daydream.replay import Record, ReplayWorld, replay
from daydream.search import Outcome, World, solve
from daydream.selection import Scorer, Settings, records_of
from daydream.testing.strategies import tables, trees
from daydream.testing.worlds import RandomPolicy, Setting, Shown, TableWorld, table_tree
from daydream.tree import Before, Grid, Tree, make_pool

PLANS = """
class OptimalPolicy:
    config = {"beta": 0.25}

    def plan_grid(self, context):
        best = [m.best for m in context.manifests if m.best is not None]
        deep = [m.opened_depth for m in context.manifests] + [1]
        caps = context.max_branches or 9, context.max_depth or 9
        width = 1 + len(context.manifests) + (best != [] and best[-1] > 0.2)
        return GridPlan(min(width, caps[0]), min(1 + max(deep), caps[1]))

    def solve(self, question, budget=None):
        while question.legal_actions():
            question.probe_batch(question.legal_actions())
"""


def _numbered(pool: Sequence[Tree], rounds: Sequence[int]) -> list[Tree]:
    return [
        msgspec.structs.replace(tree, round=number, task="t", evaluator="e", scale=1.0)
        for tree, number in zip(pool, rounds, strict=True)
    ]


def _told(world: World, seed: int) -> tuple[list[bytes], list[Before]]:
    """Play ``world`` as a file that plans would; return the messages and what stood before."""
    sent: list[bytes] = []
    policy = RandomPolicy(seed, batches=8)

    def ask(turn: Turn) -> Reply:
        sent.append(msgspec.msgpack.encode(turn))
        return Reply(0, tuple(policy.select_batch(world.view(), 6)))

    solve(SeatedPolicy(Seat(0, plans=True), ask), world, limit=6, max_batches=20)
    return sent, [world.view().before()]


@given(
    tables(),
    st.lists(st.integers(0, 1 << 20), min_size=1, max_size=5),
    st.sampled_from([None, 3]),
    st.sampled_from([None, 4]),
)
def test_a_live_round_and_its_replay_later_on_tell_a_plan_the_same_bytes(
    verdict: Callable[[int, int], Shown],
    seeds: list[int],
    branches: int | None,
    depth: int | None,
) -> None:
    caps = Grid(max_branches=branches, max_depth=depth)
    finished: list[Tree] = []
    live: list[tuple[list[bytes], list[Before]]] = []
    for number, seed in enumerate(seeds, start=1):
        setting = Setting(branches=branches, depth=depth)
        world = TableWorld(verdict, setting, Archive(finished).before(number, caps))
        live.append(_told(world, seed))
        done = msgspec.structs.replace(world.tree("parallel_refine-w3-d2"), round=number, grid=caps)
        finished.append(done)
    for record, seed, (sent, before) in zip(
        records_of(make_pool(finished)), seeds, live, strict=True
    ):
        again, stood = _told(ReplayWorld(record), seed)
        assert again == sent[: len(again)]
        assert stood == before
        assert [m.round for m in stood[0].manifests] == list(range(1, record.round))


@given(st.lists(trees("chain"), min_size=2, max_size=6), st.integers(1, 4))
def test_worlds_held_out_tell_what_the_whole_run_had_seen(pool: list[Tree], kept: int) -> None:
    numbered = tuple(_numbered(pool, range(1, len(pool) + 1)))
    whole = make_pool(numbered)
    part = msgspec.structs.replace(whole, trees=numbered[kept:], known=numbered)
    told = [record.before() for record in records_of(whole)]
    assert [record.before() for record in records_of(part)] == told[kept:]


@settings(max_examples=3)
@given(
    st.lists(trees("chain", max_attempts=20), min_size=1, max_size=8),
    st.lists(st.integers(1, 5), min_size=8, max_size=8),
    st.integers(1, 9),
)
def test_a_plan_in_a_process_of_its_own_is_the_plan_made_here(
    pool: list[Tree], rounds: list[int], limit: int
) -> None:
    records = records_of(make_pool(_numbered(pool, rounds[: len(pool)])))
    spec = PythonFileSpec("plans.py", PLANS)
    trusted = msgspec.structs.replace(spec, trusted=True)
    expected = [
        replay(lambda: trusted.build(1.0), tree, record=record, limit=limit, max_batches=40)
        for tree, record in zip(pool, records, strict=True)
    ]
    assert replay_apart(spec, records, limit=limit, max_batches=40) == [
        Outcome(done.attempts, done.batches, done.off_record, done.best) for done in expected
    ]


REMEMBERS = """
import math

class OptimalPolicy:
    def plan_grid(self, context):
        known = getattr(math, "known", {})
        math.known = {**known, **{m.round: m.probes for m in context.manifests}}
        mine = 1 + len(context.manifests)
        # What no honest file can know: how its own world ended.
        return GridPlan(known.get(mine, 2), 1)

    def solve(self, question, budget=None):
        while question.legal_actions():
            question.probe_batch(question.legal_actions())
"""


def test_no_process_hears_of_a_world_before_it_is_played() -> None:
    pool = [
        msgspec.structs.replace(table_tree([[0.1 * n]] * (n + 3)), round=n) for n in range(1, 8)
    ]
    found = replay_apart(
        PythonFileSpec("remembers.py", REMEMBERS),
        records_of(make_pool(pool[::-1])),
        limit=8,
        max_batches=9,
    )
    assert [outcome.attempts for outcome in found] == [2] * 7


def test_a_plan_beyond_the_record_earns_nothing_in_replay() -> None:
    tree = table_tree([[0.1, 0.3], [0.2, 0.5]])
    wide, exact = (
        PythonFileSpec("w.py", HEAD + plan + SOLVE, trusted=True)
        for plan in (_planning(9, 9), _planning(2, 2))
    )
    scorer = Scorer(make_pool([tree]), Settings(objective=Objective()))
    beyond, within = scorer.score([wide, exact])
    assert within.worlds[0].off_record == 0
    assert beyond.worlds[0].off_record > 0
    assert beyond.worlds[0].breakdown.attempts == tree.attempts
    assert beyond.worlds[0].breakdown.quality == within.worlds[0].breakdown.quality
    assert beyond.mean <= within.mean


def _planning(width: int, depth: int) -> str:
    return f"    def plan_grid(self, context):\n        return GridPlan({width}, {depth})\n\n"


HEAD = 'class OptimalPolicy:\n    config = {"beta": 0.25}\n\n'
SOLVE = PLANS[PLANS.index("    def solve") :]


def test_a_manifest_says_what_a_rollout_came_to() -> None:
    tree = msgspec.structs.replace(
        table_tree([[0.1, 0.3], [None, None, 0.5], [None]]),
        round=4,
        policy="adaptive-w6-d8-p3-g0.02",
        grid=Grid(max_branches=3),
    )
    told = manifest(tree)
    assert (told.round, told.probes, told.batches, told.best) == (4, 6, 3, 0.5)
    assert (told.planned_width, told.planned_depth) == (6, 8)
    assert (told.effective_width, told.effective_depth) == (3, 8)
    assert (told.opened_width, told.opened_depth) == (3, 3)
    assert (told.scores, told.beta, told.baseline) == ((0.3, 0.5, None), None, None)
    planned = msgspec.structs.replace(tree, policy="w-w2.py@0a", grid=Grid(5, 7, 0.4))
    told = manifest(planned)
    assert (told.planned_width, told.planned_depth, told.beta) == (5, 7, 0.4)
    assert manifest(msgspec.structs.replace(planned, grid=None)).planned_width is None


def test_a_plan_sees_the_latest_rollouts_within_bounds() -> None:
    narrow = [msgspec.structs.replace(table_tree([[0.1]]), round=n) for n in range(1, MOST + 9)]
    seen = Archive(narrow).before(MOST + 8)().manifests
    assert [m.round for m in seen] == list(range(8, MOST + 8))
    wide = table_tree([[0.1]] * (MOST_SCORES // 2))
    many = [msgspec.structs.replace(wide, round=n) for n in (1, 2, 3)]
    assert [m.round for m in Archive(many).before(9)().manifests] == [2, 3]


def test_a_trusted_file_is_given_the_same_context() -> None:
    contexts: list[GridContext] = []

    class Plans:
        config: Mapping[str, JsonValue] = {"beta": 0.5}

        def plan_grid(self, context: GridContext) -> GridPlan:
            contexts.append(context)
            return GridPlan(1, 1)

        def solve(self, question: Question, budget: int | None = None) -> None:
            question.probe_batch(question.legal_roots())

    trees_ = [msgspec.structs.replace(table_tree([[0.1], [0.2]]), round=n) for n in (1, 2)]
    record = Record(trees_[1], before=Archive(trees_).before(2, Grid(max_branches=4)))
    policy = Solving(Plans())
    assert solve(policy, ReplayWorld(record), limit=5).attempts == 1
    assert contexts == [GridContext(5, None, 4, None, (manifest(trees_[0]),))]
    assert policy.grid == Grid(1, 1, 0.5)
