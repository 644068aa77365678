"""Laws of the circle packing evaluator: an exact twin agrees, symmetries and tolerances behave."""

import math
from fractions import Fraction
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from daydream.tasks.base import Evaluation
from daydream.tasks.circle_packing import TOLERANCES, Circle, build, packing_artifact, repair
from daydream.tree import Status
from tests.unit.tasks.circle_twin import broken_rules, total

ORDER = list(TOLERANCES)
GRID = 2**20
UNIT = st.floats(0.0, 1.0, allow_subnormal=True)
ANY_CIRCLE = st.tuples(
    st.floats(-0.1, 1.1), st.floats(-0.1, 1.1), st.one_of(st.floats(-0.01, 0.6), UNIT)
)
PLAIN_CIRCLE = st.tuples(*[st.integers(0, GRID).map(lambda i: i / GRID)] * 2, st.floats(0.0, 0.3))
"""Centres on a grid of binary fractions, so that reflecting them is exact."""
WILD = st.lists(ANY_CIRCLE, min_size=1, max_size=6)


def nudge(value: float, steps: int) -> float:
    for _ in range(abs(steps)):
        value = math.nextafter(value, math.inf if steps > 0 else -math.inf)
    return value


@st.composite
def tight(draw: st.DrawFn, circle: st.SearchStrategy[Circle] = ANY_CIRCLE) -> list[Circle]:
    """Draw packings at the border of feasibility, some of them an ulp or a tolerance beyond it."""
    circles = repair(draw(st.lists(circle, min_size=1, max_size=6)))
    grown = draw(st.sampled_from([0.0, 4e-13, 9e-10, 2e-7, 9e-7]))
    steps = draw(st.lists(st.integers(-2, 2), min_size=len(circles), max_size=len(circles)))
    return [(x, y, nudge(r + grown, step)) for (x, y, r), step in zip(circles, steps, strict=True)]


def judge(circles: list[Circle], tolerance: str = "0") -> Evaluation:
    task = build({"n": str(len(circles)), "tolerance": tolerance})
    return task.evaluate(packing_artifact(circles))


@given(st.one_of(WILD, tight()), st.sampled_from(ORDER))
def test_the_verdict_is_the_one_of_fractions(circles: list[Circle], tolerance: str) -> None:
    found = judge(circles, tolerance)
    broken = broken_rules(circles, Fraction(tolerance))
    if broken:
        assert found.status is Status.INVALID
        assert found.error_class in broken
    else:
        assert found.status is Status.OK
        assert found.score == total(circles)


@given(st.one_of(WILD, tight()), st.randoms(use_true_random=False))
def test_the_order_of_circles_does_not_matter(circles: list[Circle], random: Random) -> None:
    shuffled = list(circles)
    random.shuffle(shuffled)
    first, second = judge(circles), judge(shuffled)
    assert (first.status, first.score) == (second.status, second.score)


@given(tight(PLAIN_CIRCLE))
def test_the_symmetries_of_the_square_keep_the_verdict(circles: list[Circle]) -> None:
    found = judge(circles)
    turned = circles
    for _ in range(4):
        turned = [(1 - y, x, r) for x, y, r in turned]
        mirrored = [(y, x, r) for x, y, r in turned]
        for image in (turned, mirrored):
            again = judge(image)
            assert (again.status, again.score) == (found.status, found.score)


@given(st.one_of(WILD, tight()))
def test_tightening_the_tolerance_never_makes_a_packing_valid(circles: list[Circle]) -> None:
    found = [judge(circles, tolerance) for tolerance in ORDER]
    valid = [one.status is Status.OK for one in found]
    assert valid == sorted(valid)
    assert len({one.score for one in found if one.status is Status.OK}) <= 1
    for one in found:
        if one.status is Status.OK:
            assert one.diagnostics["exactly_feasible"] is valid[0]


@given(st.one_of(WILD, tight()))
def test_a_repaired_packing_is_valid_and_no_radius_grew(circles: list[Circle]) -> None:
    fixed = repair(circles)
    assert judge(fixed).status is Status.OK
    assert all(new[2] <= max(0.0, old[2]) for new, old in zip(fixed, circles, strict=True))
    assert repair(fixed) == fixed
    if not broken_rules(circles):
        assert fixed == circles


@given(tight())
def test_repair_costs_about_what_was_overlapping(circles: list[Circle]) -> None:
    lost = total(circles) - total(repair(circles))
    # At most 1e-6 was added to each of the radii, and each wall and pair takes its overlap once.
    assert lost <= 2e-6 * len(circles) ** 2
