"""Scripted agents answer from branch, depth, world seed and parent alone, and their worlds vary."""

from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from daydream.agents.base import Ancestor, AttemptContext
from daydream.agents.load import load_agent
from daydream.agents.scripted.agent import build, methods, parameters
from daydream.errors import UsageError
from daydream.policies.specs import parse_spec
from daydream.proposers.auto import Auto
from daydream.replay import replay
from daydream.selection import select
from daydream.tasks.base import Artifact, failed
from daydream.tasks.load import load_task
from daydream.tree import Status, Tree, make_pool
from tests.unit.tasks.growing import grow, grow_artifacts

COMPUTED = ["lasso", "kernel-layernorm"]


def context(name: str, branch: int, depth: int, world_seed: int = 5) -> AttemptContext:
    task = load_task(name)
    return AttemptContext(
        task=task.info,
        round=1,
        branch=branch,
        depth=depth,
        attempt_seed=77,
        world_seed=world_seed,
        parent=task.root(),
        evaluation=None,
    )


def test_a_task_without_a_method_is_refused_with_those_that_have_one() -> None:
    info = msgspec.structs.replace(load_task("lasso").info, name="my-folder")
    with pytest.raises(UsageError, match=r"no method for task 'my-folder'.*branch-world.*lasso"):
        build("", info)


def test_the_scripted_agent_has_no_options() -> None:
    with pytest.raises(UsageError, match="no options"):
        build("fast", load_task("lasso").info)


def test_private_modules_and_the_builder_are_no_methods() -> None:
    assert {"branch-world", "lasso", "kernel-layernorm"} <= set(methods())
    assert not [name for name in methods() if name.startswith("-") or name == "agent"]


def test_parameters_are_read_off_the_identity() -> None:
    assert parameters(load_task("lasso").info) == {}
    assert parameters(load_task("lasso:instance=12").info) == {"instance": "12"}


def test_an_agent_states_how_it_is_rebuilt_and_run() -> None:
    agent = load_agent("scripted", load_task("branch-world").info)
    assert (agent.name, agent.where, agent.deterministic) == ("scripted", "inline", True)


@pytest.mark.parametrize("name", methods())
@pytest.mark.parametrize("branch", range(4))
def test_an_answer_depends_on_branch_depth_world_seed_and_parent_alone(
    name: str, branch: int
) -> None:
    first = context(name, branch, 1)
    agent, other = (load_agent("scripted", first.task) for _ in range(2))
    opened = agent.propose(first)
    second = msgspec.structs.replace(first, depth=2, parent=opened.artifact)
    for one in (first, second):
        changed = msgspec.structs.replace(
            one,
            round=9,
            attempt_seed=123,
            evaluation=failed("worse", "said by nobody"),
            lineage=(Ancestor(0, "ok", 0.5, None, ""),),
        )
        assert other.propose(changed).artifact.hash == agent.propose(one).artifact.hash


@pytest.mark.parametrize("name", ["branch-world", *COMPUTED])
@pytest.mark.parametrize("data", [b"null", b"[]", b'[["next", "store"]]', b"\xff"])
def test_methods_that_rewrite_programs_start_again_from_a_parent_without_one(
    name: str, data: bytes
) -> None:
    for branch in (0, 3):
        one = context(name, branch, 2)
        broken = msgspec.structs.replace(one, parent=Artifact({"artifact.json": data}))
        child = load_agent("scripted", one.task).propose(broken)
        assert child.artifact.files
        assert load_task(name).evaluate(child.artifact).status in Status


@pytest.mark.parametrize("name", COMPUTED)
def test_artifacts_do_not_depend_on_policy_or_limit(name: str) -> None:
    _, wide = grow_artifacts(name, seed=4)
    _, narrow = grow_artifacts(name, seed=4, policy="parallel_refine-w2-d2")
    assert len(narrow) == 4
    assert {place: wide[place].hash for place in narrow} == {
        place: artifact.hash for place, artifact in narrow.items()
    }


def _gains(tree: Tree) -> list[float]:
    nodes = tree.nodes
    return [
        node.score - nodes[node.parent].score
        for node in nodes[1:]
        if node.parent and node.status is nodes[node.parent].status is Status.OK
    ]


@pytest.mark.parametrize("name", COMPUTED)
def test_a_world_holds_failures_flat_steps_and_real_gains(name: str) -> None:
    trees = [grow(name, seed=seed) for seed in (0, 2)]
    reasons = [node.error_class for tree in trees for node in tree.nodes[1:]]
    failures = [reason for reason in reasons if reason is not None]
    assert 0 < len(failures) < len(reasons) / 2
    assert set(failures) <= {"gap", "order", "mismatch"}
    gains = [gain for tree in trees for gain in _gains(tree)]
    assert max(gains) > 0
    assert min(map(abs, gains)) < 0.01 * max(gains)
    for tree in trees:
        assert tree.best is not None
        assert tree.baseline is not None
        assert tree.best.depth > 1
        assert tree.best.score > 2 * tree.baseline


def _deployed(tree: Tree, start: str) -> tuple[str, int, float | None]:
    selection = select(parse_spec(start), Auto(), make_pool([tree]))
    spec = selection.chosen.spec
    rollout = replay(partial(spec.build, tree.scale), tree)
    return spec.name, rollout.attempts, rollout.best


def test_round_2_of_the_default_run_holds_the_best_for_few_calls() -> None:
    calls = 0
    for name in COMPUTED:
        tree = grow(name)
        _, attempts, best = _deployed(tree, load_task(name).info.policy)
        assert tree.best is not None
        assert best == tree.best.score
        calls += attempts
    assert 4 <= calls <= 8


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPUTED)
def test_over_many_seeds_selection_saves_calls_and_holds_the_best(name: str) -> None:
    policy = load_task(name).info.policy
    attempts = []
    for seed in range(12):
        tree = grow(name, seed=seed)
        _, calls, best = _deployed(tree, policy)
        assert tree.best is not None
        assert best == tree.best.score
        attempts.append(calls)
    assert sum(attempts) / len(attempts) <= 8
    assert len(set(attempts)) > 1


def _hashes(grower: Callable[[], tuple[Tree, dict[tuple[int, int], Artifact]]]) -> list[str]:
    return [artifact.hash for _, artifact in sorted(grower()[1].items())]


@pytest.mark.parametrize("name", COMPUTED)
def test_a_world_is_the_same_every_round_unless_it_is_fresh(name: str) -> None:
    policy = "parallel_refine-w2-d2"
    first = _hashes(lambda: grow_artifacts(name, policy=policy, round_number=1))
    assert _hashes(lambda: grow_artifacts(name, policy=policy, round_number=2)) == first
    fresh = _hashes(lambda: grow_artifacts(name, policy=policy, round_number=2, fresh=True))
    other = _hashes(lambda: grow_artifacts(name, policy=policy, seed=1))
    assert fresh != first
    assert other != first


@pytest.mark.parametrize("name", COMPUTED)
def test_another_instance_is_another_world(name: str) -> None:
    scores = [
        [node.score for node in grow(f"{name}:instance={number}").nodes if node.score]
        for number in (0, 1)
    ]
    assert not set(scores[0]) & set(scores[1])
