"""Tasks of programs keep the task contracts, and no forgery of a result scores."""

from functools import lru_cache
from pathlib import Path

import pytest

from daydream.agents.load import load_agent
from daydream.errors import TaskError, UsageError
from daydream.policies.specs import parse_spec
from daydream.tasks.load import load_task
from daydream.testing.task_contracts import CHECKS, Check, TaskUnderTest
from daydream.tree import Status
from tests.contracts.known_programs import FORGERIES, KNOWN_PROGRAMS, program
from tests.real.lean_stand_in import stand_in

SMALL = "sum-diff:artifact=program"


@pytest.fixture(autouse=True)
def stand_in_for_lean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{stand_in(tmp_path).parent}:/usr/bin:/bin")


@lru_cache(maxsize=8)
def under_test(name: str) -> TaskUnderTest:
    gold, refused = KNOWN_PROGRAMS[name]()
    return TaskUnderTest(supply=lambda: load_task(name), gold=gold, refused=refused)


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN_PROGRAMS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_task_of_programs_keeps_each_promise(name: str, check: Check) -> None:
    check(under_test(name))


@pytest.mark.parametrize("name", KNOWN_PROGRAMS)
def test_a_task_of_programs_has_golds_and_attacks(name: str) -> None:
    subject = under_test(name)
    # A proof is one or none.
    assert len({gold.score for gold in subject.gold}) >= (1 if name == "lean" else 2)
    assert len(subject.refused) >= 5


@pytest.mark.parametrize("name", KNOWN_PROGRAMS)
def test_an_initial_program_is_valid_and_the_name_is_stable(name: str) -> None:
    task = load_task(name)
    info = task.info
    assert (info.name, info.agent) == (name, "")
    assert info.entry in task.root().files
    assert parse_spec(info.policy).name == info.policy
    assert info.attempt_cost
    wanted = Status.INVALID if name == "lean" else Status.OK
    assert task.evaluate(task.root()).status is wanted


@pytest.mark.parametrize("name", KNOWN_PROGRAMS)
def test_an_unknown_parameter_of_such_a_task_is_refused_by_name(name: str) -> None:
    mark = "," if ":" in name else ":"
    with pytest.raises(TaskError, match="no parameter 'colour'"):
        load_task(f"{name}{mark}colour=red")


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_result_scores_nothing(forgery: str) -> None:
    kind, text = FORGERIES[forgery]
    found = load_task(SMALL).evaluate(program(text))
    assert (found.status is Status.OK, found.score, found.error_class) == (False, 0.0, kind)


@pytest.mark.parametrize("agent", ["local_search", "scripted"])
def test_an_agent_that_computes_data_is_refused_for_a_program(agent: str) -> None:
    with pytest.raises(UsageError, match=r"wants the program program\.py"):
        load_agent(agent, load_task(SMALL).info)
