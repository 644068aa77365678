"""A population of step functions that breeds towards a flat autoconvolution.

A child takes a stretch of heights from a second function (read forwards or backwards), is
disturbed, and slides to a local minimum of a smoothed ratio (:mod:`.step_solver`). It then fights
for the place of the function that it resembles most; a child that resembles none takes the place of
the worst. How much counts as resembling decides between breadth and depth: while a whole family
shares places, no family dies out because another was quicker, and with narrow places the best
family fills the population and is worked out in detail.

For the strict form of the third inequality a child first slides down the weak form, which leaves
negative values of the autoconvolution free: good functions have large negative parts, and the
strict form alone is slow to grow them.
"""

from typing import Final

import numpy as np

from daydream.agents.local_search.step_solver import Array, Plan, Smooth, descend, polish, scaled
from daydream.tasks.autocorrelation import Variant

STEPS: Final = 60
"""L-BFGS steps of a child for each descent of its plan."""
BETA: Final = 200.0
"""How sharp the maximum is by which functions compete."""
SHARP_BETAS: Final = (600.0, 2_000.0, 6_000.0, 20_000.0)
SHARP_STEPS: Final = 90
FINALISTS: Final = 8
"""Functions that are sharpened in the end; the best of them is polished."""
KIN: Final = 1.5
ALIKE: Final = 0.15
"""Functions (of mean 1) whose mean squared difference is below this compete for one place. At
``KIN`` a whole family does, at ``ALIKE`` only what is nearly the same."""
LEAST_MEAN: Final = 0.2
"""Signed functions are lifted to this mean before they are scaled, so that none explodes."""
ROUGH_SHARE: Final = 0.5
"""Of random functions: rough to the last step. The others are linear between a few knots."""
BATCH: Final = 64


class Population:
    """Functions with ``steps`` steps of one variant. Random numbers are drawn in a fixed order."""

    def __init__(self, rng: np.random.Generator, variant: Variant, steps: int) -> None:
        self._rng = rng
        self._variant: Variant = variant
        self._signed = variant.startswith("third")
        self._steps = steps
        self._plan = _plan(variant)
        self._smooth = Smooth(steps, variant)
        self.rows: Array = np.empty((0, steps))
        """The functions, one a row, each with mean 1."""
        self._worth: Array = np.empty(0)
        """Smoothed ratio of each row; less is better."""
        self.kept = 0
        """Children that took a place."""

    def found(self, starts: int, size: int) -> None:
        """Begin with the best ``size`` of ``starts`` random functions after a short descent."""
        first = self._plan[:1]
        ((variant, beta),) = first
        rough = np.vstack(
            [
                descend(self._random(min(BATCH, starts - done)), first, STEPS)
                for done in range(0, starts, BATCH)
            ]
        )
        order = np.argsort(Smooth(self._steps, variant).value(rough, beta), kind="stable")
        self._take(rough[order[:size]])

    def copies(self, function: Array, size: int, spread: float) -> None:
        """Begin with ``size`` copies of ``function``, disturbed by up to ``spread`` deviations."""
        noise = self._rng.standard_normal((size, self._steps))
        strength = np.linspace(0.0, spread, size)[:, None] * function.std()
        self._take(function + strength * noise)

    def breed(self, children: int, brood: int, alike: float = ALIKE) -> None:
        """Bring up ``children`` in generations of ``brood``; ``alike`` is the width of a place."""
        while children > 0:
            size = min(brood, children)
            children -= size
            made = np.array([self._child() for _ in range(size)])
            grown = descend(self._admissible(made), self._plan, STEPS)
            worth = self._smooth.value(grown, BETA)
            for function, value in zip(grown, worth, strict=True):
                self._compete(function, float(value), alike)

    def best(self, held: Array) -> Array:
        """Return the best function after polishing, among the finalists and ``held``.

        ``held`` are further functions, one a row, perhaps none; the answer is no worse than them.
        """
        order = np.argsort(self._worth, kind="stable")[:FINALISTS]
        candidates = np.vstack([held, self.rows[order]])
        plan = [(self._variant, beta) for beta in SHARP_BETAS]
        candidates = np.vstack([candidates, descend(candidates, plan, SHARP_STEPS)])
        leader = candidates[int(np.argmin(self._smooth.exact(candidates)))]
        pair = np.vstack([leader, polish(leader, self._variant)])
        chosen: Array = pair[int(np.argmin(self._smooth.exact(pair)))]
        return chosen

    def _take(self, functions: Array) -> None:
        self.rows = descend(self._admissible(functions), self._plan, STEPS)
        self._worth = self._smooth.value(self.rows, BETA)

    def _child(self) -> Array:
        rng = self._rng
        first, second, rival = rng.integers(len(self.rows), size=3).tolist()
        if rng.random() < 0.6 and self._worth[rival] < self._worth[first]:
            first = rival
        child: Array = self.rows[first].copy()
        other = self.rows[second]
        if rng.random() < 0.5:
            other = other[::-1]
        if rng.random() < 0.6:
            part = self._part()
            child[part] = other[part]
        size = child.std()
        if rng.random() < 0.15:
            part = self._part()
            zigzag = np.where(np.arange(part.stop - part.start) % 2, -1.0, 1.0)
            child[part] += rng.uniform(0.2, 1.0) * size * zigzag
        else:
            child += rng.uniform(0.0, 0.8) * size * rng.standard_normal(self._steps)
        return child

    def _part(self) -> slice:
        """Return a random stretch of a tenth to six tenths of the steps."""
        least = max(1, self._steps // 10)
        width = int(self._rng.integers(least, max(least + 1, 6 * self._steps // 10)))
        start = int(self._rng.integers(0, self._steps - width + 1))
        return slice(start, start + width)

    def _compete(self, function: Array, value: float, alike: float) -> None:
        ahead = ((self.rows - function) ** 2).mean(axis=1)
        mirrored = ((self.rows[:, ::-1] - function) ** 2).mean(axis=1)
        distance = np.minimum(ahead, mirrored)
        place = int(distance.argmin())
        if distance[place] > alike:
            place = int(self._worth.argmax())
        if value < self._worth[place]:
            self.rows[place], self._worth[place] = function, value
            self.kept += 1

    def _random(self, count: int) -> Array:
        grid = np.linspace(0.0, 1.0, self._steps)
        rows = []
        for _ in range(count):
            rough = self._rng.random() < ROUGH_SHARE
            knots = self._steps if rough else int(self._rng.integers(3, 40))
            values = self._rng.normal(0.6, 1.0, knots) if self._signed else self._rng.random(knots)
            rows.append(np.interp(grid, np.linspace(0.0, 1.0, knots), values))
        made = np.array(rows)
        return self._admissible(np.where(made.sum(axis=1, keepdims=True) < 0, -made, made))

    def _admissible(self, functions: Array) -> Array:
        """Return ``functions`` with mean 1 and, where the task asks for it, without negatives."""
        if not self._signed:
            functions = np.abs(functions)
        missing = np.maximum(0.0, LEAST_MEAN - functions.mean(axis=1, keepdims=True))
        return scaled(functions + missing)


def _plan(variant: Variant) -> Plan:
    """Return the descents of a child: from a blurred maximum to the one that decides."""
    if variant == "third-strict":
        weak: Variant = "third-weak"
        return (weak, 12.0), (weak, 40.0), (variant, 60.0), (variant, BETA)
    return (variant, 20.0), (variant, 60.0), (variant, BETA)
