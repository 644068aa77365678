"""A world made of a table and a policy made of a seed: small, exact partners for tests of others.

:class:`TableWorld` plays the part of the online world without agents or evaluators. What it
records replays like any other tree.
"""

import random
from collections.abc import Callable, Sequence

import msgspec

from daydream.search import Revealed
from daydream.tree import (
    OK,
    ROOT,
    Batch,
    Before,
    Eligibility,
    GrowingView,
    Node,
    Status,
    Tree,
    TreeView,
    check_tree,
    nothing_before,
)


class Shown(msgspec.Struct, frozen=True):
    """What became of an attempt, as far as a policy may see it."""

    status: Status
    score: float
    error_class: str | None


class Setting(msgspec.Struct, frozen=True):
    """What a :class:`TableWorld` is, beside its verdicts."""

    branches: int | None = None
    """Most branches; None for no bound."""
    depth: int | None = None
    """Deepest attempt; None for no bound."""
    baseline: float | None = None
    """Score of the root, or None where it is not evaluated."""
    eligibility: Eligibility = "chain"
    limit: int = 8
    """Written into the tree; the caller plays by it."""
    scale: float = 1.0


class TableWorld:
    """Attempts whose verdict is a function of branch and depth, recorded as they are made."""

    def __init__(
        self,
        verdict: Callable[[int, int], Shown],
        setting: Setting | None = None,
        before: Callable[[], Before] = nothing_before,
    ) -> None:
        self._verdict = verdict
        self._setting = Setting() if setting is None else setting
        baseline = self._setting.baseline
        status, score = (None, 0.0) if baseline is None else (OK, baseline)
        self._view = GrowingView(
            status=status, score=score, eligibility=self._setting.eligibility, before=before
        )
        self._nodes = [
            Node(ROOT, None, branch=-1, depth=0, batch=0, slot=0, status=status, score=score)
        ]

    def view(self) -> TreeView:
        """Return the revealed prefix."""
        return self._view

    def advance(self, batch: Batch) -> Revealed:
        """Make one child for each parent that may have one; the others become exhausted."""
        view, start = self._view, len(self._nodes)
        number = view.batches + 1
        for slot, parent in enumerate(batch):
            above = view.nodes[parent]
            branch = view.branches if parent == ROOT else above.branch
            if not self._allows(parent, branch, above.depth + 1):
                view.exhaust(parent)
                continue
            made = self._verdict(branch, above.depth + 1)
            node = view.reveal(parent, made.status, made.score, made.error_class)
            self._nodes.append(
                Node(
                    id=node.id,
                    parent=parent,
                    branch=branch,
                    depth=node.depth,
                    batch=number,
                    slot=slot,
                    status=made.status,
                    score=made.score,
                    error_class=made.error_class,
                )
            )
        view.batches = number
        brought = view.nodes[start:]
        return Revealed(brought, len(batch) - len(brought), ended=False)

    def _allows(self, parent: int, branch: int, depth: int) -> bool:
        most, deepest = self._setting.branches, self._setting.depth
        if parent == ROOT and most is not None and branch >= most:
            return False
        return deepest is None or depth <= deepest

    def tree(self, policy: str = "recorded") -> Tree:
        """Return what was made as a finished tree."""
        return _finished(self._nodes, policy, self._setting)


def _finished(nodes: Sequence[Node], policy: str, setting: Setting) -> Tree:
    return check_tree(
        Tree(
            task="table",
            evaluator="table-1",
            round=1,
            policy=policy,
            limit=setting.limit,
            scale=setting.scale,
            seed=0,
            nodes=tuple(nodes),
            eligibility=setting.eligibility,
        )
    )


def table_tree(rows: Sequence[Sequence[float | None]], *, scale: float = 1.0) -> Tree:
    """Return the tree whose branch b scored ``rows[b]``, from depth 1 on; None is a failure.

    Attempts stand in level order, as parallel refinement without a limit would have made them.
    """
    nodes = [Node(ROOT, None, branch=-1, depth=0, batch=0, slot=0, status=None, score=0.0)]
    leaves = [ROOT] * len(rows)
    for depth in range(1, 1 + max(map(len, rows), default=0)):
        standing = [branch for branch, row in enumerate(rows) if len(row) >= depth]
        for slot, branch in enumerate(standing):
            score = rows[branch][depth - 1]
            nodes.append(
                Node(
                    id=len(nodes),
                    parent=leaves[branch],
                    branch=branch,
                    depth=depth,
                    batch=depth,
                    slot=slot,
                    status=Status.ERROR if score is None else OK,
                    score=0.0 if score is None else score,
                    error_class="failed" if score is None else None,
                )
            )
            leaves[branch] = nodes[-1].id
    return _finished(nodes, "table", Setting(limit=max(1, len(rows)), scale=scale))


class RandomPolicy:
    """Picks any legal batch, ``batches`` times; a function of the seed and of what it sees."""

    def __init__(self, seed: int, *, batches: int = 20) -> None:
        self._random = random.Random(seed)
        self._left = batches

    def select_batch(self, view: TreeView, limit: int) -> Batch:
        """Return up to ``limit`` parents: root picks and distinct other nodes, in any order."""
        if self._left == 0:
            return []
        self._left -= 1
        others = list(view.frontier)[1:]
        self._random.shuffle(others)
        size = self._random.randint(1, limit)
        roots = self._random.randint(0 if others else 1, size)
        batch = [ROOT] * roots + others[: size - roots]
        self._random.shuffle(batch)
        return batch
