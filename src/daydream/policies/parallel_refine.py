"""Open W branches, refine each to depth D: the fixed exploration of the paper's baseline."""

from collections.abc import Sequence
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

    __slots__ = ("_cursor", "_depth", "_queue", "_seen", "_width")

    def __init__(self, width: int, depth: int) -> None:
        self._width = width
        self._depth = depth
        self._seen = 1
        self._queue: list[int] = []
        """Leaves that may go on, in creation order; those before the cursor were picked."""
        self._cursor = 0

    def select_batch(self, view: TreeView, limit: int) -> Batch:
        """Return the next batch; empty once every branch is at depth D, pruned or exhausted."""
        nodes, queue, cursor = view.nodes, self._queue, self._cursor
        queue += self.going_on(nodes[self._seen :])
        self._seen = len(nodes)
        missing = self._width - view.branches
        opening = min(missing, limit) if missing > 0 and not nodes[ROOT].exhausted else 0
        picked = queue[cursor : cursor + limit - opening]
        self._cursor = cursor + len(picked)
        return [ROOT] * opening + picked if opening else picked

    def going_on(self, nodes: Sequence[VisibleNode]) -> list[int]:
        """Return the ids among these new leaves whose branches go on."""
        depth = self._depth
        return [node.id for node in nodes if node.depth < depth]
