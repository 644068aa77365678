"""Agent programs as people use them: ``-m cli:claude`` and the others, with programs that fail."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from daydream import launch
from daydream.rounds import AttemptDone, Notice, Surroundings
from daydream.store.run_folder import RunFolder
from tests.real.commands import Ran, daydream, start
from tests.real.fake_programs import behave, install
from tests.real.problems import problem

KEY = "sk-planted-0123456789abcdef"
OTHER = "sk-other-0123456789abcdef"
NAMES = ("claude", "codex", "gemini", "pi")
KEYS = {
    "claude": "ANTHROPIC_API_KEY",
    "codex": "CODEX_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "pi": "ANTHROPIC_API_KEY",
}
EVALUATOR = "def evaluate(path):\n    return float(len(open(path).read()))\n"


def _environment(name: str, **more: str) -> dict[str, str]:
    return {
        "PATH": f"{Path('programs').resolve()}:{os.environ['PATH']}",
        "HOME": str(Path("home").resolve()),
        KEYS[name]: KEY,
        "UNRELATED_API_KEY": OTHER,
        **more,
    }


def _ready(name: str, behaviour: str) -> None:
    problem(EVALUATOR)
    Path("home").mkdir()
    install(Path("programs"), name, behaviour)


def _run(name: str, code: int = 0, agent: str = "", **flags: str | int) -> Ran:
    given = {
        "out": "run", "rounds": 1, "policy": "parallel_refine-w1-d2", "workers": 1, **flags,
    }  # fmt: skip
    words = [word for key, value in given.items() for word in (f"--{key.replace('_', '-')}", value)]
    return daydream(
        "run", "task", "--agent", agent or f"cli:{name}", "--json", *map(str, words),
        code=code, env=_environment(name),
    )  # fmt: skip


def _last(run: str = "run") -> Any:
    with RunFolder.open(Path(run)) as folder:
        return max(folder.state().rounds[1].finished.values(), key=lambda one: one.node)


def _notes() -> Any:
    with RunFolder.open(Path("run")) as folder:
        digest = _last_digest(folder)
        return json.loads(folder.get_artifact(digest)["notes.txt"])


def _last_digest(folder: RunFolder) -> str:
    last = max(folder.state().rounds[1].finished.values(), key=lambda one: one.node)
    assert last.artifact is not None, last.message
    return last.artifact


def _left(word: str) -> list[str]:
    """Return the command lines of live processes that hold ``word``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if word in line and int(path.parent.name) != os.getpid():
            found.append(line)
    return found


def _works(program: str) -> bool:
    """Return whether ``program`` runs, with everything before it done."""
    return any(" -p " in line and "cp -R" not in line for line in _left(program))


@pytest.mark.parametrize(
    "name", ["claude", *(pytest.param(one, marks=pytest.mark.slow) for one in NAMES[1:])]
)
def test_a_program_works_in_the_parents_files_with_the_history_beside_it(name: str) -> None:
    _ready(name, "edit")
    Path("home/.claude").mkdir()
    Path("home/.claude/settings.json").write_text("{}")
    Path("home/private.txt").write_text("mine")
    done = _run(name).json
    assert done["calls"] == 2
    assert done["rounds"][0]["failures"] == 0
    notes = _notes()
    (first,) = notes["seen"]
    assert (first["id"], first["parent"], first["status"]) == ("r1-n001", "root", "ok")
    assert first["score"] > 0
    assert {"README.md", "attempts.jsonl", first["files"] + "/notes.txt"} <= set(notes["files"])
    assert not notes["writable"]
    assert KEYS[name] in notes["environment"]
    assert "UNRELATED_API_KEY" not in notes["environment"]
    assert notes["home"] == ([".claude"] if name == "claude" else [])
    usage = done["rounds"][0]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (200, 80)
    assert usage["requests"] == 2 * (2 if name in {"codex", "gemini"} else 1)
    assert usage["cost_usd"] == (0.5 if name in {"claude", "pi"} else None)
    assert _last().notes["layers"][0] == "bubblewrap"
    for path in sorted(Path("run").rglob("*")):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.slow) for one in NAMES])
def test_a_program_that_fails_makes_a_failed_node_that_keeps_its_words_and_no_key(
    name: str,
) -> None:
    _ready(name, "fail")
    done = _run(name).json
    assert done["rounds"][0]["failures"] == 2
    message = _last().message
    assert "overloaded" in message
    assert KEY not in (Path("run") / "journal.jsonl").read_text()
    behave(Path("programs"), "garbage")
    assert _run(name, out="run2").json["rounds"][0]["failures"] == 2
    assert "broke off" in _last("run2").message
    assert "cost_usd" not in str(_last("run2").notes)


