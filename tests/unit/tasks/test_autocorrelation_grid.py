"""Step functions on other grids: the same function keeps its ratios, another one shows its loss."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daydream.tasks.autocorrelation import constants
from daydream.tasks.autocorrelation_grid import problem_of, resampled, sensitivity
from tests.real.commands import daydream

heights = st.lists(st.floats(0.1, 10), min_size=2, max_size=40)


@given(heights, st.integers(1, 5))
def test_a_finer_grid_that_fits_changes_nothing(values: list[float], times: int) -> None:
    assert constants(resampled(values, times * len(values))) == constants(values)


@settings(max_examples=50)
@given(heights, st.integers(2, 97))
def test_the_integral_is_kept(values: list[float], steps: int) -> None:
    found = resampled(values, steps)
    assert len(found) == steps
    assert math.fsum(found) / steps == pytest.approx(math.fsum(values) / len(values), rel=1e-12)


def test_a_coarse_grid_averages_what_it_covers() -> None:
    assert resampled([1.0, 3.0, 5.0, 7.0], 2) == [2.0, 6.0]
    assert resampled([3.0, 0.0, 9.0], 2) == pytest.approx([2.0, 6.0])
    rows = sensitivity([1.0, 2.0, 1.0], [3, 512])
    assert rows[0] == rows[1]
    assert rows[2].constants.first != rows[0].constants.first
    assert rows[2].constants.first == pytest.approx(rows[0].constants.first, rel=1e-2)


@pytest.mark.parametrize(
    ("values", "said"),
    [([1.0], "1 heights"), ([1.0, math.nan], "not finite"), ([1.0, -1.0], "sum to 0")],
)
def test_what_has_no_ratios_is_named(values: list[float], said: str) -> None:
    assert said in problem_of(values)
    with pytest.raises(ValueError, match=said):
        sensitivity(values, [512])


def test_the_command_takes_a_run_a_programs_run_and_a_file(tmp_path: Path) -> None:
    path = tmp_path / "function.json"
    path.write_text(json.dumps({"heights": [1, 2.5, 1]}))
    ran = daydream("check-grid", str(path), "--json")
    assert [row["steps"] for row in ran.json["grids"]] == [3, 512, 1024, 2048]
    assert ran.json["grids"][0]["third_strict"] == pytest.approx(ran.json["grids"][0]["first"])
    assert "2048" in daydream("check-grid", str(path)).out
    for task, agent in (
        ("autocorrelation", "scripted"),
        ("autocorrelation:artifact=program", "chat:mock:"),
    ):
        run = tmp_path / agent[:4]
        daydream(
            "run", task, "--agent", agent, "--rounds", "1", "--max-calls", "2", "--out", str(run)
        )
        ran = daydream("check-grid", str(run), "--steps", "42,500", "--json")
        as_it_is, twice, other = ran.json["grids"]
        assert twice == {**as_it_is, "steps": 42}
        # The scripted search may still be at the constant, which is the same on every grid.
        assert other["first"] != as_it_is["first"] or as_it_is["first"] == 2


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("{", (), "no JSON"),
        ("[]", (), "no list of heights"),
        ('{"set": [1, 2]}', (), "no list of heights"),
        ("[1, true]", (), "no number"),
        ("[1, NaN]", (), "not finite"),
        ("[1, -1]", (), "sum to 0"),
        ("[1, 2]", ("--steps", "1"), "no number of steps"),
        ("[1, 2]", ("--steps", "512,"), "no number of steps"),
        ("[1, 2]", ("--steps", "5e2"), "no number of steps"),
        ("[1, 2]", ("--steps", "99999999999"), "no number of steps"),
    ],
)
def test_bad_input_of_the_command_is_named(
    text: str, options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "function.json"
    path.write_text(text)
    ran = daydream("check-grid", str(path), *options, code=2)
    assert said in " ".join(ran.err.split())
    daydream("check-grid", str(tmp_path / "nothing.json"), code=2)
