"""Discovery trees and what a policy may see of them.

Owns the records that cross layers: :class:`Node`, :class:`Tree`, :class:`TreeView`, :class:`Pool`.
A tree is a root plus attempts; node ids are consecutive from 0 (the root) in creation order, and a
parent exists before its children. With eligibility ``chain`` only the root has several children.
Nothing here calls an agent, an evaluator, a clock or a disk.
"""

import enum
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, Literal, TypeAlias, overload

import msgspec

from daydream.errors import TreeError

ROOT = 0
SCHEMA_VERSION = 1

Batch: TypeAlias = Sequence[int]
Eligibility: TypeAlias = Literal["chain", "any"]


class Status(enum.Enum):
    """What became of an attempt. Scores are compared among ``OK`` nodes only."""

    OK = "ok"
    INVALID = "invalid"
    """The evaluator judged the artifact and refused it."""
    ERROR = "error"
    """The agent or the evaluator raised, crashed or returned no usable score."""
    TIMEOUT = "timeout"
    """A limit of time, CPU or memory ended the attempt."""


# Enum attributes are slow to look up, and every revealed node asks for this one.
OK: Final = Status.OK


class Node(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One stored node: the root, or one attempt."""

    id: int
    parent: int | None
    """None for the root only."""
    branch: int
    """Number of the root's child that this node descends from, from 0; -1 for the root."""
    depth: int
    """Attempts between the root and this node, itself included; 0 for the root."""
    batch: int
    """Number of the batch that made the node, from 1; 0 for the root."""
    slot: int
    """Position in that batch, from 0."""
    status: Status | None
    """None only for a root that was not evaluated."""
    score: float
    """Finite, higher is better, 0 unless the status is ``ok``."""
    error_class: str | None = None
    """Short reason of a failure, for people and policies."""
    artifact: str | None = None
    """Content hash of the artifact."""


class Grid(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a rollout was meant to be, where neither the policy's name nor its nodes tell."""

    width: int | None = None
    """Branches that ``plan_grid`` asked for."""
    depth: int | None = None
    """Attempts in each that ``plan_grid`` asked for."""
    beta: float | None = None
    """The knob of an ``OptimalPolicy``."""
    max_branches: int | None = None
    """Most branches that the run allowed."""
    max_depth: int | None = None
    """Deepest attempt that the run allowed."""


class Tree(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finished rollout, as kept in ``history/NNN.json``. Holds no time, usage or reuse."""

    task: str
    """Identity of the task, with every parameter that changes a number."""
    evaluator: str
    """Version of the evaluator (a hash)."""
    round: int
    policy: str
    limit: int
    scale: float
    """The task's score scale s."""
    seed: int
    nodes: tuple[Node, ...]
    """The root first, then attempts in creation order."""
    eligibility: Eligibility = "chain"
    grid: Grid | None = None
    schema_version: int = msgspec.field(default=SCHEMA_VERSION)

    @property
    def attempts(self) -> int:
        """Number of non-root nodes."""
        return len(self.nodes) - 1

    @property
    def baseline(self) -> float | None:
        """Score of the root, or None where it was not evaluated or failed."""
        root = self.nodes[ROOT]
        return root.score if root.status is Status.OK else None

    @property
    def best(self) -> Node | None:
        """The first ``ok`` attempt with the greatest score, or None."""
        found: Node | None = None
        for node in self.nodes[1:]:
            if node.status is Status.OK and (found is None or node.score > found.score):
                found = node
        return found


def check_tree(tree: Tree) -> Tree:
    """Return ``tree`` when every invariant holds.

    Raises :class:`TreeError` naming the node, what was found and what was expected.
    """
    if not tree.nodes:
        raise TreeError(
            "tree has no nodes (expected at least the root, id 0); re-import the source"
        )
    if not (math.isfinite(tree.scale) and tree.scale > 0):
        raise TreeError(f"tree has score scale {tree.scale!r} (expected a finite number above 0)")
    children = [0] * len(tree.nodes)
    branches = 0
    for position, node in enumerate(tree.nodes):
        problem = _node_problem(tree.nodes, position, node, branches)
        if problem is None and node.parent is not None:
            children[node.parent] += 1
            branches += node.parent == ROOT
            if tree.eligibility == "chain" and node.parent != ROOT and children[node.parent] > 1:
                problem = (
                    f"is a second child of node {node.parent} (expected one chain a branch; "
                    'use eligibility "any" for trees that branch anywhere)'
                )
        if problem is not None:
            raise TreeError(f"tree of {tree.task}, round {tree.round}: node {node.id} {problem}")
    return tree


def _node_problem(nodes: Sequence[Node], position: int, node: Node, branches: int) -> str | None:
    if node.id != position:
        return f"stands at position {position} (expected consecutive ids from 0)"
    if not math.isfinite(node.score):
        return f"has score {node.score!r} (expected a finite number)"
    if node.status is not Status.OK and node.score != 0:
        return f"has score {node.score!r} without status ok (expected 0)"
    if position == ROOT:
        rooted = node.parent is None and node.depth == 0 and node.branch == -1
        return None if rooted else "is no root (expected parent null, depth 0, branch -1)"
    if node.status is None:
        return "has no status (expected ok, invalid, error or timeout)"
    if node.parent is None or not 0 <= node.parent < position:
        return f"has parent {node.parent!r} (expected the id of an earlier node)"
    parent = nodes[node.parent]
    branch = branches if node.parent == ROOT else parent.branch
    if node.branch != branch or node.depth != parent.depth + 1:
        return (
            f"has branch {node.branch}, depth {node.depth} "
            f"(expected branch {branch}, depth {parent.depth + 1})"
        )
    return None


class Pool(msgspec.Struct, frozen=True):
    """Finished trees of one task and evaluator version, in order. Build with :func:`make_pool`."""

    task: str
    evaluator: str
    trees: tuple[Tree, ...]
    scale: float = 1.0
    floor: float | None = None
    """Quality of a world in which nothing succeeded, where the task declares one."""
    known: tuple[Tree, ...] = ()
    """All finished trees of the run where this pool is a part of them; else empty."""

    @property
    def eligibility(self) -> Eligibility:
        """``any`` as soon as one tree branches below its root, else ``chain``."""
        return "any" if any(tree.eligibility == "any" for tree in self.trees) else "chain"

    def fallback(self, tree: Tree) -> float:
        """Quality of ``tree`` while no ``ok`` attempt is revealed: floor, root, lowest ok, 0."""
        if self.floor is not None:
            return self.floor
        if tree.baseline is not None:
            return tree.baseline
        scores = [
            node.score
            for member in self.trees
            for node in member.nodes[1:]
            if node.status is Status.OK
        ]
        return min(scores, default=0.0)


def make_pool(
    trees: Sequence[Tree], *, scale: float | None = None, floor: float | None = None
) -> Pool:
    """Return the pool of ``trees``; ``scale`` defaults to the first tree's.

    Raises :class:`TreeError` for no trees, or for trees of several tasks or evaluator versions.
    """
    if not trees:
        raise TreeError("pool has no trees (expected at least one finished round); run one first")
    for what, found in (
        ("tasks", sorted({tree.task for tree in trees})),
        ("evaluator versions", sorted({tree.evaluator for tree in trees})),
    ):
        if len(found) > 1:
            raise TreeError(
                f"pool mixes {what}: {', '.join(found)} (expected one; scores of different "
                f"{what} do not compare); replay them separately, or start one with --new-pool"
            )
    return Pool(
        task=trees[0].task,
        evaluator=trees[0].evaluator,
        trees=tuple(trees),
        scale=trees[0].scale if scale is None else scale,
        floor=floor,
    )


class Manifest(msgspec.Struct, frozen=True, array_like=True):
    """One finished rollout in short, as ``plan_grid`` sees it."""

    round: int
    max_parallelism: int
    beta: float | None
    """None for a policy without the knob."""
    planned_width: int | None
    """Branches that the policy planned; None where it told no number."""
    planned_depth: int | None
    """Attempts in each."""
    effective_width: int | None
    """What the caps of the run left of the plan; None where nothing bounded it."""
    effective_depth: int | None
    opened_width: int
    """Branches that were opened."""
    opened_depth: int
    """Depth of the deepest attempt."""
    probes: int
    """Attempts."""
    batches: int
    """Batches that made an attempt."""
    baseline: float | None
    """Score of the root."""
    best: float | None
    """Greatest ``ok`` score among attempts."""
    scores: tuple[float | None, ...]
    """Greatest ``ok`` score of each branch, in order of opening; None where all failed."""


class Before(msgspec.Struct, frozen=True, array_like=True):
    """What stood when a rollout began: the same online and in replay."""

    manifests: tuple[Manifest, ...] = ()
    """Finished rollouts of earlier rounds, oldest first."""
    max_branches: int | None = None
    max_depth: int | None = None


def nothing_before() -> Before:
    """Return that nothing came before."""
    return Before()


class VisibleNode(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One revealed node as a policy sees it. Ids count reveals: they say nothing of the record."""

    id: int
    parent: int
    """-1 for the root."""
    branch: int
    depth: int
    status: Status | None
    score: float
    error_class: str | None
    exhausted: bool
    """A pick of this parent came back empty: it can have no further child in this world."""

    @property
    def ok(self) -> bool:
        """Whether the score counts."""
        return self.status is OK


_INT: Final = frozenset({int})


class Frontier(Sequence[int]):
    """The legal parents: root first, then other eligible nodes in creation order. A live window."""

    __slots__ = ("_leaves",)

    def __init__(self, leaves: dict[int, None] | None, nodes: Sequence[VisibleNode]) -> None:
        self._leaves: dict[int, None] | Sequence[VisibleNode] = nodes if leaves is None else leaves

    @property
    def eligibility(self) -> Eligibility:
        """``chain`` for leaves below the root, ``any`` for every revealed node."""
        return "chain" if isinstance(self._leaves, dict) else "any"

    def __len__(self) -> int:
        return len(self._leaves)

    def __contains__(self, item: object) -> bool:
        leaves = self._leaves
        if isinstance(leaves, dict):
            return item in leaves
        return isinstance(item, int) and 0 <= item < len(leaves)

    def accepts(self, batch: Sequence[int]) -> bool:
        """Return whether ``batch`` names ids of this frontier, all but the root at most once.

        Linear in the batch, mostly in C: this runs before every batch of every replay.
        """
        leaves = self._leaves
        if len(batch) == 1 and isinstance(leaves, dict):
            (one,) = batch
            return type(one) is int and one in leaves
        if not _INT.issuperset(map(type, batch)):
            return False
        picked = set(batch)
        if len(picked) < len(batch) and len(picked) + batch.count(ROOT) != len(batch) + 1:
            return False
        if isinstance(leaves, dict):
            return leaves.keys() >= picked
        return not picked or (min(picked) >= ROOT and max(picked) < len(leaves))

    def __iter__(self) -> Iterator[int]:
        leaves = self._leaves
        yield from leaves if isinstance(leaves, dict) else range(len(leaves))

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return tuple(self)[index]
        size = len(self)
        position = index + size if index < 0 else index
        if not 0 <= position < size:
            raise IndexError(f"frontier has {size} nodes (asked for position {index})")
        return next(islice(iter(self), position, None))


class TreeView:
    """The revealed prefix: a read-only window, valid until the next batch.

    ``nodes`` is indexed by node id and grows in reveal order, so a policy can keep a cursor and
    look at new nodes only. Online and replay give the same class, ids and numbering.
    """

    __slots__ = ("_leaves", "batches", "before", "best", "branches", "frontier", "nodes")

    root = ROOT

    def __init__(
        self,
        *,
        status: Status | None,
        score: float,
        eligibility: Eligibility,
        before: Callable[[], Before] = nothing_before,
    ) -> None:
        self.before = before
        """What stood when the rollout began, found when it is asked for."""
        self.nodes: list[VisibleNode] = [
            VisibleNode(ROOT, -1, -1, 0, status, score, None, exhausted=False)
        ]
        self._leaves: dict[int, None] = {ROOT: None}
        """The root, which stays, and revealed nodes without a child."""
        self.frontier = Frontier(self._leaves if eligibility == "chain" else None, self.nodes)
        self.batches: int = 0
        """Non-empty batches decided so far."""
        self.branches: int = 0
        """Branches opened so far."""
        self.best: float | None = None
        """Greatest ``ok`` score among attempts, or None."""

    @property
    def attempts(self) -> int:
        """Number of revealed non-root nodes."""
        return len(self.nodes) - 1

    @property
    def baseline(self) -> float | None:
        """Score of the root where it was evaluated and ``ok``."""
        root = self.nodes[ROOT]
        return root.score if root.status is Status.OK else None


class GrowingView(TreeView):
    """The owner's side of a view: worlds reveal through it, policies get it as a TreeView."""

    __slots__ = ()

    def reveal(
        self, parent: int, status: Status, score: float, error_class: str | None
    ) -> VisibleNode:
        """Append a child of ``parent`` (a revealed id) and return it."""
        above = self.nodes[parent]
        node = Node(
            id=len(self.nodes),
            parent=parent,
            branch=self.branches if parent == ROOT else above.branch,
            depth=above.depth + 1,
            batch=self.batches + 1,
            slot=0,
            status=status,
            score=score,
            error_class=error_class,
        )
        return self.reveal_batch([parent], [node])[0]

    def reveal_batch(self, parents: Sequence[int], stored: Sequence[Node]) -> list[VisibleNode]:
        """Append a child for each of ``parents`` (ids revealed before), in order, and return them.

        The i-th child takes branch, depth, status, score and error class from ``stored[i]``, whose
        own parent is what was shown as ``parents[i]``.
        """
        nodes, leaves, best = self.nodes, self._leaves, self.best
        first = number = len(nodes)
        for parent, node in zip(parents, stored, strict=True):
            status, score = node.status, node.score
            nodes.append(
                VisibleNode(
                    number, parent, node.branch, node.depth, status, score, node.error_class, False
                )
            )
            if parent:
                leaves.pop(parent, None)
            else:
                self.branches += 1
            leaves[number] = None
            number += 1
            if status is OK and (best is None or score > best):
                best = score
        self.best = best
        return nodes[first:]

    def append(self, fresh: Sequence[VisibleNode]) -> None:
        """Append what was revealed elsewhere; ids follow on those that are here."""
        leaves, best = self._leaves, self.best
        self.nodes += fresh
        for node in fresh:
            parent = node.parent
            if parent:
                leaves.pop(parent, None)
            else:
                self.branches += 1
            leaves[node.id] = None
            if node.status is OK and (best is None or node.score > best):
                best = node.score
        self.best = best

    def exhaust(self, number: int) -> None:
        """Mark node ``number`` as unable to have a further child."""
        node = self.nodes[number]
        if not node.exhausted:
            self.nodes[number] = msgspec.structs.replace(node, exhausted=True)
