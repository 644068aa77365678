"""Open W branches, then keep extending the K best leaves."""

import heapq
from typing import ClassVar

from daydream.policies.base import BuiltinSpec
from daydream.search import Policy
from daydream.tree import ROOT, Batch, TreeView


class BestFirst(BuiltinSpec, frozen=True):
    """``best_first-wW-kK-pP``: open W branches, then extend the K best unexhausted leaves.

    Best means the greatest ``ok`` score; failed leaves come last, ties go to the lower id. The
    rollout stops after P such batches without a new best.
    """

    KIND: ClassVar[str] = "best_first"
    LETTERS: ClassVar[dict[str, str]] = {"w": "width", "k": "k", "p": "patience"}

    width: int
    k: int
    patience: int

    def build(self, scale: float) -> Policy:
        """Return a fresh policy; the scale does not matter here."""
        return _BestFirstLoop(self)


class _BestFirstLoop:
    __slots__ = ("_best", "_heap", "_picked", "_seen", "_spec", "_stale")

    def __init__(self, spec: BestFirst) -> None:
        self._spec = spec
        self._seen = 1
        self._heap: list[tuple[float, int]] = []
        self._picked: list[tuple[float, int]] = []
        self._best: float | None = None
        self._stale = 0

    def select_batch(self, view: TreeView, limit: int) -> Batch:
        """Return the next batch; empty when patience is spent or no leaf can go on."""
        nodes, heap = view.nodes, self._heap
        for node in nodes[self._seen :]:
            heapq.heappush(heap, (-node.score if node.ok else float("inf"), node.id))
        self._seen = len(nodes)
        if self._picked:
            self._stale = 0 if view.best != self._best else self._stale + 1
        self._best = view.best
        missing = self._spec.width - view.branches
        if missing > 0 and not nodes[ROOT].exhausted:
            return [ROOT] * min(missing, limit)
        self._picked = []
        if self._stale >= self._spec.patience:
            return []
        while heap and len(self._picked) < min(self._spec.k, limit):
            self._picked.append(heapq.heappop(heap))
        return [number for _, number in self._picked]
