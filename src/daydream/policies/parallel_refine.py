"""Open W branches, refine each to depth D: the fixed exploration of the paper's baseline."""

from collections import deque
from typing import ClassVar

from daydream.policies.base import BuiltinSpec
from daydream.search import Policy
from daydream.tree import ROOT, Batch, TreeView, VisibleNode


class ParallelRefine(BuiltinSpec, frozen=True):
    """``parallel_refine-wW-dD``: W branches in all, each up to depth D."""

    KIND: ClassVar[str] = "parallel_refine"
    LETTERS: ClassVar[dict[str, str]] = {"w": "width", "d": "depth"}

    width: int
    depth: int

    def build(self, scale: float) -> Policy:
        """Return a fresh policy; the scale does not matter here."""
        return RefineLoop(self.width, self.depth)


class RefineLoop:
    """Root picks while branches are missing, then leaves oldest first; subclasses may prune."""

    __slots__ = ("_depth", "_queue", "_seen", "_width")

    def __init__(self, width: int, depth: int) -> None:
        self._width = width
        self._depth = depth
        self._seen = 1
        self._queue: deque[int] = deque()

    def select_batch(self, view: TreeView, limit: int) -> Batch:
        """Return the next batch; empty once every branch is at depth D, pruned or exhausted."""
        nodes, queue = view.nodes, self._queue
        seen = self._seen
        if seen < len(nodes):
            depth = self._depth
            for node in nodes[seen:]:
                if self.keeps(node) and node.depth < depth:
                    queue.append(node.id)
            self._seen = len(nodes)
        missing = self._width - view.branches
        batch = [ROOT] * min(missing, limit) if missing > 0 and not nodes[ROOT].exhausted else []
        while queue and len(batch) < limit:
            batch.append(queue.popleft())
        return batch

    def keeps(self, node: VisibleNode) -> bool:
        """Return whether the branch of this new leaf goes on."""
        return True
