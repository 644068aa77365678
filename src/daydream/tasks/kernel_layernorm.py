"""kernel-layernorm: a LayerNorm kernel with as few cost units as possible.

Owns the statement, the check and the score. An artifact is a program for
:mod:`daydream.tasks.kernel_machine`, which runs it here on inputs that the program never saw and
counts it with its own cost table; a cost that an artifact claims is never read. Refuses a program
whose output differs from the reference by more than 1e-6 anywhere.

Provenance: a LayerNorm at seed size, scored by inverse operation cost, follows the description of
the first public implementation of Dream-RSI's local loop; machine and costs are ours.
"""

from dataclasses import asdict
from functools import cached_property

import numpy as np

from daydream.canonical import JsonValue, hash_of
from daydream.tasks.base import (
    Args,
    Artifact,
    Evaluation,
    TaskInfo,
    failed,
    json_artifact,
    ok,
)
from daydream.tasks.kernel_machine import (
    EPSILON,
    FAST_BITS,
    KINDS,
    MAX_INSTRUCTIONS,
    ROWS,
    Array,
    Instance,
    Machine,
    make_instance,
    reference,
)
from daydream.tasks.program import Program, account, identity, instance_of, judge_program

NAME = "kernel-layernorm"
EVALUATOR = f"{NAME}/1"
TOLERANCE = 1e-6
"""Allowed difference, absolute plus relative to the reference value."""


def statement(instance: Instance) -> str:
    """Return the problem on ``instance`` as a proposer should read it."""
    length = instance.length
    table = "\n".join(
        f"  {form:<26}{meaning:<40}{cost}" for form, meaning, cost in _instructions(instance)
    )
    return f"""\
Write a LayerNorm kernel that costs as little as possible. For each row x of D = {length} numbers:
    y = (x - mean(x)) / sqrt(var(x) + {EPSILON:g}) * gamma + beta
with the biased variance (divide by D) and gamma, beta of length D. You do not see the inputs; they
include skewed, almost constant and outlying rows, and rows far from zero (mean over 1e6, spread 1).

The machine works in double precision on one row at a time. It has vectors v0-v63 (length D) and
scalars s0-s63. Write artifact.json: a JSON list of at most {MAX_INSTRUCTIONS} instructions, each a
list [name, target, sources...]. In the costs, "each" is charged D times a row, the rest once a row.

{table}

An arithmetic target sN takes scalars only; a target vN takes vectors and scalars in any mixture.
The output must be within {TOLERANCE:g} (absolute plus relative) of the exact LayerNorm everywhere.
Score = D / cost of a row, higher is better."""


def _instructions(instance: Instance) -> list[tuple[str, str, str]]:
    prices, last = instance.prices, instance.length - 1
    simple = f"{prices.simple} each, scalar 1"
    fold = f"{prices.simple} each + {prices.reduce}"
    fused = f"{prices.fused} each + {prices.reduce}"
    return [
        ('["load", v, "x"]', "a row of x from memory", f"{prices.memory} each"),
        ('["load", v, "gamma"]', 'gamma, or "beta"; cached', f"{prices.cached} each"),
        ('["store", v]', "the answer", f"{prices.memory} each"),
        ('["const", s, number]', "a number fixed in the program", "free"),
        ('["pick", s, v, i]', f"element i of v, 0 to {last}", "1"),
        ('["add", d, a, b]', 'also "sub", "mul": vector or scalar', simple),
        ('["fma", d, a, b, c]', "a * b + c", simple),
        ('["div", d, a, b]', "a / b", f"{prices.divide} each, scalar {prices.scalar_divide}"),
        ('["sum", s, v]', "sum of v", fold),
        ('["dot", s, a, b]', "sum of a * b", fold),
        ('["sums", s, t, v]', "s = sum of v, t = sum of v * v", fused),
        ('["center", d, t, v, s]', "d = v - s, t = sum of d * d", fused),
        ('["scale", d, v, s, a, b]', "d = v * s * a + b (s scalar)", f"{prices.fused} each"),
        ('["sqrt", s, t]', 'also "rsqrt", which is 1 / sqrt(t)', f"{prices.root}"),
        ('["rsqrt_fast", s, t]', f"1 / sqrt(t) to {FAST_BITS} bits only", f"{prices.fast_root}"),
    ]


