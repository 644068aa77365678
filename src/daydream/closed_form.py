"""Replay of the refine and adaptive families in closed form: thousands of specs a tree at once.

Equal, number for number, to :func:`daydream.replay.replay`; the law tests hold it to that. For one
spec on one record:

* A branch of recorded length L is wanted up to depth m = min(D, first depth at which its last P
  steps are all flat). It takes min(m, L) picks that reveal, and one empty pick when m > L.
* Picks form one queue in level order: depth 1 of every branch, then depth 2 of those that go on,
  and so on, always in branch order. Where W exceeds the recorded branches, the batch that runs
  over the record adds empty root picks, which stand last at level 1.
* A batch takes ``limit`` picks while at least so many branches are alive, that is have picks left.
  The branch whose last pick stands limit-th from the end tells how many such full batches there
  are. From then on each batch takes one pick of every alive branch.
* When the whole record is revealed the replay ends after that batch: what stands behind it in the
  queue is never picked.

Both eligibilities are covered: these families pick a node at most once, so that in a tree which
branches anywhere they follow first children, and only the end of the replay has to know of others.

The only kernel module that imports numpy, so import it where it is used.
"""

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from daydream.objective import MARGIN, Objective
from daydream.policies.adaptive import Adaptive
from daydream.policies.base import PolicySpec
from daydream.policies.parallel_refine import ParallelRefine
from daydream.replay import NONE, Gauge, Record, ReplayWorld, WorldScore
from daydream.search import DEFAULT_LIMIT, DEFAULT_MAX_BATCHES, Outcome, solve
from daydream.tree import OK, ROOT, Pool

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

Wish: TypeAlias = tuple[int, int, int]
"""What matters of a spec on one record: row of stop depths, width, depth."""

_NEVER: Final = 1 << 40
"""A depth that no record reaches."""
_CELLS: Final = 1 << 16
"""Matrix cells (specs times branches or levels) at a time, so that they stay in cache."""
_KEPT: Final = 64
"""Minimal gains whose flat runs are kept at a time."""


def covers(spec: PolicySpec) -> bool:
    """Return whether this module can score ``spec``."""
    return type(spec) in (ParallelRefine, Adaptive)


def score_specs(
    specs: Sequence[PolicySpec],
    pool: Pool,
    objective: Objective,
    *,
    limit: int = DEFAULT_LIMIT,
    max_batches: int = DEFAULT_MAX_BATCHES,
    records: Sequence[Record] | None = None,
) -> list[list[WorldScore]]:
    """Return ``scores[spec][world]``, equal to step-by-step replay of every spec in every tree.

    ``records`` saves indexing the trees again. A spec that would pass ``max_batches`` in a world is
    replayed there step by step. Raises ``TypeError`` for a spec that :func:`covers` refuses.
    """
    if records is None:
        records = [Record(tree, pool.eligibility) for tree in pool.trees]
    columns: list[list[WorldScore]] = []
    for tree, record in zip(pool.trees, records, strict=True):
        gauge = Gauge(pool, tree, objective, limit=limit)
        closed = ClosedForm(record, pool.scale, limit=limit)
        outcomes, index = closed.outcomes(specs, max_batches=max_batches)
        scores = [gauge.score(outcome) for outcome in outcomes]
        columns.append([scores[i] for i in index])
    return [list(row) for row in zip(*columns, strict=True)]


class Counts(msgspec.Struct, frozen=True):
    """Outcomes on one record as arrays; entry i belongs to the i-th spec asked for."""

    attempts: Ints
    batches: Ints
    off_record: Ints
    best: Floats
    """Greatest ``ok`` score revealed, minus infinity where there is none."""


