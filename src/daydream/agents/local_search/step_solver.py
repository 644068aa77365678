"""Local minima of an autocorrelation ratio, for many step functions at once or for one exactly.

A batch holds one function a row. The ratio of a row is smoothed: the greatest of the ratios v_k at
the knots of the autoconvolution becomes log(sum(exp(beta v_k))) / beta, which lies above it by at
most log(2n) / beta. The strict form takes |v_k|; the second inequality, a maximum, is turned into
log(1 / R) with the same soft maximum in R. Heights that may not be negative are the squares of the
free variables. Autoconvolutions and gradients are FFTs, so a row costs O(n log n).

:func:`descend` is L-BFGS (Nocedal 1980, two-loop recursion, backtracking by Armijo's rule) carried
out on all rows in step, so that the overhead of numpy is shared. :func:`polish` is scipy's L-BFGS-B
on one function up to a nearly exact maximum; how far it goes decides the third decimal. Nothing
here is random, reads a clock or calls threaded linear algebra.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import minimize

from daydream.tasks.autocorrelation import Variant

Array: TypeAlias = NDArray[np.float64]
Plan: TypeAlias = Sequence[tuple[Variant, float]]
"""Descents to make in turn: which ratio, and how sharp a maximum (beta)."""

MEMORY: Final = 10
"""Pairs that L-BFGS remembers for a batch."""
FIRST_STEP: Final = 0.05
"""Length of the very first step of a row, in units of a free variable."""
SUFFICIENT: Final = 1e-4
SHRINK: Final = 0.3
BACKTRACKS: Final = 12
SETTLED: Final = 1e-11
"""A descent ends early when no row gains more than this in one iteration."""
TINY: Final = 1e-300
POLISH_BETAS: Final = (600.0, 2_000.0, 6_000.0, 20_000.0, 60_000.0, 200_000.0)
POLISH_ITERATIONS: Final = 2
"""For each beta, for each step of the function. At 800 steps a sixth of it ends 0.0003 higher in C;
twice as many gain 0.00004 more."""
POLISH_MEMORY: Final = 30


def descend(functions: Array, plan: Plan, iterations: int) -> Array:
    """Return ``functions`` (one a row, mean not 0) after the descents of ``plan``, one by one.

    Every row comes back with mean 1; each descent takes at most ``iterations`` steps. The plan's
    variants agree on whether heights may be negative.
    """
    found = scaled(functions)
    for variant, beta in plan:
        smooth = Smooth(found.shape[1], variant)
        free = _minimise(smooth, smooth.free(found), beta, iterations)
        found = scaled(free * free if smooth.squares else free)
    return found


def polish(function: Array, variant: Variant) -> Array:
    """Return ``function`` (mean not 0), scaled to mean 1, after descents with ``POLISH_BETAS``."""
    smooth = Smooth(len(function), variant)
    iterations = POLISH_ITERATIONS * len(function)

    def single(free: Array, beta: float) -> tuple[float, Array]:
        value, slope = smooth(free[None], beta)
        return float(value[0]), slope[0]

    found = scaled(function[None])
    for beta in POLISH_BETAS:
        solved = minimize(
            single,
            smooth.free(found)[0],
            args=(beta,),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": POLISH_MEMORY},
        )
        free = np.asarray(solved.x, dtype=np.float64)[None]
        found = scaled(free * free if smooth.squares else free)
    polished: Array = found[0]
    return polished


def scaled(functions: Array) -> Array:
    """Return ``functions`` with every row's mean set to 1."""
    rescaled: Array = functions / functions.mean(axis=1, keepdims=True)
    return rescaled