class KernelLayerNorm:
    """The task on one instance. The reference output is computed once, when first needed."""

    def __init__(self, number: int) -> None:
        self.instance = make_instance(number)
        version = {
            "evaluator": EVALUATOR,
            "instance": number,
            "length": self.instance.length,
            "prices": asdict(self.instance.prices),
            "tolerance": TOLERANCE,
        }
        self.info = TaskInfo(
            name=identity(NAME, number),
            title="A LayerNorm kernel with few cost units",
            statement=statement(self.instance),
            evaluator=hash_of(version),
            policy="parallel_refine-w4-d4",
            agent="scripted",
            measure="inverse operation cost",
            attempt_cost="a few hundred instruction rewrites, two runs of the machine",
        )

    @cached_property
    def expected(self) -> Array:
        """The exact output, shape (20, D)."""
        return reference(self.instance.rows, self.instance.gamma, self.instance.beta)

    def root(self) -> Artifact:
        """Return the plain kernel."""
        return json_artifact(plain_kernel(self.instance))

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Run, check and count the program; ``invalid`` with a reason where it is no LayerNorm."""
        return judge_program(artifact, self._judge, longest=MAX_INSTRUCTIONS)

    def _judge(self, program: Program) -> Evaluation:
        instance = self.instance
        run = Machine(instance, instance.rows).run(program)
        with np.errstate(all="ignore"):
            errors = np.abs(run.output - self.expected) / (1.0 + np.abs(self.expected))
        worst = [float(np.max(errors[i * ROWS : (i + 1) * ROWS])) for i in range(len(KINDS))]
        if not all(error <= TOLERANCE for error in worst):
            bad = ", ".join(
                f"{kind} ({error:.2g})"
                for kind, error in zip(KINDS, worst, strict=True)
                if not error <= TOLERANCE
            )
            return failed(
                "mismatch",
                f"output differs from LayerNorm on rows: {bad} (expected at most {TOLERANCE:g})",
                cost=run.units,
            )
        return ok(
            instance.length / run.units,
            feedback=account(run.units, f"units a row of {instance.length}", run.by_instruction),
            cost=run.units,
            by_instruction=run.by_instruction,
            largest_error=max(worst),
        )


def plain_kernel(instance: Instance) -> list[list[JsonValue]]:
    """Return the plainest correct program: three passes over x, a division an element."""
    return [
        ["const", "s0", 1 / instance.length],
        ["const", "s1", EPSILON],
        ["load", "v0", "x"],
        ["sum", "s2", "v0"],
        ["mul", "s3", "s2", "s0"],
        ["load", "v1", "x"],
        ["sub", "v2", "v1", "s3"],
        ["mul", "v3", "v2", "v2"],
        ["sum", "s4", "v3"],
        ["mul", "s5", "s4", "s0"],
        ["add", "s6", "s5", "s1"],
        ["sqrt", "s7", "s6"],
        ["load", "v4", "x"],
        ["sub", "v5", "v4", "s3"],
        ["div", "v6", "v5", "s7"],
        ["load", "v7", "gamma"],
        ["mul", "v8", "v6", "v7"],
        ["load", "v9", "beta"],
        ["add", "v10", "v8", "v9"],
        ["store", "v10"],
    ]


def build(args: Args) -> KernelLayerNorm:
    """Return the task; ``instance`` (default 0) draws the row length, the costs and the inputs.

    Raises :class:`TaskError` for another key or a value outside 0 to 999999.
    """
    return KernelLayerNorm(instance_of(NAME, args))
