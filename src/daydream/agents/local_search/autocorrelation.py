"""Numerical search for autocorrelation: many coarse starts, then finer steps of the best.

A function with n steps is also one with 2n steps, so an attempt works at a coarse level and stores
each height several times; the next one sees the level in the repetition, doubles it and solves
again. The first attempt of a branch spends its effort on random starts at the coarsest level. Their
results have a heavy tail on the good side and the start decides the final value, so the starts
race, and only those that lead at a small beta are solved to the end. Once the level is the task's
own, attempts disturb the parent and solve again.

The solver is L-BFGS on a soft maximum, log(sum(exp(beta v))) / beta with v the ratio at each knot
of the autoconvolution (by FFT), for rising beta; the other sign of v takes part for the strict
form. Heights that may not be negative are squares. For the second inequality, a maximum, the
solver minimises the logarithm of 1 / R with the same soft maximum in the denominator.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import minimize

from daydream.agents.base import AttemptContext, Proposal
from daydream.tasks.autocorrelation import (
    Variant,
    heights_artifact,
    read_heights,
    variant_of,
)

Vector: TypeAlias = NDArray[np.float64]

UNIT: Final = "solves"
EFFORT: Final = 64
"""Coarse starts of an attempt that opens a branch; finer ones solve a 32nd of it, at least two."""
COARSEST: Final = 120
"""Fewest steps of the coarsest level."""
HEATS: Final = ((20.0, 8), (60.0, 4))
"""Rounds of the race between starts: beta, and one of how many goes on. What becomes a good
function stands out early: at beta 60 it leads by more than the rest differ among themselves."""
ROUGH_SHARE: Final = 0.6
"""Of the starts; good functions are rough, and smoothing one of them to half its steps loses it."""
START_BETAS: Final = (200.0, 600.0, 2_000.0, 6_000.0, 20_000.0)
FINE_BETAS: Final = (600.0, 2_000.0, 6_000.0, 20_000.0, 60_000.0)
ITERATIONS: Final = 300
"""L-BFGS iterations for each beta."""


def propose(context: AttemptContext, effort: int) -> Proposal:
    """Return the best function of this attempt, stored with the task's number of steps."""
    rng = np.random.default_rng(context.attempt_seed)
    variant = variant_of(context.task)
    parent = np.array(read_heights(context.parent), dtype=np.float64)
    bins = len(parent)
    level = _level(parent)
    if context.depth == 1 or level == 1:
        coarse = _coarsest(bins)
        starts = [_start(coarse, variant, rng) for _ in range(effort)]
        found = _best(_race(starts, variant), variant)
        how = f"best of {effort} starts with {coarse} steps"
    else:
        steps = parent[:: bins // level]
        finer = min(2 * level, bins)
        base = np.repeat(steps, finer // level)
        tries = max(2, effort // 32)
        noise = [0.0, *(0.02 * (i + 1) for i in range(tries - 1))]
        starts = [base * (1 + size * rng.standard_normal(finer)) for size in noise]
        solved = [_solve(start, variant, FINE_BETAS) for start in starts]
        found = _best([steps if finer == level else base, *solved], variant)
        how = f"best of {tries} solves with {finer} steps"
    return Proposal(heights_artifact(np.repeat(found, bins // len(found)).tolist()), rationale=how)


def _coarsest(bins: int) -> int:
    level = bins
    while level % 2 == 0 and level // 2 >= COARSEST:
        level //= 2
    return level


def _level(heights: Vector) -> int:
    """Return the least number of equal steps that ``heights`` repeats, by powers of two."""
    level = len(heights)
    while level % 2 == 0:
        pairs = heights[:: len(heights) // level].reshape(-1, 2)
        if not np.array_equal(pairs[:, 0], pairs[:, 1]):
            break
        level //= 2
    return 1 if np.all(heights == heights[0]) else level


def _start(n: int, variant: Variant, rng: np.random.Generator) -> Vector:
    """Return a random function with mean 1: smooth between few knots, or rough to the last step."""
    signed = variant.startswith("third")
    rough = rng.random() < ROUGH_SHARE
    knots = n if rough else int(rng.integers(3, 40))
    values = rng.normal(0.6, 1.0, knots) if signed else rng.random(knots)
    heights = np.interp(np.linspace(0, 1, n), np.linspace(0, 1, knots), values)
    if rng.random() < 0.5:
        heights = heights + 0.3 * rng.random(n)
    if heights.sum() < 0:
        heights = -heights
    if heights.sum() < 0.1 * n:
        heights = heights + 0.3
    return np.asarray(heights * (n / heights.sum()), dtype=np.float64)


def _race(starts: Sequence[Vector], variant: Variant) -> list[Vector]:
    """Return the starts that lead after each heat, solved to the end."""
    running = list(starts)
    for beta, share in HEATS:
        solved = [_solve(start, variant, (beta,)) for start in running]
        solved.sort(key=lambda heights: _soft(heights, variant, beta))
        running = solved[: max(1, len(solved) // share)]
    return [_solve(start, variant, START_BETAS) for start in running]


def _soft(heights: Vector, variant: Variant, beta: float) -> float:
    size = next_fast_len(2 * len(heights), real=True)
    free = heights if variant.startswith("third") else np.sqrt(heights)
    return _smooth(free, variant, beta, size)[0]


def _best(found: Sequence[Vector], variant: Variant) -> Vector:
    return min(found, key=lambda heights: _value(heights, variant))


def _value(heights: Vector, variant: Variant) -> float:
    """The ratio to minimise, in floats; infinite where it means nothing."""
    total = heights.sum()
    if not abs(total) > 1e-9 * len(heights):
        return float("inf")
    knots = np.convolve(heights, heights)
    if variant == "second":
        return float(3 * total**2 * knots.max() / _norm(knots))
    top = np.abs(knots).max() if variant == "third-strict" else abs(knots.max())
    return float(2 * len(heights) * top / total**2)


def _norm(knots: Vector) -> float:
    return float(2 * np.dot(knots, knots) + np.dot(knots[:-1], knots[1:]))


def _solve(start: Vector, variant: Variant, betas: Sequence[float]) -> Vector:
    n = len(start)
    size = next_fast_len(2 * n, real=True)
    squares = not variant.startswith("third")
    heights = np.maximum(start, 0.0) if squares else start
    free = np.sqrt(heights) if squares else heights
    for beta in betas:
        solved = minimize(
            _smooth,
            free,
            args=(variant, beta, size),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": ITERATIONS, "maxcor": 30, "maxfun": 3 * ITERATIONS},
        )
        free = np.asarray(solved.x, dtype=np.float64)
        heights = free * free if squares else free
        heights = heights * (n / heights.sum())
        free = np.sqrt(heights) if squares else heights
    return np.asarray(heights, dtype=np.float64)


def _smooth(free: Vector, variant: Variant, beta: float, size: int) -> tuple[float, Vector]:
    """Return the smoothed ratio and its gradient in the free variables."""
    n = len(free)
    squares = not variant.startswith("third")
    heights = free * free if squares else free
    total = heights.sum()
    transform = rfft(heights, size)
    knots = irfft(transform * transform, size)[: 2 * n - 1]
    scale = 2 * n / total**2
    ratios = knots * scale
    both = np.abs(ratios) if variant == "third-strict" else ratios
    peak = both.max()
    weights = np.exp(beta * (both - peak))
    mass = weights.sum()
    value = peak + np.log(mass) / beta
    weights = weights / mass
    if variant == "third-strict":
        weights = np.copysign(weights, ratios)
    slope = _pull(weights, transform, size, n) * 2 * scale - 2 / total * np.dot(weights, ratios)
    if variant == "second":
        # log(1 / R) up to a constant: the peak grows it, the norm of the ratios lowers it.
        norm = _norm(ratios)
        inner = 4 * ratios
        inner[:-1] += ratios[1:]
        inner[1:] += ratios[:-1]
        of_norm = _pull(inner, transform, size, n) * 2 * scale - 2 / total * np.dot(inner, ratios)
        slope = slope / value - of_norm / norm
        value = np.log(value) - np.log(norm) + np.log(n)
    return float(value), np.asarray(slope * 2 * free if squares else slope, dtype=np.float64)


def _pull(weights: Vector, transform: NDArray[np.complex128], size: int, n: int) -> Vector:
    """Return the correlation of ``weights`` with the heights, half of weights . knots' gradient."""
    found = irfft(rfft(weights, size) * np.conj(transform), size)[:n]
    return np.asarray(found, dtype=np.float64)
