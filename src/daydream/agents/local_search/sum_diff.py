"""Numerical search for sum-diff: annealing, with or without a known structure.

From scratch, annealing of a set of integers stops near Gamma = 1.05. The published sets look
different: nearly all elements fill one residue class modulo 4, a thin additive basis lies in
another class and two elements in a third, so sums meet four classes and differences only three.
With a progression of N elements the basis (Rohrbach's: a block, then every k-th number, then a
block) has about 2 sqrt(N / 2) elements, and Gamma tends to log 8 / log 6 as N grows.

An attempt opens with one of the two, by its seed, and later ones continue from the parent: they
anneal the elements outside the progression, or give up a set without structure and build one.
Counts are exact (bit sets as big integers), so the searcher sees what the evaluator sees.
"""

import math
import random
from collections.abc import Sequence
from typing import Final

import msgspec

from daydream.agents.base import AttemptContext, Proposal
from daydream.tasks.base import Artifact
from daydream.tasks.sum_diff import CONWAY, build, gamma_of, read_set, set_artifact

UNIT: Final = "moves"
EFFORT: Final = 30_000
"""Changes that one attempt looks at, about one CPU second at a cap of 512."""
STEP: Final = 4
"""The modulus."""
PAD: Final = 48
"""How far a free element may lie outside the progression."""
SCRATCH_WIDTH: Final = 120
HOT: Final = 3e-5
COLD: Final = 3e-7
"""Temperatures at which annealing begins and ends, in units of Gamma."""
STRUCTURED_SHARE: Final = 0.5
"""Of the attempts that open a branch."""
JUMP_SHARE: Final = 0.3
"""Of the attempts that continue a set without structure."""


class Shape(msgspec.Struct, frozen=True):
    """A progression PAD + 1, PAD + 5, ... of ``count`` elements and the free elements beside it."""

    count: int
    free: tuple[int, ...]

    @property
    def width(self) -> int:
        """Greatest element that a free one may be."""
        return STEP * self.count + 2 * PAD if self.count else SCRATCH_WIDTH

    def elements(self) -> list[int]:
        """Return all elements, in increasing order."""
        line = [PAD + 1 + STEP * i for i in range(self.count)]
        return sorted({*line, *self.free})


def propose(context: AttemptContext, effort: int) -> Proposal:
    """Return the best set that ``effort`` changes lead to, never worse than the parent's."""
    rng = random.Random(context.attempt_seed)
    cap = _cap(context)
    parent = _parent(context.parent)
    opening = context.depth == 1
    if opening and rng.random() < STRUCTURED_SHARE:
        start, how = _structured(rng, cap), "a progression with a thin basis"
    elif opening:
        start, how = Shape(0, tuple(rng.sample(range(SCRATCH_WIDTH), min(cap, 30)))), "random set"
    elif not parent.count and rng.random() < JUMP_SHARE:
        start, how = _structured(rng, cap), "give up the parent for a progression and a thin basis"
    else:
        start, how = parent, "anneal the parent"
    hot = HOT if start.count else 20 * HOT
    found = _anneal(start, rng, effort, cap=cap, hot=hot)
    best = max((found, start), key=_gamma)
    return Proposal(set_artifact(best.elements()), rationale=how)


def _cap(context: AttemptContext) -> int:
    _, _, tail = context.task.name.partition(":")
    arguments = dict(part.split("=", 1) for part in tail.split(",")) if tail else {}
    return build(arguments).cap


def _parent(artifact: Artifact) -> Shape:
    """Return the set in ``artifact`` as a shape: its longest run of one class, and the rest."""
    values = sorted(set(read_set(artifact)))
    present = set(values)
    best: list[int] = []
    for first in values:
        if first - STEP in present:
            continue
        run = [first]
        while run[-1] + STEP in present:
            run.append(run[-1] + STEP)
        best = max(best, run, key=len)
    if 2 * len(best) > len(values) and len(best) > 2 * len(CONWAY):
        shift = PAD + 1 - best[0]
        line = set(best)
        count = len(best)
    else:
        shift, line, count = -values[0], set(), 0
    free = tuple(value + shift for value in values if value not in line)
    shape = Shape(count, free)
    inside = tuple(value for value in free if 0 <= value <= shape.width)
    return Shape(count, inside)


