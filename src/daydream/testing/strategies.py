"""Hypothesis strategies: trees with failures and negative scores, specs, limits, verdict tables.

For tests of policies, proposers and worlds. Needs the package ``hypothesis``.
"""

from collections.abc import Callable

from hypothesis import strategies as st

from daydream.policies.adaptive import Adaptive
from daydream.policies.best_first import BestFirst
from daydream.policies.parallel_refine import ParallelRefine
from daydream.testing.worlds import Shown
from daydream.tree import OK, ROOT, Eligibility, Node, Status, Tree, check_tree

_GRID = [-2.0, -0.5, -0.25, 0.0, 0.1, 0.115, 0.12, 0.13, 0.3, 0.32, 0.5, 0.55, 0.95]
"""Scores close enough to each other that gains fall on both sides of usual thresholds."""
_USUAL = [Shown(OK, score, None) for score in _GRID] + [
    Shown(Status.INVALID, 0.0, "overlap"),
    Shown(Status.ERROR, 0.0, "crash"),
    Shown(Status.TIMEOUT, 0.0, None),
]


def scores() -> st.SearchStrategy[float]:
    """Return finite scores: mostly a few that tie or nearly tie, sometimes any."""
    anything = st.floats(-1e6, 1e6, allow_nan=False)
    return st.one_of(st.sampled_from(_GRID), st.sampled_from(_GRID), anything)


def verdicts() -> st.SearchStrategy[Shown]:
    """Return what became of an attempt; about one in five fails."""
    anything = st.builds(Shown, status=st.just(OK), score=scores(), error_class=st.none())
    return st.one_of(st.sampled_from(_USUAL), st.sampled_from(_USUAL), anything)


@st.composite
def trees(
    draw: st.DrawFn,
    eligibility: Eligibility | None = None,
    *,
    max_attempts: int = 30,
    max_branches: int = 7,
) -> Tree:
    """Return valid trees, also without attempts; ``eligibility`` None draws one."""
    kinds: tuple[Eligibility, ...] = ("chain", "chain", "any")
    kind = draw(st.sampled_from(kinds)) if eligibility is None else eligibility
    # One number an attempt, for parent and verdict, keeps drawing and shrinking fast.
    steps = draw(st.lists(st.integers(0, (1 << 20) - 1), max_size=max_attempts))
    score = draw(scores())
    outcomes = [*_USUAL, Shown(OK, score, None)]
    root = draw(st.sampled_from([None, OK, Status.INVALID]))
    score = score if root is OK else 0.0
    nodes = [Node(ROOT, None, branch=-1, depth=0, batch=0, slot=0, status=root, score=score)]
    legal = [ROOT]
    branches = 0
    for number, step in enumerate(steps, start=1):
        shown = outcomes[step % len(outcomes)]
        above = nodes[legal[step // len(outcomes) % len(legal)]]
        branch = branches if above.id == ROOT else above.branch
        branches += above.id == ROOT
        nodes.append(
            Node(
                id=number,
                parent=above.id,
                branch=branch,
                depth=above.depth + 1,
                batch=number,
                slot=0,
                status=shown.status,
                score=shown.score,
                error_class=shown.error_class,
            )
        )
        legal.append(number)
        full = above.id == ROOT and branches == max_branches
        if full or (above.id != ROOT and kind == "chain"):
            legal.remove(above.id)
    return check_tree(
        Tree(
            task="drawn",
            evaluator="drawn-1",
            round=draw(st.integers(1, 9)),
            policy="drawn",
            limit=draw(limits()),
            scale=draw(scales()),
            seed=draw(st.integers(0, 99)),
            nodes=tuple(nodes),
            eligibility=kind,
        )
    )


def limits() -> st.SearchStrategy[int]:
    """Return limits from 1 to 12."""
    return st.integers(1, 12)


def scales() -> st.SearchStrategy[float]:
    """Return score scales."""
    return st.sampled_from([1.0, 1.0, 0.25, 0.006])


def parallel_refines() -> st.SearchStrategy[ParallelRefine]:
    """Return specs that stop within, at and beyond what :func:`trees` record."""
    return st.builds(ParallelRefine, width=st.integers(1, 10), depth=st.integers(1, 10))


def adaptives() -> st.SearchStrategy[Adaptive]:
    """Return specs that prune always, sometimes or never."""
    return st.builds(
        Adaptive,
        width=st.integers(1, 10),
        depth=st.integers(1, 10),
        patience=st.integers(1, 5),
        min_gain=st.sampled_from([0.0, 0.005, 0.015, 0.02, 0.05, 0.25, 4.0]),
    )


def best_firsts() -> st.SearchStrategy[BestFirst]:
    """Return best-first specs."""
    return st.builds(
        BestFirst, width=st.integers(1, 8), k=st.integers(1, 5), patience=st.integers(1, 4)
    )


def specs() -> st.SearchStrategy[ParallelRefine | Adaptive | BestFirst]:
    """Return specs of every built-in family."""
    return st.one_of(parallel_refines(), adaptives(), best_firsts())


@st.composite
def tables(draw: st.DrawFn) -> Callable[[int, int], Shown]:
    """Return verdicts as a function of branch and depth, for ``TableWorld``."""
    cells = draw(st.lists(verdicts(), min_size=1, max_size=24))

    def verdict(branch: int, depth: int) -> Shown:
        return cells[(branch * 7 + depth * 3) % len(cells)]

    return verdict
