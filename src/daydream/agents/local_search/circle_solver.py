"""A local optimum of a circle packing from given centres, by a primal-dual interior point method.

Maximise the sum of radii subject to |c_i - c_j| - r_i - r_j >= 0, the four walls and r_i >= 0. A
distance is a convex function of the centres, so its linearisation lies below it: a step that keeps
the linearised rules keeps the true ones. Hence every iterate is strictly feasible and no line
search on the true rules is needed. Each iteration is one Newton step on the linearised optimality
conditions (a sequence of linear programs, one interior point step each; the curvature of the
distances is left out). Local optima of this problem are vertices but for loose circles, and there
the method converges as fast as Newton's.

One iteration costs one factorisation of a 3n x 3n matrix and a few dozen operations on n x n
arrays: about 0.3 ms for n = 26, and a solve takes 15 to 25 iterations. Nothing here is random and
nothing reads a clock. Workers run with one thread of linear algebra, and up to n = 33 the matrices
are too small for OpenBLAS to go parallel, so equal starts give equal bytes on one machine.
"""

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from daydream.tasks.base import Artifact
from daydream.tasks.circle_packing import Circle, read_packing, repair

Array: TypeAlias = NDArray[np.float64]

GAP: Final = 1e-12
"""Complementarity (sum over rules of slack times force) at which a packing counts as settled; the
sum of radii is then at most about this far below its local optimum."""
STEPS: Final = 150
LOCAL: Final = 0.02
"""Complementarity below which the end of a solve can be foretold."""
LEAST: Final = 0.005
"""Least radius, and least distance from a wall, of a circle at the start of a solve."""
REGULAR: Final = 1e-9
"""Added to the diagonal: a loose circle has nothing else to hold it at the end."""


class Layout(NamedTuple):
    """Centres and radii as arrays of length n."""

    xs: Array
    ys: Array
    radii: Array

    @property
    def value(self) -> float:
        """The sum of radii."""
        return float(self.radii.sum())

    def circles(self) -> list[Circle]:
        """Return the packing as plain numbers."""
        rows = zip(self.xs.tolist(), self.ys.tolist(), self.radii.tolist(), strict=True)
        return [(x, y, r) for x, y, r in rows]


class Settled(NamedTuple):
    """Where a solve ended."""

    layout: Layout
    gap: float
    """Complementarity at the end; at most ``GAP`` at a local optimum."""
    iterations: int
    pair_forces: Array
    """What each pair presses with, n x n: zero for a pair that does not touch."""
    wall_forces: Array
    """The same for each wall and circle, 5 x n, the last row for radii of zero."""


class _Rules(NamedTuple):
    """Slacks of all rules at one layout, and the directions between centres."""

    pairs: Array
    """n x n, symmetric; 1 on the diagonal, where there is no rule."""
    walls: Array
    """5 x n: left, right, bottom, top, radius not negative."""
    ux: Array
    uy: Array


def layout_of(circles: list[Circle]) -> Layout:
    """Return ``circles`` as arrays."""
    xs, ys, radii = np.array(circles, dtype=np.float64).T
    return Layout(xs, ys, radii)


def inherited(parent: Artifact, n: int) -> Layout | None:
    """Return the packing of ``n`` circles that ``parent`` holds, repaired; None without one."""
    try:
        circles = read_packing(parent)
    except ValueError:
        return None
    return layout_of(repair(circles)) if len(circles) == n else None


def loosen(layout: Layout, share: float = 0.9) -> Layout:
    """Return ``layout`` with radii cut until no rule is broken, then to ``share`` of that.

    Centres at a wall move ``LEAST`` inwards and radii below ``LEAST`` grow to it first, so the
    result is strictly feasible for a ``share`` below 1 unless two centres coincide.
    """
    xs, ys = np.clip(layout.xs, LEAST, 1 - LEAST), np.clip(layout.ys, LEAST, 1 - LEAST)
    walls = np.minimum(np.minimum(xs, 1 - xs), np.minimum(ys, 1 - ys))
    radii = np.minimum(np.maximum(layout.radii, LEAST), walls)
    distance = np.hypot(xs[:, None] - xs, ys[:, None] - ys)
    np.fill_diagonal(distance, np.inf)
    fit = (distance / (radii[:, None] + radii)).min(axis=1)
    return Layout(xs, ys, radii * np.minimum(1.0, fit) * share)


