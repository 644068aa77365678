"""Policy files with a blocking ``solve(question)``, as in appendix B of Dream-RSI (2609.14858).

``class OptimalPolicy`` has ``solve(question, budget=None)``, a ``config`` dictionary with its knob
``beta``, and may have ``NAME`` and ``plan_grid(context)``. A question names what can be *probed*:
each legal action is an attempt not made yet, the opening of a branch (a legal root) or the next
attempt of an open one. Underneath is the same view and the same loop as for every other policy:
``probe_batch`` suspends ``solve`` in a greenlet until the batch is revealed.

Which unopened branch a root opens is no choice: branches are opened in creation order. An attempt
that turned out not to exist is not observed, and its branch is no longer legal. ``solve`` is left
where it waits when the rollout ends.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol, cast

import msgspec
from greenlet import getcurrent, greenlet

from daydream.canonical import JsonValue
from daydream.errors import PolicyError
from daydream.tree import OK, ROOT, Batch, Grid, Manifest, Status, TreeView, VisibleNode

BETA: Final = "beta"
MOST: Final = 1_000_000
"""Greatest size of a plan that is written down; nothing makes more."""
PATIENCE: Final = 2
"""Attempts without an ``ok`` one after which a branch has failed hard."""


class Observation(msgspec.Struct, frozen=True):
    """What is known of one attempt. A success is evaluated, without error, of class ``ok``."""

    branch: int
    attempt: int
    """Depth in its branch, from 1."""
    score: float
    """0 unless valid."""
    evaluated: bool
    """The evaluator came to a verdict."""
    valid: bool
    fail_class: str
    """``ok``, ``invalid``, ``error`` or ``timeout``."""
    error: str | None
    delta_vs_baseline: float | None
    """None where one of the two has no score."""
    delta_vs_parent: float | None
    """Against the attempt before, for a first attempt against the root; None where one failed."""
    n_valid: int
    n_total: int


class Meta(msgspec.Struct, frozen=True):
    """Where an action stands: nothing of it depends on what is unrevealed."""

    branch: int
    """For an unopened branch the number that it gets if it is opened next in order."""
    attempt: int
    parent_id: int | None
    """Id of the attempt before; None for the first of a branch."""
    seq: int | None
    """Place in the order of reveals, from 1; None while unprobed."""
    tags: tuple[str, ...] = ()


class GridContext(msgspec.Struct, frozen=True):
    """What ``plan_grid`` may know: the caps, and what earlier rollouts came to."""

    max_parallelism: int
    baseline_score: float | None
    max_branches: int | None = None
    """Most branches that the run allows, or None."""
    max_depth: int | None = None
    """Most attempts in a branch that the run allows, or None."""
    manifests: tuple[Manifest, ...] = ()
    """Finished rollouts of earlier rounds, oldest first; the latest 64 at most."""


class GridPlan(msgspec.Struct, frozen=True):
    """How many branches to open at most, and how many attempts to make in each."""

    branch_count: int
    refine_count: int
    reason: str = ""


class OptimalPolicy(Protocol):
    """What the file's class has, beside ``NAME`` and ``plan_grid`` where it likes."""

    config: Mapping[str, JsonValue]

    def solve(self, question: "Question", budget: int | None = None) -> object:
        """Probe until nothing more is worth it."""
        ...


class _Planner(Protocol):
    def plan_grid(self, context: GridContext) -> object: ...


