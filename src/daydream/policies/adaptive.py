"""Parallel refinement that gives up a branch once it has stayed flat for long enough."""

import math
from collections.abc import Sequence
from typing import ClassVar

from daydream.objective import MARGIN
from daydream.policies.base import BuiltinSpec
from daydream.policies.parallel_refine import RefineLoop
from daydream.search import Policy
from daydream.tree import OK, VisibleNode


class Adaptive(BuiltinSpec, frozen=True):
    """``adaptive-wW-dD-pP-gG``: a branch is pruned for good when its last P steps are all flat.

    A step is flat when it gains less than ``min_gain`` times the task's score scale over the best
    earlier ``ok`` score of its own branch. The first attempt of a branch is no step, a failed
    attempt gains 0, and the first ``ok`` after only failures is never flat.
    """

    KIND: ClassVar[str] = "adaptive"
    LETTERS: ClassVar[dict[str, str]] = {
        "w": "width",
        "d": "depth",
        "p": "patience",
        "g": "min_gain",
    }

    width: int
    depth: int
    patience: int
    min_gain: float

    def build(self, scale: float) -> Policy:
        """Return a fresh policy whose threshold is ``min_gain * scale`` for the whole rollout."""
        return _AdaptiveLoop(self, self.min_gain * scale - MARGIN)


class _AdaptiveLoop(RefineLoop):
    __slots__ = ("_best", "_flat", "_patience", "_threshold")

    def __init__(self, spec: Adaptive, threshold: float) -> None:
        super().__init__(spec.width, spec.depth)
        self._patience = spec.patience
        self._threshold = threshold
        self._best: list[float | None] = []
        """Best ``ok`` score of each branch."""
        self._flat: list[int] = []
        """Length of the run of flat steps that each branch ends with."""

    def going_on(self, nodes: Sequence[VisibleNode]) -> list[int]:
        bests, flats = self._best, self._flat
        patience, threshold, deepest = self._patience, self._threshold, self._depth
        kept: list[int] = []
        for node in nodes:
            branch, depth, score = node.branch, node.depth, node.score
            run = 0
            if depth == 1:
                bests.append(score if node.status is OK else None)
                flats.append(0)
            else:
                best = bests[branch]
                gain = 0.0
                if node.status is OK:
                    if best is None:
                        gain = math.inf
                        bests[branch] = score
                    elif score > best:
                        gain = score - best
                        bests[branch] = score
                if gain < threshold:
                    run = flats[branch] + 1
                flats[branch] = run
            if run < patience and depth < deepest:
                kept.append(node.id)
        return kept
