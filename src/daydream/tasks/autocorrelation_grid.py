"""How much a step function of the autocorrelation tasks owes to its grid.

A function with n steps is written on other numbers of steps by its mean over each new step, which
keeps its integral; on a multiple of n it stays the very same function, and so do its ratios. What
they lose on the others says how far a value belongs to the function and how far to its grid.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from daydream.canonical import JsonValue
from daydream.tasks.autocorrelation import LARGEST, SMALLEST, Constants, constants

LEAST_STEPS = 2
MOST_STEPS = 16_384
"""Above it one exact product takes minutes."""
DEFAULT = (512, 1024, 2048)


class OnGrid(NamedTuple):
    """One function on one grid."""

    steps: int
    constants: Constants


def resampled(heights: Sequence[float], steps: int) -> list[float]:
    """Return the means of the step function ``heights`` over ``steps`` equal steps."""
    old = len(heights)
    found = []
    for place in range(steps):
        # In units of 1 / (old * steps), where every border is a whole number.
        low, high = place * old, (place + 1) * old
        touched = range(low // steps, (high - 1) // steps + 1)
        if len({heights[step] for step in touched}) == 1:
            # A mean of equal heights is that height, to the last bit.
            mean = heights[touched[0]]
        else:
            mean = math.fsum(
                heights[step] * (min(high, (step + 1) * steps) - max(low, step * steps)) / old
                for step in touched
            )
        found.append(mean if abs(mean) >= SMALLEST else 0.0)
    return found


def sensitivity(heights: Sequence[float], grids: Sequence[int]) -> list[OnGrid]:
    """Return the ratios of ``heights`` as they are, then on each of ``grids``.

    Raises ``ValueError`` for heights that are no step function with a sum.
    """
    problem = problem_of(heights)
    if problem:
        raise ValueError(problem)
    rows = [OnGrid(len(heights), constants(heights))]
    return rows + [OnGrid(steps, constants(resampled(heights, steps))) for steps in grids]


def problem_of(heights: Sequence[float]) -> str:
    """Return why ``heights`` have no ratios; empty when they have."""
    if not LEAST_STEPS <= len(heights) <= MOST_STEPS:
        return f"{len(heights)} heights (expected {LEAST_STEPS} to {MOST_STEPS})"
    if not all(math.isfinite(height) and abs(height) <= LARGEST for height in heights):
        return f"a height that is not finite or above {LARGEST:g}"
    if not abs(math.fsum(heights)) > SMALLEST:
        return "heights that sum to 0, whose ratios mean nothing"
    return ""


def heights_of(value: JsonValue) -> list[float]:
    """Return the heights in a list, or under ``heights`` in an object.

    Raises ``ValueError`` with what was found.
    """
    found = value.get("heights") if isinstance(value, dict) else value
    if not isinstance(found, list) or not found:
        raise ValueError("no list of heights")
    heights = [float(one) for one in found if type(one) in {int, float}]
    if len(heights) != len(found):
        raise ValueError("a height that is no number")
    return heights
