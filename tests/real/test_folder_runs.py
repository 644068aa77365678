"""A user's folder from the command line: init, run, resume, show, and settings that are wrong."""

import json
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.commands import daydream, history, start
from tests.real.problems import HONEST, PROGRAM

PROPOSE = """
import json, os, pathlib
context = json.loads(pathlib.Path(os.environ["DAYDREAM_CONTEXT"]).read_text())
branch, depth = context["branch"], context["depth"]
value = VALUE
pathlib.Path("initial_program.py").write_text(f"def value():\\n    return {value}\\n")
"""
SETTINGS = """
[run]
agent = "command:{python} {folder}/propose.py"
policy = "parallel_refine-w2-d2"
rounds = 1
"""


def folder(value: str = "branch + depth / 10", *, task: str = "", evaluator: str = HONEST) -> Path:
    place = Path("mine")
    place.mkdir()
    (place / "initial_program.py").write_text(PROGRAM)
    (place / "evaluator.py").write_text(evaluator)
    (place / "propose.py").write_text(PROPOSE.replace("VALUE", value))
    ignore = '[task]\nignore = ["propose.py"]\n'
    (place / "daydream.toml").write_text(f"{ignore}{task}\n{SETTINGS}")
    return place


def nodes_of(run: str) -> list[dict[str, Any]]:
    trees = daydream("show", run, "--json").json["trees"]
    return [node for tree in trees for node in tree["nodes"] if node["parent"] is not None]


def test_init_writes_a_folder_that_runs_and_improves_without_a_key() -> None:
    assert "daydream run my-task" in daydream("init", "my-task").err
    names = sorted(path.name for path in Path("my-task").iterdir())
    assert names == ["daydream.toml", "evaluator.py", "initial_program.py", "propose.py"]
    done = daydream("run", "my-task", "--out", "r", "--json").json
    assert (done["event"], done["calls"] >= 16) == ("done", True)
    assert 0.1 < done["best"] <= 0.5177
    assert sorted(path.name for path in Path("my-task").iterdir()) == names


def test_init_never_overwrites() -> None:
    daydream("init", "a/deep/task")
    Path("a/deep/task/evaluator.py").write_text("mine")
    refused = daydream("init", "a/deep/task", code=2)
    assert "exists already" in refused.err
    assert Path("a/deep/task/evaluator.py").read_text() == "mine"
    Path("file").write_text("")
    assert "cannot write" in daydream("init", "file", code=2).err


def test_a_folder_is_searched_with_a_program_of_the_user() -> None:
    done = daydream("run", str(folder()), "--out", "r", "--json").json
    assert (done["best"], done["calls"]) == (1.2, 4)
    assert {node["status"] for node in nodes_of("r")} == {"ok"}


def test_where_lower_is_better_the_lowest_number_is_the_best() -> None:
    place = folder(task='direction = "min"\nmeasure = "seconds"')
    done = daydream("run", str(place), "--out", "r", "--json").json
    assert done["best"] == -0.1
    assert daydream("show", "r", "--json").json["best"] == -0.1
    tree = daydream("show", "r", "tree").out
    assert "(seconds)" in tree
    assert "depth 1  0.1 ★" in tree


def test_failed_attempts_are_nodes_with_their_status() -> None:
    evaluator = HONEST.replace(
        "    return load(program_path).value()",
        "    import os, time\n    value = load(program_path).value()\n"
        "    if value < 0.5: return float('nan')\n    if value < 1: os._exit(3)\n"
        "    if value < 2: return {'score': value, 'valid': False, 'error': 'no'}\n"
        "    if value < 3: time.sleep(600)\n    return value",
    )
    place = folder("branch if depth == 1 else branch + 1", task="timeout = 5", evaluator=evaluator)
    done = daydream("run", f"{place}/", "--out", "r", "--policy", "parallel_refine-w4-d1", "--json")
    assert (done.json["best"], done.json["calls"]) == (3.0, 4)
    found = [(node["status"], node["error_class"]) for node in nodes_of("r")]
    assert sorted(found, key=str) == [
        ("error", "nan_score"),
        ("invalid", "not_valid"),
        ("ok", None),
        ("timeout", "timeout"),
    ]


def test_a_command_that_fails_is_a_failed_attempt() -> None:
    place = folder("1 / (branch - 1)")
    done = daydream("run", str(place), "--out", "r", "--policy", "parallel_refine-w2-d1", "--json")
    assert done.json["calls"] == 2
    assert sorted(node["status"] for node in nodes_of("r")) == ["error", "ok"]
    assert "ZeroDivisionError" in Path("r/journal.jsonl").read_text()


@pytest.fixture
def _temporary_files_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take what a killed run leaves away with the test; a sandbox must be able to look inside."""
    with tempfile.TemporaryDirectory(prefix="daydream-tests-killed-") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield


@pytest.mark.usefixtures("_temporary_files_of_its_own")
def test_a_killed_run_of_a_folder_resumes_to_the_same_tree() -> None:
    place = folder("branch + depth / 10")
    daydream("run", str(place), "--out", "whole", "--json")
    run = start("run", str(place), "--out", "cut")
    journal = Path("cut/journal.jsonl")
    while not (journal.exists() and journal.read_text().count("attempt_finished") >= 2):
        assert run.poll() is None
    run.send_signal(signal.SIGKILL)
    run.wait()
    daydream("resume", "cut", "--json")
    assert history(Path("cut")) == history(Path("whole"))
    assert {node["status"] for node in nodes_of("cut")} == {"ok"}


def test_resuming_with_another_evaluator_is_refused() -> None:
    place = folder()
    daydream("run", str(place), "--out", "r", "--max-calls", "1", "--json")
    (place / "propose.py").write_text(PROPOSE.replace("VALUE", "7"))
    (place / "evaluator.py").write_text(HONEST + "\n# changed\n")
    assert "--new-pool" in daydream("resume", "r", code=1).err


@pytest.mark.parametrize(
    ("task", "said"),
    [("timeuot = 3", "did you mean 'timeout'"), ("repeats = 0", "repeats = 0")],
)
def test_a_wrong_setting_of_a_folder_ends_the_command_with_its_place(task: str, said: str) -> None:
    place = folder(task=task)
    assert said in " ".join(daydream("run", str(place), code=2).err.split())


def test_a_folder_without_an_agent_says_how_to_name_one() -> None:
    place = folder()
    (place / "daydream.toml").unlink()
    assert "--agent" in daydream("run", str(place), code=2).err


def test_a_folder_is_shown_before_it_is_run() -> None:
    folder()
    info = daydream("tasks", "./mine", "--json").json
    assert (info["name"], info["scale"]) == ("mine", None)
    assert json.dumps(info)
    told = daydream("tasks", "./mine").out
    assert "parallel_refine-w2-d2" in told, "the folder's own settings, not the defaults"
    assert "{folder}/propose.py" in told
