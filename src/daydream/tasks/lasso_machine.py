"""The counting machine of the lasso task: one design, a small instruction language, exact costs.

Owns the instances, the instructions with their cost table, and the reference path. A program is
data: it names no number of the instance, and the machine runs and counts every step itself. Refuses
(:class:`ProgramError`) unknown instructions, steps whose inputs were never computed, and work over
the limit. Counts depend on supports and orderings only, never on the last bit of a float, so that
they agree between machines.

Formulas: coordinate descent for the Lasso and its covariance updates, Friedman, Hastie and
Tibshirani, J. Stat. Softw. 33(1), 2010, sections 2.1-2.2; the sequential strong rule, Tibshirani et
al., J. R. Stat. Soc. B 74(2), 2012, equation 6; optimality conditions as in the former.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from daydream.canonical import JsonValue, seed_of
from daydream.tasks.program import Instruction, Program, ProgramError

Vector: TypeAlias = NDArray[np.float64]

ROWS, COLUMNS, GRID = 36, 20, 10
MAX_INSTRUCTIONS = 400
MAX_REPEATS = 500
MAX_WORK = 2_000_000
"""Operations after which a program is stopped."""
SLACK = 1e-9
"""Relative: a slope this little above the penalty is no violation; rounding decides nothing."""
UNIT = ROWS * COLUMNS * (COLUMNS + 1) // 2 + ROWS * COLUMNS
"""Operations that form all of X'X and X'y: a path that costs this much scores 1."""

COSTS: Mapping[str, str] = {
    "next": "1",
    "cold": "n + p",
    "moments": "n p",
    "gradient": "n p, and n a where the residual is out of date",
    "screen": "p",
    "gram": "n for each pair within the working set that is not known yet, itself included",
    "sweep": "for each visit 4 + n, and n more where the coefficient was or becomes nonzero; "
    "n a once where the residual is out of date",
    "gram_sweep": "for each visit 5 + a",
    "jump": "a (a + 1) (a + 2) / 6 + a a + 1 for each round",
}
"""Operations charged by each instruction: n rows, p columns, a nonzero coefficients just then."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One least-squares problem and the penalties to solve it for."""

    number: int
    design: Vector
    """(36, 20); each column has mean square 1."""
    response: Vector
    """(36,), mean square 1."""
    penalties: Vector
    """(10,), decreasing, all below the least penalty at which every coefficient is 0."""

    def objective(self, beta: Vector, penalty: float) -> float:
        """Return 1/(2n) |y - X beta|^2 + penalty |beta|_1, from its definition."""
        residual = self.response - self.design @ beta
        return float(residual @ residual / (2 * ROWS) + penalty * np.abs(beta).sum())


def make_instance(number: int) -> Instance:
    """Return instance ``number``: correlated Gaussian columns, 6 true coefficients, noise.

    Neighbouring columns correlate at 0.5; the grid is geometric from 0.8 to 0.05 of the least
    penalty with the empty solution.
    """
    rng = np.random.default_rng(seed_of("lasso", number))
    noise = rng.standard_normal((ROWS, COLUMNS))
    design = noise.copy()
    for j in range(1, COLUMNS):
        design[:, j] = 0.5 * design[:, j - 1] + np.sqrt(0.75) * noise[:, j]
    design /= np.sqrt(np.mean(design**2, axis=0))
    truth = np.zeros(COLUMNS)
    support = rng.choice(COLUMNS, 6, replace=False)
    truth[support] = rng.choice([-1.0, 1.0], 6) * rng.uniform(0.5, 2.0, 6)
    response = design @ truth + 0.5 * rng.standard_normal(ROWS)
    response /= np.sqrt(np.mean(response**2))
    top = float(np.max(np.abs(design.T @ response))) / ROWS
    return Instance(number, design, response, top * np.geomspace(0.8, 0.05, GRID))


