"""How a contest judges, with readings of the clock that are known: no machine decides anything."""

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import mean

import numpy as np
import pytest

from daydream.tasks import lasso_path, timed
from daydream.tasks.lasso_instances import PENALTIES, synthetic
from daydream.tasks.lasso_path import Contest, Players
from daydream.tasks.timed import REPETITIONS, Player, Times
from daydream.tree import Status

SHAPES = ((30, 20, "gaussian"), (20, 25, "sparse"))
FLOOR_S = 0.0001


class Recorded(Player):
    """A program that answers with zeros, on a clock whose readings are given for each shape.

    The first reading of a shape is for its fixed instance and the last for its fresh one.
    """

    def __init__(
        self,
        name: str,
        calls: Mapping[int, Sequence[float]],
        told: list[tuple[str, bytes]],
        delivery: float = 0.001,
    ) -> None:
        self.question = b"G"
        self.ours = self.by_wall = False
        self._name = name
        self._calls = {columns: iter(seconds) for columns, seconds in calls.items()}
        self._told = told
        self._price = delivery
        self._columns = 0

    def deliver(self, told: bytes, inputs: Sequence[memoryview], result_bytes: int) -> float:
        self._columns = result_bytes // (8 * PENALTIES)
        self._told.append((f"{self._name} gets", bytes(inputs[0].cast("B"))))
        return self._price

    def play(self, question: bytes = b"") -> float:
        self._told.append((f"{self._name} plays {(question or self.question).decode()}", b""))
        return FLOOR_S if question == b"N" else next(self._calls[self._columns])

    def result(self) -> bytes:
        return bytes(8 * PENALTIES * self._columns)


def readings(seconds: Sequence[float], seed: int) -> dict[int, list[float]]:
    """Return calls that take ``seconds`` for each shape, once undisturbed and else far longer."""
    rng = random.Random(seed)
    found = {}
    for (_, columns, _), true in zip(SHAPES, seconds, strict=True):
        calls = [FLOOR_S + true * rng.uniform(1.5, 40) for _ in range(REPETITIONS)]
        calls[rng.randrange(REPETITIONS)] = FLOOR_S + true
        # What is not timed does not count, however little it took.
        found[columns] = [1e-9, *calls, 1e-9]
    return found


def contest(
    ours: Sequence[float], reference: Sequence[float], *, seed: int = 1, delivery: float = 0.001
) -> tuple[float, list[tuple[str, bytes]]]:
    """Return the score, and who was told what in turn."""
    lasso_path._SOLVED.clear()
    told: list[tuple[str, bytes]] = []
    nothing = {
        columns: [FLOOR_S * 3, FLOOR_S, *[FLOOR_S * 2] * REPETITIONS] for _, columns, _ in SHAPES
    }
    players = Players(
        Recorded("solver", readings(ours, seed), told, delivery),
        Recorded("nobody", nothing, told),
        Recorded("reference", readings(reference, seed + 99), told),
    )
    found = Contest(synthetic(SHAPES), REPETITIONS, players).judged()
    assert found.status is Status.OK
    return found.score, told


@pytest.fixture(autouse=True)
def _no_kept_solutions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lasso_path, "_SOLVED", {})


@pytest.mark.parametrize("seed", range(5))
def test_equal_programs_score_one_whatever_else_the_machine_does(seed: int) -> None:
    assert contest([0.01, 0.3], [0.01, 0.3], seed=seed)[0] == pytest.approx(1.0, rel=1e-9)


def test_the_score_is_the_geometric_mean_of_the_ratios_above_the_floor() -> None:
    assert contest([0.01, 0.01], [0.05, 0.05])[0] == pytest.approx(5.0, rel=1e-9)
    assert contest([0.01, 0.01], [0.02, 0.32])[0] == pytest.approx(8.0, rel=1e-9)
    assert contest([0.02, 0.01], [0.01, 0.02])[0] == pytest.approx(1.0, rel=1e-9)


def test_work_in_a_delivery_is_work() -> None:
    allowed = timed.SLACK * 0.001 + timed.SLACK_S
    assert contest([0.01] * 2, [0.05] * 2, delivery=allowed)[0] == pytest.approx(5.0, rel=1e-9)
    hidden = contest([0.01] * 2, [0.05] * 2, delivery=allowed + 0.04)[0]
    assert hidden == pytest.approx(1.0, rel=1e-9)


def test_no_input_comes_twice_and_the_two_take_turns_at_who_begins() -> None:
    _, told = contest([0.01] * 2, [0.01] * 2)
    got = [data for what, data in told if what == "solver gets"]
    assert len(set(got)) == len(got) == len(SHAPES) * (REPETITIONS + 2)
    both = {"solver plays G", "reference plays G"}
    order = [what for what, _ in told if what in both]
    # Each shape once on its fixed instance and once on a fresh one, where nobody is timed.
    timed_turns = order[2 * len(SHAPES) : -2 * len(SHAPES)]
    first = timed_turns[:: 2 * len(SHAPES)]
    assert len(first) == REPETITIONS
    assert all(one != other for one, other in pairwise(first))
    rounds = [set(timed_turns[at : at + 2]) for at in range(0, len(timed_turns), 2)]
    assert rounds == [both] * (len(SHAPES) * REPETITIONS)


@pytest.mark.parametrize(
    "bad",
    [
        lambda times: mean(times.candidate) - min(times.floor),
        lambda times: times.candidate[0] - min(times.floor),
        lambda times: min(times.candidate) - max(times.floor),
        lambda times: min(times.candidate),
    ],
    ids=["the mean", "one turn", "a disturbed floor", "no floor"],
)
def test_a_judge_that_takes_something_else_is_found_out(
    bad: Callable[[Times], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Times, "net_candidate", bad)
    assert contest([0.001, 0.003], [0.005, 0.015])[0] != pytest.approx(5.0, rel=0.02)


def test_a_reading_that_is_no_number_scores_nothing() -> None:
    with pytest.raises(lasso_path.Refused, match="no finite ratio"):
        contest([np.inf] * 2, [np.inf] * 2)
