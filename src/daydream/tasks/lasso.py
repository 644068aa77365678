"""lasso: a regularisation path with as few operations as possible.

Owns the statement, the check and the score. An artifact is a program for
:mod:`daydream.tasks.lasso_machine`, which runs and counts it here; a score or path that an artifact
claims is never read. Refuses a program that does not finish, and a path whose objective differs
from the exact one by more than 1e-6 at any penalty.

Provenance: the task at this size (36 x 20, inverse operation count) follows the description of the
first public implementation of Dream-RSI's local loop; language and cost table are ours. The gap of
1e-6 in the objective is that of the full-size lasso benchmarks.
"""

from functools import cached_property

import numpy as np

from daydream.canonical import hash_of
from daydream.tasks.base import (
    Args,
    Artifact,
    Evaluation,
    TaskInfo,
    failed,
    json_artifact,
    ok,
)
from daydream.tasks.lasso_machine import (
    COLUMNS,
    COSTS,
    GRID,
    MAX_INSTRUCTIONS,
    MAX_REPEATS,
    MAX_WORK,
    ROWS,
    UNIT,
    Machine,
    Vector,
    make_instance,
    reference_path,
)
from daydream.tasks.program import Program, account, identity, instance_of, judge_program

NAME = "lasso"
EVALUATOR = f"{NAME}/1"
TOLERANCE = 1e-6
"""Greatest difference from the exact objective, at each penalty; the empty solution costs 0.5."""

STATEMENT = f"""\
Solve a Lasso path with as few operations as possible.

The problem: X is {ROWS} x {COLUMNS} (n rows, p columns, each column of mean square 1), y has mean
square 1. For each of {GRID} decreasing penalties l_0 > l_1 > ... minimise
    1/(2n) |y - X b|^2 + l |b|_1.
You do not see X or y. You write a program for a small machine that holds one coefficient vector b
(all zero at the start), a working set of columns (empty at the start), the residual y - X b, and
whatever of X'y and X'X it was told to compute. What b is when the next 'next' comes, or when the
program ends, is the answer for the present penalty.

Write artifact.json: a JSON list of at most {MAX_INSTRUCTIONS} instructions, each a list:
  ["next"]                go to the next penalty (once for each of the {GRID}, the first included)
  ["cold"]                b = 0
  ["moments"]             compute c = X'y / n
  ["gradient"]            compute g = X'(y - X b) / n; any later change of b spoils it
  ["screen", "all"]       working set = all columns
  ["screen", "support"]   working set = columns with nonzero b
  ["screen", "strong", h] working set = nonzero columns and those with |g| >= 2 l_(k+h) - l_(k-1)
                          where k is the present penalty; needs g
  ["screen", "violators"] add columns with |g| > l_k; needs g
  ["gram"]                compute the entries of X'X / n within the working set not yet known
  ["sweep", t]            t rounds of coordinate descent over the working set from the residual
  ["gram_sweep", t]       the same from c and X'X; needs 'moments', and 'gram' for the working set
  ["jump", t]             t times: solve exactly for the nonzero coefficients with their present
                          signs; where a sign would change, stop there and set that one to zero;
                          needs what gram_sweep needs
t is at most {MAX_REPEATS}; a program over {MAX_WORK} operations is stopped.

Operations charged (a = nonzero coefficients at that moment):
{chr(10).join(f"  {name:<11} {cost}" for name, cost in COSTS.items())}

A path is accepted when its objective is within {TOLERANCE:g} of the exact minimum at every penalty.
Score = {UNIT} / operations, higher is better; {UNIT} operations form all of X'X and X'y."""


class Lasso:
    """The task on one instance. The exact path is computed once, when it is first needed."""

    def __init__(self, number: int) -> None:
        self.instance = make_instance(number)
        version = {
            "evaluator": EVALUATOR,
            "instance": number,
            "costs": COSTS,
            "tolerance": TOLERANCE,
            "work": MAX_WORK,
        }
        self.info = TaskInfo(
            name=identity(NAME, number),
            title="A Lasso path with few operations",
            statement=STATEMENT,
            evaluator=hash_of(version),
            policy="parallel_refine-w4-d3",
            agent="scripted",
            measure="inverse operation count",
            attempt_cost="at most 160 runs and 2,000,000 operations of the machine",
        )

    @cached_property
    def exact(self) -> Vector:
        """The exact path, shape (10, 20)."""
        return reference_path(self.instance)

    def root(self) -> Artifact:
        """Return the plainest correct program: cold starts and 60 full sweeps for each penalty."""
        step: list[list[str | int]] = [["next"], ["cold"], ["sweep", 60]]
        return json_artifact([["screen", "all"], *(step * GRID)])

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Run, check and count the program; ``invalid`` with a reason where it is not a solver."""
        return judge_program(artifact, self._judge, longest=MAX_INSTRUCTIONS)

    def _judge(self, program: Program) -> Evaluation:
        run = Machine(self.instance).run(program)
        gaps = [
            self.instance.objective(run.path[k], float(penalty))
            - self.instance.objective(self.exact[k], float(penalty))
            for k, penalty in enumerate(self.instance.penalties)
        ]
        worst = int(np.argmax(np.abs(gaps)))
        if not all(abs(gap) <= TOLERANCE for gap in gaps):
            return failed(
                "gap",
                f"objective at penalty {worst} is {gaps[worst]:.3g} from the minimum (expected at "
                f"most {TOLERANCE:g}); converge further there",
                gaps=gaps,
                operations=run.operations,
                by_instruction=run.by_instruction,
            )
        return ok(
            UNIT / run.operations,
            feedback=account(run.operations, "operations", run.by_instruction),
            largest_gap=gaps[worst],
            operations=run.operations,
            by_instruction=run.by_instruction,
        )


def build(args: Args) -> Lasso:
    """Return the task; ``instance`` (default 0) is the seed of the design.

    Raises :class:`TaskError` for another key or a value outside 0 to 999999.
    """
    return Lasso(instance_of(NAME, args))