def settle(
    start: Layout, *, barrier: float, beat: float = -np.inf, steps: int = STEPS
) -> Settled | None:
    """Return the local optimum that ``start`` leads to, or None when there is no way to it.

    ``start`` has to be strictly feasible (:func:`loosen`); None is returned when it is not, and
    when the linear algebra breaks down far from an optimum. ``barrier`` is the first weight of the
    logarithmic barrier: the larger, the less of the start is kept. The solve stops early, with the
    layout at hand, when it is foretold not to exceed ``beat`` by 1e-9, and after ``steps``.
    """
    n = len(start.xs)
    layout, rules = start, _rules(start)
    if not _interior(rules):
        return None
    pair_forces, wall_forces = _inverse(rules.pairs, barrier), barrier / rules.walls
    gap, weight, stride = np.inf, barrier, 0.98
    for iteration in range(steps):
        step = _newton(rules, pair_forces, wall_forces, weight)
        if step is None:
            return (
                Settled(layout, gap, iteration, pair_forces, wall_forces) if gap < LOCAL else None
            )
        primal, dual = _lengths(rules, pair_forces, wall_forces, step, stride)
        z = np.concatenate(layout) + primal * step.move
        ahead = Layout(z[:n], z[n : 2 * n], z[2 * n :])
        rules = _rules(ahead)
        if not _interior(rules):
            # Rounding has eaten the last slack: the layout before is as good as it gets.
            return Settled(layout, gap, iteration, pair_forces, wall_forces)
        layout = ahead
        pair_forces = pair_forces + dual * step.pair_forces
        wall_forces = wall_forces + dual * step.wall_forces
        gap = float(0.5 * ((pair_forces * rules.pairs).sum()) + (wall_forces * rules.walls).sum())
        if gap < GAP or (gap < LOCAL and layout.value + 2 * gap < beat + 1e-9):
            return Settled(layout, gap, iteration + 1, pair_forces, wall_forces)
        swift = min(primal, dual) > 0.9
        weight = (0.01 if swift else 0.1) * gap / (n * (n - 1) / 2 + 5 * n)
        stride = 0.998 if swift else 0.98
    return Settled(layout, gap, steps, pair_forces, wall_forces)


def leap(settled: Settled) -> Layout | None:
    """Return where a full Newton step from ``settled`` leads, whatever rules it breaks.

    Close to a local optimum the step lands on it, with an error that is the square of the distance;
    further away circles overlap. None when the linear algebra breaks down.
    """
    n = len(settled.layout.xs)
    rules = _rules(settled.layout)
    step = _newton(rules, settled.pair_forces, settled.wall_forces, 0.0)
    if step is None:
        return None
    z = np.concatenate(settled.layout) + step.move
    return Layout(z[:n], z[n : 2 * n], z[2 * n :])


def _rules(layout: Layout) -> _Rules:
    xs, ys, radii = layout
    dx, dy = xs[:, None] - xs, ys[:, None] - ys
    distance = np.sqrt(dx * dx + dy * dy)
    distance.flat[:: len(xs) + 1] = 1.0
    pairs = distance - (radii[:, None] + radii)
    pairs.flat[:: len(xs) + 1] = 1.0
    walls = np.array([xs - radii, 1 - xs - radii, ys - radii, 1 - ys - radii, radii])
    # Coincident centres have no direction; _interior refuses them.
    distance = np.maximum(distance, np.finfo(np.float64).tiny)
    return _Rules(pairs, walls, dx / distance, dy / distance)


