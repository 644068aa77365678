"""Iterated local search for circle packings: shake the parent's packing, settle, keep the better.

Owns the starts and the moves; :mod:`.circle_solver` owns the solve. The first attempt of a branch
settles several starts (random, rows, thinned grid) and goes on from the best; a deeper attempt goes
on from its parent. A move lifts one to three circles out and drops each into the largest of some
sampled holes, or shakes all centres, or swaps two circles. A branch whose packing has survived
``RESTART`` solves unimproved starts afresh, so a child can be worse than its parent.

Effort counts solves. Equal contexts give equal bytes: the generator is seeded with ``attempt_seed``
alone, and linear algebra runs on one thread in the workers of a run. Packings are exact for every
task, so a tolerance that the task allows is never spent.
"""

from typing import Final

import numpy as np

from daydream.agents.base import AttemptContext, Proposal
from daydream.agents.local_search.circle_solver import (
    Array,
    Layout,
    inherited,
    layout_of,
    loosen,
    settle,
)
from daydream.tasks.circle_packing import packing_artifact, repair, size_of

UNIT: Final = "solves"
EFFORT: Final = 12
STARTS: Final = 6
"""Starts that are settled when a branch begins, where the effort allows."""
START_BARRIER: Final = 1e-2
MOVE_BARRIER: Final = 1e-3
"""First barrier of a solve: a start may be blurred, a shaken packing should remember itself."""
RESTART: Final = 96
HOLES: Final = 30
"""Points that are tried for each circle that is dropped into a hole."""


def propose(context: AttemptContext, effort: int) -> Proposal:
    """Return the best packing found from the parent's with ``effort`` solves, exactly feasible."""
    rng = np.random.default_rng(context.attempt_seed)
    n = size_of(context.task.name)
    goes_on = context.depth > 1 and not _is_stale(context, effort)
    held = inherited(context.parent, n) if goes_on else None
    search = _Search(rng, n, effort)
    best = search.improve(search.start() if held is None else held)
    return Proposal(
        packing_artifact(repair(best.circles())),
        rationale=("continued" if held is not None else "started afresh")
        + f", {search.better} of {search.spent} solves were better",
        notes={"solves": search.spent, "broken": search.broken, "better": search.better},
    )


def _is_stale(context: AttemptContext, effort: int) -> bool:
    scores = [ancestor.score for ancestor in context.lineage[1:]]
    alike = 0
    while alike < len(scores) and scores[-1 - alike] == scores[-1]:
        alike += 1
    return (alike - 1) * effort >= RESTART


class _Search:
    """Spends a number of solves; random numbers are drawn in a fixed order."""

    def __init__(self, rng: np.random.Generator, n: int, effort: int) -> None:
        self._rng = rng
        self._n = n
        self._effort = effort
        self.spent = 0
        self.broken = 0
        """Solves that led nowhere."""
        self.better = 0
        """Solves that improved on the best before."""

    def start(self) -> Layout:
        """Return the best of some settled starts."""
        best = layout_of([(0.5, 0.5, 0.0)] * self._n)
        for _ in range(min(STARTS, self._effort)):
            best = self._better(best, self._fresh(), START_BARRIER)
        return best

    def improve(self, best: Layout) -> Layout:
        """Return ``best`` after the rest of the effort went into moves from it."""
        while self.spent < self._effort:
            best = self._better(best, self._moved(best), MOVE_BARRIER)
        return best

    def _better(self, best: Layout, start: Layout, barrier: float) -> Layout:
        self.spent += 1
        found = settle(loosen(start), barrier=barrier, beat=best.value)
        if found is None:
            self.broken += 1
        elif found.layout.value > best.value + 1e-9:
            self.better += 1
            return found.layout
        return best

    def _fresh(self) -> Layout:
        kind = int(self._rng.integers(3))
        side = int(np.ceil(np.sqrt(self._n)))
        if kind == 0:
            points = self._rng.random((self._n, 2))
        elif kind == 1:
            points = self._rows(side)
        else:
            cells = self._rng.permutation(side * side)[: self._n]
            points = (np.stack([cells % side, cells // side], axis=1) + 0.5) / side
            points = points + self._rng.normal(0.0, 0.04, points.shape)
        points = _inside(points)
        return Layout(points[:, 0], points[:, 1], np.full(self._n, 0.5 / side))

    def _rows(self, side: int) -> Array:
        rows = max(1, min(self._n, side + int(self._rng.integers(-1, 2))))
        counts = np.full(rows, self._n // rows)
        counts[self._rng.permutation(rows)[: self._n % rows]] += 1
        points = np.array(
            [
                ((place + 0.5) / count, (row + 0.5) / rows)
                for row, count in enumerate(counts.tolist())
                for place in range(count)
            ]
        )
        return points + self._rng.normal(0.0, 0.03, points.shape)

    def _moved(self, layout: Layout) -> Layout:
        kind = self._rng.random()
        if kind < 0.5:
            return self._relocated(layout)
        points = np.stack([layout.xs, layout.ys], axis=1)
        if kind < 0.8 or self._n == 1:
            spread = (0.01, 0.03, 0.06)[int(self._rng.integers(3))]
            points = _inside(points + self._rng.normal(0.0, spread, points.shape))
        else:
            pair = self._rng.choice(self._n, 2, replace=False)
            points[pair] = points[pair[::-1]]
        return Layout(points[:, 0], points[:, 1], layout.radii)

    def _relocated(self, layout: Layout) -> Layout:
        xs, ys, radii = layout.xs.copy(), layout.ys.copy(), layout.radii.copy()
        count = min(self._n, int(self._rng.integers(1, 4)))
        odds = np.ones(self._n)
        if self._rng.random() < 0.5:
            # Small circles are the likeliest to sit in the wrong hole.
            odds = 1.0 / np.maximum(radii, 1e-3) ** 2
        for i in self._rng.choice(self._n, count, replace=False, p=odds / odds.sum()).tolist():
            x, y = self._rng.random((2, HOLES))
            room = np.hypot(x[:, None] - xs, y[:, None] - ys) - radii
            room[:, i] = 1.0
            walls = np.minimum(np.minimum(x, 1 - x), np.minimum(y, 1 - y))
            room = np.minimum(room.min(axis=1), walls)
            hole = int(room.argmax())
            xs[i], ys[i], radii[i] = x[hole], y[hole], room[hole]
        return Layout(xs, ys, radii)


def _inside(
    points: Array,
) -> Array:
    """Fold ``points`` back at the walls, so that two of them never meet in a corner."""
    folded: Array = 1.0 - np.abs(1.0 - np.abs(points))
    return folded
