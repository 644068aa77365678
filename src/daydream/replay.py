"""Replay: a finished tree as a world. Reveals stored nodes and nothing else, for free.

Each pick of a parent reveals its earliest-created unrevealed recorded child; where there is none
the slot stays empty and counts as off the record. A replay ends when no node of the frontier has a
recorded continuation. Time and memory are linear in the revealed nodes (and one list copy a world).
"""

from collections.abc import Callable

import msgspec

from daydream.objective import Breakdown, Objective, attainment
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
    Eligibility,
    GrowingView,
    Pool,
    Tree,
    TreeView,
)


class Record:
    """A tree indexed for replay: children of node i are ``children[first[i]:first[i + 1]]``.

    Built once a tree and shared by any number of replays; never changed.
    """

    __slots__ = ("children", "eligibility", "first", "nodes", "reachable")

    def __init__(self, tree: Tree, eligibility: Eligibility | None = None) -> None:
        nodes = tree.nodes
        self.eligibility: Eligibility = tree.eligibility if eligibility is None else eligibility
        counts = [0] * (len(nodes) + 1)
        for node in nodes:
            if node.parent is not None:
                counts[node.parent + 1] += 1
        for i in range(len(nodes)):
            counts[i + 1] += counts[i]
        self.nodes = nodes
        """The tree's own nodes."""
        self.first = counts
        """(nodes + 1,) offsets into ``children``."""
        self.children = [0] * (len(nodes) - 1)
        """(nodes - 1,) node ids, grouped by parent, in creation order."""
        self.reachable = 0
        """Attempts that picks can reveal; all but the second children of leaves in a ``chain``."""
        chain = self.eligibility == "chain"
        cursor = counts[:-1]
        reached = [True] * len(nodes)
        for node in nodes:
            if node.parent is not None:
                parent, position = node.parent, cursor[node.parent]
                self.children[position] = node.id
                cursor[parent] = position + 1
                once = chain and parent != ROOT
                reached[node.id] = reached[parent] and not (once and position > counts[parent])
                self.reachable += reached[node.id]


class ReplayWorld:
    """One replay of one record. Use a new one for each rollout."""

    __slots__ = ("_next", "_record", "_source", "_view")

    def __init__(self, record: Record) -> None:
        self._record = record
        self._next = record.first[:-1]
        self._source = [ROOT]
        root = record.nodes[ROOT]
        self._view = GrowingView(
            status=root.status, score=root.score, eligibility=record.eligibility
        )

    def view(self) -> TreeView:
        """Return the revealed prefix."""
        return self._view

    def advance(self, batch: Batch) -> Revealed:
        """Reveal one recorded child for each parent in ``batch``, in order, where there is one."""
        record, view, source, pointers = self._record, self._view, self._source, self._next
        first, children = record.first, record.children
        found: list[int] = []
        empty: set[int] = set()
        for parent in batch:
            origin = source[parent]
            position = pointers[origin]
            if position < first[origin + 1]:
                pointers[origin] = position + 1
                found.append(children[position])
            else:
                view.exhaust(parent)
                empty.add(len(found) + len(empty))
        source += found
        if empty:
            batch = [parent for slot, parent in enumerate(batch) if slot not in empty]
        nodes = record.nodes
        revealed = view.reveal_batch(batch, [nodes[child] for child in found])
        view.batches += 1
        # ``source`` holds the root beside the attempts.
        return Revealed(revealed, len(empty), len(source) > record.reachable)


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
