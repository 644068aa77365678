"""Scores a program: the smallest distance between two of its points. Higher is better.

Daydream calls ``evaluate`` in a process of its own. It may return a number, or a dict with
``combined_score``; other numbers are shown as metrics, and ``text_feedback`` is read by whoever
proposes the next program. An exception, NaN or a missing score makes a failed attempt.
"""

import itertools
import math
import runpy

COUNT = 8


def evaluate(program_path: str) -> dict[str, object]:
    """Run the program and measure its points."""
    points = runpy.run_path(program_path)["points"]()
    if len(points) != COUNT:
        return {"valid": False, "error": f"{len(points)} points (expected {COUNT})"}
    for x, y in points:
        if not (0 <= x <= 1 and 0 <= y <= 1):
            return {"valid": False, "error": f"({x}, {y}) is outside the unit square"}
    distance, first, second = min(
        (math.dist(points[i], points[j]), i, j) for i, j in itertools.combinations(range(COUNT), 2)
    )
    return {
        "combined_score": distance,
        "text_feedback": f"points {first} and {second} are the closest, {distance:.4f} apart",
    }
