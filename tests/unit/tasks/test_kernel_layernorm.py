"""kernel-layernorm counts units and accepts exact kernels only, whatever they leave out."""

import math

import numpy as np
import pytest

from daydream.canonical import JsonValue
from daydream.errors import TaskError
from daydream.tasks.base import json_artifact
from daydream.tasks.kernel_layernorm import KernelLayerNorm, build, plain_kernel
from daydream.tasks.kernel_machine import KINDS, ROWS, make_instance, reference
from daydream.tree import Status
from tests.unit.tasks.kernel_recount import layer_norm, run_row, units_of

Code = list[list[JsonValue]]


def best_known(task: KernelLayerNorm) -> Code:
    """Two passes, everything fused, a corrected approximate root."""
    return [
        ["const", "s0", 1 / task.instance.length],
        ["const", "s1", 1e-5],
        ["const", "s2", -0.5],
        ["const", "s3", 1.5],
        ["load", "v0", "x"],
        ["sum", "s4", "v0"],
        ["mul", "s5", "s4", "s0"],
        ["center", "v1", "s6", "v0", "s5"],
        ["fma", "s7", "s6", "s0", "s1"],
        ["rsqrt_fast", "s8", "s7"],
        ["mul", "s9", "s7", "s2"],
        ["mul", "s10", "s8", "s8"],
        ["fma", "s11", "s9", "s10", "s3"],
        ["mul", "s12", "s8", "s11"],
        ["load", "v2", "gamma"],
        ["load", "v3", "beta"],
        ["scale", "v4", "v1", "s12", "v2", "v3"],
        ["store", "v4"],
    ]


def edited(code: Code, old: list[JsonValue], *new: list[JsonValue]) -> Code:
    assert old in code
    return [one for step in code for one in (new if step == old else [step])]


def test_the_cost_of_the_plain_kernel_adds_up_by_hand() -> None:
    task = build({})
    price, length = task.instance.prices, task.instance.length
    vector = 4 * price.memory + 2 * price.cached + 7 * price.simple + price.divide
    units = length * vector + 2 * price.reduce + price.root + 3
    found = task.evaluate(task.root())
    assert (found.status, found.diagnostics["cost"]) == (Status.OK, units)
    assert found.score == length / units


def test_a_fused_kernel_scores_twice_the_plain_one() -> None:
    for number in range(6):
        task = build({"instance": str(number)})
        code = best_known(task)
        found = task.evaluate(json_artifact(code))
        assert found.status is Status.OK, found.message
        assert found.score == task.instance.length / units_of(task.instance, code)
        assert found.score > 1.8 * task.evaluate(task.root()).score


@pytest.mark.parametrize("number", range(12))
def test_the_reference_is_layernorm_and_varies_with_the_rows(number: int) -> None:
    instance = make_instance(number)
    rows = instance.rows
    out = reference(rows, instance.gamma, instance.beta)
    for row, found in zip(rows.tolist(), out, strict=True):
        assert found == pytest.approx(layer_norm(instance, row), rel=1e-12, abs=1e-12)
    assert rows.shape == (ROWS * len(KINDS), instance.length)
    assert 64 < instance.length < 128
    # A constant answer, an identity affine map or one row's statistics would be far off.
    assert np.min(np.std(out[: ROWS * 3], axis=0)) > 1e-2
    assert np.min(np.abs(instance.gamma)) > 0.1
    assert np.max(np.abs(instance.beta)) > 0.3


def test_both_interpreters_agree_on_an_ordinary_row() -> None:
    task = build({})
    row = task.instance.rows[0].tolist()
    for code in (plain_kernel(task.instance), best_known(task)):
        assert run_row(task.instance, code, row) == pytest.approx(
            layer_norm(task.instance, row), abs=1e-6
        )