class Question:
    """One rollout as ``solve`` sees it."""

    def __init__(self, view: TreeView, limit: int, plan: GridPlan | None) -> None:
        self._view = view
        self._plan = plan
        self._handles = 0
        self._open: dict[int, int] = {}
        """Id of each legal action -> the node that it would be a child of."""
        self._node_of: dict[int, int] = {}
        self._id_of: list[int | None] = [None]
        self._observed: dict[int, Observation] = {}
        self._pending: Sequence[int] = ()
        self.max_parallelism = limit
        """Attempts that run at a time; a larger batch is made in several."""
        self.baseline_score = view.baseline
        """Score of the root, or None."""
        self._settle()

    def reset(self) -> None:
        """Begin. Raises ``RuntimeError`` after a probe: what was made cannot be unmade."""
        if self._observed:
            raise RuntimeError("question was reset after a probe (expected before the first)")

    def observed(self) -> dict[int, Observation]:
        """Return what was probed so far, by id, in the order of reveals."""
        return dict(self._observed)

    def legal_actions(self) -> list[int]:
        """Return the ids that may be probed now: legal roots, then next attempts of branches."""
        rest = [number for number, parent in self._open.items() if parent != ROOT]
        return self.legal_roots() + rest

    def legal_roots(self) -> list[int]:
        """Return the ids that open a branch, at most ``max_parallelism`` at a time."""
        return [number for number, parent in self._open.items() if parent == ROOT]

    def opened_branches(self) -> list[int]:
        """Return the numbers of the branches opened so far."""
        return list(range(self._view.branches))

    def meta(self, number: int) -> Meta:
        """Return where ``number`` stands; raises ``KeyError`` for an id that was never legal."""
        known = self._node_of.get(number)
        if known is not None:
            node = self._view.nodes[known]
            return Meta(node.branch, node.depth, self._id_of[node.parent], node.id)
        parent = self._open[number]
        if parent == ROOT:
            ahead = self.legal_roots().index(number)
            return Meta(self._view.branches + ahead, 1, None, None)
        above = self._view.nodes[parent]
        return Meta(above.branch, above.depth + 1, self._id_of[parent], None)

    def probe_batch(
        self,
        ids: Iterable[int],
        on_reveal: Callable[[int, Observation], object] | None = None,
    ) -> dict[int, Observation]:
        """Make the attempts ``ids`` side by side and return what came of those that exist.

        Raises ``ValueError`` for an id that is not legal or stands twice.
        """
        asked = list(ids)
        if len(set(asked)) < len(asked) or not all(number in self._open for number in asked):
            raise ValueError(f"probe_batch was given {asked!r} (expected distinct legal ids)")
        width = self.max_parallelism
        for start in range(0, len(asked), width):
            self._probe([n for n in asked[start : start + width] if n in self._open])
        found = {number: self._observed[number] for number in asked if number in self._observed}
        if on_reveal is not None:
            for number, observation in found.items():
                on_reveal(number, observation)
        return found

    def branch_promising(self, branch: int) -> bool:
        """Return whether the last success of ``branch`` beats every earlier one and the root."""
        scores = [o.score for o in self._of(branch) if o.valid]
        if not scores:
            return False
        before = scores[:-1] if self.baseline_score is None else [self.baseline_score, *scores[:-1]]
        return all(scores[-1] > score for score in before)

    def branch_failed_hard(self, branch: int) -> bool:
        """Return whether ``branch`` made at least two attempts and no success."""
        made = self._of(branch)
        return len(made) >= PATIENCE and not any(o.valid for o in made)

    def probe_improved_vs_parent(self, number: int) -> bool:
        """Return whether ``number`` succeeded above its parent."""
        delta = self._observed[number].delta_vs_parent
        return delta is not None and delta > 0

    def probe_improved_vs_baseline(self, number: int) -> bool:
        """Return whether ``number`` succeeded above the root."""
        delta = self._observed[number].delta_vs_baseline
        return delta is not None and delta > 0

    def _of(self, branch: int) -> list[Observation]:
        return [o for o in self._observed.values() if o.branch == branch]

    def _probe(self, ids: Sequence[int]) -> None:
        if not ids:
            return
        hub = getcurrent().parent
        if hub is None:
            raise RuntimeError("probe_batch was called outside solve (expected inside)")
        self._pending = ids
        hub.switch([self._open[number] for number in ids])
        self._settle()

    def _settle(self) -> None:
        """Bind what was probed to what was revealed, and find what is legal now."""
        nodes = self._view.nodes
        fresh = nodes[len(self._id_of) :]
        queue = iter(fresh)
        following = next(queue, None)
        for number in self._pending:
            parent = self._open.pop(number)
            if following is not None and following.parent == parent:
                self._node_of[number] = following.id
                self._id_of.append(number)
                self._observed[number] = self._observe(following)
                following = next(queue, None)
        self._pending = ()
        self._open = {n: p for n, p in self._open.items() if self._legal(nodes[p])}
        taken = set(self._open.values())
        for parent in islice(self._view.frontier, 1, None):
            if parent not in taken and self._legal(nodes[parent]):
                self._offer(parent)
        while len(self.legal_roots()) < self._roots():
            self._offer(ROOT)
        for surplus in self.legal_roots()[self._roots() :]:
            del self._open[surplus]

    def _roots(self) -> int:
        """How many branches can be opened in one batch."""
        plan = self._plan
        most = self.max_parallelism
        if self._view.nodes[ROOT].exhausted:
            return 0
        return most if plan is None else max(0, min(most, plan.branch_count - self._view.branches))

    def _legal(self, parent: VisibleNode) -> bool:
        deep = self._plan is not None and parent.depth >= self._plan.refine_count
        return not parent.exhausted and not deep

    def _offer(self, parent: int) -> None:
        self._open[self._handles] = parent
        self._handles += 1

    def _observe(self, node: VisibleNode) -> Observation:
        above = self._view.nodes[node.parent]
        good = node.status is OK
        base = self.baseline_score
        return Observation(
            branch=node.branch,
            attempt=node.depth,
            score=node.score,
            evaluated=node.status in (OK, Status.INVALID),
            valid=good,
            fail_class="error" if node.status is None else node.status.value,
            error=None if good else node.error_class or "failed",
            delta_vs_baseline=node.score - base if good and base is not None else None,
            delta_vs_parent=node.score - above.score if good and above.ok else None,
            n_valid=int(good),
            n_total=1,
        )


