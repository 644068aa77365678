"""``kill -9`` at random instants: a resumed run ends with the tree of an uninterrupted one."""

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from daydream.store.run_folder import RunFolder
from tests.real.commands import daydream, history, start


def _kill_at(instant: float, *arguments: str) -> None:
    process = start(*arguments)
    try:
        process.wait(timeout=instant)
    except subprocess.TimeoutExpired:
        process.kill()
    process.wait()


def _survives(number: int, whole: Path, seconds: float) -> None:
    rng = random.Random(number)
    run = Path(f"cut-{number}")
    _kill_at(rng.random() * seconds, "run", "branch-world", "--out", str(run))
    while run.exists() and rng.random() < 0.3:
        _kill_at(rng.random() * seconds, "resume", str(run))
    if (run / "run.toml").exists():
        daydream("resume", str(run))
    else:
        daydream("run", "branch-world", "--out", str(run))
    assert history(run) == history(whole)
    with RunFolder.open(run) as folder:
        state = folder.state()
    assert (state.calls, state.finished) == (64, True)


def _measured(whole: Path) -> float:
    start_s = time.monotonic()
    daydream("run", "branch-world", "--out", str(whole))
    return time.monotonic() - start_s


def test_a_run_killed_before_its_first_record_resumes() -> None:
    daydream("run", "branch-world", "--out", "whole")
    daydream("run", "branch-world", "--out", "r", "--max-calls", "1")
    shutil.copytree("r", "begun", ignore=shutil.ignore_patterns("journal.jsonl", "*.gz", "0*"))
    shown = daydream("show", "begun", "--json").json
    assert (shown["calls"], shown["finished"]) == (0, False)
    daydream("resume", "begun")
    assert history(Path("begun")) == history(Path("whole"))


def test_killed_runs_resume_to_the_uninterrupted_result() -> None:
    whole = Path("whole")
    seconds = _measured(whole)
    for number in range(2):
        _survives(number, whole, seconds)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_two_hundred_of_two_hundred_kills_resume() -> None:
    whole = Path("whole")
    seconds = _measured(whole)
    for number in range(100, 300):
        _survives(number, whole, seconds)
