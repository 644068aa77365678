"""The scripted method of lasso: textbook solvers, then local search over the program.

A branch starts from one of four known ways to follow a path (working sets from the strong rule
first, then covariance updates on all columns, working sets with a look-ahead, residual updates),
with counts drawn from ``world_seed``. Later attempts run the parent's program on the counting
machine and delete or shorten what the path does not need. They judge a path by its optimality
conditions to a tolerance drawn from the seed and never see the exact path, so a bold tolerance can
fail the evaluator; some attempts cut blindly.
"""

import random
from functools import lru_cache

from daydream.agents.base import AttemptContext, Proposal
from daydream.agents.scripted.agent import parameters
from daydream.canonical import JsonValue
from daydream.tasks.base import json_artifact
from daydream.tasks.lasso_machine import (
    GRID,
    MAX_INSTRUCTIONS,
    MAX_REPEATS,
    Instance,
    Machine,
    make_instance,
    violation,
)
from daydream.tasks.program import Program, ProgramError, read_program

RUNS = 160
"""Runs of the counting machine that one attempt may spend."""
OPERATIONS = 2_000_000
"""Operations that these runs may count together."""
TOLERANCES = (1e-6, 3e-4, 1e-3)
"""What an attempt takes for optimal, in units of the slope."""
COUNTED = ("sweep", "gram_sweep", "jump")

Code = list[list[JsonValue]]


def propose(context: AttemptContext) -> Proposal:
    """Return a textbook program at depth 1, a changed parent below."""
    rng = random.Random(context.world_seed)
    if context.depth == 1:
        code, rationale = _textbook(context.branch, rng)
    else:
        instance = _instance(int(parameters(context.task).get("instance", "0")))
        bench = _Bench(instance, rng.choice(TOLERANCES))
        try:
            parent = read_program(context.parent, longest=MAX_INSTRUCTIONS)
        except ProgramError:
            parent, _ = _textbook(context.branch, rng)
        code, rationale = _refine(parent, bench, rng, first=context.depth == 2)
    return Proposal(json_artifact(code), rationale=rationale)


@lru_cache(maxsize=4)
def _instance(number: int) -> Instance:
    return make_instance(number)


def _textbook(branch: int, rng: random.Random) -> tuple[Code, str]:
    way = branch % 4
    sweeps, jumps = rng.randint(2, 4), rng.randint(1, 2)
    solve: Code = [["gram_sweep", sweeps], ["jump", jumps]]
    if way == 0:
        body: Code = [["next"], *_look(0), *solve]
        why = "working sets from the strong rule, covariance updates, exact jumps"
        return [["moments"], *(body * GRID)], why
    if way == 1:
        start: Code = [["screen", "all"], ["moments"], ["gram"]]
        body = [["next"], *solve]
        return start + body * GRID, "covariance updates on all columns"
    if way == 2:
        period = rng.randint(2, 4)
        code: Code = [["moments"]]
        for k in range(GRID):
            code += [["next"], *(_look(period - 1) if k % period == 0 else []), *solve]
        return code, f"one working set for {period} penalties"
    body = [["next"], ["gradient"], ["screen", "strong", 0], ["sweep", rng.randint(4, 16)]]
    return body * GRID, "residual updates on the strong set"


def _look(ahead: int) -> Code:
    return [["gradient"], ["screen", "strong", ahead], ["gram"]]


class _Bench:
    """Runs programs within a budget and judges their paths by optimality alone."""

    def __init__(self, instance: Instance, tolerance: float) -> None:
        self._instance = instance
        self.tolerance = tolerance
        self._runs = RUNS
        self._operations = OPERATIONS

    @property
    def spent(self) -> bool:
        """Whether no run is left."""
        return self._runs <= 0 or self._operations <= 0

    def cost(self, code: Program) -> int | None:
        """Return the operations of ``code``, or None where it fails or the budget is spent."""
        if self.spent or len(code) > MAX_INSTRUCTIONS:
            return None
        self._runs -= 1
        instance = self._instance
        try:
            run = Machine(instance).run(code)
        except ProgramError:
            return None
        self._operations -= run.operations
        good = all(
            violation(instance, beta, float(penalty)) <= self.tolerance
            for beta, penalty in zip(run.path, instance.penalties, strict=True)
        )
        return run.operations if good else None