class Solving:
    """The select_batch side of an ``OptimalPolicy``: runs ``solve`` from probe to probe."""

    def __init__(self, policy: OptimalPolicy) -> None:
        self._policy = policy
        self._running: greenlet | None = None
        self.plans = callable(getattr(policy, "plan_grid", None))
        """Whether it asks what came before."""
        self.grid = Grid()
        """What it planned, known from the first batch on."""

    def select_batch(self, view: TreeView, limit: int) -> Batch:
        """Return the next batch that ``solve`` probes; empty once it has returned."""
        running = self._running
        if running is None:
            plan = self._planned(view, limit)
            # Nothing in the greenlet's frames leads back to it, or it would never be collected.
            running = self._running = greenlet(_solve)
            return cast("Batch", running.switch(self._policy, Question(view, limit, plan))) or []
        running.parent = getcurrent()
        return cast("Batch", running.switch()) or []

    def _planned(self, view: TreeView, limit: int) -> GridPlan | None:
        policy = self._policy
        config: object = getattr(policy, "config", None)
        beta: object = config.get(BETA) if isinstance(config, dict) else None
        told = type(beta) in (int, float) and 0 <= cast("float", beta) <= 1
        known = float(cast("float", beta)) if told else None
        plan = None
        if self.plans:
            before = view.before()
            context = GridContext(
                max_parallelism=limit,
                baseline_score=view.baseline,
                max_branches=before.max_branches,
                max_depth=before.max_depth,
                manifests=before.manifests,
            )
            plan = _plan(cast("_Planner", policy).plan_grid(context))
        self.grid = (
            Grid(beta=known)
            if plan is None
            else Grid(min(plan.branch_count, MOST), min(plan.refine_count, MOST), known)
        )
        return plan


def _solve(policy: OptimalPolicy, question: Question) -> None:
    policy.solve(question)


def _plan(value: object) -> GridPlan | None:
    if value is None:
        return None
    sizes = getattr(value, "branch_count", None), getattr(value, "refine_count", None)
    for size in sizes:
        if type(size) is not int or size < 1:
            raise PolicyError(
                f"plan_grid returned {value!r} (expected None or GridPlan(branch_count, "
                "refine_count, reason) with whole numbers from 1)"
            )
    return GridPlan(cast("int", sizes[0]), cast("int", sizes[1]))
