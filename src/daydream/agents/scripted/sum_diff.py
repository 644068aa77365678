"""The scripted method of sum-diff: symmetric sets, broken on purpose, then improved move by move.

A set that is symmetric about a centre has as many sums as differences; more sums need a small break
of that symmetry. Each branch opens with another idea: an interval with holes, a broken symmetric
set, the same climbed to a local optimum from several starts, a union of residue classes, a thin
random set, a dense one. Later attempts look at some changes of the parent's set (add, remove or
move one element) and take the best; some only mirror it, which changes no
count, and some shrink it.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

from daydream.agents.base import AttemptContext, Proposal
from daydream.agents.scripted.agent import parameters
from daydream.tasks.sum_diff import SEED_CAP, SEED_SPAN, gamma, read_set, set_artifact

DRAWS: Final = 20
"""Sets that the first attempt of a branch looks at."""
STARTS: Final = 4
"""Starts of the branch that climbs."""
CLIMB: Final = 500
"""Changes that each of these climbs looks at."""
MOVES: Final = 60
"""Changes that a later attempt looks at."""
MAX_CAP: Final = 64
"""Most elements that the method handles, whatever the task allows."""


def propose(context: AttemptContext) -> Proposal:
    """Return the branch's opening set at depth 1, a changed parent below."""
    rng = random.Random(context.world_seed)
    given = parameters(context.task)
    cap = min(int(given.get("cap", SEED_CAP)), MAX_CAP)
    span = min(int(given.get("span", SEED_SPAN)), SEED_SPAN)
    if context.depth == 1:
        rationale, opening = _OPENINGS[context.branch % len(_OPENINGS)]
        return Proposal(set_artifact(opening(rng, cap, span)), rationale=rationale)
    try:
        parent = read_set(context.parent)
    except ValueError:
        parent = list(range(min(8, cap)))
    kind = rng.random()
    if kind < 0.2:
        mirrored = [max(parent) - value for value in parent]
        return Proposal(set_artifact(mirrored), rationale="mirror the parent")
    if kind < 0.3:
        kept = sorted(parent)[: max(2, len(parent) // 2)]
        return Proposal(set_artifact(kept), rationale="keep the lower half")
    found = max((_change(parent, rng, cap, span) for _ in range(MOVES)), key=gamma)
    return Proposal(set_artifact(found), rationale="best of some changes of the parent")


def _interval(rng: random.Random, cap: int, span: int) -> list[int]:
    width = min(rng.randint(8, 20), span)
    values = set(range(width + 1))
    for _ in range(rng.randint(1, 4)):
        values.discard(rng.randint(1, width - 1))
    return _cut(values, cap, rng)


def _broken(rng: random.Random, cap: int, span: int) -> list[int]:
    return max((_symmetric(rng, cap, span) for _ in range(DRAWS)), key=gamma)


def _climbed(rng: random.Random, cap: int, span: int) -> list[int]:
    return max((_climb(rng, cap, span) for _ in range(STARTS)), key=gamma)


def _climb(rng: random.Random, cap: int, span: int) -> list[int]:
    found = _broken(rng, cap, span)
    best = gamma(found)
    for _ in range(CLIMB):
        changed = _change(found, rng, cap, span)
        value = gamma(changed)
        if value >= best:
            found, best = changed, value
    return found


def _residues(rng: random.Random, cap: int, span: int) -> list[int]:
    modulus = rng.randint(3, 6)
    classes = set(rng.sample(range(modulus), 2))
    width = min(span, 5 * modulus)
    return _cut({value for value in range(width + 1) if value % modulus in classes}, cap, rng)


def _thin(rng: random.Random, cap: int, span: int) -> list[int]:
    return _cut({rng.randint(0, span) for _ in range(10)}, cap, rng)


def _dense(rng: random.Random, cap: int, span: int) -> list[int]:
    width = min(24, span)
    return _cut({value for value in range(width + 1) if rng.random() < 0.7}, cap, rng)


_OPENINGS: Final[Sequence[tuple[str, Callable[[random.Random, int, int], list[int]]]]] = (
    ("an interval with holes", _interval),
    ("a broken symmetric set", _broken),
    ("broken symmetric sets, climbed", _climbed),
    ("a union of residue classes", _residues),
    ("a thin random set", _thin),
    ("a dense random set", _dense),
)


def _symmetric(rng: random.Random, cap: int, span: int) -> list[int]:
    width = min(rng.randint(12, 28), span)
    share = rng.choice((0.5, 0.7))
    half = {value for value in range(width // 2 + 1) if rng.random() < share} | {0}
    values = half | {width - value for value in half}
    for _ in range(rng.randint(1, 3)):
        end = rng.randint(0, 6)
        _toggle(values, rng.choice((end, width - end)))
    return _cut(values, cap, rng)


def _change(parent: Sequence[int], rng: random.Random, cap: int, span: int) -> list[int]:
    values = set(parent)
    reach = min(max(values) + 4, span)
    if rng.random() < 0.5:
        _toggle(values, rng.randint(0, reach))
    else:
        values.discard(rng.choice(sorted(values)))
        values.add(rng.randint(0, reach))
    return _cut(values, cap, rng)


def _toggle(values: set[int], value: int) -> None:
    values ^= {value}


def _cut(values: set[int], cap: int, rng: random.Random) -> list[int]:
    kept = sorted(values)
    while len(kept) > cap:
        kept.pop(rng.randrange(len(kept)))
    return kept if len(kept) > 1 else [0, 1]
