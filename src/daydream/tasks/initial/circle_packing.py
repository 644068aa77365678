"""Discs in the unit square: rows of centres, and radii grown one after the other."""

import math

N = 8


# EVOLVE-BLOCK-START
STRETCH = 0.98
SHIFT = 0.2
START_RADIUS = 0.5


def centres() -> list[tuple[float, float]]:
    """Rows of points, shifted to the left and to the right by turns."""
    rows = math.isqrt(N - 1) + 1
    points = []
    for row in range(rows):
        width = N // rows + (1 if row < N % rows else 0)
        for column in range(width):
            place = column + 0.5 + SHIFT * (row % 2 - 0.5)
            x = 0.5 + STRETCH * (place / width - 0.5)
            y = 0.5 + STRETCH * (row / (rows - 1) - 0.5) * (1 - 1 / rows) if rows > 1 else 0.5
            points.append((x, y))
    return points


# EVOLVE-BLOCK-END


def construct() -> list[list[float]]:
    """The circles as [x, y, r]: each radius first half of the least distance, then what is left."""
    points = centres()
    walls = [min(x, y, 1 - x, 1 - y) for x, y in points]
    radii = []
    for i, point in enumerate(points):
        near = min((math.dist(point, other) for other in points[:i] + points[i + 1 :]), default=2)
        radii.append(min(walls[i], START_RADIUS * near))
    for i, point in enumerate(points):
        rooms = (math.dist(point, points[j]) - radii[j] for j in range(N) if j != i)
        radii[i] = max(0.0, min(walls[i], *rooms))
    # The margin keeps the rounding of this arithmetic on the safe side of an exact check.
    return [[x, y, max(0.0, r - 1e-12)] for (x, y), r in zip(points, radii, strict=True)]
