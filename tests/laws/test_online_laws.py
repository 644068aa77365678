"""The online world: numbering, seeds, caps, failures and workers, as replay expects them."""

import threading
from collections.abc import Mapping
from typing import Literal

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from daydream.agents.base import AttemptContext, Proposal
from daydream.canonical import seed_of
from daydream.errors import AgentError
from daydream.online import Attempt, Attempts, OnlineSettings, OnlineWorld, Plan, Start
from daydream.policies.base import PolicySpec
from daydream.policies.parallel_refine import ParallelRefine
from daydream.replay import replay
from daydream.search import solve
from daydream.tasks.base import Artifact, Evaluation, TaskInfo, failed, json_artifact, ok, read_json
from daydream.testing.strategies import limits, specs
from daydream.tree import Node, Status, Tree, check_tree

INFO = TaskInfo(
    name="numbers",
    title="numbers",
    statement="propose a number",
    evaluator="1",
    policy="parallel_refine-w2-d2",
    agent="",
)


class Numbers:
    """Scores the number in the artifact; refuses negative ones, raises at 13."""

    def __init__(self) -> None:
        self.info = INFO
        self.evaluated = 0

    def root(self) -> Artifact:
        return json_artifact({"number": 0})

    def evaluate(self, artifact: Artifact) -> Evaluation:
        self.evaluated += 1
        value = read_json(artifact)
        number = value["number"] if isinstance(value, Mapping) else None
        if not isinstance(number, int) or not number >= 0:
            return failed("negative", "the number is negative")
        if number == 13:
            raise RuntimeError("thirteen")
        return ok(number / 100)


class FromSeed:
    """Proposes a number that its seed and its parent decide."""

    name = "from-seed"
    where: Literal["inline", "process"] = "inline"
    deterministic = True

    def propose(self, context: AttemptContext) -> Proposal:
        before = read_json(context.parent)
        base = before["number"] if isinstance(before, Mapping) else 0
        number = (context.world_seed + (base if isinstance(base, int) else 0)) % 40 - 4
        if number == 30:
            raise AgentError("nothing came to mind")
        return Proposal(json_artifact({"number": number}))


