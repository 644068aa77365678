"""The exact paired test against numbers worked out elsewhere."""

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daydream.weights.paired_test import compare, share_interval, tail


@given(st.integers(0, 12), st.data())
def test_the_tail_is_the_share_of_all_outcomes(trials: int, data: st.DataObject) -> None:
    wins = data.draw(st.integers(0, trials))
    outcomes = list(product((0, 1), repeat=trials))
    share = Fraction(sum(sum(one) >= wins for one in outcomes), len(outcomes))
    assert tail(wins, trials) == float(share)


def test_a_known_comparison_gives_known_numbers() -> None:
    # 10 wins and 2 losses of 12: P(X >= 10) = (66 + 12 + 1) / 4096.
    trial = compare([1.0] * 10 + [0.0] * 2 + [1.0] * 8, [0.0] * 10 + [1.0] * 2 + [1.0] * 8)
    assert (trial.wins, trial.losses, trial.probes) == (10, 2, 20)
    assert trial.p_better == 79 / 4096
    assert trial.better
    assert not trial.worse
    assert (trial.candidate, trial.incumbent) == (0.9, 0.5)


def test_the_interval_is_that_of_clopper_and_pearson() -> None:
    # From published tables: 8 of 10 gives 0.4439 to 0.9748.
    low, high = share_interval(8, 10)
    assert round(low, 4) == 0.4439
    assert round(high, 4) == 0.9748
    assert share_interval(0, 10)[0] == 0.0
    assert math.isclose(share_interval(0, 10)[1], 1 - 0.025 ** (1 / 10), rel_tol=1e-9)
    assert share_interval(0, 0) == (0.0, 1.0)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])),
                min_size=1, max_size=30))  # fmt: skip
def test_swapping_the_two_swaps_everything(pairs: list[tuple[float, float]]) -> None:
    one = compare([a for a, _ in pairs], [b for _, b in pairs])
    two = compare([b for _, b in pairs], [a for a, _ in pairs])
    assert (one.wins, one.p_better, one.candidate) == (two.losses, two.p_worse, two.incumbent)
    assert math.isclose(one.low, -two.high, abs_tol=1e-9)


def test_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="no finite number"):
        compare([1.0, math.nan], [0.0, 0.0])
    with pytest.raises(ValueError, match="2 scores against 1"):
        compare([1.0, 0.0], [0.0])
    with pytest.raises(ValueError, match="and some"):
        compare([], [])
