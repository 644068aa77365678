"""Finished rollouts in short, for policies that plan their grid from earlier rounds.

The world of round r shows the rollouts of rounds before r of its pool, whether it is played online
or replayed, so a plan learns the same of both. Nothing is worked out until a policy asks.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Final

from daydream.tree import ROOT, Before, Grid, Manifest, Status, Tree

MOST: Final = 64
"""Rollouts that a plan sees: the latest."""
MOST_SCORES: Final = 20_000
"""Branch scores in all of them together; older rollouts are left out above it."""
_SIZE: Final = re.compile(r"-([wd])([0-9]{1,9})(?![0-9.])")


class Archive:
    """The finished trees of one pool, as rollouts that come later see them."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        self._trees = sorted(trees, key=lambda tree: tree.round)
        self._manifest = cache(lambda position: manifest(self._trees[position]))

    def before(self, number: int, caps: Grid | None = None) -> Callable[[], Before]:
        """Return what stood before round ``number`` under ``caps``, found on the first call."""
        return cache(partial(self._before, number, Grid() if caps is None else caps))

    def _before(self, number: int, caps: Grid) -> Before:
        found: list[Manifest] = []
        scores = 0
        for position in range(len(self._trees) - 1, -1, -1):
            if self._trees[position].round >= number:
                continue
            one = self._manifest(position)
            scores += len(one.scores)
            if len(found) == MOST or scores > MOST_SCORES:
                break
            found.append(one)
        return Before(tuple(found[::-1]), caps.max_branches, caps.max_depth)


def manifest(tree: Tree) -> Manifest:
    """Return ``tree`` in short."""
    grid = Grid() if tree.grid is None else tree.grid
    named = {} if "@" in tree.policy else dict(_SIZE.findall(tree.policy))
    width = int(named["w"]) if grid.width is None and "w" in named else grid.width
    depth = int(named["d"]) if grid.depth is None and "d" in named else grid.depth
    best = tree.best
    scores: list[float | None] = []
    for node in tree.nodes[1:]:
        if node.parent == ROOT:
            scores.append(None)
        top = scores[node.branch]
        if node.status is Status.OK and (top is None or node.score > top):
            scores[node.branch] = node.score
    return Manifest(
        round=tree.round,
        max_parallelism=tree.limit,
        beta=grid.beta,
        planned_width=width,
        planned_depth=depth,
        effective_width=_least(width, grid.max_branches),
        effective_depth=_least(depth, grid.max_depth),
        opened_width=len(scores),
        opened_depth=max(node.depth for node in tree.nodes),
        probes=tree.attempts,
        batches=len({node.batch for node in tree.nodes[1:]}),
        baseline=tree.baseline,
        best=None if best is None else best.score,
        scores=tuple(scores),
    )


def _least(planned: int | None, cap: int | None) -> int | None:
    return min((size for size in (planned, cap) if size is not None), default=None)
