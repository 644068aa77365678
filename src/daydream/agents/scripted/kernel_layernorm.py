"""The scripted method of kernel-layernorm: peephole rewriting of the parent's program.

Owns who rewrites what: the branch sets the temper (thorough, greedy, hasty, reckless) and
``world_seed`` the draws. A checking branch tries each rewrite on inputs of its own. The greedy one
only looks at ordinary rows, so the one-pass variance passes its check and fails the evaluator. The
rewrites are in ``_kernel_rules``.
"""

import random
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from daydream.agents.base import AttemptContext, Proposal
from daydream.agents.scripted import _kernel_rules as rules
from daydream.agents.scripted._kernel_rules import Code
from daydream.agents.scripted.agent import parameters
from daydream.tasks.base import json_artifact
from daydream.tasks.kernel_layernorm import TOLERANCE, plain_kernel
from daydream.tasks.kernel_machine import (
    MAX_INSTRUCTIONS,
    Array,
    Instance,
    Machine,
    make_instance,
    reference,
)
from daydream.tasks.program import ProgramError, read_program

Rule = Callable[[Code], Code | None]

SAFE: Mapping[str, Rule] = {
    "load each array once": rules.load_once,
    "compute each difference once": rules.subtract_once,
    "multiply by the inverse root": rules.invert_root,
    "fuse centring and squares": rules.fuse_center,
    "fuse gain and offset": rules.fuse_scale,
    "fuse multiply and add": rules.fuse_multiply_add,
    "approximate the root and correct it": rules.newton_root,
}
BOLD: Mapping[str, Rule] = {
    "take both moments in one pass": rules.one_pass,
    "approximate the root": rules.fast_root,
}


def propose(context: AttemptContext) -> Proposal:
    """Return the parent's program rewritten in the temper of the branch."""
    instance = _instance(int(parameters(context.task).get("instance", "0")))
    rng = random.Random(context.world_seed)
    way = context.branch % 4
    bench = _Bench(instance, careful=way == 0, seed=context.world_seed)
    try:
        code = rules.single_assignment(read_program(context.parent, longest=MAX_INSTRUCTIONS))
    except ProgramError:
        code = plain_kernel(instance)
    told: list[str] = []
    if bench.units(code) is None:
        code = plain_kernel(instance)
        told.append("start again from the plain kernel")
    if way < 2:
        code = _checked(code, bench, rng, thorough=way == 0, told=told)
    else:
        code = _unchecked(code, rng, reckless=way == 3, told=told)
    return Proposal(json_artifact(code), rationale="; ".join(told) or "nothing left to save")


@lru_cache(maxsize=4)
def _instance(number: int) -> Instance:
    return make_instance(number)


class _Bench:
    """Runs programs on rows of the agent's own."""

    def __init__(self, instance: Instance, *, careful: bool, seed: int) -> None:
        rng = np.random.default_rng(seed)
        rows = rng.normal(0.0, 1.0, (4, instance.length))
        if careful:
            rows[1] += 2e6
            rows[2] *= 1e-3
        self._instance = instance
        self._rows: Array = rows
        self._expected = reference(rows, instance.gamma, instance.beta)

    def units(self, code: Code) -> int | None:
        """Return the cost of a row, or None where the output is wrong."""
        try:
            run = Machine(self._instance, self._rows).run(code)
        except ProgramError:
            return None
        with np.errstate(all="ignore"):
            errors = np.abs(run.output - self._expected) / (1.0 + np.abs(self._expected))
        return run.units if bool(np.all(errors <= TOLERANCE)) else None


def _checked(
    code: Code, bench: _Bench, rng: random.Random, *, thorough: bool, told: list[str]
) -> Code:
    """Apply the rewrite that saves most; a thorough attempt one to three, drawn by savings."""
    for _ in range(rng.randint(1, 3) if thorough else 1):
        before = bench.units(code)
        found: list[tuple[int, str, Code]] = []
        for name, rule in {**SAFE, **BOLD}.items():
            changed = rule(code)
            after = None if changed is None else bench.units(changed)
            if changed is not None and before is not None and after is not None and after < before:
                found.append((before - after, name, changed))
        if not found:
            break
        best = max(found, key=lambda one: one[0])
        if thorough:
            best = rng.choices(found, weights=[one[0] for one in found])[0]
        _, name, code = best
        told.append(name)
    return code


def _unchecked(code: Code, rng: random.Random, *, reckless: bool, told: list[str]) -> Code:
    """Apply one rewrite that fits, without a look at what it does; sometimes slip."""
    pool = {**SAFE, **BOLD} if reckless else SAFE
    found = [(name, changed) for name, rule in pool.items() if (changed := rule(code)) is not None]
    if found:
        name, code = rng.choice(found)
        told.append(name)
    if rng.random() < (0.5 if reckless else 0.25):
        code = rules.bypass(code, rng)
        told.append("drop a step")
    return code
