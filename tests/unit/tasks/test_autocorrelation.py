"""autocorrelation is exact, scale-invariant, and refuses what is no step function."""

import json
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daydream.errors import TaskError
from daydream.tasks.autocorrelation import (
    LEAST_SUM,
    VARIANTS,
    Autocorrelation,
    build,
    constants,
    heights_artifact,
)
from daydream.tasks.base import Artifact, json_artifact, to_measure
from daydream.tree import Status

positive = st.floats(0, 50, allow_subnormal=False).map(lambda h: h if h > 1e-9 else 0.0)
signed = st.floats(-50, 50).map(lambda h: h if abs(h) > 1e-9 else 0.0)


def _heights(values: st.SearchStrategy[float]) -> st.SearchStrategy[list[float]]:
    return st.lists(values, min_size=2, max_size=12).filter(
        lambda h: abs(sum(h)) > LEAST_SUM * 2 * len(h) * max(map(abs, h)) > 0
    )


def _task(variant: str, bins: int) -> Autocorrelation:
    return build({"variant": variant, "bins": str(bins)})


def _twin(heights: list[float]) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    h = [Fraction(value) for value in heights]
    n = len(h)
    c = [
        sum((h[i] * h[k - i] for i in range(max(0, k - n + 1), min(k, n - 1) + 1)), Fraction(0))
        for k in range(2 * n - 1)
    ]
    square = sum(h) ** 2
    v = [Fraction(0), *c, Fraction(0)]
    norm = sum(a * a + a * b + b * b for a, b in pairwise(v))
    second = norm / (3 * square * max(c)) if max(c) > 0 else Fraction(0)
    peaks = (max(c), abs(max(c)), max(map(abs, c)))
    first, weak, strict = (2 * n * peak / square for peak in peaks)
    return first, second, weak, strict


@given(_heights(signed))
def test_every_ratio_is_that_of_fractions_rounded_once(heights: list[float]) -> None:
    first, second, weak, strict = _twin(heights)
    found = constants(heights)
    assert found.first == float(first)
    assert found.second == float(second)
    assert found.third_weak == float(weak)
    assert found.third_strict == float(strict)


@given(_heights(positive), st.sampled_from([0.5, 2.0, 1024.0]))
def test_reflection_and_scaling_change_no_ratio(heights: list[float], factor: float) -> None:
    assert constants(heights[::-1]) == constants(heights)
    assert constants([factor * h for h in heights]) == constants(heights)


@given(_heights(signed))
def test_the_weak_third_value_never_exceeds_the_strict_one(heights: list[float]) -> None:
    found = constants(heights)
    assert found.third_weak <= found.third_strict


@given(_heights(positive), st.integers(2, 4))
def test_finer_steps_of_the_same_function_change_no_ratio(heights: list[float], times: int) -> None:
    fine = constants([h for h in heights for _ in range(times)])
    coarse = constants(heights)
    for name in ("first", "second", "third_weak", "third_strict"):
        assert getattr(fine, name) == pytest.approx(getattr(coarse, name), rel=1e-12)


@given(_heights(positive))
def test_the_second_ratio_is_the_integral_of_the_autoconvolution(heights: list[float]) -> None:
    knots = np.concatenate([[0.0], np.convolve(heights, heights), [0.0]])
    fine = np.interp(np.linspace(0, len(knots) - 1, 40_001), np.arange(len(knots)), knots)
    width = (len(knots) - 1) / 40_000
    square = float(np.trapezoid(fine * fine, dx=width))
    whole = float(np.trapezoid(fine, dx=width))
    assert constants(heights).second == pytest.approx(square / (whole * fine.max()), rel=1e-3)


def test_the_constant_function_has_known_ratios() -> None:
    found = constants([1.0] * 10)
    assert (found.first, found.third_weak, found.third_strict) == (2.0, 2.0, 2.0)
    assert found.second == pytest.approx(2 / 3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_stored_score_is_higher_for_a_better_function(variant: str) -> None:
    task = _task(variant, 20)
    flat = task.evaluate(task.root())
    assert flat.status is Status.OK
    value = to_measure(task.info, flat.score)
    assert value == pytest.approx(2 / 3 if variant == "second" else 2.0)
    assert flat.diagnostics["measure"] == pytest.approx(value)
    assert {"third_weak", "third_strict"} <= set(flat.diagnostics)


@pytest.mark.parametrize(
    ("heights", "error"),
    [
        ([1.0, 2.0], "length"),
        ([1.0, 2.0, float("nan")], "malformed"),
        ([1.0, 2.0, float("inf")], "malformed"),
        ([1.0, 2.0, True], "not_a_number"),
        ([1.0, 2.0, "3"], "not_a_number"),
        ([1.0, 2.0, None], "not_a_number"),
        ([1.0, 2.0, [3.0]], "not_a_number"),
        ([1.0, 2.0, 1e31], "range"),
        ([1.0, 2.0, 10**400], "range"),
        ([1.0, 2.0, 5e-324], "range"),
        ([1.0, 2.0, -1e-29], "negative"),
        ([0.0, 0.0, 0.0], "sum"),
    ],
)
def test_what_is_no_step_function_is_refused_with_its_reason(
    heights: list[object], error: str
) -> None:
    text = json.dumps({"heights": heights}).encode()
    found = _task("first", 3).evaluate(Artifact({"artifact.json": text}))
    assert (found.status, found.score, found.error_class) == (Status.INVALID, 0.0, error)
    assert found.message


def test_a_signed_function_whose_sum_vanishes_is_refused() -> None:
    found = _task("third-strict", 4).evaluate(heights_artifact([1.0, -1.0, 1.0, -0.9999]))
    assert found.error_class == "sum"
    assert (
        _task("third-strict", 4).evaluate(heights_artifact([1.0, -1.0, 1.0, 1.0])).error_class
        is None
    )


def test_a_claimed_value_changes_nothing() -> None:
    honest = _task("first", 3).evaluate(heights_artifact([1.0, 2.0, 1.0]))
    claimed = _task("first", 3).evaluate(
        json_artifact({"heights": [1.0, 2.0, 1.0], "C": 0.1, "score": 9})
    )
    assert claimed.score == honest.score


@pytest.mark.parametrize(
    ("args", "name"),
    [
        ({}, "autocorrelation"),
        ({"bins": "21"}, "autocorrelation"),
        ({"bins": "800"}, "autocorrelation:variant=first,bins=800"),
        ({"variant": "third-weak"}, "autocorrelation:variant=third-weak,bins=800"),
        ({"bins": "50", "variant": "second"}, "autocorrelation:variant=second,bins=50"),
    ],
)
def test_the_identity_holds_variant_and_steps(args: dict[str, str], name: str) -> None:
    assert build(args).info.name == name


@pytest.mark.parametrize(
    "args", [{"bins": "1"}, {"bins": "9999"}, {"variant": "third"}, {"n": "3"}]
)
def test_wrong_parameters_are_named(args: dict[str, str]) -> None:
    with pytest.raises(TaskError, match="|".join(args)):
        build(args)
