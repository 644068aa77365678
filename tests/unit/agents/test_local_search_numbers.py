"""local_search on sum-diff and autocorrelation: real gains, equal bytes, the parent continued."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from daydream.agents.base import AttemptContext
from daydream.agents.load import load_agent
from daydream.agents.local_search import autocorrelation as waves
from daydream.agents.local_search import sum_diff as sets
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


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_gradient_is_that_of_the_value(variant: Variant) -> None:
    rng = np.random.default_rng(3)
    free = waves._start(15, variant, rng)
    free = free if variant.startswith("third") else np.sqrt(np.abs(free) + 0.05)
    _, slope = waves._smooth(free, variant, 20.0, 32)
    numeric = approx_fprime(free, lambda z: waves._smooth(z, variant, 20.0, 32)[0], 1e-7)
    assert slope == pytest.approx(numeric, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    "variant",
    [
        variant if variant == "second" else pytest.param(variant, marks=pytest.mark.slow)
        for variant in VARIANTS
    ],
)
def test_a_chain_of_attempts_doubles_the_steps_and_improves(variant: Variant) -> None:
    task = load_task(f"autocorrelation:variant={variant},bins=240")
    coarse = _attempt(task, task.root(), "solves=3", 1, 1)
    heights = np.array(read_heights(coarse))
    assert np.array_equal(heights[::2], heights[1::2])
    fine = _attempt(task, coarse, "solves=3", 2, 2)
    again = _attempt(task, fine, "solves=3", 3, 3)
    root, first, second, third = (
        task.evaluate(artifact).score for artifact in (task.root(), coarse, fine, again)
    )
    assert root < first <= second <= third
    assert third > first


def test_floats_agree_with_the_exact_ratios() -> None:
    heights = waves._start(40, "third-strict", np.random.default_rng(1))
    exact = constants(heights.tolist())
    assert waves._value(heights, "third-strict") == pytest.approx(exact.third_strict, rel=1e-12)
    assert waves._value(np.abs(heights), "second") == pytest.approx(
        1 / constants(np.abs(heights).tolist()).second, rel=1e-12
    )


def test_an_option_of_another_searcher_is_refused() -> None:
    with pytest.raises(UsageError, match="moves=NUMBER"):
        load_agent("local_search:solves=3", load_task("sum-diff:cap=128").info)
