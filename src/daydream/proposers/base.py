"""Who proposes the next policy: specs in, specs out, asked again until nothing new comes."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from daydream.policies.base import PolicySpec
from daydream.replay import WorldScore
from daydream.tree import Pool


class Disqualified(msgspec.Struct, frozen=True):
    """Why a version is out as a whole."""

    world: int
    """Round of the tree in which it happened."""
    batch: int
    """Number of the batch, from 1."""
    reason: str


class BetaPoint(msgspec.Struct, frozen=True):
    """Means over worlds at one beta of a sweep."""

    beta: float | None
    """None for a policy without a beta."""
    attained: float
    """In [0, 1]."""
    share: float
    """Attempts as a share of the record, in [0, 1]."""


class Swept(msgspec.Struct, frozen=True):
    """A sweep score with its terms; see :func:`daydream.objective.sweep`."""

    points: tuple[BetaPoint, ...]
    area: float
    penalty: float
    reward: float


class Scored(msgspec.Struct, frozen=True):
    """A candidate with its replay scores."""

    spec: PolicySpec
    worlds: tuple[WorldScore, ...]
    """One a world, in pool order; empty when disqualified."""
    mean: float
    """Mean replay score, or the reward of a sweep; 0 when disqualified."""
    attempts: int
    """Attempts over all worlds."""
    disqualified: Disqualified | None = None
    sweep: Swept | None = None
    """Where the sweep is the objective."""
    admitted: bool = True
    """Passes the guard."""
    better: bool = False
    """Not disqualified and above the incumbent by more than the margin."""

    @property
    def wins(self) -> bool:
        """Admitted and better than the incumbent."""
        return self.admitted and self.better


class Proposer(Protocol):
    """Makes candidates from what is on record."""

    def propose(
        self, pool: Pool, incumbent: PolicySpec, evidence: Sequence[Scored]
    ) -> Sequence[PolicySpec]:
        """Return the next candidates given those scored so far; none ends the proposing."""
        ...
