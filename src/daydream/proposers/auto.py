"""System 1 first; the grid only when its proposal does not win."""

from collections.abc import Sequence

from daydream.policies.base import PolicySpec
from daydream.proposers.base import Scored
from daydream.proposers.grid import revision_grid
from daydream.proposers.system1 import fast_proposal
from daydream.tree import Pool


class Auto:
    """Keeps the fast proposal when it is admitted and better, else searches the grid."""

    def propose(
        self, pool: Pool, incumbent: PolicySpec, evidence: Sequence[Scored]
    ) -> Sequence[PolicySpec]:
        """Return the fast proposal, then the grid unless the proposal won."""
        if not evidence:
            spec = fast_proposal(pool)
            return revision_grid(pool) if spec is None else [spec]
        if len(evidence) > 1 or any(scored.wins for scored in evidence):
            return []
        return revision_grid(pool)
