"""The bank as people use it: runs imported, many writers, a writer killed."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from daydream.errors import UsageError
from daydream.weights.bank import Bank
from daydream.weights.corpus_files import Manifest, build_corpus, read_manifest
from daydream.weights.corpus_selection import BuildSettings
from daydream.weights.home import Home
from tests.conftest import ROOT
from tests.real.commands import daydream

WRITER = ROOT / "tests" / "real" / "bank_writer.py"


def _writer(folder: Path, name: str, count: int) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, str(WRITER), str(folder), name, str(count)]
    return subprocess.Popen(command, env=env)


def _build_while(writers: list[subprocess.Popen[bytes]], home: Home) -> list[Manifest]:
    """Build corpora until the writers end; each is of whole records, and is what it says."""
    built: list[Manifest] = []
    while any(writer.poll() is None for writer in writers):
        folder = home.corpora / str(len(built))
        try:
            built.append(build_corpus(home, folder, BuildSettings(per_task=1_000_000)))
        except UsageError as error:
            assert str(error).startswith("no episode of 0 is a success")  # noqa: PT017 - not yet
            continue
        assert read_manifest(folder) == built[-1]
    return built


@pytest.mark.slow
def test_two_writers_of_ten_thousand_episodes_lose_and_tear_nothing_while_corpora_are_built(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    writers = [_writer(home.bank, name, 10_000) for name in ("left", "right")]
    built = _build_while(writers, home)
    assert [writer.returncode for writer in writers] == [0, 0]
    counts = [one.episodes for one in built]
    assert counts == sorted(counts)
    assert len(counts) > 2
    assert all(one.sft == one.episodes and not one.left_out for one in built)
    with Bank(home.bank) as bank:
        found = list(bank.episodes())
    assert Counter(one.task for one in found) == {"left": 10_000, "right": 10_000}
    for name in ("left", "right"):
        assert [one.sample for one in found if one.task == name] == list(range(10_000))
    assert all(one.answer == f"{one.task}-{one.sample}-" + "x" * (one.sample % 97) for one in found)


def test_a_killed_writer_costs_at_most_its_last_record(tmp_path: Path) -> None:
    killed, other = _writer(tmp_path, "killed", 10_000), _writer(tmp_path, "other", 300)
    while Bank(tmp_path).ids().__len__() < 50:
        assert killed.poll() is None
    killed.kill()
    killed.wait()
    assert other.wait() == 0
    with Bank(tmp_path) as bank:
        found = list(bank.episodes())
        numbers = [one.sample for one in found if one.task == "killed"]
        assert numbers == list(range(len(numbers)))
        assert sum(one.task == "other" for one in found) == 300


def test_the_attempts_of_a_run_are_imported_once_with_their_questions(tmp_path: Path) -> None:
    daydream("run", "branch-world", "--rounds", "2", "--out", "run")
    first = daydream("bank", "import", "run", "--json").json["runs"][0]
    calls = daydream("show", "run", "--json").json["calls"]
    assert first["episodes"] == first["added"] == calls
    assert 0 < first["solved"] < calls
    assert daydream("bank", "import", "run", "--json").json["runs"][0]["added"] == 0
    [group] = daydream("bank", "show", "--json").json["groups"]
    assert (group["family"], group["source"], group["model"]) == (
        "branch-world",
        "run",
        "scripted",
    )
    with Bank(Path("weights/bank")) as bank:
        one = next(found for found in bank.episodes() if found.solved)
    assert [message.role for message in one.prompt] == ["system", "user"]
    assert "File: artifact.json" in one.prompt[1].text
    assert one.answer.startswith("File: artifact.json\n```\n{")
    assert one.provenance["round"] in (1, 2)


@pytest.mark.slow
def test_an_unfinished_round_is_left_out_and_said(tmp_path: Path) -> None:
    daydream("run", "branch-world", "--max-calls", "5", "--out", "run")
    [found] = daydream("bank", "import", "run", "--json").json["runs"]
    assert found["episodes"] == 0
    assert found["left_out"] == {"unfinished round": 5}


def test_bad_input_to_the_bank_is_named() -> None:
    assert "names no run" in daydream("bank", "import", code=2).err
    assert "is no run folder" in daydream("bank", "import", "nowhere", code=1).err