def reference_path(instance: Instance) -> Vector:
    """Return the exact path, shape (10, 20), by a slow method that shares no code with the machine.

    Proximal gradient steps find the support; a linear solve on it gives the solution, which is
    kept only when it meets the optimality conditions to 1e-10.
    """
    design, response = instance.design, instance.response
    gram = design.T @ design / ROWS
    moments = design.T @ response / ROWS
    step = 1.0 / float(np.linalg.eigvalsh(gram)[-1])
    beta = np.zeros(COLUMNS)
    path = np.zeros((GRID, COLUMNS))
    for k, penalty in enumerate(instance.penalties):
        for _ in range(200):
            for _ in range(250):
                moved = beta + step * (moments - gram @ beta)
                beta = np.sign(moved) * np.maximum(np.abs(moved) - step * penalty, 0.0)
            exact = _solve_on(gram, moments, np.sign(beta), float(penalty))
            if violation(instance, exact, float(penalty)) <= 1e-10:
                break
        else:
            raise ArithmeticError(f"lasso instance {instance.number} has no exact reference path")
        beta = exact
        path[k] = exact
    return path


def _solve_on(gram: Vector, moments: Vector, signs: Vector, penalty: float) -> Vector:
    exact = np.zeros(COLUMNS)
    active = np.flatnonzero(signs)
    if active.size:
        target = moments[active] - penalty * signs[active]
        exact[active] = np.linalg.solve(gram[np.ix_(active, active)], target)
    return exact


def violation(instance: Instance, beta: Vector, penalty: float) -> float:
    """Return how far ``beta`` is from the optimality conditions; 0 exactly at the minimum.

    The slope X'r/n must equal penalty * sign at nonzero coefficients and lie within +-penalty at
    the others; the result is the greatest distance from that.
    """
    slope = instance.design.T @ (instance.response - instance.design @ beta) / ROWS
    inside = np.maximum(np.abs(slope) - penalty, 0.0)
    return float(np.max(np.where(beta == 0, inside, np.abs(slope - penalty * np.sign(beta)))))


@dataclass(frozen=True, slots=True)
class Run:
    """What a program did."""

    path: Vector
    """(10, 20): the coefficients at each penalty."""
    operations: int
    by_instruction: dict[str, int]


