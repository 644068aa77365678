"""Parallel refinement that gives up a branch once it has stayed flat for long enough."""

from typing import ClassVar

from daydream.objective import MARGIN
from daydream.policies.base import BuiltinSpec
from daydream.policies.parallel_refine import RefineLoop
from daydream.search import Policy
from daydream.tree import VisibleNode


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

    def keeps(self, node: VisibleNode) -> bool:
        branch = node.branch
        if node.depth == 1:
            self._best.append(node.score if node.ok else None)
            self._flat.append(0)
            return True
        best = self._best[branch]
        if not node.ok:
            flat = self._threshold > 0
        elif best is None:
            self._best[branch], flat = node.score, False
        else:
            gain = node.score - best
            if gain > 0:
                self._best[branch] = node.score
            flat = max(0.0, gain) < self._threshold
        self._flat[branch] = self._flat[branch] + 1 if flat else 0
        return self._flat[branch] < self._patience