def _interior(rules: _Rules) -> bool:
    return bool(rules.pairs.min() > 0 and rules.walls.min() > 0)


def _inverse(pairs: Array, weight: float) -> Array:
    inverse = weight / pairs
    inverse.flat[:: len(pairs) + 1] = 0.0
    return inverse


class _Step(NamedTuple):
    move: Array
    """Change of xs, ys, radii, end to end."""
    pairs: Array
    """Change of the linearised slacks."""
    walls: Array
    pair_forces: Array
    wall_forces: Array


def _newton(rules: _Rules, pair_forces: Array, wall_forces: Array, weight: float) -> _Step | None:
    """Return the step towards slack * force = ``weight`` for every rule, or None without one."""
    pairs, walls, ux, uy = rules
    n = len(pairs)
    stiff, wall_stiff = pair_forces / pairs, wall_forces / walls
    pull, wall_pull = _inverse(pairs, weight), weight / walls
    load = np.concatenate(
        [
            (pull * ux).sum(axis=1) + wall_pull[0] - wall_pull[1],
            (pull * uy).sum(axis=1) + wall_pull[2] - wall_pull[3],
            1 - pull.sum(axis=1) - wall_pull[:4].sum(axis=0) + wall_pull[4],
        ]
    )
    try:
        move: Array = np.linalg.solve(_stiffness(ux, uy, stiff, wall_stiff), load)
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(move).all():
        return None
    dx, dy, dr = move[:n], move[n : 2 * n], move[2 * n :]
    by_pair = ux * (dx[:, None] - dx) + uy * (dy[:, None] - dy) - (dr[:, None] + dr)
    by_pair.flat[:: n + 1] = 0.0
    by_wall = np.array([dx - dr, -dx - dr, dy - dr, -dy - dr, dr])
    return _Step(
        move,
        by_pair,
        by_wall,
        pull - pair_forces - stiff * by_pair,
        wall_pull - wall_forces - wall_stiff * by_wall,
    )


def _stiffness(ux: Array, uy: Array, stiff: Array, wall_stiff: Array) -> Array:
    """Return J^T D J for the Jacobian J of all rules and D = force / slack, plus ``REGULAR``."""
    n = len(ux)
    matrix = np.empty((3 * n, 3 * n))
    blocks = matrix.reshape(3, n, 3, n)
    sx, sy = stiff * ux, stiff * uy
    left, right, bottom, top, floor = wall_stiff

    def put(row: int, column: int, block: Array, diagonal: Array) -> None:
        block.flat[:: n + 1] = diagonal
        blocks[row, :, column, :] = block
        if row != column:
            blocks[column, :, row, :] = block.T

    xx, xy, yy = sx * ux, sx * uy, sy * uy
    put(0, 0, -xx, xx.sum(axis=1) + left + right + REGULAR)
    put(0, 1, -xy, xy.sum(axis=1))
    put(1, 1, -yy, yy.sum(axis=1) + bottom + top + REGULAR)
    put(0, 2, -sx, right - left - sx.sum(axis=1))
    put(1, 2, -sy, top - bottom - sy.sum(axis=1))
    put(2, 2, stiff.copy(), stiff.sum(axis=1) + left + right + bottom + top + floor + REGULAR)
    return matrix


def _lengths(
    rules: _Rules, pair_forces: Array, wall_forces: Array, step: _Step, stride: float
) -> tuple[float, float]:
    """Return how far the layout and the forces may go: ``stride`` of the way to the border."""
    n = len(rules.pairs)
    held = pair_forces.copy()
    held.flat[:: n + 1] = 1.0
    slacks = max(float((-step.pairs / rules.pairs).max()), float((-step.walls / rules.walls).max()))
    forces = max(
        float((-step.pair_forces / held).max()), float((-step.wall_forces / wall_forces).max())
    )
    return min(1.0, stride / max(slacks, 1e-9)), min(1.0, stride / max(forces, 1e-9))
