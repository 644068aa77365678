"""A policy file in its own process decides as it would here, and cannot tell live from replay."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daydream.errors import PolicyError, PolicyFault
from daydream.isolation import Seat, SeatedPolicy, open_policy, replay_apart
from daydream.policies.python_file import PythonFileSpec
from daydream.policy_child import Reply, Turn
from daydream.replay import Record, ReplayWorld, replay
from daydream.search import Outcome, solve
from daydream.testing.strategies import tables, trees
from daydream.testing.worlds import RandomPolicy, Setting, Shown, TableWorld
from daydream.tree import Status, Tree

ANY_BATCH = """
import random

class Policy:
    def __init__(self, config):
        self.seed = config["seed"]

    def select_batch(self, view, limit):
        scores = [(n.parent, n.branch, n.depth, n.status, n.score, n.exhausted) for n in view.nodes]
        r = random.Random(f"{self.seed} {scores} {view.batches} {view.best} {view.baseline}")
        if view.batches > 12 or (view.batches and r.random() < 0.1):
            return []
        leaves = view.frontier[1:]
        picked = r.sample(leaves, min(len(leaves), r.randint(0, limit)))
        return (picked + [view.root] * r.randint(0, 3) or [view.root])[:limit]
"""
PROBES = """
import random

class OptimalPolicy:
    config = {"beta": 0.5, "seed": 0}

    def plan_grid(self, context):
        return GridPlan(5, 4)

    def solve(self, question, budget=None):
        for step in range(12):
            legal = question.legal_actions()
            known = sorted((i, o.score, o.fail_class) for i, o in question.observed().items())
            r = random.Random(f"{self.config['seed']} {known} {legal} {question.baseline_score}")
            if not legal or r.random() < 0.05:
                return
            question.probe_batch(r.sample(legal, r.randint(1, len(legal))))
"""


def _here(spec: PythonFileSpec, tree: Tree, record: Record, limit: int) -> Outcome | str:
    trusted = msgspec.structs.replace(spec, trusted=True)
    try:
        done = replay(lambda: trusted.build(1.0), tree, record=record, limit=limit, max_batches=40)
    except PolicyError as error:
        return str(error)
    return Outcome(done.attempts, done.batches, done.off_record, done.best)


@settings(max_examples=6)
@given(
    st.lists(trees(), min_size=1, max_size=12),
    st.integers(0, 1 << 20),
    st.integers(1, 9),
    st.sampled_from([ANY_BATCH, PROBES]),
)
def test_an_isolated_replay_is_the_replay_in_process(
    pool: list[Tree], seed: int, limit: int, source: str
) -> None:
    spec = PythonFileSpec("any.py", source, {"seed": seed})
    records = [Record(tree) for tree in pool]
    expected = [_here(spec, t, r, limit) for t, r in zip(pool, records, strict=True)]
    assert replay_apart(spec, records, limit=limit, max_batches=40) == expected


@settings(max_examples=5)
@given(
    st.lists(trees(max_attempts=12), min_size=1, max_size=8),
    st.integers(1, 6),
    st.sampled_from(
        ["[99]", "[0] * 99", "[True]", "[1, 1]", "1 / 0", "[2 ** 80]", "['0']", "[-1]"]
    ),
)
def test_an_isolated_policy_is_disqualified_where_and_why_it_is_in_process(
    pool: list[Tree], when: int, what: str
) -> None:
    source = (
        f"def select_batch(view, limit):\n    return {what} if view.attempts >= {when} else [0]\n"
    )
    spec = PythonFileSpec("bad.py", source)
    records = [Record(tree) for tree in pool]
    expected = [_here(spec, t, r, 8) for t, r in zip(pool, records, strict=True)]
    problems = [(i, text) for i, text in enumerate(expected) if isinstance(text, str)]
    if not problems:
        assert replay_apart(spec, records, limit=8, max_batches=40) == expected
        return
    with pytest.raises(PolicyFault) as caught:
        replay_apart(spec, records, limit=8, max_batches=40)
    assert (caught.value.world, caught.value.reason) == problems[0]


def _messages(policy: RandomPolicy, sent: list[bytes]) -> Callable[[TableWorld | ReplayWorld], int]:
    """Return a rollout whose batches come from ``policy`` and whose messages land in ``sent``."""

    def play(world: TableWorld | ReplayWorld) -> int:
        def ask(turn: Turn) -> Reply:
            sent.append(msgspec.msgpack.encode(turn))
            return Reply(0, tuple(policy.select_batch(world.view(), 6)))

        return solve(SeatedPolicy(Seat(0), ask), world, limit=6, max_batches=30).batches

    return play


@given(
    tables(),
    st.integers(0, 1 << 20),
    st.sampled_from([None, 3]),
    st.sampled_from([None, 4]),
    st.sampled_from([None, 0.25]),
)
def test_the_messages_of_a_live_world_and_of_its_record_are_the_same_bytes(
    verdict: Callable[[int, int], Shown],
    seed: int,
    branches: int | None,
    depth: int | None,
    baseline: float | None,
) -> None:
    live: list[bytes] = []
    recorded: list[bytes] = []
    world = TableWorld(verdict, Setting(branches=branches, depth=depth, baseline=baseline))
    _messages(RandomPolicy(seed, batches=12), live)(world)
    _messages(RandomPolicy(seed, batches=12), recorded)(ReplayWorld(Record(world.tree())))
    # A replay ends as soon as the record does; up to there nothing differs.
    assert recorded == live[: len(recorded)]
    assert len(recorded) >= min(2, len(live))


FINGERPRINT = """
import gc, os, sys, types

def _census():
    kinds = {}
    for thing in gc.get_objects():
        name = type(thing).__module__ + "." + type(thing).__qualname__
        kinds[name] = kinds.get(name, 0) + 1
    return sorted(kinds.items())

class Policy:
    def select_batch(self, view, limit):
        if view.batches < 3:
            return [view.root] * 2
        frames, frame = [], sys._getframe()
        while frame is not None:
            shown = {
                k: str(v)[:400]
                for k, v in frame.f_locals.items()
                if type(v) in (int, str) or type(v).__name__ in ("File", "Lock", "Turn", "Root")
            }
            frames.append((frame.f_code.co_name, sorted(shown.items())))
            frame = frame.f_back
        seen = (
            [str(n) for n in view.nodes], list(view.frontier), view.batches, view.best, limit,
            sys.argv, sys.path, sys.flags, dict(os.environ), sorted(sys.modules), hash("a"),
            _census(), frames,
        )
        raise RuntimeError(hash(str(seen)))
"""


def test_a_policy_sees_the_same_process_live_and_in_replay() -> None:
    spec = PythonFileSpec("spy.py", FINGERPRINT)

    def verdict(branch: int, depth: int) -> Shown:
        return Shown(Status.OK, 0.1 * branch + 0.01 * depth, None)

    world = TableWorld(verdict)
    _messages(RandomPolicy(3), [])(world)
    record = Record(world.tree())
    with (
        pytest.raises(PolicyFault, match=r"RuntimeError: -?[0-9]+; fix it") as live,
        open_policy(spec, 1.0, limit=8) as policy,
    ):
        solve(policy, TableWorld(verdict), limit=8, max_batches=9)
    with pytest.raises(PolicyFault) as replayed:
        replay_apart(spec, [record], limit=8, max_batches=9)
    assert (replayed.value.reason, replayed.value.batch) == (live.value.reason, live.value.batch)
    assert live.value.batch == 4