def test_another_instance_gives_another_score_under_another_identity() -> None:
    tasks = [build({"instance": str(number)}) for number in range(5)]
    assert len({task.evaluate(task.root()).score for task in tasks}) == 5
    assert len({task.info.evaluator for task in tasks}) == 5
    assert [task.info.name for task in tasks[:2]] == [
        "kernel-layernorm",
        "kernel-layernorm:instance=1",
    ]


def wrong_kernels(task: KernelLayerNorm) -> dict[str, tuple[Code, str]]:
    """Return kernels that are nearly right, each with the kind of row that finds it out."""
    good = best_known(task)
    length = task.instance.length
    scale: list[JsonValue] = ["scale", "v4", "v1", "s12", "v2", "v3"]
    center: list[JsonValue] = ["center", "v1", "s6", "v0", "s5"]
    sums: Code = [
        ["sums", "s4", "s20", "v0"],
        ["mul", "s21", "s4", "s5"],
        ["sub", "s6", "s20", "s21"],
        ["sub", "v1", "v0", "s5"],
    ]
    mean: list[JsonValue] = ["mul", "s5", "s4", "s0"]
    one_pass = edited(
        edited(edited(good, ["sum", "s4", "v0"]), mean, sums[0], mean), center, *sums[1:]
    )
    return {
        "no epsilon": (edited(good, ["const", "s1", 1e-5], ["const", "s1", 0.0]), "almost const"),
        "unbiased": (
            edited(
                good,
                ["fma", "s7", "s6", "s0", "s1"],
                ["const", "s30", 1 / (length - 1)],
                ["fma", "s7", "s6", "s30", "s1"],
            ),
            "normal",
        ),
        "no beta": (
            edited(good, scale, ["mul", "v5", "v1", "s12"], ["mul", "v4", "v5", "v2"]),
            "normal",
        ),
        "no gamma": (edited(good, scale, ["fma", "v4", "v1", "s12", "v3"]), "normal"),
        "no mean": (edited(good, mean, ["const", "s5", 0.0]), "far from zero"),
        "rough root": (
            edited(good, ["mul", "s12", "s8", "s11"], ["add", "s12", "s8", "s1"]),
            "normal",
        ),
        "one pass": (one_pass, "far from zero"),
        "input": (edited(good, ["store", "v4"], ["store", "v0"]), "normal"),
        "not a number": (
            edited(
                good,
                scale,
                ["const", "s40", -1.0],
                ["sqrt", "s41", "s40"],
                ["scale", "v4", "v1", "s41", "v2", "v3"],
            ),
            "normal (nan)",
        ),
        "infinite": (
            edited(
                good,
                scale,
                ["const", "s40", 0.0],
                ["rsqrt", "s41", "s40"],
                ["scale", "v4", "v1", "s41", "v2", "v3"],
            ),
            "normal",
        ),
    }


@pytest.mark.parametrize("name", sorted(wrong_kernels(build({}))))
@pytest.mark.parametrize("number", [0, 3])
def test_a_nearly_right_kernel_is_refused_with_the_rows_that_show_it(
    name: str, number: int
) -> None:
    task = build({"instance": str(number)})
    code, rows = wrong_kernels(task)[name]
    found = task.evaluate(json_artifact(code))
    assert (found.status, found.error_class, found.score) == (Status.INVALID, "mismatch", 0.0)
    assert rows in found.message


def test_the_one_pass_kernel_is_right_on_ordinary_rows_only() -> None:
    task = build({})
    code, _ = wrong_kernels(task)["one pass"]
    row = task.instance.rows[0].tolist()
    assert run_row(task.instance, code, row) == pytest.approx(
        layer_norm(task.instance, row), abs=1e-6
    )
    message = task.evaluate(json_artifact(code)).message
    assert "far from zero" in message
    assert "normal" not in message
    assert "skewed" not in message


