"""The scripted method of autocorrelation: known shapes, then random changes that lower the peak.

Each branch opens with another shape: the constant, one that rises towards its ends like
1 / sqrt(1 - x^2), a smooth random one, a rough random one. Later attempts move height between two
steps, many times, and keep what lowers the peak ratio; a few take one bold step instead, whatever
it does, and a few sharpen the shape too far and leave the admissible range.
"""

import math
import random
from collections.abc import Callable, Sequence
from typing import Final

from daydream.agents.base import AttemptContext, Proposal
from daydream.tasks.autocorrelation import heights_artifact, read_heights

CHANGES: Final = 400
"""Changes that one attempt looks at."""


def propose(context: AttemptContext) -> Proposal:
    """Return the branch's shape at depth 1, a changed parent below."""
    rng = random.Random(context.world_seed)
    before = read_heights(context.parent)
    n = len(before)
    if context.depth == 1:
        rationale, shape = _SHAPES[context.branch % len(_SHAPES)]
        return Proposal(heights_artifact(shape(rng, n)), rationale=rationale)
    kind = rng.random()
    if kind < 0.15:
        bold = [max(0.0, h + rng.gauss(0, 0.3)) for h in before]
        return Proposal(heights_artifact(bold), rationale="one bold step")
    if kind < 0.25:
        mean = math.fsum(before) / n
        sharp = [h + 1.5 * (h - mean) for h in before]
        return Proposal(heights_artifact(sharp), rationale="sharpen the shape")
    heights = _descend(before, rng, step=0.5 ** rng.randint(1, 5))
    return Proposal(heights_artifact(heights), rationale="changes that lower the peak")


def _descend(before: Sequence[float], rng: random.Random, *, step: float) -> list[float]:
    heights = [max(0.0, h) for h in before]
    best = _peak(heights)
    for _ in range(CHANGES):
        giver, taker = rng.randrange(len(heights)), rng.randrange(len(heights))
        amount = min(heights[giver], step * rng.random())
        heights[giver] -= amount
        heights[taker] += amount
        value = _peak(heights)
        if value <= best:
            best = value
        else:
            heights[taker] -= amount
            heights[giver] += amount
        heights = [max(0.0, h) for h in heights]
    return heights


def _peak(heights: Sequence[float]) -> float:
    """The ratio of the first inequality, in floats."""
    n = len(heights)
    total = math.fsum(heights)
    if not total > 0:
        return math.inf
    backwards = heights[::-1]
    top = max(
        sum(map(float.__mul__, heights[max(0, k - n + 1) : k + 1], backwards[max(0, n - 1 - k) :]))
        for k in range(2 * n - 1)
    )
    return 2 * n * top / (total * total)


def _constant(rng: random.Random, n: int) -> list[float]:
    return [1.0] * n


def _rising_ends(rng: random.Random, n: int) -> list[float]:
    centres = [(2 * i + 1) / n - 1 for i in range(n)]
    return [1 / math.sqrt(1 - 0.95 * x * x) * rng.uniform(0.9, 1.1) for x in centres]


def _smooth(rng: random.Random, n: int) -> list[float]:
    waves = [(rng.uniform(0, 0.4), rng.uniform(0, math.pi)) for _ in range(3)]
    return [
        max(
            0.0,
            1 + sum(a * math.cos(math.pi * (w + 1) * i / n + p) for w, (a, p) in enumerate(waves)),
        )
        for i in range(n)
    ]


def _rough(rng: random.Random, n: int) -> list[float]:
    return [rng.random() for _ in range(n)]


_SHAPES: Final[Sequence[tuple[str, Callable[[random.Random, int], list[float]]]]] = (
    ("the constant function", _constant),
    ("higher towards both ends", _rising_ends),
    ("a smooth random shape", _smooth),
    ("a rough random shape", _rough),
)