class ClosedForm:
    """One record, prepared for any number of specs at one ``limit`` (>= 1) and scale (> 0)."""

    def __init__(self, record: Record, scale: float, *, limit: int = DEFAULT_LIMIT) -> None:
        self._record = record
        self._scale = scale
        self._limit = min(limit, _NEVER)
        lengths, gains, tops = _chains(record)
        self._lengths: Ints = np.array(lengths, dtype=np.int64)
        """(branches,) recorded attempts along each branch."""
        self._starts: Ints = np.cumsum(self._lengths) - self._lengths
        """(branches,) where each branch starts in ``gains``."""
        self._gains: Floats = np.array(gains)
        """(attempts,) gain of every step; infinite where a step can never be flat."""
        self._tops: Floats = np.array([-math.inf, *tops])
        """(1 + attempts,) best ``ok`` score of a branch so far, shifted by one."""
        never: Ints = np.full(len(lengths), _NEVER, dtype=np.int64)
        self._stops: list[Ints] = [never]
        """Distinct rows (branches,) of stop depths; the first prunes nowhere."""
        self._same: dict[bytes, int] = {never.tobytes(): 0}
        self._rows: dict[tuple[int, float], int] = {}
        """(patience, minimal gain) -> row of ``stops``."""
        self._peaks: dict[float, Ints] = {}
        """Minimal gain -> longest flat runs, for the gains asked about last."""

    def counts(self, specs: Sequence[PolicySpec]) -> Counts:
        """Return the outcomes of ``specs``, as if ``max_batches`` had no bound.

        Raises ``TypeError`` for a spec that :func:`covers` refuses.
        """
        wishes, index = self._distinct(specs)
        found = self._solve_all(wishes)
        picked: Ints = np.array(index, dtype=np.int64)
        return Counts(
            attempts=found.attempts[picked],
            batches=found.batches[picked],
            off_record=found.off_record[picked],
            best=found.best[picked],
        )

    def outcomes(
        self, specs: Sequence[PolicySpec], *, max_batches: int = DEFAULT_MAX_BATCHES
    ) -> tuple[list[Outcome], list[int]]:
        """Return the distinct outcomes, and for each spec the position of its own.

        Specs that would pass ``max_batches`` are replayed step by step. Raises ``TypeError`` for a
        spec that :func:`covers` refuses.
        """
        wishes, index = self._distinct(specs)
        found = self._solve_all(wishes)
        columns = [found.attempts, found.batches, found.off_record, found.best]
        places: dict[tuple[int, int, int, float], int] = {}
        merged = [
            places.setdefault(row, len(places))
            for row in zip(*(column.tolist() for column in columns), strict=True)
        ]
        outcomes = [
            Outcome(attempts, batches, off_record, None if best == -math.inf else best)
            for attempts, batches, off_record, best in places
        ]
        where = [merged[place] for place in index]
        if bool((found.batches > max_batches).any()):
            self._cut(specs, outcomes, where, max_batches)
        return outcomes, where

    def _cut(
        self,
        specs: Sequence[PolicySpec],
        outcomes: list[Outcome],
        where: list[int],
        max_batches: int,
    ) -> None:
        """Replay each spec whose outcome passes ``max_batches``, and point it to what came out."""
        for i, spec in enumerate(specs):
            if outcomes[where[i]].batches > max_batches:
                policy, world = spec.build(self._scale), ReplayWorld(self._record)
                where[i] = len(outcomes)
                outcomes.append(solve(policy, world, limit=self._limit, max_batches=max_batches))

    def _distinct(self, specs: Sequence[PolicySpec]) -> tuple[list[Wish], list[int]]:
        """Return the distinct wishes of ``specs``, and for each spec the position of its wish."""
        branches, rows = len(self._lengths), self._rows
        widest = branches - branches % self._limit + self._limit
        deepest = 1 + int(self._lengths.max(initial=0))
        places: dict[Wish, int] = {}
        index: list[int] = []
        for spec in specs:
            if type(spec) is Adaptive:
                rule = (spec.patience, spec.min_gain)
                row = rows[rule] if rule in rows else self._row(*rule)
            elif type(spec) is ParallelRefine:
                row = 0
            else:
                raise TypeError(
                    f"{spec.name} has no closed form (expected parallel_refine or adaptive); "
                    "replay it step by step"
                )
            # No min(): this line runs for every pair of spec and world.
            width = spec.width if spec.width < widest else widest
            depth = spec.depth if spec.depth < deepest else deepest
            index.append(places.setdefault((row, width, depth), len(places)))
        return list(places), index

    def _row(self, patience: int, min_gain: float) -> int:
        """Return the number of the row in ``stops`` that holds this rule's stop depths."""
        if min_gain not in self._peaks:
            if len(self._peaks) == _KEPT:
                self._peaks.clear()
            self._peaks[min_gain] = self._flat_peaks(min_gain * self._scale - MARGIN)
        before = self._peaks[min_gain] < min(patience, _NEVER)
        kept = np.add.reduceat(before, self._starts, dtype=np.int64)
        stops: Ints = np.where(kept < self._lengths, kept + 1, _NEVER)
        row = self._same.setdefault(stops.tobytes(), len(self._stops))
        if row == len(self._stops):
            self._stops.append(stops)
        self._rows[patience, min_gain] = row
        return row

    def _flat_peaks(self, threshold: float) -> Ints:
        """Return (attempts,) the longest run of flat steps in its branch up to each attempt."""
        places = np.arange(len(self._gains))
        sharp = np.where(self._gains < threshold, -1, places)
        runs = places - np.maximum.accumulate(sharp)
        # One accumulation serves all branches when each starts above whatever came before it.
        offset = np.repeat(np.arange(len(self._lengths)) * len(places), self._lengths)
        peaks: Ints = np.maximum.accumulate(runs + offset) - offset
        return peaks

    def _solve_all(self, wishes: Sequence[Wish]) -> Counts:
        branches, limit = len(self._lengths), self._limit
        table: Ints = np.array(wishes, dtype=np.int64).reshape(-1, 3)
        if branches == 0 or not wishes:
            # Nothing is recorded: one batch of empty root picks, and the replay has ended.
            blank = np.zeros(len(wishes), dtype=np.int64)
            return Counts(
                attempts=blank,
                batches=blank + 1,
                off_record=np.minimum(table[:, 1], limit),
                best=np.full(len(wishes), -math.inf),
            )
        stops = np.stack(self._stops)
        step = max(1, _CELLS // max(branches, 1 + int(self._lengths.max())))
        parts = [
            self._solve(stops[rows[:, 0]], rows[:, 1], rows[:, 2])
            for rows in (table[i : i + step] for i in range(0, len(table), step))
        ]
        return Counts(
            attempts=np.concatenate([part.attempts for part in parts]),
            batches=np.concatenate([part.batches for part in parts]),
            off_record=np.concatenate([part.off_record for part in parts]),
            best=np.concatenate([part.best for part in parts]),
        )

    def _solve(self, stops: Ints, width: Ints, depth: Ints) -> Counts:
        """Return the outcomes for stop depths (specs, branches), widths and depths (specs,)."""
        branches, limit = len(self._lengths), self._limit
        wanted = np.minimum(stops, depth[:, None])
        wanted *= np.arange(branches) < width[:, None]
        reveals = np.minimum(wanted, self._lengths)
        lens = reveals + (wanted > self._lengths)
        opened = branches - branches % limit
        over = np.minimum(limit, width - opened) - (branches - opened)
        queue = _Queue(lens, np.where(width > branches, over, 0), limit)
        attempts = reveals.sum(axis=1)
        batches, picked = queue.drained()
        ending = np.flatnonzero((attempts == self._record.reachable) & (picked > attempts))
        if len(ending):
            last = branches - 1 - int(np.argmax(self._lengths[::-1]))
            batches[ending], picked[ending] = queue.ended(
                ending, level=int(self._lengths[last]), branch=last
            )
        best = self._tops[(self._starts + reveals) * (reveals > 0)].max(axis=1)
        return Counts(attempts=attempts, batches=batches, off_record=picked - attempts, best=best)


def _chains(record: Record) -> tuple[list[int], list[float], list[float]]:
    """Return lengths of the branches, and gains and best ``ok`` scores along them, end to end."""
    lengths: list[int] = []
    gains: list[float] = []
    tops: list[float] = []
    opening = record.child[ROOT]
    while opening != NONE:
        start, number, top = len(gains), opening, -math.inf
        while number != NONE:
            node = record.nodes[number]
            gain = 0.0
            if node.status is OK and node.score > top:
                gain, top = node.score - top, node.score
            gains.append(gain if len(gains) > start else math.inf)
            tops.append(top)
            number = record.child[number]
        lengths.append(len(gains) - start)
        opening = record.sibling[opening]
    return lengths, gains, tops


class _Queue:
    """The picks of many specs in level order, and how batches of at most ``limit`` take them.

    ``lens`` (specs, branches) are picks of each branch; ``over`` (specs,) are empty root picks,
    which stand last at level 1.
    """

    def __init__(self, lens: Ints, over: Ints, limit: int) -> None:
        self._lens = lens
        self._limit = limit
        specs, branches = lens.shape
        self._columns = np.arange(branches)
        highest = int(lens.max())
        cells = np.arange(specs)[:, None] * (highest + 1) + lens
        table = np.bincount(cells.ravel(), minlength=specs * (highest + 1))
        alive = table.reshape(specs, highest + 1)[:, ::-1].cumsum(axis=1)[:, -2::-1]
        alive[:, 0] += over
        self._first: Ints = alive[:, 0]
        """(specs,) picks at level 1."""
        self._ends: Ints = np.zeros((specs, highest + 1), dtype=np.int64)
        """(specs, 1 + levels) picks at levels up to each."""
        np.cumsum(alive, axis=1, out=self._ends[:, 1:])
        self._total: Ints = self._ends[:, -1]
        # The last pick of a branch stands behind another's when (its level, its branch) does.
        self._ranked: Ints = np.sort(lens * branches + self._columns, axis=1)
        self._full: Ints = self._full_batches(alive[:, 1] if highest > 1 else np.zeros_like(over))
        """(specs,) batches that find at least ``limit`` branches alive."""
        taken = self._full * limit
        self._level: Ints = (self._ends <= taken[:, None]).sum(axis=1)
        """(specs,) the level that the full batches end in."""
        self._rest: Ints = taken - self._ends[np.arange(specs), self._level - 1]
        """(specs,) picks that they take of that level."""

    def _full_batches(self, long: Ints) -> Ints:
        """``long`` (specs,) are the branches with more than one pick."""
        limit, branches = self._limit, len(self._columns)
        ranked = self._ranked[:, max(branches - limit, 0)]
        level, branch = ranked // branches, ranked % branches
        before = self._ends[np.arange(len(long)), np.maximum(level - 1, 0)]
        # Unless D is 1 every branch has two picks or more, since a first attempt is never pruned.
        # So picks without a successor, where there are any, are the last ones of level 1.
        position = np.where(
            limit <= long, before + self._rank(level, branch), self._first + long - limit
        )
        full: Ints = np.where(limit <= self._first, position // limit + 1, 0)
        return full

    def _rank(self, level: Ints, branch: Ints) -> Ints:
        """Return (specs,) how many branches before ``branch`` have a pick at ``level``."""
        ahead: Ints = ((self._lens >= level[:, None]) & (self._columns < branch[:, None])).sum(
            axis=1
        )
        return ahead

    def drained(self) -> tuple[Ints, Ints]:
        """Return batches and picks (specs,) when every pick is taken."""
        branches = len(self._columns)
        longest, last = self._ranked[:, -1] // branches, self._ranked[:, -1] % branches
        rank = np.where(longest > 1, self._rank(self._level, last), self._first - 1)
        tail = longest - self._level + (rank >= self._rest)
        left = self._full * self._limit < self._total
        return self._full + np.where(left, tail, 0), self._total.copy()

    def ended(self, specs: Ints, *, level: int, branch: int) -> tuple[Ints, Ints]:
        """Return batches and picks of ``specs`` up to the batch that takes this pick of a branch.

        Batches follow level order, so what they have taken by then is a prefix of the queue.
        """
        lens, ends = self._lens[specs], self._ends[specs]
        full, start, rest = self._full[specs], self._level[specs], self._rest[specs]
        rows = np.arange(len(specs))
        alive = lens >= level
        position = ends[rows, level - 1] + alive[:, :branch].sum(axis=1)
        early = position < full * self._limit
        whole = position // self._limit + 1
        # Branches whose pick at the level ``start`` is taken by the full batches.
        ahead = np.cumsum(lens >= start[:, None], axis=1) <= rest[:, None]
        more = np.maximum(level + 1 - start - ahead[:, branch], 0)
        reached = np.minimum(start - 1 + more, ends.shape[1] - 1)
        tail = ((lens >= (start + more)[:, None]) & ahead).sum(axis=1)
        return (
            np.where(early, whole, full + more),
            np.where(early, whole * self._limit, ends[rows, reached] + tail),
        )
