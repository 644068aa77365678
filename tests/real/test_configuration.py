"""Settings from files and variables: what they name, where paths in them lead, what is wrong."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daydream.config import RunSettings
from daydream.dreams import developer_of
from tests.real.commands import daydream
from tests.real.problems import problem

POLICY = """
class Policy:
    def __init__(self, config):
        self.width = config.get("width", 1)

    def select_batch(self, view, limit):
        return [view.root] * (self.width - view.branches)
"""


def _settings(run: str = "run") -> Any:
    started = json.loads(Path(run, "journal.jsonl").read_text().splitlines()[0])
    return started["config"]["settings"]


def test_the_papers_symbols_are_settings_in_files_and_variables() -> None:
    Path("daydream.toml").write_text(
        "[run]\nW = 3\nK1 = 50\nK2 = 40\nM = 2\nbeta1 = 0.01\nbeta2 = 0.02\nrounds = 1\n"
    )
    daydream("run", "branch-world", "--out", "run", "--json", env={"DAYDREAM_K1": "60"})
    found = _settings()
    assert (found["max_parallelism"], found["max_batches"], found["replay_batches"]) == (3, 60, 40)
    assert (found["revisions"], found["cost_weight"], found["parallel_weight"]) == (2, 0.01, 0.02)


def test_a_setting_under_two_names_is_refused() -> None:
    Path("daydream.toml").write_text("[run]\nK1 = 5\nmax_batches = 6\n")
    failed = daydream("run", "branch-world", "--json", code=2).json
    assert "K1 and max_batches are the same setting" in failed["message"]


def test_paths_in_a_file_count_from_the_files_folder() -> None:
    home = Path("elsewhere/deep")
    home.mkdir(parents=True)
    (home / "mine.py").write_text(POLICY)
    (home / "texts").mkdir()
    (home / "texts" / "system.md").write_text("You are a poet.\n")
    (home / "my.toml").write_text(
        'policy = "mine.py"\nprompts = "texts"\nagent = "chat:mock:"\nrounds = 1\n'
        "[policy_config]\nwidth = 3\n"
    )
    # A file with a table has its settings under [run].
    text = (home / "my.toml").read_text().replace("[policy_config]", "[run.policy_config]")
    (home / "my.toml").write_text("[run]\n" + text)
    done = daydream("run", "branch-world", "@elsewhere/deep/my.toml", "--out", "run", "--json").json
    assert done["calls"] == 3
    assert _settings()["prompts"] == str((home / "texts").resolve())


def test_recipes_of_tasks_are_settings_and_the_name_wins() -> None:
    Path("daydream.toml").write_text("[tasks.circle-packing]\nn = 26\n\n[run]\nrounds = 1\n")
    flags = ("--max-calls", "1", "--policy", "parallel_refine-w1-d1", "--json", "-m", "mock:")
    assert daydream("run", "packing", *flags).json["task"] == "circle-packing:n=26"
    assert daydream("run", "circle-packing:n=8", *flags).json["task"] == "circle-packing"


def test_temperatures_and_timeouts_become_options_of_the_agent() -> None:
    Path("daydream.toml").write_text(
        "[run]\ntemperature = 0.5\nmax_tokens = 900\nattempt_timeout = 60\nrequest_timeout = 9\n"
    )
    flags = ("--rounds", "1", "--max-calls", "1", "--json")
    daydream("run", "branch-world", *flags, "--agent", "chat:mock:", "--out", "a")
    options = "temperature=0.5,max_tokens=900,deadline=60,timeout=9"
    assert _settings("a")["agent"] == f"chat:{options}:mock:"
    own = "chat:temperature=0,edit=whole:mock:"
    daydream("run", "branch-world", *flags, "--agent", own, "--out", "b")
    assert _settings("b")["agent"].startswith("chat:temperature=0,edit=whole,max_tokens=900")
    daydream("run", "branch-world", *flags, "--agent", "command:A=1:b true", "--out", "c")
    assert _settings("c")["agent"] == "command:timeout=60:A=1:b true"
    daydream("run", "branch-world", *flags, "--agent", "scripted", "--out", "d")
    assert _settings("d")["agent"] == "scripted"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[run]\nrounds = 'two'", ("rounds", "'two'", "expected `int`")),
        ("[run]\ntemprature = 1", ("temprature", "did you mean 'temperature'")),
        ("[run]\ntemperature = 9", ("temperature", "9", "<= 2")),
        ("[run]\npolicy_timeout = 0", ("policy_timeout", "0", "> 0")),
        ("[run]\nprompts = 'nowhere'", ("prompts", "nowhere", "no folder")),
        ("[tasks]\nlasso = 3", ("tasks.lasso", "3", "expected a table")),
        ("[tasks.lasso]\nvariant = [1]", ("variant", "[1]", "expected a number")),
        ("[tasks.lasso]\nvariante = 1", ("variante",)),
        ("run = 3", ("[run]", "3", "expected a table")),
        ("[run\n", ("no valid TOML",)),
        ("[runs]\nrounds = 2", ("unknown table [runs]", "did you mean 'run'")),
        ("rounds = 2\n[tasks.lasso]\nvariant = 'path17'", ("rounds stands before", "under [run]")),
        ("[run]\nsandbox = 'chroot'", ("'chroot'", "expected one of auto, bubblewrap, process")),
        ("[run]\nguard = 'all'", ("'all'", "expected one of quality, none")),
        ("[run]\npolicy_config = { a = [nan] }", ("policy_config", "expected a finite number")),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_what_was_expected(
    text: str, words: tuple[str, ...]
) -> None:
    Path("daydream.toml").write_text(text)
    failed = daydream("run", "lasso", "--json", code=2).json
    for word in words:
        assert word in failed["message"], failed["message"]
    assert not Path("runs").exists()


def test_an_empty_variable_is_not_set_and_a_wrong_one_is_named() -> None:
    flags = ("run", "branch-world", "--dry-run", "--json")
    empty = {"DAYDREAM_SANDBOX": "", "DAYDREAM_W": " ", "DAYDREAM_BUDGET": ""}
    assert daydream(*flags, env=empty).json["calls"] == 96
    failed = daydream(*flags, env={"DAYDREAM_SANDBOX": "chroot"}, code=2).json
    assert "environment: sandbox is 'chroot' (expected one of auto" in failed["message"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("sistem.md", "hello", "no text of ours"),
        ("system.md", "hello $title", "$title (expected of none"),
        ("attempt.md", "costs $ 5", "a lone $ (expected of"),
    ],
)
def test_a_text_that_does_not_fit_is_refused(name: str, text: str, words: str) -> None:
    Path("texts").mkdir()
    Path("texts", name).write_text(text)
    failed = daydream("run", "branch-world", "--prompts", "texts", "--json", code=2).json
    assert words in failed["message"]


def test_an_own_text_reaches_the_model_and_a_resume_keeps_it() -> None:
    problem()
    Path("task/texts").mkdir()
    Path("task/texts/attempt.md").write_text("Write nothing. $branch\n")
    Path("task/daydream.toml").write_text('[run]\nprompts = "texts"\n')
    done = daydream(
        "run", "task", "-m", "mock:", "--rounds", "1", "--max-calls", "1", "--out", "run", "--json"
    ).json
    # Without the files in its prompt the mock has none to change.
    assert done["rounds"][0]["failures"] == 1
    again = daydream("resume", "run", "--max-calls", "2", "--json").json
    assert again["rounds"][0]["failures"] == 2


def test_the_developer_has_a_temperature_of_its_own() -> None:
    base = RunSettings(agent="chat:temperature=1,seed=3:mock:", developer_temperature=0.2)
    assert developer_of(base) == "temperature=1,seed=3:mock:"
    other = msgspec.structs.replace(base, developer="edit=whole:openai/x")
    assert developer_of(other) == "temperature=0.2,edit=whole:openai/x"
    plain = msgspec.structs.replace(base, developer="openai/x")
    assert developer_of(plain) == "temperature=0.2:openai/x"


def test_a_variable_chooses_the_sandbox_level() -> None:
    problem()
    flags = ("-m", "mock:", "--rounds", "1", "--max-calls", "1", "--json")
    daydream("run", "task", *flags, "--out", "weak", env={"DAYDREAM_SANDBOX": "process"})
    weak = json.loads(Path("weak/journal.jsonl").read_text().splitlines()[0])["config"]
    assert weak["isolation"] == ["process"]
    failed = daydream("run", "task", *flags, code=2, env={"DAYDREAM_SANDBOX": "strong"}).json
    assert "sandbox is 'strong'" in failed["message"]