class Machine:
    """Runs one program on one instance. Use a new one for each run."""

    def __init__(self, instance: Instance) -> None:
        self._design = instance.design
        self._response = instance.response
        self._penalties = instance.penalties
        self._gram = instance.design.T @ instance.design / ROWS
        self._known = np.zeros((COLUMNS, COLUMNS), dtype=np.bool_)
        """Entries of X'X that were paid for."""
        self._moments = instance.design.T @ instance.response / ROWS
        self._has_moments = False
        self._beta = np.zeros(COLUMNS)
        self._residual_fresh = True
        self._slope: Vector | None = None
        """X'r / n for the present coefficients; None while out of date."""
        self._set = np.zeros(COLUMNS, dtype=np.bool_)
        self._position = -1
        self._path = np.zeros((GRID, COLUMNS))
        self._spent = 0
        self._by: dict[str, int] = {}
        self._name = "start"

    def run(self, program: Program) -> Run:
        """Run ``program`` to its end.

        Raises :class:`ProgramError` naming the instruction, what it found and what to do.
        """
        for number, instruction in enumerate(program):
            try:
                self._execute(instruction)
            except ProgramError as error:
                raise ProgramError(error.kind, f"instruction {number}: {error}") from None
        if self._position != GRID - 1:
            raise ProgramError(
                "unfinished",
                f"program visits {self._position + 1} penalties (expected {GRID}); "
                "use 'next' once for each",
            )
        self._path[self._position] = self._beta
        return Run(self._path, self._spent, self._by)

    def _execute(self, instruction: Instruction) -> None:
        name = instruction[0]
        handler = _HANDLERS.get(name) if isinstance(name, str) else None
        if not isinstance(name, str) or handler is None:
            raise ProgramError(
                "instruction", f"{name!r} is unknown (expected one of {', '.join(_HANDLERS)})"
            )
        self._name = name
        handler(self, instruction[1:])

    def _charge(self, operations: int) -> None:
        self._spent += operations
        self._by[self._name] = self._by.get(self._name, 0) + operations
        if not self._spent <= MAX_WORK:
            raise ProgramError("work", f"program needs more than {MAX_WORK} operations; do less")

    @property
    def _active(self) -> int:
        return int(np.count_nonzero(self._beta))

    @property
    def _penalty(self) -> float:
        if self._position < 0:
            raise ProgramError("order", f"{self._name} before the first penalty; put 'next' first")
        return float(self._penalties[self._position])

    def _next(self, arguments: Instruction) -> None:
        _no_arguments(self._name, arguments)
        self._charge(1)
        if self._position >= 0:
            self._path[self._position] = self._beta
        if self._position + 1 >= GRID:
            raise ProgramError("order", f"'next' after the last of {GRID} penalties; drop it")
        self._position += 1

    def _cold(self, arguments: Instruction) -> None:
        _no_arguments(self._name, arguments)
        self._charge(ROWS + COLUMNS)
        self._beta = np.zeros(COLUMNS)
        self._residual_fresh, self._slope = True, None

    def _moments_(self, arguments: Instruction) -> None:
        _no_arguments(self._name, arguments)
        self._charge(ROWS * COLUMNS)
        self._has_moments = True

    def _gradient(self, arguments: Instruction) -> None:
        _no_arguments(self._name, arguments)
        self._refresh_residual()
        self._charge(ROWS * COLUMNS)
        residual = self._response - self._design @ self._beta
        self._slope = self._design.T @ residual / ROWS

    def _screen(self, arguments: Instruction) -> None:
        rule = arguments[0] if arguments else None
        self._charge(COLUMNS)
        support = self._beta != 0
        if rule == "all" and len(arguments) == 1:
            self._set = np.ones(COLUMNS, dtype=np.bool_)
        elif rule == "support" and len(arguments) == 1:
            self._set = support
        elif rule == "violators" and len(arguments) == 1:
            bound = self._penalty * (1 + SLACK)
            self._set = self._set | support | (np.abs(self._fresh_slope()) > bound)
        elif rule == "strong" and len(arguments) == 2:
            ahead = _whole(self._name, arguments[1], low=0, high=GRID - 1)
            now = self._penalty
            last = float(self._penalties[self._position - 1]) if self._position else now
            target = float(self._penalties[min(GRID - 1, self._position + ahead)])
            self._set = support | (np.abs(self._fresh_slope()) >= 2 * target - last)
        else:
            raise ProgramError(
                "instruction",
                f'screen has {list(arguments)!r} (expected "all", "support", "violators", or '
                '"strong" and how many penalties ahead)',
            )

    def _gram_(self, arguments: Instruction) -> None:
        _no_arguments(self._name, arguments)
        wanted = np.outer(self._set, self._set)
        missing = np.triu(wanted & ~self._known)
        self._charge(ROWS * int(np.count_nonzero(missing)))
        self._known |= wanted

    def _sweep(self, arguments: Instruction) -> None:
        times = _repeats(self._name, arguments)
        penalty = self._penalty
        self._refresh_residual()
        for _ in range(times):
            visits, moves, _ = self._descend(penalty)
            self._charge((4 + ROWS) * visits + ROWS * moves)

    def _gram_sweep(self, arguments: Instruction) -> None:
        times = _repeats(self._name, arguments)
        penalty = self._penalty
        self._need_covariances(self._set)
        for _ in range(times):
            visits, moves, active = self._descend(penalty)
            self._charge(5 * visits + active)
            self._residual_fresh = self._residual_fresh and moves == 0

    def _descend(self, penalty: float) -> tuple[int, int, int]:
        """Visit the working set once, in order of columns.

        Returns the visits, those whose coefficient was or became nonzero, and the sum over visits
        of the nonzero coefficients at that time. Both sweeps make the same steps; they are computed
        here from X'X, whatever the program pays for.
        """
        beta, gram = self._beta, self._gram
        slope = self._moments - gram @ beta
        active, total, moves = self._active, 0, 0
        columns = np.flatnonzero(self._set).tolist()
        for j in columns:
            total += active
            old = float(beta[j])
            new = _shrink(float(slope[j]) + old, penalty)
            if old != 0 or new != 0:
                moves += 1
                active += int(new != 0) - int(old != 0)
                beta[j] = new
                slope -= (new - old) * gram[j]
        if moves:
            self._slope = None
        return len(columns), moves, total

    def _jump(self, arguments: Instruction) -> None:
        times = _repeats(self._name, arguments)
        penalty, moments = self._penalty, self._moments
        self._need_covariances(self._beta != 0)
        for _ in range(times):
            active = np.flatnonzero(self._beta)
            a = active.size
            self._charge(a * (a + 1) * (a + 2) // 6 + a * a + 1)
            if a == 0:
                continue
            old = self._beta[active]
            signs = np.sign(old)
            block = self._gram[np.ix_(active, active)]
            target: Vector = moments[active] - penalty * signs
            try:
                new: Vector = np.asarray(np.linalg.solve(block, target), np.float64)
            except np.linalg.LinAlgError:
                raise ProgramError("singular", "jump meets a singular system") from None
            self._beta[active] = _until_first_zero(old, new)
            self._residual_fresh, self._slope = False, None

    def _need_covariances(self, among: NDArray[np.bool_]) -> None:
        if not self._has_moments:
            raise ProgramError("order", f"{self._name} needs X'y; put 'moments' before it")
        if not bool(np.all(self._known[np.ix_(among, among)])):
            raise ProgramError(
                "order", f"{self._name} needs X'X on the working set; put 'gram' before it"
            )

    def _refresh_residual(self) -> None:
        if not self._residual_fresh:
            self._charge(ROWS * self._active)
            self._residual_fresh = True

    def _fresh_slope(self) -> Vector:
        if self._slope is None:
            raise ProgramError(
                "order", "this screen needs the gradient; put 'gradient' after the last change"
            )
        return self._slope


_HANDLERS: Mapping[str, Callable[[Machine, Instruction], None]] = {
    "next": Machine._next,
    "cold": Machine._cold,
    "moments": Machine._moments_,
    "gradient": Machine._gradient,
    "screen": Machine._screen,
    "gram": Machine._gram_,
    "sweep": Machine._sweep,
    "gram_sweep": Machine._gram_sweep,
    "jump": Machine._jump,
}


def _shrink(value: float, penalty: float) -> float:
    if value > penalty:
        return value - penalty
    if value < -penalty:
        return value + penalty
    return 0.0


def _until_first_zero(old: Vector, new: Vector) -> Vector:
    """Go from ``old`` towards ``new``; where a sign would change, stop at the first zero."""
    crossing = old * new <= 0
    if not bool(np.any(crossing)):
        return new
    steps = np.where(crossing, old / np.where(crossing, old - new, 1.0), np.inf)
    first = int(np.argmin(steps))
    moved: Vector = old + steps[first] * (new - old)
    moved[first] = 0.0
    return moved


def _no_arguments(name: str, arguments: Instruction) -> None:
    if arguments:
        raise ProgramError("instruction", f"{name} has {list(arguments)!r} (expected no argument)")


def _repeats(name: str, arguments: Instruction) -> int:
    value = arguments[0] if len(arguments) == 1 else None
    return _whole(name, value, low=1, high=MAX_REPEATS)


def _whole(name: str, value: JsonValue, *, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ProgramError(
            "instruction", f"{name} has {value!r} (expected a whole number from {low} to {high})"
        )
    return value
