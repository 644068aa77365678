"""The interior point solver: feasible at every step, and at the end a balanced local optimum."""

import math

import numpy as np
import pytest

from daydream.agents.local_search.circle_solver import (
    GAP,
    Layout,
    Settled,
    layout_of,
    leap,
    loosen,
    settle,
)
from tests.unit.tasks.circle_twin import broken_rules


def scattered(n: int, seed: int) -> Layout:
    xs, ys = np.random.default_rng(seed).random((2, n))
    return loosen(Layout(xs, ys, np.full(n, 0.3)))


def solved(start: Layout, steps: int = 150, beat: float = -math.inf) -> Settled:
    found = settle(start, barrier=1e-2, steps=steps, beat=beat)
    assert found is not None
    return found


@pytest.mark.parametrize("n", [1, 2, 5, 17])
@pytest.mark.parametrize("steps", [0, 1, 3, 8, 150])
def test_every_iterate_is_exactly_feasible(n: int, steps: int) -> None:
    for seed in range(5):
        assert broken_rules(solved(scattered(n, seed), steps).layout.circles()) == []


def test_one_circle_fills_the_square_and_two_fill_the_diagonal() -> None:
    assert solved(scattered(1, 0)).layout.value == pytest.approx(0.5, abs=1e-11)
    best = max(solved(scattered(2, seed)).layout.value for seed in range(5))
    assert best == pytest.approx(2 - math.sqrt(2), abs=1e-11)


@pytest.mark.parametrize("seed", range(5))
def test_the_forces_of_a_settled_packing_balance(seed: int) -> None:
    found = solved(scattered(7, seed))
    assert found.gap < GAP
    xs, ys, _ = found.layout
    dx, dy = xs[:, None] - xs, ys[:, None] - ys
    distance = np.hypot(dx, dy) + np.eye(7)
    pairs, (left, right, bottom, top, floor) = found.pair_forces, found.wall_forces
    assert pairs == pytest.approx(pairs.T)
    assert pairs.min() >= 0
    # Stationarity: the pushes on each centre cancel, the pressure on each radius is one.
    assert (pairs * dx / distance).sum(axis=1) + left - right == pytest.approx(0, abs=1e-6)
    assert (pairs * dy / distance).sum(axis=1) + bottom - top == pytest.approx(0, abs=1e-6)
    pressure = pairs.sum(axis=1) + left + right + bottom + top - floor
    assert pressure == pytest.approx(1, abs=1e-6)


def test_a_solve_that_cannot_win_stops_early_and_one_that_can_does_not() -> None:
    start = scattered(12, 3)
    full = solved(start)
    cut = solved(start, beat=full.layout.value + 0.1)
    assert cut.iterations < full.iterations
    assert cut.layout.value < full.layout.value + 0.1
    through = solved(start, beat=full.layout.value - 1e-6)
    assert through.layout.value == full.layout.value


def test_equal_starts_give_equal_packings() -> None:
    first, second = (solved(scattered(12, 4)).layout.circles() for _ in range(2))
    assert first == second


def test_coinciding_centres_have_no_way_out() -> None:
    xs = np.array([0.5, 0.5, 0.2])
    start = loosen(Layout(xs, xs, np.full(3, 0.1)))
    assert settle(start, barrier=1e-2) is None


def test_a_start_that_breaks_a_rule_is_refused_until_it_is_loosened() -> None:
    overlapping = layout_of([(0.3, 0.5, 0.25), (0.6, 0.5, 0.25), (0.0, 1.0, 0.0)])
    assert settle(overlapping, barrier=1e-2) is None
    loose = loosen(overlapping)
    assert broken_rules(loose.circles()) == []
    assert loose.radii.min() > 0
    assert settle(loose, barrier=1e-2) is not None


def test_a_leap_lands_close_to_the_optimum_from_nearby_and_overlaps_from_afar() -> None:
    start = scattered(8, 2)
    end = solved(start).layout.value
    far, near = leap(solved(start, steps=3)), leap(solved(start, steps=14))
    assert far is not None
    assert near is not None
    assert broken_rules(far.circles()) != []
    assert near.value == pytest.approx(end, abs=1e-6)
