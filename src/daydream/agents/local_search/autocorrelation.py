"""Numerical search for autocorrelation: a population of step functions, from coarse to fine.

A function with n steps is also one with 2n steps, so an attempt works at a coarse level and stores
each height several times; the next one sees the level in the repetition and doubles it. The first
attempt of a branch spends its effort at the coarsest level: it founds a population of the random
functions that lead after a short descent and lets it breed (:mod:`.step_population`). Later
attempts breed from disturbed copies of their parent, much less, for they only have to use the new
steps. Once the level is the task's own they go on there. Each answer is polished to a nearly exact
maximum (:mod:`.step_solver`).

What decides the final value is which family of functions the coarsest level found. On the strict
form at 200 steps populations of 48 end in a few families: mostly in one near C = 1.4585, in about
one of four (measured with 3,000 to 5,000 children) in one near 1.457. More steps and the polish
take another 0.0025 off. Random starts alone, however raced, stay above 1.459 for the same effort,
and larger populations end in the same families.
"""

from typing import Final

import numpy as np

from daydream.agents.base import AttemptContext, Proposal
from daydream.agents.local_search.step_population import KIN, Population
from daydream.agents.local_search.step_solver import Array
from daydream.tasks.autocorrelation import heights_artifact, read_heights, variant_of

UNIT: Final = "solves"
EFFORT: Final = 500
"""Functions that an attempt at the coarsest level brings down, starts and children together."""
COARSEST: Final = 120
"""Fewest steps of the coarsest level, where a finer one exists."""
MOST_STARTS: Final = 384
"""Random functions that a branch opens with, at most a quarter of its effort."""
PLACES: Final = 8
"""Starts for each place in the population."""
BROOD: Final = 24
"""Children of one generation."""
BROAD_SHARE: Final = 0.6
"""Of the children of an opening attempt: bred while families share places, before the best fills
the population."""
FINER: Final = 8
"""A level with k times the steps gets the effort of the coarsest divided by ``FINER`` * k."""
COPIES: Final = 16
SPREAD: Final = 0.6
"""Noise of the last disturbed copy of a parent, in standard deviations of its heights."""


def propose(context: AttemptContext, effort: int) -> Proposal:
    """Return the best function of this attempt; where it continues one, never a worse one."""
    variant = variant_of(context.task)
    parent = np.array(read_heights(context.parent), dtype=np.float64)
    bins = len(parent)
    level, coarse = _level(parent), _coarsest(bins)
    opening = context.depth == 1 or level == 1
    steps = coarse if opening else min(2 * level, bins)
    people = Population(np.random.default_rng(context.attempt_seed), variant, steps)
    if opening:
        starts = max(2, min(MOST_STARTS, effort // 4))
        children = max(0, effort - starts)
        people.found(starts, max(2, starts // PLACES))
        broad = int(BROAD_SHARE * children)
        people.breed(broad, BROOD, KIN)
        held = np.empty((0, steps))
    else:
        children, broad = max(1, effort * coarse // (FINER * steps)), 0
        held = parent[None, :: bins // steps]
        people.copies(held[0], max(2, min(COPIES, children // 2)), SPREAD)
    people.breed(children - broad, BROOD)
    found: Array = people.best(held)
    return Proposal(
        heights_artifact(np.repeat(found, bins // steps).tolist()),
        rationale=f"bred {children} functions with {steps} steps, of which {people.kept} stayed",
        notes={"steps": steps, "children": children, "kept": people.kept},
    )


def _coarsest(bins: int) -> int:
    level = bins
    while level % 2 == 0 and level // 2 >= COARSEST:
        level //= 2
    return level


def _level(heights: Array) -> int:
    """Return the least number of equal steps that ``heights`` repeats, by powers of two."""
    if np.all(heights == heights[0]):
        return 1
    level = len(heights)
    while level % 2 == 0:
        pairs = heights[:: len(heights) // level].reshape(-1, 2)
        if not np.array_equal(pairs[:, 0], pairs[:, 1]):
            break
        level //= 2
    return level
