"""Step functions with a flat autoconvolution: a flat top that falls off towards its ends."""

import math

BINS = 21


# EVOLVE-BLOCK-START
FLOOR = 1.0
EDGE = -0.25
POWER = 4.0


def height(position: float) -> float:
    """The height at ``position`` in (-1, 1)."""
    return FLOOR + EDGE * math.pow(abs(position), POWER)


# EVOLVE-BLOCK-END


def construct() -> list[float]:
    """The heights of the steps, from left to right."""
    return [height((2 * step + 1) / BINS - 1) for step in range(BINS)]