def _refine(parent: Code, bench: _Bench, rng: random.Random, *, first: bool) -> tuple[Code, str]:
    """Repair a parent that fails; trim it the first time, then trim, shake or cut it."""
    cost = bench.cost(parent)
    if cost is None:
        return _repair(parent, bench)
    move = rng.choice(("trim", "shake", "cut"))
    if first:
        move = "trim"
    if move == "cut":
        return _cut(parent, rng), "drop one instruction unchecked"
    code = _shake(parent, rng) if move == "shake" else parent
    shaken = bench.cost(code) if move == "shake" else cost
    if shaken is None:
        return code, "move the working set, unchecked"
    return _trim(code, shaken, bench, rng), f"{move}, optimal to {bench.tolerance:g}"


def _repair(parent: Code, bench: _Bench) -> tuple[Code, str]:
    """Add what a failing program may lack, the cheapest change first."""
    longer: Code = [_counted(step, 2) for step in parent]
    changes: list[tuple[Code, str]] = [
        ([["moments"], *parent], "compute the moments first"),
        (_after(parent, "screen", ["gram"]), "complete the Gram matrix after each screen"),
        (longer, "double every count"),
        ([_counted(step, 2) for step in longer], "four times every count"),
    ]
    for code, rationale in changes:
        if bench.cost(code) is not None:
            return code, rationale
    return longer, "double every count, still failing its own check"


def _counted(step: list[JsonValue], factor: int) -> list[JsonValue]:
    if step[0] in COUNTED and len(step) == 2 and isinstance(step[1], int):
        return [step[0], min(MAX_REPEATS, step[1] * factor)]
    return step


def _after(code: Code, name: str, extra: list[JsonValue]) -> Code:
    return [one for step in code for one in ([step, extra] if step[0] == name else [step])]


def _cut(code: Code, rng: random.Random) -> Code:
    spots = [i for i, step in enumerate(code) if step[0] != "next"]
    gone = rng.choice(spots) if spots else -1
    return [step for i, step in enumerate(code) if i != gone]


def _shake(code: Code, rng: random.Random) -> Code:
    """Look for a new working set somewhere, a little further ahead than usual."""
    spots = [i for i, step in enumerate(code) if step[0] == "next"]
    if not spots:
        return code
    at = rng.choice(spots) + 1
    return [*code[:at], *_look(rng.randint(0, 2)), *code[at:]]


def _trim(code: Code, cost: int, bench: _Bench, rng: random.Random) -> Code:
    """Delete and shorten instructions while the path stays optimal, until nothing more helps."""
    backwards = rng.random() < 0.5
    improved = True
    while improved and not bench.spent:
        improved = False
        order = list(range(len(code) - 1, -1, -1))
        if not backwards:
            rng.shuffle(order)
        for place in order:
            for change in _shorter(code[place]):
                trial = [*code[:place], change, *code[place + 1 :]]
                spent = bench.cost([step for step in trial if step])
                if spent is not None and spent < cost:
                    code, cost, improved = trial, spent, True
                    break
        code = [step for step in code if step]
    return code


def _shorter(step: list[JsonValue]) -> Code:
    """Return the smaller forms of ``step`` to try, the empty list (deletion) first."""
    if not step or step[0] == "next":
        return []
    count = step[1] if step[0] in COUNTED and len(step) == 2 else None
    if isinstance(count, int) and count > 1:
        return [[], [step[0], count // 2], [step[0], count - 1]]
    return [[]]