def _structured(rng: random.Random, cap: int) -> Shape:
    """Return the best of some members of the family that fit the cap."""
    best = Shape(0, CONWAY)
    # Wide enough for the basis to fit beside the progression under small caps too.
    for count in range(max(4, cap // 2), int(0.92 * cap) + 1, max(1, cap // 128)):
        middle = math.sqrt(count / 2)
        for block in range(max(3, int(middle) - 3), int(middle) + 5):
            for extra in rng.sample(range(6), 2):
                shape = _member(count, block, extra)
                if count + len(shape.free) <= cap:
                    best = max(best, shape, key=_gamma)
    return best


def _member(count: int, block: int, extra: int) -> Shape:
    top = count
    basis = {*range(block), *range(block, top - block, block)}
    basis |= {top - value for value in range(block)} | {top}
    low = PAD + STEP * extra - 2
    free = {PAD + STEP * value for value in basis} | {low, 2 * PAD + STEP * count - low}
    return Shape(count, tuple(sorted(free)))


def _gamma(shape: Shape) -> float:
    return _Counter(shape.count, shape.width).gamma(shape.free)


class _Counter:
    """Gamma of a progression with free elements; what the progression alone gives is kept."""

    def __init__(self, count: int, width: int) -> None:
        self._count = count
        self._width = width
        self._line = _spaced(PAD + 1, count)
        self._mirror = _spaced(width - PAD - 1 - STEP * (count - 1), count)
        self._sums = _spaced(2 * (PAD + 1), 2 * count - 1) if count else 0
        self._differences = _spaced(width - STEP * (count - 1), 2 * count - 1) if count else 0

    def gamma(self, free: Sequence[int]) -> float:
        """Return Gamma of the progression and ``free``, which are distinct and not on it."""
        width = self._width
        present, mirror = self._line, self._mirror
        for value in free:
            present |= 1 << value
            mirror |= 1 << (width - value)
        sums, differences = self._sums, self._differences
        for value in free:
            sums |= present << value
            differences |= (mirror << value) | (present << (width - value))
        size = self._count + len(free)
        return gamma_of(size, sums.bit_count(), differences.bit_count())


def _spaced(first: int, count: int) -> int:
    """Return the bits first, first + STEP, ... (``count`` of them)."""
    if count <= 0:
        return 0
    return (((1 << (STEP * count)) - 1) // ((1 << STEP) - 1)) << first


def _anneal(start: Shape, rng: random.Random, moves: int, *, cap: int, hot: float) -> Shape:
    counter = _Counter(start.count, start.width)
    current = list(start.free)
    value = best_value = counter.gamma(current)
    best = current
    for step in range(moves):
        changed = _changed(current, start, rng, cap)
        if changed is None:
            continue
        found = counter.gamma(changed)
        heat = hot * (COLD / hot) ** (step / moves)
        if found >= value or rng.random() < math.exp((found - value) / heat):
            current, value = changed, found
            if value > best_value:
                best, best_value = current, value
    return Shape(start.count, tuple(sorted(best)))


def _changed(free: Sequence[int], shape: Shape, rng: random.Random, cap: int) -> list[int] | None:
    """Return ``free`` after one small change, or None where that is no set of this shape."""
    width = shape.width
    kind = rng.random()
    made = list(free)
    if kind < 0.1:
        made.append(rng.randint(0, width))
    elif kind < 0.2 and len(made) > 4:
        made.pop(rng.randrange(len(made)))
    else:
        place = rng.randrange(len(made))
        value = made[place]
        target = _target(value, shape, rng)
        made[place] = target
        if kind > 0.6 and width - value in free and value != width - value:
            made[made.index(width - value)] = width - target
    if shape.count + len(made) > cap or len(set(made)) < len(made):
        return None
    if not all(0 <= value <= width for value in made):
        return None
    if shape.count and any(_on_line(value, shape.count) for value in made):
        return None
    return made


def _target(value: int, shape: Shape, rng: random.Random) -> int:
    if not shape.count:
        return value + rng.randint(-8, 8) if rng.random() < 0.5 else rng.randint(0, shape.width)
    if rng.random() < 0.7:
        return value + STEP * rng.choice((-3, -2, -1, 1, 2, 3))
    return rng.randint(0, shape.width)


def _on_line(value: int, count: int) -> bool:
    return (value - PAD - 1) % STEP == 0 and 0 <= (value - PAD - 1) // STEP < count
