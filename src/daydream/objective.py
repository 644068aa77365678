"""What a rollout is worth: equation 1 of Dream-RSI (arXiv 2609.14858, section 3) and its variants.

    V = quality - cost_weight * s * N + parallel_weight * s * N / max(1, k)

with N revealed attempts, k non-empty batches and s the task's score scale. The default weights,
0.002 and 0.005, are those of the first public implementation; the paper prints none. With few
batches the formula pays for padding: one more worthless attempt in an existing batch changes V by
s * (parallel_weight / k - cost_weight), which is positive for k <= 2 at the defaults.
"""

import math
from collections.abc import Iterable, Sequence

import msgspec

MARGIN = 1e-12
"""Two values closer than this are equal: equal (N, k) can differ in floats by up to 2.3e-16."""


class Breakdown(msgspec.Struct, frozen=True):
    """A replay score and the terms that it is the sum of."""

    quality: float
    attempts: int
    batches: int
    parallelism: float
    """attempts / max(1, batches)"""
    cost: float
    """The term subtracted, >= 0."""
    bonus: float
    """The term added for parallelism, >= 0."""
    score: float


class Objective(msgspec.Struct, frozen=True):
    """Weights of equation 1. ``normalised`` scores attainment and shares of the record instead."""

    cost_weight: float = 0.002
    parallel_weight: float = 0.005
    normalised: bool = False

    def raw(self, quality: float, attempts: int, batches: int, scale: float) -> Breakdown:
        """Return equation 1 for one world; ``scale`` is the task's s (> 0)."""
        parallelism = attempts / max(1, batches)
        cost = self.cost_weight * scale * attempts
        bonus = self.parallel_weight * scale * parallelism
        return Breakdown(
            quality=quality,
            attempts=attempts,
            batches=batches,
            parallelism=parallelism,
            cost=cost,
            bonus=bonus,
            score=quality - cost + bonus,
        )

    def relative(
        self, attained: float, attempts: int, batches: int, *, recorded: int, limit: int
    ) -> Breakdown:
        """Return the normalised variant: ``attained`` in [0, 1], costs as shares.

        The cost is cost_weight * N / N_world, the bonus parallel_weight * (N / max(1, k)) / limit.
        """
        parallelism = attempts / max(1, batches)
        cost = self.cost_weight * attempts / max(1, recorded)
        bonus = self.parallel_weight * parallelism / limit
        return Breakdown(
            quality=attained,
            attempts=attempts,
            batches=batches,
            parallelism=parallelism,
            cost=cost,
            bonus=bonus,
            score=attained - cost + bonus,
        )


def attainment(quality: float, base: float, best: float) -> float:
    """Return clip((quality - base) / (best - base), 0, 1); 1 where there was nothing to gain."""
    span = best - base
    if not span > 0:
        return 1.0
    return min(1.0, max(0.0, (quality - base) / span))


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean, summed exactly (``math.fsum``); 0 for no values."""
    return math.fsum(values) / len(values) if values else 0.0


class SweepPoint(msgspec.Struct, frozen=True):
    """One beta over one world: what it attained, for which share of the record."""

    attained: float
    """In [0, 1]."""
    share: float
    """N / N_world, in [0, 1]."""
    probes: int
    waves: int
    """Sum over batches of ceil(batch size / limit)."""


class Sweep(msgspec.Struct, frozen=True):
    """The sweep objective of appendix B with the definition that the paper leaves out."""

    area: float
    penalty: float
    reward: float


BETAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def sweep(points: Sequence[Sequence[SweepPoint]], *, penalty_weight: float = 0.1) -> Sweep:
    """Return the sweep score of ``points[beta][world]``.

    A(x) is the greatest mean attainment over betas whose mean share is at most x (0 below the
    least share); the area is the integral of A over [0, 1]; the penalty is the mean over betas and
    worlds of waves / max(1, probes); reward = area - penalty_weight * penalty. A policy without a
    beta is one row, a single step of the same curve.
    """
    steps = sorted(
        (mean([point.share for point in row]), mean([point.attained for point in row]))
        for row in points
        if row
    )
    pieces: list[float] = []
    height, left = 0.0, 0.0
    for share, attained in steps:
        right = min(1.0, share)
        pieces.append(height * (right - left))
        height, left = max(height, attained), right
    pieces.append(height * (1.0 - left))
    area = math.fsum(pieces)
    penalty = mean(list(_penalties(points)))
    return Sweep(area=area, penalty=penalty, reward=area - penalty_weight * penalty)


def _penalties(points: Sequence[Sequence[SweepPoint]]) -> Iterable[float]:
    for row in points:
        for point in row:
            yield point.waves / max(1, point.probes)
