"""No proposals: the incumbent is re-scored and stays."""

from collections.abc import Sequence

from daydream.policies.base import PolicySpec
from daydream.proposers.base import Scored
from daydream.tree import Pool


class Nothing:
    """Proposes nothing."""

    def propose(
        self, pool: Pool, incumbent: PolicySpec, evidence: Sequence[Scored]
    ) -> Sequence[PolicySpec]:
        """Return no candidates."""
        return []