@pytest.mark.parametrize(
    "name", [*(pytest.param(one, marks=pytest.mark.slow) for one in NAMES[1:]), "claude"]
)
def test_a_program_that_is_not_logged_in_ends_the_run_with_what_to_do(name: str) -> None:
    _ready(name, "logout")
    failed = _run(name, code=3).json
    assert "is not logged in" in failed["stopped"]
    assert KEYS[name] in failed["stopped"] or "key" in failed["stopped"]
    assert failed["calls"] == 0
    behave(Path("programs"), "edit")
    again = daydream("resume", "run", "--json", env=_environment(name)).json
    assert again["calls"] == 2


def test_what_is_missing_is_named_before_anything_is_written() -> None:
    problem(EVALUATOR)
    Path("home").mkdir()
    Path("programs").mkdir()
    nothing = {"PATH": str(Path("programs").resolve()), "HOME": str(Path("home").resolve())}
    failed = daydream("run", "task", "-m", "cli:claude", "--json", code=3, env=nothing).json
    assert "Claude Code is not installed" in failed["message"]
    assert "npm install -g" in failed["message"]
    assert not Path("runs").exists()
    install(Path("programs"), "claude")
    bare = {**_environment("claude"), "ANTHROPIC_API_KEY": ""}
    failed = daydream("run", "task", "-m", "cli:claude", "--json", code=3, env=bare).json
    assert "ANTHROPIC_API_KEY" in failed["message"]
    assert "log in" in failed["message"]


@pytest.mark.parametrize(
    "wrong",
    ["cli:cloud", "cli:", "cli:timeout=0:pi", "cli:timeout=x:pi", "cli:memory=0:pi",
     "cli:sandbox=none:pi", "cli:parallel=0:pi"],
)  # fmt: skip
def test_a_program_that_is_not_known_or_an_option_out_of_range_is_refused(wrong: str) -> None:
    failed = daydream("run", "branch-world", "-m", wrong, "--json", code=2).json
    assert "expected" in failed["message"] or "cli:claude" in failed["message"]
    assert not Path("runs").exists()


@pytest.mark.slow
def test_a_program_over_its_time_is_killed_with_all_it_started_and_its_tokens_count() -> None:
    _ready("claude", "hang")
    done = _run("claude", max_calls=1, agent="cli:timeout=1:claude").json
    assert "took over 1 s" in _last().message
    assert done["rounds"][0]["usage"]["input_tokens"] == 7
    assert not _left(str(Path("programs").resolve()))


@pytest.mark.slow
def test_a_daemon_of_a_program_does_not_outlive_its_attempt() -> None:
    _ready("claude", "fork")
    assert _run("claude", max_calls=1).json["rounds"][0]["failures"] == 0
    assert not _left(str(Path("programs").resolve()))


