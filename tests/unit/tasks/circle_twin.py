"""A second reading of the circle packing rules, in fractions, written apart from the evaluator."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

Row = Sequence[float]


def broken_rules(circles: Sequence[Row], tolerance: Fraction = Fraction(0)) -> list[str]:
    """Return the kinds of rules that ``circles`` break by more than ``tolerance``."""
    exact = [tuple(Fraction(value) for value in row) for row in circles]
    broken = set()
    for x, y, r in exact:
        if r < 0:
            broken.add("radius")
        if x - r < -tolerance or y - r < -tolerance:
            broken.add("outside")
        if x + r > 1 + tolerance or y + r > 1 + tolerance:
            broken.add("outside")
    for (ax, ay, ar), (bx, by, br) in combinations(exact, 2):
        needed = ar + br - tolerance
        if needed > 0 and (ax - bx) ** 2 + (ay - by) ** 2 < needed**2:
            broken.add("overlap")
    return sorted(broken)


def total(circles: Sequence[Row]) -> float:
    """Return the sum of radii, rounded once."""
    return float(sum((Fraction(row[2]) for row in circles), Fraction(0)))
