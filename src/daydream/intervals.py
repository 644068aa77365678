"""Means with intervals: what a few paired differences say."""

import math
from collections.abc import Sequence

import msgspec

from daydream.objective import mean


class Interval(msgspec.Struct, frozen=True):
    """A mean with its 95 % interval over pairs (Student's t)."""

    mean: float
    low: float
    high: float
    n: int


_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Two-sided 95 % points of Student's t for 1 to 30 degrees of freedom (standard tables)."""


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of ``values`` with its 95 % interval; no width for fewer than two values."""
    n = len(values)
    middle = mean(values)
    if n < 2:
        return Interval(middle, middle, middle, n)
    spread = math.sqrt(math.fsum((v - middle) ** 2 for v in values) / (n - 1))
    point = _T95[n - 2] if n - 1 <= len(_T95) else 1.96 + 2.4 / (n - 1)
    half = point * spread / math.sqrt(n)
    return Interval(middle, middle - half, middle + half, n)