@pytest.mark.slow
@pytest.mark.parametrize("level", ["bubblewrap", "process"])
def test_ctrl_c_ends_a_program_at_once_and_the_run_can_be_resumed(
    level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ready("claude", "hang")
    for name, value in _environment("claude").items():
        monkeypatch.setenv(name, value)
    process = start(
        "run", "task", "--agent", f"cli:sandbox={level}:claude", "--out", "run", "--workers", "1",
        "--policy", "parallel_refine-w1-d2", "--rounds", "1",
    )  # fmt: skip
    word = str(Path("programs/claude").resolve())
    assert any(_works(word) for _ in range(5_000))
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert not _left(word)
    behave(Path("programs"), "edit")
    assert daydream("resume", "run", "--json").json["calls"] == 2


@pytest.mark.slow
def test_a_key_that_a_program_writes_into_its_files_is_not_kept() -> None:
    _ready("claude", "leak")
    assert _run("claude", max_calls=1).json["rounds"][0]["failures"] == 1
    assert "left a key of yours in notes.txt" in _last().message
    for path in sorted(Path("run").rglob("*")):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


@pytest.mark.slow
def test_without_a_sandbox_a_program_may_edit_and_no_more() -> None:
    _ready("claude", "edit")
    assert _run("claude", agent="cli:sandbox=process:claude").json["rounds"][0]["failures"] == 0
    arguments = _notes()["arguments"]
    assert arguments[arguments.index("--permission-mode") + 1] == "acceptEdits"
    assert "UNRELATED_API_KEY" not in _notes()["environment"]


@pytest.mark.slow
def test_programs_that_fail_in_a_row_stop_the_run_and_budgets_hold_for_them() -> None:
    _ready("claude", "fail")
    wide = "parallel_refine-w9-d1"
    failed = _run("claude", policy=wide, max_failures=3, code=1).json
    assert failed["calls"] == 3
    assert "3 attempts in a row" in failed["stopped"]
    behave(Path("programs"), "edit")
    done = _run("claude", policy=wide, budget="0.6usd", out="run2").json
    assert (done["calls"], done["rounds"][0]["usage"]["cost_usd"]) == (2, 0.5)
    assert "budget of 0.6 usd" in done["stopped"]
    done = _run("claude", policy=wide, budget="300tok", out="run3").json
    assert done["calls"] == 2
    install(Path("programs"), "codex")
    refused = daydream(
        "run", "task", "-m", "cli:codex", "--budget", "1usd", "--json", code=2,
        env=_environment("codex"),
    ).json  # fmt: skip
    assert "price of cli:codex" in refused["message"]


class _Clock:
    """A clock on which every attempt takes half an hour."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def timer(self) -> float:
        """Return the seconds so far."""
        return self._seconds

    def notify(self, notice: Notice) -> None:
        """Let the time of an attempt pass."""
        if isinstance(notice, AttemptDone):
            self._seconds += 1_800.0


@pytest.mark.parametrize(
    "name", ["claude", *(pytest.param(one, marks=pytest.mark.slow) for one in NAMES[1:])]
)
def test_a_budget_of_calls_and_of_time_holds_for_programs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ready(name, "edit")
    done = _run(name, policy="parallel_refine-w9-d1", budget="1h,2calls").json
    assert (done["calls"], done["rounds"][0]["failures"]) == (2, 0)
    assert done["stopped"] == "the budget of 2 calls is spent"
    for variable, value in _environment(name).items():
        monkeypatch.setenv(variable, value)
    clock = _Clock()
    around = Surroundings(timer=clock.timer, notify=clock.notify)
    again = launch.resume("run", changes={"budget": "1h,200calls"}, surroundings=around)
    assert (again.calls, again.stopped) == (4, "the budget of 3600 s is spent")


@pytest.mark.slow
def test_the_history_reaches_over_rounds_and_a_resume() -> None:
    _ready("pi", "edit")
    _run("pi", rounds=2, dreamer="none", max_calls=3)
    done = daydream("resume", "run", "--json", env=_environment("pi")).json
    assert done["calls"] == 4
    with RunFolder.open(Path("run")) as folder:
        last = max(folder.state().rounds[2].finished.values(), key=lambda one: one.node)
        notes = json.loads(folder.get_artifact(str(last.artifact))["notes.txt"])
    assert [one["id"] for one in notes["seen"]] == ["r1-n001", "r1-n002", "r2-n001"]
    assert "attempts/r1-n001/rationale.md" in notes["files"]


def test_the_mock_stands_in_for_a_program_too() -> None:
    problem(EVALUATOR)
    done = daydream(
        "run", "task", "-m", "cli:claude/opus", "--rounds", "1", "--max-calls", "2", "--json",
        env={"DAYDREAM_MOCK": "1"},
    ).json  # fmt: skip
    assert done["rounds"][0]["failures"] == 0


@pytest.mark.slow
def test_a_dry_run_starts_no_program() -> None:
    _ready("claude", "hang")
    found = daydream(
        "run", "task", "-m", "cli:claude", "--dry-run", "--json", env=_environment("claude")
    ).json
    assert (found["agent"], found["calls"]) == ("cli:claude", 32)
    assert found["likely_usd"] is None
    assert not Path("runs").exists()


@pytest.mark.slow
def test_a_command_is_ended_by_ctrl_c_and_what_a_failed_one_reports_counts() -> None:
    problem(EVALUATOR)
    Path("spend.py").write_text(
        "import json, os\n"
        "report = json.load(open(os.environ['DAYDREAM_CONTEXT']))['report']\n"
        'open(report, \'w\').write(\'{"requests": 2, "input_tokens": 9, "cost_usd": 0.5}\')\n'
    )
    command = f"command:{{python}} {Path('spend.py').resolve()}"
    flags = ("--rounds", "1", "--policy", "parallel_refine-w9-d1", "--workers", "1", "--json")
    done = daydream(
        "run", "task", "--agent", command, *flags, "--max-calls", "2", "--out", "a"
    ).json
    assert (done["calls"], done["rounds"][0]["failures"]) == (2, 2)
    usage = done["rounds"][0]["usage"]
    assert (usage["requests"], usage["input_tokens"], usage["cost_usd"]) == (4, 18, 1.0)
    failed = daydream("run", "task", "--agent", command, *flags, "--out", "b", code=1).json
    assert "5 attempts in a row" in failed["stopped"]
    assert not Path("b/replies.sqlite").exists()
    Path("wait.py").write_text("import os, time\nos.fork()\ntime.sleep(600)\n")
    word = str(Path("wait.py").resolve())
    process = start("run", "task", "--agent", f"command:{{python}} {word}", "--out", "c")
    assert any(_waits(word) for _ in range(5_000))
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert not _left(word)


def _waits(program: str) -> bool:
    return any("daydream run" not in line and "-m" not in line for line in _left(program))
