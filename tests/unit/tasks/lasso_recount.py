"""A second, slow interpreter of lasso programs in plain Python, to count and solve again."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from daydream.tasks.lasso_machine import COLUMNS, GRID, ROWS, Instance

P, N = range(COLUMNS), range(ROWS)


class Recount(NamedTuple):
    """What a program did; ``operations`` is None where it may not run."""

    operations: int | None
    path: list[list[float]]


class _RefusedError(Exception):
    pass


def recount(instance: Instance, program: Sequence[Sequence[object]]) -> Recount:
    """Run ``program`` from the definitions of the statement."""
    again = _Again(instance)
    try:
        for name, *arguments in program:
            again.step(str(name), arguments)
            if again.count > 2_000_000:
                raise _RefusedError
        if again.k != GRID - 1:
            raise _RefusedError
    except _RefusedError:
        return Recount(None, [])
    return Recount(again.count, [*again.path, again.b])


class _Again:
    def __init__(self, instance: Instance) -> None:
        self.x = instance.design.T.tolist()
        self.y = instance.response.tolist()
        self.grid = instance.penalties.tolist()
        self.b = [0.0] * COLUMNS
        self.k = -1
        self.count = 0
        self.path: list[list[float]] = []
        self.work: set[int] = set()
        self.known: set[tuple[int, int]] = set()
        self.moments = self.slope_fresh = False
        self.residual_fresh = True
        self.g = [0.0] * COLUMNS

    def support(self) -> list[int]:
        return [j for j in P if self.b[j] != 0]

    def slope(self, j: int) -> float:
        r = [self.y[i] - math.fsum(self.x[m][i] * self.b[m] for m in self.support()) for i in N]
        return math.fsum(self.x[j][i] * r[i] for i in N) / ROWS

    def touch_residual(self) -> None:
        if not self.residual_fresh:
            self.count += ROWS * len(self.support())
            self.residual_fresh = True

    def step(self, name: str, arguments: Sequence[object]) -> None:
        act = getattr(self, f"do_{name}", None)
        if act is None:
            raise _RefusedError
        if name in ("sweep", "gram_sweep", "jump"):
            if len(arguments) != 1 or type(arguments[0]) is not int:
                raise _RefusedError
            if not 1 <= arguments[0] <= 500 or self.k < 0:
                raise _RefusedError
        elif name != "screen" and arguments:
            raise _RefusedError
        act(*arguments)

    def do_next(self) -> None:
        self.count += 1
        if self.k >= 0:
            self.path.append(list(self.b))
        if self.k + 1 == GRID:
            raise _RefusedError
        self.k += 1

    def do_cold(self) -> None:
        self.count += ROWS + COLUMNS
        self.b = [0.0] * COLUMNS
        self.residual_fresh, self.slope_fresh = True, False

    def do_moments(self) -> None:
        self.count += ROWS * COLUMNS
        self.moments = True

    def do_gradient(self) -> None:
        self.touch_residual()
        self.count += ROWS * COLUMNS
        self.g = [self.slope(j) for j in P]
        self.slope_fresh = True

    def do_screen(self, *arguments: object) -> None:
        self.count += COLUMNS
        active = set(self.support())
        rule, *rest = arguments or ("",)
        if rule == "all" and not rest:
            self.work = set(P)
        elif rule == "support" and not rest:
            self.work = active
        elif rule == "violators" and not rest and self.k >= 0 and self.slope_fresh:
            bound = self.grid[self.k] * (1 + 1e-9)
            self.work |= active | {j for j in P if abs(self.g[j]) > bound}
        elif rule == "strong" and len(rest) == 1 and self.k >= 0 and self.slope_fresh:
            if type(rest[0]) is not int or not 0 <= rest[0] < GRID:
                raise _RefusedError
            last = self.grid[max(0, self.k - 1)]
            target = self.grid[min(GRID - 1, self.k + rest[0])]
            self.work = active | {j for j in P if abs(self.g[j]) >= 2 * target - last}
        else:
            raise _RefusedError

    def do_gram(self) -> None:
        pairs = {(i, j) for i in self.work for j in self.work if i <= j}
        self.count += ROWS * len(pairs - self.known)
        self.known |= pairs

    def descend(self, times: int, *, residual: bool) -> None:
        for _ in range(times):
            for j in sorted(self.work):
                old, before = self.b[j], len(self.support())
                z = self.slope(j) + old
                bound = self.grid[self.k]
                new = z - bound if z > bound else z + bound if z < -bound else 0.0
                moved = old != 0 or new != 0
                if residual:
                    self.count += 4 + ROWS + (ROWS if moved else 0)
                else:
                    self.count += 5 + before
                if moved:
                    self.b[j] = new
                    self.slope_fresh = False
                    self.residual_fresh = residual
                if self.count > 2_000_000:
                    raise _RefusedError

    def do_sweep(self, times: int) -> None:
        self.touch_residual()
        self.descend(times, residual=True)

    def need_gram(self, among: set[int]) -> None:
        pairs = {(i, j) for i in among for j in among if i <= j}
        if not self.moments or not pairs <= self.known:
            raise _RefusedError

    def do_gram_sweep(self, times: int) -> None:
        self.need_gram(self.work)
        self.descend(times, residual=False)

    def do_jump(self, times: int) -> None:
        self.need_gram(set(self.support()))
        for _ in range(times):
            active = self.support()
            a = len(active)
            self.count += a * (a + 1) * (a + 2) // 6 + a * a + 1
            if a:
                self.jump_once(active)
                self.residual_fresh = self.slope_fresh = False

    def jump_once(self, active: list[int]) -> None:
        bound = self.grid[self.k]
        dot = [
            [
                math.fsum(p * q for p, q in zip(self.x[i], self.x[j], strict=True)) / ROWS
                for j in active
            ]
            for i in active
        ]
        right = [
            math.fsum(self.x[j][i] * self.y[i] for i in N) / ROWS - math.copysign(bound, self.b[j])
            for j in active
        ]
        new = solved(dot, right)
        old = [self.b[j] for j in active]
        crossing = [i for i, o in enumerate(old) if o * new[i] <= 0]
        if crossing:
            t, first = min((old[i] / (old[i] - new[i]), i) for i in crossing)
            new = [o + t * (n - o) for o, n in zip(old, new, strict=True)]
            new[first] = 0.0
        for j, value in zip(active, new, strict=True):
            self.b[j] = value


def solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Return the solution of a small linear system, by elimination with pivots."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for c in range(size):
        pivot = max(range(c, size), key=lambda r: abs(rows[r][c]))
        rows[c], rows[pivot] = rows[pivot], rows[c]
        for r in range(c + 1, size):
            factor = rows[r][c] / rows[c][c]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[c], strict=True)]
    out = [0.0] * size
    for r in range(size - 1, -1, -1):
        rest = math.fsum(rows[r][c] * out[c] for c in range(r + 1, size))
        out[r] = (rows[r][size] - rest) / rows[r][r]
    return out
