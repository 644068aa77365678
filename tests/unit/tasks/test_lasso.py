"""lasso counts what a program does and accepts exact paths only."""

import numpy as np
import pytest

from daydream.canonical import JsonValue
from daydream.errors import TaskError
from daydream.tasks.base import Artifact, json_artifact
from daydream.tasks.lasso import TOLERANCE, build
from daydream.tasks.lasso_machine import (
    GRID,
    MAX_WORK,
    ROWS,
    UNIT,
    Machine,
    make_instance,
    reference_path,
    violation,
)
from daydream.tree import Status
from tests.unit.tasks.lasso_recount import recount

Code = list[list[JsonValue]]

START: Code = [["screen", "all"], ["moments"], ["gram"]]


def covariance(sweeps: int, jumps: int) -> Code:
    step: Code = [["next"], ["gram_sweep", sweeps], ["jump", jumps]]
    return [*START, *(step * GRID)]


def working_sets(sweeps: int, jumps: int) -> Code:
    look: Code = [["next"], ["gradient"], ["screen", "strong", 0], ["gram"]]
    step: Code = [*look, ["gram_sweep", sweeps], ["jump", jumps]]
    return [["moments"], *(step * GRID)]


@pytest.mark.parametrize("number", range(40))
def test_the_reference_path_meets_the_optimality_conditions(number: int) -> None:
    instance = make_instance(number)
    path = reference_path(instance)
    worst = max(
        violation(instance, beta, float(penalty))
        for beta, penalty in zip(path, instance.penalties, strict=True)
    )
    assert worst <= 1e-10
    sizes = np.count_nonzero(path, axis=1)
    assert sizes[0] >= 1
    assert 4 <= sizes[-1] < 20


def test_an_instance_is_standardised_and_its_grid_starts_below_the_empty_solution() -> None:
    instance = make_instance(0)
    assert np.mean(instance.design**2, axis=0) == pytest.approx(1.0)
    assert np.mean(instance.response**2) == pytest.approx(1.0)
    top = np.max(np.abs(instance.design.T @ instance.response)) / ROWS
    assert instance.penalties[0] == pytest.approx(0.8 * top)
    assert instance.penalties[-1] == pytest.approx(0.05 * top)


@pytest.mark.parametrize(
    "program",
    [covariance(3, 1), covariance(1, 3), working_sets(3, 2), [["next"]] * GRID],
    ids=["covariance", "jumps", "working sets", "nothing"],
)
@pytest.mark.parametrize("number", [0, 5])
def test_operations_and_path_agree_with_a_second_interpreter(program: Code, number: int) -> None:
    instance = make_instance(number)
    run = Machine(instance).run(program)
    again = recount(instance, program)
    assert run.operations == again.operations == sum(run.by_instruction.values())
    assert run.path == pytest.approx(np.array(again.path), abs=1e-9)


def test_the_costs_of_known_steps_add_up_by_hand() -> None:
    instance = make_instance(0)
    rest: Code = [["next"]] * 9
    program: Code = [["next"], ["screen", "all"], ["moments"], ["gram"], *rest]
    assert Machine(instance).run(program).operations == 10 + 20 + 720 + 36 * 210
    program = [["next"], ["cold"], ["gradient"], ["screen", "support"], *rest]
    assert Machine(instance).run(program).operations == 10 + 56 + 720 + 20


def test_what_is_known_of_the_gram_matrix_is_not_paid_for_again() -> None:
    rest: Code = [["next"]] * 9
    look: Code = [["gradient"], ["next"], ["screen", "strong", 0]]
    once: Code = [*look, ["gram"], *rest]
    more: Code = [*look, ["gram"], ["gram"], ["screen", "all"], ["gram"], *rest]
    first = Machine(make_instance(0)).run(once).by_instruction["gram"]
    assert 0 < first < 36 * 210
    assert Machine(make_instance(0)).run(more).by_instruction["gram"] == 36 * 210


