"""local_search on sum-diff and autocorrelation: real gains, equal bytes, the parent continued."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from daydream.agents.base import AttemptContext
from daydream.agents.load import load_agent
from daydream.agents.local_search import sum_diff as sets
from daydream.agents.local_search.step_population import BETA, Population
from daydream.agents.local_search.step_solver import Array, Smooth, descend, polish
from daydream.errors import UsageError
from daydream.tasks.autocorrelation import VARIANTS, Variant, constants, read_heights
from daydream.tasks.base import Artifact, Task
from daydream.tasks.load import load_task
from daydream.tasks.sum_diff import gamma, read_set
from daydream.tree import Status


def _attempt(task: Task, parent: Artifact, options: str, depth: int, seed: int) -> Artifact:
    agent = load_agent(f"local_search:{options}", task.info)
    context = AttemptContext(
        task=task.info,
        round=1,
        branch=0,
        depth=depth,
        attempt_seed=seed,
        world_seed=0,
        parent=parent,
        evaluation=None,
    )
    found = agent.propose(context).artifact
    assert agent.propose(context).artifact == found
    assert task.evaluate(found).status is Status.OK
    return found


def test_a_structured_set_beats_what_annealing_from_scratch_finds() -> None:
    task = load_task("sum-diff:cap=128")
    opened = [_attempt(task, task.root(), "moves=1500", 1, seed) for seed in range(6)]
    scores = sorted(gamma(read_set(found)) for found in opened)
    assert scores[0] < 1.06
    assert scores[-1] > 1.09


def test_later_sum_diff_attempts_continue_the_parent_and_never_lose() -> None:
    task = load_task("sum-diff:cap=128")
    parent = next(
        found
        for seed in range(20)
        if gamma(read_set(found := _attempt(task, task.root(), "moves=200", 1, seed))) > 1.07
    )
    child = _attempt(task, parent, "moves=3000", 2, 5)
    assert gamma(read_set(child)) > gamma(read_set(parent))
    shared = {v - min(read_set(parent)) for v in read_set(parent)}
    moved = {v - min(read_set(child)) for v in read_set(child)}
    assert len(shared & moved) > len(shared) / 2


def test_the_counter_of_a_progression_with_free_elements_counts_as_the_evaluator() -> None:
    shape = sets.Shape(30, (5, 48, 50, 77 + 1, 200, 215))
    assert sets._gamma(shape) == gamma(shape.elements())
    assert sets._gamma(sets.Shape(0, (1, 5, 9, 40))) == gamma([1, 5, 9, 40])


def _functions(variant: Variant, count: int, steps: int) -> Array:
    drawn = np.random.default_rng(3).normal(0.6, 1.0, (count, steps))
    return drawn if variant.startswith("third") else np.abs(drawn)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_gradient_is_that_of_the_value(variant: Variant) -> None:
    smooth = Smooth(15, variant)
    free = smooth.free(_functions(variant, 2, 15))
    _, slopes = smooth(free, 20.0)
    for row, slope in zip(free, slopes, strict=True):
        numeric = approx_fprime(row, lambda z: smooth(z[None], 20.0)[0][0], 1e-7)
        assert slope == pytest.approx(numeric, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_descent_lowers_every_row_and_the_polish_lowers_the_exact_ratio(variant: Variant) -> None:
    smooth = Smooth(24, variant)
    begun = _functions(variant, 3, 24)
    ended = descend(begun, [(variant, 60.0)], 40)
    assert np.all(smooth.value(ended, 60.0) < smooth.value(begun, 60.0))
    assert ended.mean(axis=1) == pytest.approx(1.0)
    polished = np.array([polish(row, variant) for row in ended])
    assert np.all(smooth.exact(polished) < smooth.exact(ended))


@pytest.mark.parametrize("variant", VARIANTS)
def test_breeding_keeps_the_size_of_a_population_and_lowers_them(variant: Variant) -> None:
    people = Population(np.random.default_rng(5), variant, 30)
    people.found(12, 4)
    smooth = Smooth(30, variant)
    founded = smooth.value(people.rows, BETA)
    people.breed(48, 16)
    bred = smooth.value(people.rows, BETA)
    assert people.rows.shape == (4, 30)
    assert 0 < people.kept <= 48
    assert np.all(np.sort(bred) <= np.sort(founded))
    assert bred.sum() < founded.sum()


def test_the_answer_of_a_population_is_never_worse_than_what_it_holds() -> None:
    good = polish(_functions("third-strict", 1, 30)[0], "third-strict")
    people = Population(np.random.default_rng(6), "third-strict", 30)
    people.found(2, 2)
    ratio = Smooth(30, "third-strict").exact
    assert ratio(people.best(good[None])[None])[0] <= ratio(good[None])[0]


@pytest.mark.parametrize(
    "variant",
    [
        variant if variant == "third-strict" else pytest.param(variant, marks=pytest.mark.slow)
        for variant in VARIANTS
    ],
)
def test_a_chain_of_attempts_doubles_the_steps_and_improves(variant: Variant) -> None:
    task = load_task(f"autocorrelation:variant={variant},bins=240")
    coarse = _attempt(task, task.root(), "solves=12", 1, 1)
    heights = np.array(read_heights(coarse))
    assert np.array_equal(heights[::2], heights[1::2])
    fine = _attempt(task, coarse, "solves=12", 2, 2)
    root, first, second = (
        task.evaluate(artifact).score for artifact in (task.root(), coarse, fine)
    )
    assert root < first < second


@pytest.mark.parametrize("bins", [2, 3, 21])
def test_few_steps_are_searched_at_their_own_level(bins: int) -> None:
    task = load_task(f"autocorrelation:variant=first,bins={bins}")
    opened = _attempt(task, task.root(), "solves=1", 1, 1)
    continued = _attempt(task, opened, "solves=1", 2, 2)
    root, first, second = (
        task.evaluate(artifact).score for artifact in (task.root(), opened, continued)
    )
    assert root <= first <= second


@pytest.mark.slow
def test_breeding_at_full_size_beats_the_best_function_that_was_published_by_hand() -> None:
    task = load_task("autocorrelation:variant=first,bins=800")
    parent = task.root()
    for depth in (1, 2, 3):
        parent = _attempt(task, parent, "solves=250", depth, depth)
    # Matolcsi and Vinuesa 2010, 208 steps.
    assert constants(read_heights(parent)).first < 1.50972


@pytest.mark.parametrize("variant", VARIANTS)
def test_floats_agree_with_the_exact_ratios(variant: Variant) -> None:
    rows = _functions(variant, 2, 40)
    exact = [constants(row.tolist()).of(variant) for row in rows]
    wanted = [1 / value if variant == "second" else value for value in exact]
    assert Smooth(40, variant).exact(rows) == pytest.approx(wanted, rel=1e-12)


def test_an_option_of_another_searcher_is_refused() -> None:
    with pytest.raises(UsageError, match="moves=NUMBER"):
        load_agent("local_search:solves=3", load_task("sum-diff:cap=128").info)
