"""The scripted method for circle packing: a layout for each branch, refined a few steps at a time.

Branches 0 to 3 begin with a square grid, staggered rows, rings and a scatter; later branches repeat
the four with more jitter. Each deeper attempt takes some interior point steps from its parent's
packing, more of them the deeper it is. Careful branches (odd) hand in what the steps reached, which
is always feasible. Bold branches (even) add a full Newton step that no rule holds back: close to an
optimum it lands there, further away its circles overlap and the evaluator refuses them; the next
attempt then repairs the packing and goes on. Every fourth depth shakes the centres first.

A proposal is a function of the task's n, branch, depth, ``world_seed`` and the parent's artifact.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from daydream.agents.base import AttemptContext, Proposal
from daydream.agents.local_search.circle_solver import (
    Array,
    Layout,
    inherited,
    leap,
    loosen,
    settle,
)
from daydream.errors import AgentError
from daydream.tasks.circle_packing import packing_artifact, repair, size_of

STEPS: Final = 3
"""Interior point steps for each level of depth below the first."""
BARRIER: Final = 1e-2
JITTER: Final = 0.005
SHAKE: Final = 0.03
ROUNDING: Final = 1e-9
"""What repair may take from the sum of a bold step; more is left for the evaluator to refuse."""


def propose(context: AttemptContext) -> Proposal:
    """Return the next packing of the branch.

    Raises :class:`AgentError` when the steps break down, which leaves a failed node.
    """
    rng = np.random.default_rng(context.world_seed)
    n = size_of(context.task.name)
    held = inherited(context.parent, n) if context.depth > 1 else None
    if held is None:
        layout = loosen(_begun(context.branch, n, rng), share=1.0)
        return Proposal(packing_artifact(repair(layout.circles())), rationale="a first layout")
    if context.depth % 4 == 1:
        held = Layout(_shaken(held.xs, rng), _shaken(held.ys, rng), held.radii)
    steps = STEPS * (context.depth - 1)
    settled = settle(loosen(held), barrier=BARRIER, steps=steps)
    if settled is None:
        raise AgentError(
            "the interior point steps broke down (expected centres apart and inside the square); "
            "another branch may do better"
        )
    careful = repair(settled.layout.circles())
    ahead = leap(settled) if context.branch % 2 == 0 else None
    if ahead is None:
        return Proposal(packing_artifact(careful), rationale=f"{steps} interior point steps")
    bold = ahead.circles()
    fixed = repair(bold)
    if ahead.value - math.fsum(radius for _, _, radius in fixed) <= ROUNDING:
        bold = fixed
    return Proposal(packing_artifact(bold), rationale=f"{steps} interior point steps and a leap")


def _begun(branch: int, n: int, rng: np.random.Generator) -> Layout:
    makers: tuple[Callable[[int, np.random.Generator], Array], ...]
    makers = (_grid, _rows, _rings, _scatter)
    points = makers[branch % len(makers)](n, rng)
    points = points + rng.normal(0.0, JITTER * (1 + branch // len(makers)), points.shape)
    points = np.clip(points, 0.01, 0.99)
    return Layout(points[:, 0], points[:, 1], np.full(n, 0.5))


def _grid(n: int, rng: np.random.Generator) -> Array:
    side = math.isqrt(n - 1) + 1
    cells = np.arange(n)
    points: Array = (np.stack([cells % side, cells // side], axis=1) + 0.5) / side
    return points


def _rows(n: int, rng: np.random.Generator) -> Array:
    """Return rows whose lengths differ by one at most, the longer ones outside, staggered."""
    rows = max(1, round(math.sqrt(n)))
    counts = [n // rows] * rows
    for row in sorted(range(rows), key=lambda row: -abs(2 * row - rows + 1))[: n % rows]:
        counts[row] += 1
    points = []
    for row, count in enumerate(counts):
        # Rows of different length are staggered by that; equal ones need a shift.
        shift = 0.0 if n % rows else (0.25 if row % 2 else -0.25)
        points += [((place + 0.5 + shift) / count, (row + 0.5) / rows) for place in range(count)]
    return np.array(points)


def _rings(n: int, rng: np.random.Generator) -> Array:
    """Return one centre and rings around it, each ring longer than the one inside it by six."""
    counts: list[int] = []
    while sum(counts) < n - 1:
        counts.append(min(n - 1 - sum(counts), 6 * (len(counts) + 1) + 2))
    points = [(0.5, 0.5)]
    for ring, count in enumerate(counts, start=1):
        radius = 0.4 * ring / len(counts)
        angles = (2 * math.pi * place / count for place in range(count))
        points += [(0.5 + radius * math.cos(a), 0.5 + radius * math.sin(a)) for a in angles]
    return np.array(points)


def _scatter(n: int, rng: np.random.Generator) -> Array:
    points: Array = rng.uniform(0.05, 0.95, (n, 2))
    return points


def _shaken(values: Array, rng: np.random.Generator) -> Array:
    return np.clip(values + rng.normal(0.0, SHAKE, values.shape), 0.01, 0.99)
