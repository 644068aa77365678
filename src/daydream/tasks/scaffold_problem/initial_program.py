"""Eight points in the unit square; the two closest should be as far apart as possible."""

# EVOLVE-BLOCK-START
POINTS = [
    (0.10, 0.50),
    (0.20, 0.50),
    (0.30, 0.50),
    (0.40, 0.50),
    (0.50, 0.50),
    (0.60, 0.50),
    (0.70, 0.50),
    (0.80, 0.50),
]
# EVOLVE-BLOCK-END


def points() -> list[tuple[float, float]]:
    """Return the eight points."""
    return POINTS
