"""The search benchmark measures real runs, keeps its rows, and pays for none of them twice."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def bench(config: pytest.Config, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = Path(config.rootpath) / "benchmarks" / "search.py"
    return subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def seed_3(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the row of one measured seed."""
    rows = tmp_path_factory.mktemp("bench") / "rows.jsonl"
    done = bench(pytestconfig, "--case", "n8", "--seeds", "3", "--out", str(rows))
    assert done.returncode == 0, done.stderr
    return rows.read_text()


@pytest.mark.slow
def test_the_smoke_seeds_reach_their_bars(pytestconfig: pytest.Config) -> None:
    done = bench(pytestconfig, "--smoke", "--check", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = {line["case"]: line for line in json.loads(done.stdout)["search"]}
    assert lines["n8"]["best"] >= 1.4238
    assert lines["n26"]["best"] >= 2.625


def test_rows_are_kept_and_only_missing_ones_are_measured(
    pytestconfig: pytest.Config, seed_3: str
) -> None:
    rows = Path("rows.jsonl")
    rows.write_text(seed_3)
    both = bench(pytestconfig, "--case", "n8", "--out", str(rows), "--seeds", "3-4", "--json")
    assert "seed 3" not in both.stderr
    assert "seed 4" in both.stderr
    assert rows.read_text().startswith(seed_3)
    assert [json.loads(line)["seed"] for line in rows.read_text().splitlines()] == [3, 4]
    (line,) = json.loads(both.stdout)["search"]
    assert (line["case"], line["seeds"], line["reached"]) == ("n8", 2, 2)


def test_a_row_of_other_settings_is_measured_anew(pytestconfig: pytest.Config, seed_3: str) -> None:
    rows = Path("rows.jsonl")
    rows.write_text(json.dumps({**json.loads(seed_3), "evaluator": "another"}) + "\n")
    done = bench(pytestconfig, "--case", "n8", "--seeds", "3", "--out", str(rows))
    assert "seed 3" in done.stderr
    assert len(rows.read_text().splitlines()) == 2


def test_a_missed_bar_is_an_exit_status(pytestconfig: pytest.Config, seed_3: str) -> None:
    rows = Path("rows.jsonl")
    rows.write_text(seed_3)
    asked = ("--case", "n8", "--seeds", "3", "--out", str(rows))
    assert bench(pytestconfig, *asked, "--check").returncode == 1, "ten seeds are needed, one is in"
    assert "1 of  1" in bench(pytestconfig, *asked).stdout


def test_seeds_that_cannot_be_read_are_refused(pytestconfig: pytest.Config) -> None:
    done = bench(pytestconfig, "--seeds", "all")
    assert done.returncode == 2
    assert "expected 0-9 or 1,4,7" in done.stderr