class Memory:
    """A ledger that keeps everything and never stops."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.threads: set[int] = set()

    def finished(self, batch: int, slot: int) -> Attempt | None:
        return None

    def may_dispatch(self) -> None:
        self.threads.add(threading.get_ident())

    def dispatched(self, plan: Plan) -> None:
        self.threads.add(threading.get_ident())

    def line(self, plan: Plan) -> None:
        self.threads.add(threading.get_ident())

    def record(self, attempt: Attempt) -> None:
        self.threads.add(threading.get_ident())
        self.attempts.append(attempt)


def _grow(
    spec: PolicySpec, limit: int, settings: OnlineSettings, workers: int = 1
) -> tuple[Tree, Memory, int]:
    task, ledger = Numbers(), Memory()
    start = Start(task.root(), ok(0.0))
    with Attempts(task, FromSeed(), workers=workers) as attempts:
        world = OnlineWorld(attempts, ledger, start, settings)
        solve(spec.build(1.0), world, limit=limit, max_batches=60)
    tree = Tree(
        task=INFO.name,
        evaluator=INFO.evaluator,
        round=settings.round,
        policy=spec.name,
        limit=limit,
        scale=1.0,
        seed=settings.seed,
        nodes=world.nodes,
    )
    return check_tree(tree), ledger, task.evaluated


caps = st.one_of(st.none(), st.integers(1, 5))
settings = st.builds(
    OnlineSettings,
    seed=st.integers(0, 5),
    round=st.integers(1, 3),
    max_branches=caps,
    max_depth=caps,
    fresh=st.booleans(),
)


def _bounded(found: OnlineSettings) -> OnlineSettings:
    return msgspec.structs.replace(
        found, max_branches=found.max_branches or 6, max_depth=found.max_depth or 6
    )


def _by_place(tree: Tree) -> dict[tuple[int, int], Node]:
    return {(node.branch, node.depth): node for node in tree.nodes[1:]}


@given(specs(), specs(), limits(), limits(), settings)
def test_another_policy_or_limit_meets_the_same_attempts_in_the_same_places(
    first: PolicySpec, second: PolicySpec, limit: int, other: int, found: OnlineSettings
) -> None:
    bounded = _bounded(found)
    left = _by_place(_grow(first, limit, bounded)[0])
    right = _by_place(_grow(second, other, bounded)[0])
    for place in left.keys() & right.keys():
        mine, theirs = left[place], right[place]
        assert (mine.artifact, mine.score, mine.status) == (
            theirs.artifact,
            theirs.score,
            theirs.status,
        )


@given(specs(), limits(), settings)
def test_the_recording_policy_replays_to_its_own_tree(
    spec: PolicySpec, limit: int, found: OnlineSettings
) -> None:
    tree, _, _ = _grow(spec, limit, _bounded(found))
    again = replay(lambda: spec.build(1.0), tree, limit=limit, max_batches=60)
    shown = [(n.parent, n.status, n.score) for n in again.view.nodes[1:]]
    assert shown == [(n.parent, n.status, n.score) for n in tree.nodes[1:]]


@given(specs(), limits(), settings)
def test_workers_change_no_node_and_one_thread_keeps_the_ledger(
    spec: PolicySpec, limit: int, found: OnlineSettings
) -> None:
    bounded = _bounded(found)
    alone, _, _ = _grow(spec, limit, bounded)
    together, ledger, _ = _grow(spec, limit, bounded, workers=5)
    assert alone == together
    assert ledger.threads <= {threading.get_ident()}


@given(limits(), settings)
def test_caps_leave_slots_empty_and_are_never_exceeded(limit: int, found: OnlineSettings) -> None:
    tree, _, _ = _grow(ParallelRefine(9, 9), limit, _bounded(found))
    bounded = _bounded(found)
    assert max((n.branch + 1 for n in tree.nodes), default=0) <= (bounded.max_branches or 9)
    assert max(n.depth for n in tree.nodes) <= (bounded.max_depth or 9)
    assert tree.attempts == (bounded.max_branches or 9) * (bounded.max_depth or 9)


@given(limits(), settings)
def test_identical_artifacts_are_evaluated_once_unless_that_failed_by_accident(
    limit: int, found: OnlineSettings
) -> None:
    tree, ledger, evaluated = _grow(ParallelRefine(6, 6), limit, _bounded(found))
    settled = {n.artifact for n in tree.nodes[1:] if n.status in {Status.OK, Status.INVALID}}
    accidents = sum(n.status is Status.ERROR and n.artifact is not None for n in tree.nodes[1:])
    assert evaluated == len(settled) + accidents
    assert sum(a.reused for a in ledger.attempts) == tree.attempts - evaluated - sum(
        n.artifact is None for n in tree.nodes[1:]
    )


def test_what_an_agent_or_an_evaluator_raises_becomes_a_failed_node_with_its_reason() -> None:
    reasons: set[tuple[str | None, str]] = set()
    for seed in range(30):
        _, ledger, _ = _grow(ParallelRefine(6, 4), 8, OnlineSettings(seed=seed))
        reasons |= {
            (a.evaluation.error_class, a.evaluation.message)
            for a in ledger.attempts
            if a.evaluation.status is Status.ERROR
        }
    assert ("RuntimeError", "evaluator raised RuntimeError: thirteen") in reasons
    assert ("AgentError", "agent raised AgentError: nothing came to mind") in reasons


def test_seeds_are_functions_of_the_place_and_the_round_alone() -> None:
    seen: dict[int, list[Plan]] = {}
    for number in (1, 2):
        _, ledger, _ = _grow(ParallelRefine(2, 2), 8, OnlineSettings(seed=7, round=number))
        seen[number] = sorted((a.plan for a in ledger.attempts), key=lambda plan: plan.node)
    for first, second in zip(seen[1], seen[2], strict=True):
        assert first.world_seed == second.world_seed == seed_of(7, first.branch, first.depth)
        assert first.attempt_seed == seed_of(7, 1, first.branch, first.depth)
        assert second.attempt_seed == seed_of(7, 2, first.branch, first.depth)
