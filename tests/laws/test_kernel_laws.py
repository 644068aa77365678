"""Laws of the kernel evaluator and of the rewrites: no crash, no free unit, no wrong kernel."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daydream.agents.scripted import _kernel_rules as rules
from daydream.agents.scripted.kernel_layernorm import BOLD, SAFE
from daydream.canonical import JsonValue
from daydream.tasks.base import json_artifact
from daydream.tasks.kernel_layernorm import build, plain_kernel
from daydream.tree import Status
from tests.unit.tasks.kernel_recount import layer_norm, run_row, units_of

Code = list[list[JsonValue]]

TASKS = [build({"instance": str(number)}) for number in range(3)]
NAMES = [*SAFE, *BOLD]


def rewritten(code: Code, names: list[str]) -> Code:
    for name in names:
        changed = {**SAFE, **BOLD}[name](code)
        code = code if changed is None else changed
    return code


@given(st.integers(0, 2), st.lists(st.sampled_from(sorted(SAFE)), max_size=9))
def test_safe_rewrites_in_any_order_keep_the_kernel_right_and_never_dearer(
    number: int, names: list[str]
) -> None:
    kernel = TASKS[number]
    code = plain_kernel(kernel.instance)
    units = units_of(kernel.instance, code)
    for name in names:
        code = rewritten(code, [name])
        found = kernel.evaluate(json_artifact(code))
        assert found.status is Status.OK, (name, found.message)
        after = units_of(kernel.instance, code)
        assert found.score == kernel.instance.length / after
        assert after <= units
        units = after


@given(st.permutations(sorted(SAFE)), st.permutations(sorted(SAFE)))
def test_all_safe_rewrites_together_end_at_one_cost(first: list[str], second: list[str]) -> None:
    kernel = TASKS[0]
    plain = plain_kernel(kernel.instance)
    ends = {units_of(kernel.instance, rewritten(plain, names * 3)) for names in (first, second)}
    assert len(ends) == 1


@given(
    st.integers(0, 2),
    st.lists(st.sampled_from(NAMES), max_size=6),
    st.integers(0, 3),
    st.integers(0, 1 << 32),
)
def test_an_accepted_kernel_is_layernorm_on_rows_that_the_evaluator_never_used(
    number: int, names: list[str], slips: int, seed: int
) -> None:
    kernel = TASKS[number]
    rng = random.Random(seed)
    code = rewritten(plain_kernel(kernel.instance), names)
    for _ in range(slips):
        code = rules.bypass(code, rng)
    found = kernel.evaluate(json_artifact(code))
    if found.status is not Status.OK:
        assert found.error_class == "mismatch"
        return
    assert found.score == kernel.instance.length / units_of(kernel.instance, code)
    fresh = np.random.default_rng(seed)
    length = kernel.instance.length
    for row in (
        fresh.normal(-2.0, 3.0, length),
        fresh.uniform(-1.0, 0.0, length),
        5e5 + fresh.normal(0.0, 1.0, length),
        fresh.normal(0.0, 3e-3, length),
    ):
        expected = np.array(layer_norm(kernel.instance, row.tolist()))
        output = np.array(run_row(kernel.instance, code, row.tolist()))
        assert np.all(np.abs(output - expected) <= 1e-5 * (1 + np.abs(expected)))


REGISTER = st.sampled_from(["v0", "v1", "v2", "s0", "s1", "s2"])
INSTRUCTION = st.one_of(
    st.builds(lambda v, source: ["load", v, source], REGISTER, st.sampled_from(["x", "beta"])),
    st.builds(lambda s, value: ["const", s, value], REGISTER, st.floats(-1e9, 1e9)),
    st.builds(
        lambda name, registers: [name, *registers],
        st.sampled_from(
            [
                "add",
                "sub",
                "mul",
                "div",
                "fma",
                "sum",
                "dot",
                "sums",
                "center",
                "scale",
                "sqrt",
                "rsqrt",
                "rsqrt_fast",
                "store",
            ]
        ),
        st.lists(REGISTER, min_size=1, max_size=5),
    ),
)


@given(st.lists(INSTRUCTION, max_size=25))
def test_random_programs_get_a_verdict_with_a_reason(program: Code) -> None:
    found = TASKS[0].evaluate(json_artifact(program))
    assert found.status is Status.INVALID
    assert found.error_class
    assert found.message


@given(st.lists(st.sampled_from(NAMES), max_size=6))
def test_renaming_registers_changes_neither_cost_nor_verdict(names: list[str]) -> None:
    kernel = TASKS[1]
    code = rewritten(plain_kernel(kernel.instance), names)
    again = rules.single_assignment(code)
    before, after = (kernel.evaluate(json_artifact(one)) for one in (code, again))
    assert (before.status, before.score) == (after.status, after.score)
