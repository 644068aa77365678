"""Every built-in task keeps the task contracts, found through the registry as users find it."""

from functools import lru_cache

import pytest

from daydream import registry
from daydream.agents.load import load_agent
from daydream.errors import TaskError
from daydream.policies.specs import parse_spec
from daydream.tasks.load import load_task
from daydream.testing.task_contracts import CHECKS, Check, TaskUnderTest
from daydream.tree import Status
from tests.contracts.known_artifacts import KNOWN
from tests.contracts.known_programs import PLAIN, WITH_TORCH

TASKS = sorted(KNOWN)


def test_every_built_in_task_is_under_test_here_or_with_the_programs() -> None:
    assert sorted({*KNOWN, *PLAIN, *WITH_TORCH}) == registry.names("task")


@lru_cache(maxsize=8)
def under_test(name: str) -> TaskUnderTest:
    gold, refused = KNOWN[name]()
    return TaskUnderTest(supply=lambda: load_task(name), gold=gold, refused=refused)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_built_in_task_keeps_each_promise(name: str, check: Check) -> None:
    check(under_test(name))


@pytest.mark.parametrize("name", TASKS)
def test_every_built_in_task_has_golds_and_near_misses(name: str) -> None:
    subject = under_test(name)
    assert len({gold.score for gold in subject.gold}) >= 2
    assert len(subject.refused) >= 5


@pytest.mark.parametrize("name", TASKS)
def test_a_built_in_task_states_a_policy_and_an_agent_that_exist(name: str) -> None:
    info = load_task(name).info
    assert info.name == name
    assert parse_spec(info.policy).name == info.policy
    assert load_agent(info.agent, info).deterministic
    assert info.scale == 1.0
    assert info.attempt_cost


@pytest.mark.parametrize("name", TASKS)
def test_the_root_of_a_built_in_task_is_evaluated(name: str) -> None:
    task = load_task(name)
    assert task.evaluate(task.root()).status is Status.OK


@pytest.mark.parametrize("name", TASKS)
def test_an_unknown_parameter_is_refused_by_name(name: str) -> None:
    with pytest.raises(TaskError, match="no parameter 'colour'"):
        load_task(f"{name}:colour=red")


@pytest.mark.parametrize("alias", sorted(registry.TASK_ALIASES))
def test_an_alias_is_the_same_task(alias: str) -> None:
    assert load_task(alias).info == load_task(registry.TASK_ALIASES[alias]).info
