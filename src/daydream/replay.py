"""Replay: a finished tree as a world. Reveals stored nodes and nothing else, for free.

Each pick of a parent reveals its earliest-created unrevealed recorded child; where there is none
the slot stays empty and counts as off the record. A replay ends when no node of the frontier has a
recorded continuation. Time and memory are linear in the revealed nodes (and one list copy a world).
"""

from collections.abc import Callable
from typing import Final

import msgspec

from daydream.objective import Breakdown, Objective, SweepPoint, attainment
from daydream.search import (
    DEFAULT_LIMIT,
    DEFAULT_MAX_BATCHES,
    Outcome,
    Policy,
    Revealed,
    Rollout,
    solve,
)
from daydream.tree import (
    ROOT,
    Batch,
    Before,
    Eligibility,
    GrowingView,
    Node,
    Pool,
    Tree,
    TreeView,
    nothing_before,
)

NONE: Final = 0
"""No node, and false: the root is nobody's child."""


class Record:
    """A tree indexed for replay: from node to first child, and from child to child.

    Built once a tree and shared by any number of replays; never changed.
    """

    __slots__ = ("before", "child", "eligibility", "nodes", "reachable", "round", "sibling")

    def __init__(
        self,
        tree: Tree,
        eligibility: Eligibility | None = None,
        before: Callable[[], Before] = nothing_before,
    ) -> None:
        nodes = tree.nodes
        self.round = tree.round
        self.before = before
        """What stood when the tree's round began."""
        self.nodes = nodes
        """The tree's own nodes."""
        self.eligibility: Eligibility = tree.eligibility if eligibility is None else eligibility
        self.child = [NONE] * len(nodes)
        """(nodes,) the earliest child of each node."""
        self.sibling = [NONE] * len(nodes)
        """(nodes,) the next child of the same parent, in creation order."""
        self.reachable = 0
        """Attempts that picks can reveal; all but the second children of leaves in a ``chain``."""
        chain = self.eligibility == "chain"
        reached = [True] * len(nodes)
        latest = [NONE] * len(nodes)
        for node in nodes:
            parent, number = node.parent, node.id
            if parent is not None:
                if latest[parent] == NONE:
                    self.child[parent] = number
                else:
                    self.sibling[latest[parent]] = number
                    reached[number] = parent == ROOT or not chain
                latest[parent] = number
                reached[number] = reached[number] and reached[parent]
                self.reachable += reached[number]


class ReplayWorld:
    """One replay of one record. Use a new one for each rollout."""

    __slots__ = ("_next", "_record", "_view")

    def __init__(self, record: Record) -> None:
        self._record = record
        self._next = [record.child[ROOT]]
        """For each revealed node the recorded child that its next pick reveals."""
        root = record.nodes[ROOT]
        self._view = GrowingView(
            status=root.status,
            score=root.score,
            eligibility=record.eligibility,
            before=record.before,
        )

    def view(self) -> TreeView:
        """Return the revealed prefix."""
        return self._view

    def advance(self, batch: Batch) -> Revealed:
        """Reveal one recorded child for each parent in ``batch``, in order, where there is one."""
        record, view, following = self._record, self._view, self._next
        child, sibling, nodes = record.child, record.sibling, record.nodes
        found: list[Node] = []
        empty: tuple[int, ...] = ()
        for parent in batch:
            number = following[parent]
            if number:
                following[parent] = sibling[number]
                following.append(child[number])
                found.append(nodes[number])
            else:
                view.exhaust(parent)
                empty += (len(found) + len(empty),)
        if empty:
            batch = [parent for slot, parent in enumerate(batch) if slot not in empty]
        revealed = view.reveal_batch(batch, found)
        view.batches += 1
        return Revealed(revealed, len(empty), len(following) > record.reachable)


class WorldScore(msgspec.Struct, frozen=True):
    """The replay score of one policy in one world."""

    tree: int
    """Round of the tree that is the world."""
    breakdown: Breakdown
    off_record: int
    recorded: int
    """Attempts in the record."""


class Gauge:
    """Turns outcomes in one world into scores. What depends on the world alone is found once."""

    __slots__ = (
        "_base",
        "_fallback",
        "_limit",
        "_objective",
        "_recorded",
        "_round",
        "_scale",
        "_top",
    )

    def __init__(self, pool: Pool, tree: Tree, objective: Objective, *, limit: int) -> None:
        self._objective = objective
        self._limit = limit
        self._scale = pool.scale
        self._round = tree.round
        self._recorded = tree.attempts
        self._fallback = pool.fallback(tree)
        self._base = self._fallback if tree.baseline is None else tree.baseline
        best = tree.best
        self._top = None if best is None else best.score

    def score(self, outcome: Outcome) -> WorldScore:
        """Return the score of a rollout that ended with ``outcome``."""
        objective, attempts, batches = self._objective, outcome.attempts, outcome.batches
        quality = self._fallback if outcome.best is None else outcome.best
        if objective.normalised:
            top = quality if self._top is None else self._top
            breakdown = objective.relative(
                attainment(quality, self._base, top),
                attempts,
                batches,
                recorded=self._recorded,
                limit=self._limit,
            )
        else:
            breakdown = objective.raw(quality, attempts, batches, self._scale)
        return WorldScore(
            tree=self._round,
            breakdown=breakdown,
            off_record=outcome.off_record,
            recorded=self._recorded,
        )

    def point(self, scored: WorldScore) -> SweepPoint:
        """Return this world's part of a sweep, from its score by the raw objective.

        A batch never holds more than the limit, so each is one wave.
        """
        terms = scored.breakdown
        top = terms.quality if self._top is None else self._top
        return SweepPoint(
            attained=attainment(terms.quality, self._base, top),
            share=terms.attempts / max(1, self._recorded),
            probes=terms.attempts,
            waves=terms.batches,
        )


def score_world(
    pool: Pool, tree: Tree, objective: Objective, outcome: Outcome, *, limit: int
) -> WorldScore:
    """Return the score of one rollout; for many in the same world keep a :class:`Gauge`."""
    return Gauge(pool, tree, objective, limit=limit).score(outcome)


def replay(
    policy: Callable[[], Policy],
    tree: Tree,
    *,
    record: Record | None = None,
    limit: int = DEFAULT_LIMIT,
    max_batches: int = DEFAULT_MAX_BATCHES,
) -> Rollout:
    """Return the rollout of a fresh ``policy()`` in the world of ``tree``.

    ``record`` saves indexing the tree again. Raises what :func:`daydream.search.solve` raises.
    """
    world = ReplayWorld(Record(tree) if record is None else record)
    return solve(policy(), world, limit=limit, max_batches=max_batches)