def test_the_plain_path_is_accepted_and_far_from_good() -> None:
    task = build({})
    found = task.evaluate(task.root())
    assert found.status is Status.OK
    assert 0.005 < found.score < 0.05
    assert found.score == UNIT / int(str(found.diagnostics["operations"]))


def test_textbook_programs_score_as_recounted() -> None:
    task = build({})
    for program in (covariance(3, 1), working_sets(3, 1)):
        found = task.evaluate(json_artifact(program))
        operations = recount(task.instance, program).operations
        assert operations is not None
        assert found.score == UNIT / operations
        assert 0.3 < found.score < 0.6


def test_another_instance_gives_other_scores_under_another_identity() -> None:
    tasks = [build({"instance": str(number)}) for number in range(4)]
    scores = [task.evaluate(json_artifact(covariance(4, 3))).score for task in tasks]
    assert len(set(scores)) == 4
    assert all(score > 0 for score in scores)
    assert len({task.info.evaluator for task in tasks}) == 4
    assert [task.info.name for task in tasks[:2]] == ["lasso", "lasso:instance=1"]


def test_a_path_just_outside_the_tolerance_is_refused_with_the_place() -> None:
    found = build({}).evaluate(json_artifact(covariance(2, 1)))
    assert (found.status, found.error_class, found.score) == (Status.INVALID, "gap", 0.0)
    assert "penalty 5" in found.message
    assert str(TOLERANCE) in found.message or "1e-06" in found.message


@pytest.mark.parametrize(
    ("program", "kind", "reason"),
    [
        ([], "unfinished", "visits 0 penalties"),
        ([["next"]] * 9, "unfinished", "visits 9 penalties"),
        ([["next"]] * 11, "order", "after the last"),
        ([["sweep", 1], *[["next"]] * 10], "order", "put 'next' first"),
        ([["next"], ["screen", "strong", 0]], "order", "put 'gradient'"),
        ([["next"], ["screen", "all"], ["gram_sweep", 1]], "order", "put 'moments'"),
        ([["moments"], ["next"], ["screen", "all"], ["gram_sweep", 1]], "order", "put 'gram'"),
        ([["next"], ["sweep", 0]], "instruction", "expected a whole number"),
        ([["next"], ["sweep", True]], "instruction", "expected a whole number"),
        ([["next"], ["sweep", 2.0]], "instruction", "expected a whole number"),
        ([["next", 1]], "instruction", "expected no argument"),
        ([["screen", "best"]], "instruction", "strong"),
        ([["solve"]], "instruction", "'solve' is unknown"),
        ([["next"]] * 401, "length", "at most 400"),
        (
            [["screen", "all"], ["next"], *[["cold"], ["sweep", 500]] * 6, *[["next"]] * 9],
            "work",
            f"more than {MAX_WORK}",
        ),
        ([[]], "shape", "instruction 0"),
        (["next"], "shape", "instruction 0"),
        ({"program": []}, "shape", "expected a list"),
    ],
)
def test_a_program_that_cannot_run_is_refused_with_the_reason(
    program: object, kind: str, reason: str
) -> None:
    found = build({}).evaluate(json_artifact(program))
    assert (found.status, found.error_class, found.score) == (Status.INVALID, kind, 0.0)
    assert reason in found.message


def test_a_missing_artifact_is_refused() -> None:
    assert build({}).evaluate(Artifact({})).error_class == "unreadable"


@pytest.mark.parametrize("args", [{"instance": "-1"}, {"instance": "x"}, {"rows": "3"}])
def test_a_bad_parameter_is_refused(args: dict[str, str]) -> None:
    with pytest.raises(TaskError):
        build(args)


def test_the_statement_shows_every_instruction_that_the_machine_has() -> None:
    statement = build({}).info.statement
    for name in ("next", "cold", "moments", "gradient", "screen", "gram", "sweep", "jump"):
        assert f'["{name}"' in statement
    assert "gram_sweep  for each visit 5 + a" in statement