def test_a_shift_by_the_first_element_repairs_the_one_pass_kernel() -> None:
    task = build({})
    length = task.instance.length
    code: Code = [
        ["const", "s0", 1 / length],
        ["const", "s1", 1e-5],
        ["load", "v0", "x"],
        ["pick", "s2", "v0", 0],
        ["sub", "v1", "v0", "s2"],
        ["sums", "s3", "s4", "v1"],
        ["mul", "s5", "s3", "s0"],
        ["mul", "s6", "s3", "s5"],
        ["sub", "s7", "s4", "s6"],
        ["fma", "s8", "s7", "s0", "s1"],
        ["rsqrt", "s9", "s8"],
        ["sub", "v2", "v1", "s5"],
        ["load", "v3", "gamma"],
        ["load", "v4", "beta"],
        ["scale", "v5", "v2", "s9", "v3", "v4"],
        ["store", "v5"],
    ]
    found = task.evaluate(json_artifact(code))
    assert found.status is Status.OK, found.message
    assert found.diagnostics["cost"] == units_of(task.instance, code)


@pytest.mark.parametrize(
    ("program", "kind", "reason"),
    [
        ([], "unfinished", "stores nothing"),
        ([["load", "v0", "x"]], "unfinished", "stores nothing"),
        ([["store", "v0"]], "order", "before it is written"),
        ([["load", "v0", "y"]], "instruction", "expected x, gamma or beta"),
        ([["load", "s0", "x"]], "instruction", "a vector"),
        ([["load", "v64", "x"]], "instruction", "no register v64"),
        ([["load", "v0"]], "instruction", "expected 2"),
        ([["load", "x0", "x"]], "instruction", "a vector"),
        ([["const", "s0", True]], "instruction", "finite number"),
        ([["const", "s0", "1"]], "instruction", "finite number"),
        ([["const", "s0", 10**30]], "instruction", "finite number"),
        ([["load", "v0", "x"], ["pick", "s0", "v0", 4096]], "instruction", "expected 0 to"),
        ([["load", "v0", "x"], ["pick", "s0", "v0", -1]], "instruction", "expected 0 to"),
        ([["load", "v0", "x"], ["pick", "s0", "v0", True]], "instruction", "expected 0 to"),
        ([["load", "v0", "x"], ["add", "s0", "v0", "v0"]], "instruction", "a scalar"),
        ([["load", "v0", "x"], ["sqrt", "s0", "v0"]], "instruction", "a scalar"),
        ([["norm", "v0"]], "instruction", "'norm' is unknown"),
        ([["const", "s0", 1.0]] * 201, "length", "at most 200"),
        ([3], "shape", "instruction 0"),
    ],
)
def test_a_program_that_cannot_run_is_refused_with_the_reason(
    program: object, kind: str, reason: str
) -> None:
    found = build({}).evaluate(json_artifact(program))
    assert (found.status, found.error_class, found.score) == (Status.INVALID, kind, 0.0)
    assert reason in found.message


def test_costs_and_registers_keep_no_state_between_evaluations() -> None:
    task = build({})
    first = task.evaluate(task.root())
    task.evaluate(json_artifact(best_known(task)))
    assert task.evaluate(task.root()) == first
    assert task.evaluate(json_artifact([["store", "v0"]])).error_class == "order"


@pytest.mark.parametrize("args", [{"instance": "1.5"}, {"instance": "1000000"}, {"d": "3"}])
def test_a_bad_parameter_is_refused(args: dict[str, str]) -> None:
    with pytest.raises(TaskError):
        build(args)


def test_the_statement_shows_the_prices_of_its_instance() -> None:
    for number in range(4):
        task = build({"instance": str(number)})
        price = task.instance.prices
        lines = task.info.statement.splitlines()
        (load,) = [line for line in lines if '"x"' in line]
        (divide,) = [line for line in lines if '"div"' in line]
        assert load.endswith(f"{price.memory} each")
        assert divide.endswith(f"{price.divide} each, scalar {price.scalar_divide}")
        assert f"D = {task.instance.length}" in task.info.statement
        assert math.isfinite(task.evaluate(task.root()).score)
