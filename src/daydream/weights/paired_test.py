"""The exact paired test of the gate.

Two contenders answer the same probes. A pair in which one scores higher is a win or a loss of the
candidate; equal pairs say nothing. Under "no difference" the wins among the ``n`` unequal pairs are
Binomial(n, 1/2), so the one-sided p-value is a sum of binomial coefficients, worked out in whole
numbers (the sign test, which for solved and unsolved is McNemar's exact test). The interval is the
Clopper-Pearson interval of the share of wins, carried over to the difference of the rates:
``(2 share - 1) n / probes``.
"""

from collections.abc import Sequence
from math import comb, exp, lgamma, log
from typing import Final

import msgspec

ALPHA: Final = 0.05
"""Level of the one-sided tests."""


class Trial(msgspec.Struct, frozen=True):
    """What a paired comparison came to."""

    probes: int
    candidate: float
    """Mean score, the solve rate where scores are 0 and 1."""
    incumbent: float
    wins: int
    losses: int
    p_better: float
    """Chance of so many wins or more when the two are the same."""
    p_worse: float
    low: float
    """Two-sided interval at 95 % of the difference of the rates."""
    high: float

    @property
    def better(self) -> bool:
        """Whether the candidate is better at the level of the test."""
        return self.p_better < ALPHA

    @property
    def worse(self) -> bool:
        """Whether it is worse."""
        return self.p_worse < ALPHA


def compare(candidate: Sequence[float], incumbent: Sequence[float]) -> Trial:
    """Return the trial of two rows of scores over the same probes.

    Raises ``ValueError`` for rows of different lengths, empty rows, and scores that are no numbers.
    """
    if not candidate or len(candidate) != len(incumbent):
        raise ValueError(
            f"{len(candidate)} scores against {len(incumbent)} (expected as many, and some)"
        )
    if not all(one - one == 0 for one in (*candidate, *incumbent)):
        raise ValueError("a score is no finite number")
    count = len(candidate)
    wins = sum(a > b for a, b in zip(candidate, incumbent, strict=True))
    losses = sum(a < b for a, b in zip(candidate, incumbent, strict=True))
    unequal = wins + losses
    low, high = share_interval(wins, unequal)
    return Trial(
        probes=count,
        candidate=sum(candidate) / count,
        incumbent=sum(incumbent) / count,
        wins=wins,
        losses=losses,
        p_better=tail(wins, unequal),
        p_worse=tail(losses, unequal),
        low=(2 * low - 1) * unequal / count + 0.0,  # never -0.0
        high=(2 * high - 1) * unequal / count + 0.0,
    )


def tail(wins: int, trials: int) -> float:
    """Return P(X >= wins) for X ~ Binomial(trials, 1/2), exactly rounded."""
    good: int = sum(comb(trials, k) for k in range(wins, trials + 1))
    return good / (1 << trials)


def share_interval(wins: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a share; (0, 1) without a trial."""
    side = (1 - level) / 2
    low = 0.0 if wins == 0 else _where(wins, trials, side)
    high = 1.0 if wins == trials else _where(wins + 1, trials, 1 - side)
    return low, high


def _where(wins: int, trials: int, chance: float) -> float:
    """Return the share at which ``wins`` or more have this chance, which grows with the share."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _upper(wins, trials, middle) < chance:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _upper(wins: int, trials: int, p: float) -> float:
    """Return P(X >= wins) for X ~ Binomial(trials, p), for 0 < p < 1."""
    whole = lgamma(trials + 1)
    terms = (
        exp(whole - lgamma(k + 1) - lgamma(trials - k + 1) + k * log(p) + (trials - k) * log(1 - p))
        for k in range(wins, trials + 1)
    )
    return min(1.0, sum(terms))
