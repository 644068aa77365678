"""The fixed revision grid: every small spec of both families, in the order that breaks ties."""

from collections.abc import Sequence

from daydream.policies.adaptive import Adaptive
from daydream.policies.base import PolicySpec
from daydream.policies.parallel_refine import ParallelRefine
from daydream.proposers.base import Scored
from daydream.tree import Pool

PATIENCE = (1, 2, 3, 4)
MIN_GAINS = (0.005, 0.02, 0.05)


class Grid:
    """Proposes the whole grid at once."""

    def propose(
        self, pool: Pool, incumbent: PolicySpec, evidence: Sequence[Scored]
    ) -> Sequence[PolicySpec]:
        """Return the grid once."""
        return [] if evidence else revision_grid(pool)


def revision_grid(pool: Pool) -> list[PolicySpec]:
    """Return both families over widths up to the most branches opened and depths up to the deepest.

    Order: ``parallel_refine`` then ``adaptive``; width, depth, patience 1-4, minimal gain 0.005,
    0.02, 0.05, the last varying fastest.
    """
    width = max(1 + node.branch for tree in pool.trees for node in tree.nodes)
    depth = max(node.depth for tree in pool.trees for node in tree.nodes)
    sizes = [(w, d) for w in range(1, width + 1) for d in range(1, depth + 1)]
    specs: list[PolicySpec] = [ParallelRefine(w, d) for w, d in sizes]
    specs += [Adaptive(w, d, p, g) for w, d in sizes for p in PATIENCE for g in MIN_GAINS]
    return specs
