"""Fixed exploration against dreaming: the same task, agent, evaluator, round-1 policy and seeds.

Each arm pays its own round 1. Attempts that both arms make in the same place of the same round have
the same seed, so a pair differs by its policies alone.
"""

import math
from collections.abc import Sequence

import msgspec

from daydream.objective import mean


class ArmRound(msgspec.Struct, frozen=True):
    """One round of one arm."""

    round: int
    calls: int
    """Attempts of this round."""
    cum: int
    """Attempts up to and with this round."""
    best: float | None
    """Best measure so far in this arm."""
    round_best: float | None
    """Best measure of this round alone."""
    policy: str
    """Full name of the spec that ran."""


class Arm(msgspec.Struct, frozen=True):
    """One arm of one pair."""

    rounds: tuple[ArmRound, ...]
    curve: tuple[tuple[int, float], ...]
    """(calls, best score so far) at each improvement, calls counted over all rounds."""

    @property
    def calls(self) -> int:
        """Attempts in all rounds."""
        return self.rounds[-1].cum if self.rounds else 0


class Pair(msgspec.Struct, frozen=True):
    """Both arms under one seed."""

    seed: int
    fixed: Arm
    dream: Arm


class Interval(msgspec.Struct, frozen=True):
    """A mean with its 95 % interval over pairs (Student's t)."""

    mean: float
    low: float
    high: float
    n: int


class Summary(msgspec.Struct, frozen=True):
    """Paired differences over seeds; scores are higher-is-better whatever people call the number."""

    calls_saved: Interval
    """Fixed minus dream."""
    quality_lost: Interval
    """Best score of fixed minus best score of dream, over all rounds."""
    last_round_lost: Interval
    """The same for the last round alone."""
    calls_to_fixed_best: Interval
    """Dream's calls to reach fixed's final best minus fixed's own, among pairs in which it does."""
    reached: int
    """Pairs in which dream reaches fixed's final best."""
    best_at_equal_calls: Interval
    """Dream's best score minus fixed's, at the smaller of both totals."""
    wins: int
    """Pairs in which dream's final best is higher."""
    ties: int
    losses: int


class TaskComparison(msgspec.Struct, frozen=True):
    """One task: the first pair in full, every pair, and the summary where there are several."""

    task: str
    measure: str
    goal: str
    """``max`` or ``min``: which way the measure improves."""
    pairs: tuple[Pair, ...]
    summary: Summary | None = None


_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Two-sided 95 % points of Student's t for 1 to 30 degrees of freedom (standard tables)."""


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of ``values`` with its 95 % interval; no width for fewer than two values."""
    n = len(values)
    middle = mean(values)
    if n < 2:  # noqa: PLR2004
        return Interval(middle, middle, middle, n)
    spread = math.sqrt(math.fsum((v - middle) ** 2 for v in values) / (n - 1))
    point = _T95[n - 2] if n - 1 <= len(_T95) else 1.96 + 2.4 / (n - 1)
    half = point * spread / math.sqrt(n)
    return Interval(middle, middle - half, middle + half, n)


def best_after(arm: Arm, calls: int) -> float | None:
    """Return the best score of ``arm`` within its first ``calls`` attempts."""
    reached = [score for at, score in arm.curve if at <= calls]
    return reached[-1] if reached else None


def calls_to(arm: Arm, score: float) -> int | None:
    """Return the number of attempts after which ``arm`` first reached ``score``, or None."""
    return next((at for at, best in arm.curve if best >= score), None)


def final_best(arm: Arm) -> float | None:
    """Return the best score of ``arm``."""
    return arm.curve[-1][1] if arm.curve else None