class Smooth:
    """The smoothed ratio of rows with ``n`` steps."""

    def __init__(self, n: int, variant: Variant) -> None:
        self._n = n
        self._variant: Variant = variant
        self._size = next_fast_len(2 * n - 1, real=True)
        self.squares = not variant.startswith("third")
        """Whether free variables are square roots of heights."""

    def free(self, functions: Array) -> Array:
        """Return the free variables of rows of heights; 0 for what is negative and may not be."""
        return np.sqrt(np.maximum(functions, 0.0)) if self.squares else functions

    def exact(self, functions: Array) -> Array:
        """Return the ratio of each row to be minimised, 1 / R of the second, without smoothing."""
        _, ratios, _ = self._ratios(functions)
        peaks = self._magnitudes(ratios).max(axis=1)
        if self._variant == "second":
            return np.asarray(peaks * 6 * self._n / _norm(ratios), dtype=np.float64)
        return np.asarray(np.abs(peaks), dtype=np.float64)

    def value(self, functions: Array, beta: float) -> Array:
        """Return the smoothed ratio of each row of heights."""
        return self(self.free(functions), beta)[0]

    def __call__(self, free: Array, beta: float) -> tuple[Array, Array]:
        """Return the smoothed ratio of each row of free variables, and its gradient."""
        heights = free * free if self.squares else free
        transform, ratios, total = self._ratios(heights)
        magnitudes = self._magnitudes(ratios)
        peak = magnitudes.max(axis=1, keepdims=True)
        weights = np.exp(beta * (magnitudes - peak))
        mass = weights.sum(axis=1, keepdims=True)
        weights /= mass
        value = peak[:, 0] + np.log(mass[:, 0]) / beta
        if self._variant == "third-strict":
            weights = np.copysign(weights, ratios)
        slope = self._slope(weights, transform, ratios, total)
        if self._variant == "second":
            norm = _norm(ratios)
            inner = 4 * ratios
            inner[:, :-1] += ratios[:, 1:]
            inner[:, 1:] += ratios[:, :-1]
            of_norm = self._slope(inner, transform, ratios, total)
            slope = slope / value[:, None] - of_norm / norm[:, None]
            value = np.log(value * 6 * self._n / norm)
        return value, 2 * free * slope if self.squares else slope

    def _ratios(self, heights: Array) -> tuple[NDArray[np.complex128], Array, Array]:
        total = heights.sum(axis=1, keepdims=True)
        transform = rfft(heights, self._size, axis=1)
        knots = irfft(transform * transform, self._size, axis=1)[:, : 2 * self._n - 1]
        return transform, knots * (2 * self._n / total**2), total

    def _magnitudes(self, ratios: Array) -> Array:
        return np.abs(ratios) if self._variant == "third-strict" else ratios

    def _slope(
        self, weights: Array, transform: NDArray[np.complex128], ratios: Array, total: Array
    ) -> Array:
        """Return the gradient of sum(weights * ratios) in the heights, weights held fixed."""
        pulled = irfft(rfft(weights, self._size, axis=1) * transform.conj(), self._size, axis=1)
        mean = _dot(weights, ratios)[:, None]
        slope: Array = pulled[:, : self._n] * (4 * self._n / total**2) - 2 / total * mean
        return slope


def _norm(ratios: Array) -> Array:
    """Return 3n times the squared norm of the piecewise linear function through ``ratios``."""
    return 2 * _dot(ratios, ratios) + _dot(ratios[:, :-1], ratios[:, 1:])


def _dot(left: Array, right: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", left, right), dtype=np.float64)


class _Pair(NamedTuple):
    """One step of all rows; a row that learned nothing from it holds zeros."""

    step: Array
    change: Array
    """Of the gradient."""
    inverse: Array
    """1 / (step . change) of each row."""


def _minimise(smooth: Smooth, free: Array, beta: float, iterations: int) -> Array:
    value, slope = smooth(free, beta)
    length = FIRST_STEP / np.maximum(np.sqrt(_dot(slope, slope)), TINY)
    pairs: deque[_Pair] = deque(maxlen=MEMORY)
    for _ in range(iterations):
        if pairs:
            _, change, inverse = pairs[-1]
            learned = inverse > 0
            curvature = np.maximum(inverse * _dot(change, change), TINY)
            length = np.where(learned, 1 / curvature, length)
        heading = _heading(slope, pairs, length)
        descent = _dot(heading, slope)
        astray = ~(descent < 0)
        heading[astray] = -slope[astray] * length[astray, None]
        descent[astray] = _dot(heading[astray], slope[astray])
        ahead, lower, tilt = _walk(smooth, beta, (free, value, slope), heading, descent)
        pairs.append(_pair(ahead - free, tilt - slope))
        gain = float((value - lower).max())
        free, value, slope = ahead, lower, tilt
        if not gain > SETTLED:
            break
    return free


def _heading(slope: Array, pairs: deque[_Pair], length: Array) -> Array:
    """Return minus the gradient times the inverse Hessian that ``pairs`` imply, row by row."""
    pull = slope.copy()
    shares: list[Array] = []
    for step, change, inverse in reversed(pairs):
        share = inverse * _dot(step, pull)
        pull -= share[:, None] * change
        shares.append(share)
    pull *= length[:, None]
    for (step, change, inverse), share in zip(pairs, reversed(shares), strict=True):
        pull += (share - inverse * _dot(change, pull))[:, None] * step
    return -pull


def _walk(
    smooth: Smooth,
    beta: float,
    here: tuple[Array, Array, Array],
    heading: Array,
    descent: Array,
) -> tuple[Array, Array, Array]:
    """Return points, values and gradients along ``heading``; a row without a lower point stays."""
    free, value, slope = (part.copy() for part in here)
    share = np.ones(len(free))
    left = np.arange(len(free))
    for _ in range(BACKTRACKS):
        trial = here[0][left] + share[left, None] * heading[left]
        found, tilt = smooth(trial, beta)
        good = found <= here[1][left] + SUFFICIENT * share[left] * descent[left]
        taken = left[good]
        free[taken], value[taken], slope[taken] = trial[good], found[good], tilt[good]
        left = left[~good]
        if not left.size:
            break
        share[left] *= SHRINK
    return free, value, slope


def _pair(step: Array, change: Array) -> _Pair:
    curvature = _dot(step, change)
    learned = curvature > 1e-12 * _dot(change, change)
    inverse = np.where(learned, 1 / np.where(learned, curvature, 1.0), 0.0)
    keep = learned[:, None]
    return _Pair(step * keep, change * keep, inverse)
