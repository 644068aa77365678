"""Scales and readable numbers: whatever the values, axes are finite and labels tell them apart."""

import math
from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from daydream.cli.charts.scales import (
    Scale,
    count,
    domain,
    drawable,
    number,
    spark,
    spread,
    tick_labels,
    ticks,
    told_apart,
)

MINUS = "\N{MINUS SIGN}"
VALUES = st.lists(st.floats(), max_size=8)


@given(VALUES)
def test_a_domain_is_finite_has_width_and_holds_every_value_that_can_be_drawn(
    values: list[float],
) -> None:
    low, high = domain(values)
    assert -math.inf < low < high < math.inf
    assert all(low <= value <= high for value in values if drawable(value))
    scale = Scale(low, high, 0.0, 100.0)
    assert all(-1e-6 <= scale.at(value) <= 100 + 1e-6 for value in values if drawable(value))


@given(VALUES, st.integers(3, 10), st.booleans())
def test_ticks_are_even_inside_the_domain_few_and_labelled_apart(
    values: list[float], most: int, whole: bool
) -> None:
    low, high = domain(values)
    marks = ticks(low, high, most, whole=whole)
    slack = (high / 2 - low / 2) * 1e-6
    assert len(marks) <= most + 1
    assert all(low - slack <= mark <= high + slack for mark in marks)
    labels = tick_labels(marks)
    assert len(set(labels)) == len(marks)
    if whole:
        assert all(mark == round(mark) for mark in marks)


def test_ticks_fall_on_round_numbers() -> None:
    assert ticks(0, 96, 5) == (0, 20, 40, 60, 80)
    assert tick_labels(ticks(0.25, 0.98, 5)) == ["0.4", "0.6", "0.8"]
    assert tick_labels(ticks(-7.9, 0.4, 5)) == [f"{MINUS}6", f"{MINUS}4", f"{MINUS}2", "0"]
    assert tick_labels(ticks(2.63597, 2.635984, 3)) == ["2.635970", "2.635975", "2.635980"]
    assert tick_labels(ticks(0, 1e16, 5)) == ["0", "2e15", "4e15", "6e15", "8e15", "1e16"]


def test_numbers_read_as_people_write_them() -> None:
    assert [number(value) for value in (0, -0.0, 0.95, 1.0344, 264, -5.5)] == [
        "0", "0", "0.95", "1.0344", "264", f"{MINUS}5.5",
    ]  # fmt: skip
    assert number(2.635983084, 9) == "2.63598308"
    assert [number(value) for value in (1234567.0, 9.9e15, 1.5e-7)] == [
        "1,234,567",
        "9.9e15",
        "1.5e-7".replace("-", MINUS),
    ]
    assert [count(value) for value in (96, 65.7, -1.25, 2469134)] == [
        "96", "65.7", f"{MINUS}1.2", "2,469,134",
    ]  # fmt: skip


@given(st.floats(-1e300, 1e300), st.integers(1, 12))
def test_a_written_number_reads_back_to_its_digits(value: float, digits: int) -> None:
    text = number(value, digits).replace(MINUS, "-").replace(",", "")
    assert math.isclose(float(text), value, rel_tol=0.51 * 10.0 ** (1 - digits), abs_tol=5e-324)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4))
def test_values_that_differ_visibly_have_different_texts(values: list[float]) -> None:
    texts = told_apart(values)
    for value, text in zip(values, texts, strict=True):
        for other, other_text in zip(values, texts, strict=True):
            if not math.isclose(value, other, rel_tol=1e-7):
                assert text != other_text


@given(st.lists(st.floats(0, 100), max_size=6), st.floats(1, 15))
def test_labels_are_spread_without_overlap_in_their_order(wanted: list[float], gap: float) -> None:
    assume(gap * max(0, len(wanted) - 1) <= 100)
    placed = spread(wanted, gap, 0, 100)
    ordered = [place for _, place in sorted(zip(wanted, placed, strict=True))]
    assert all(b - a >= gap - 1e-9 for a, b in pairwise(ordered))
    assert all(-1e-9 <= place <= 100 + 1e-9 for place in placed)


def test_labels_that_have_room_stay_where_they_were_wanted() -> None:
    assert spread([50, 10, 90], 15, 0, 100) == [50, 10, 90]


def test_a_sparkline_rises_with_its_values() -> None:
    assert spark([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert spark([5, 5, 5]) == "▁▁▁"
    assert spark([1.0, math.nan, 2.0, math.inf]) == "▁ █ "
    assert spark([]) == ""
    assert spark([math.nan]) == " "


@given(VALUES)
def test_a_sparkline_has_one_character_a_value(values: list[float]) -> None:
    assert len(spark(values)) == len(values)
