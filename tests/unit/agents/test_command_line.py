"""The command agent: what a program is given, what it may leave, and how it fails."""

import json
import os
import pickle
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from daydream.agents.base import Ancestor, AttemptContext
from daydream.agents.command_line import build
from daydream.agents.load import load_agent
from daydream.errors import AgentError, UsageError
from daydream.tasks.base import Artifact, TaskInfo, failed, ok
from tests.processes import with_word

INFO = TaskInfo(
    name="mine",
    title="Mine",
    statement="Make it small.",
    evaluator="v",
    policy="parallel_refine-w4-d4",
    agent="",
    goal="min",
    transform="negate",
    measure="bytes",
)


def context(files: dict[str, bytes] | None = None, **changes: Any) -> AttemptContext:
    values: dict[str, Any] = {
        "task": INFO,
        "round": 2,
        "branch": 1,
        "depth": 3,
        "attempt_seed": 77,
        "world_seed": 8,
        "parent": Artifact({"a.txt": b"old", "lib/b.txt": b"b"} if files is None else files),
        "evaluation": ok(-3.0, feedback="try less", measure=3.0),
        "lineage": (Ancestor(0, "ok", -5.0, None, ""),),
    }
    return AttemptContext(**{**values, **changes})


def python(code: str, *, options: str = "", info: TaskInfo = INFO) -> str:
    Path("agent.py").write_text(code)
    agent = build(f"{options}{shlex.quote(sys.executable)} {Path('agent.py').resolve()}", info)
    return agent.name.removeprefix("command:")


def proposed(command: str, *, info: TaskInfo = INFO, **changes: Any) -> dict[str, bytes]:
    return build(command, info).propose(context(**changes)).artifact.files


def test_a_program_edits_the_parents_files_where_it_starts() -> None:
    command = "echo new > a.txt; mkdir deep; echo more > deep/c.txt; rm lib/b.txt"
    assert proposed(command) == {"a.txt": b"new\n", "deep/c.txt": b"more\n"}


def test_a_program_finds_what_it_may_know_outside_its_workspace() -> None:
    code = (
        "import json, os, pathlib\npath = pathlib.Path(os.environ['DAYDREAM_CONTEXT'])\n"
        "assert not path.is_relative_to(pathlib.Path.cwd())\n"
        "pathlib.Path('a.txt').write_bytes(path.read_bytes())\n"
    )
    told = json.loads(proposed(python(code))["a.txt"])
    assert told["schema_version"] == 1
    assert (told["task"], told["statement"], told["goal"]) == ("mine", "Make it small.", "min")
    assert [told[key] for key in ("round", "branch", "depth", "attempt_seed")] == [2, 1, 3, 77]
    assert told["files"] == ["a.txt", "lib/b.txt"]
    assert told["parent"] == {
        "status": "ok",
        "score": -3.0,
        "measure": 3.0,
        "error_class": None,
        "message": "",
        "diagnostics": {"measure": 3.0},
        "feedback": "try less",
    }
    assert told["lineage"] == [
        {"depth": 0, "status": "ok", "score": -5.0, "error_class": None, "message": ""}
    ]


@pytest.mark.parametrize(
    ("evaluation", "status", "message"),
    [(None, None, ""), (failed("overlap", "two overlap"), "invalid", "two overlap")],
)
def test_a_parent_without_a_score_has_none(
    evaluation: Any, status: str | None, message: str
) -> None:
    command = "cp $DAYDREAM_CONTEXT a.txt"
    told = json.loads(proposed(command, evaluation=evaluation)["a.txt"])["parent"]
    assert (told["status"], told["score"], told["measure"]) == (status, None, None)
    assert told["message"] == message


def test_the_users_environment_is_the_programs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "mine")
    assert proposed("echo $MY_KEY > a.txt")["a.txt"] == b"mine\n"


def test_a_command_without_shell_characters_is_started_without_a_shell() -> None:
    assert build("touch 'a b' c", INFO).argv == ("touch", "a b", "c")
    for command in ("a | b", "a > b", "echo $A", "ls *.py", "A=1 b", "a && b", "a; b", "(a)"):
        assert build(command, INFO).argv == ("sh", "-c", command)
    assert set(proposed("touch 'new file'")) == {"a.txt", "lib/b.txt", "new file"}


def test_the_problems_folder_and_the_interpreter_are_filled_in() -> None:
    info = TaskInfo(**{**{f: getattr(INFO, f) for f in INFO.__struct_fields__}, "folder": "/a b"})
    agent = build("{python} {folder}/propose.py", info)
    assert agent.argv == (sys.executable, "/a b/propose.py")
    assert agent.name == "command:{python} {folder}/propose.py"
    assert build("{python} {folder}/x > y", info).argv[2].endswith("'/a b'/x > y")
    with pytest.raises(UsageError, match="mine has no folder"):
        build("{folder}/x", INFO)


def test_an_agent_is_rebuilt_from_its_name_and_pickles() -> None:
    agent = load_agent("command:timeout=3.5,memory=1GiB:touch x", INFO)
    assert agent.name == "command:timeout=3.5,memory=1GiB:touch x"
    assert (agent.where, agent.deterministic) == ("inline", False)
    assert pickle.loads(pickle.dumps(agent)) == load_agent(agent.name, INFO)


def test_options_stand_before_the_command() -> None:
    agent = build("timeout=3.5,memory=1GiB:touch x", INFO)
    assert (agent.limits.wall_s, agent.limits.memory_mb) == (3.5, 1024)
    assert agent.argv == ("touch", "x")
    assert build("touch x:y", INFO).argv == ("touch", "x:y")
    assert build("touch x", INFO).limits.wall_s == 600.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "no command"),
        ("timeout=3:", "no command"),
        ("timeout=0:x", "timeout=0"),
        ("timeout=nan:x", "timeout=nan"),
        ("timeout=soon:x", "soon"),
        ("memory=lots:x", "lots"),
        ("touch 'x", "close the quotes"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        build(options, INFO)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo why >&2; touch x; exit 3", "status 3; it printed last:\nwhy"),
        ("true", "changed no file"),
        ("rm -r a.txt lib", "left no file"),
        ("no-such-program", "status 127"),
        ("ln -s /etc/hostname x", "link to a place outside"),
        ("mkfifo x", "no regular file"),
        ("seq 3000 | xargs touch", "more than 2000 files"),
        ("truncate -s 1G x", "over the limit of bytes"),
        ("truncate -s 1T x", "killed by SIGXFSZ"),
        ("touch 'back\\slash'", "no plain text name"),
        ("touch 'two\nlines'", "cannot be printed"),
        ("timeout=0.5:sleep 30", "over 0.5 s"),
    ],
)
def test_a_command_that_makes_no_artifact_says_why(command: str, said: str) -> None:
    with pytest.raises(AgentError) as caught:
        build(command, INFO).propose(context())
    assert said in str(caught.value)


def test_a_program_that_lies_elsewhere_is_named_in_the_error() -> None:
    Path("agent.py").write_text("")
    with pytest.raises(AgentError, match=f"name the file as {Path('agent.py').resolve()}"):
        build(f"{shlex.quote(sys.executable)} agent.py", INFO).propose(context())


def test_caches_and_histories_are_no_change() -> None:
    command = "mkdir .git __pycache__; touch .git/HEAD __pycache__/a.pyc b.pyc"
    with pytest.raises(AgentError, match="changed no file"):
        build(command, INFO).propose(context())


def test_nothing_that_a_command_started_is_left() -> None:
    mark = f"agent-left-{os.getpid()}"
    command = f"(setsid sleep 60 {mark} &) ; sh -c 'sleep 61' {mark} & touch x"
    assert "x" in proposed(command.replace(f"sleep 60 {mark}", f"sh -c 'sleep 60' {mark}"))
    assert with_word(mark) == []


def test_what_a_command_prints_is_its_rationale_and_its_report_its_usage() -> None:
    code = (
        "import json, os\ncontext = json.load(open(os.environ['DAYDREAM_CONTEXT']))\n"
        "open('a.txt', 'w').write('new')\nprint('\\x1b[31mbecause')\n"
        "if len('REPORT') > 6: open(context['report'], 'w').write('REPORT')\n"
    )
    plain = build(python(code), INFO).propose(context())
    assert (plain.rationale, plain.usage.requests, plain.usage.cost_usd) == ("[31mbecause", 0, None)
    report = {"requests": 2, "input_tokens": 30, "output_tokens": 4, "cost_usd": 0.5}
    told = build(python(code.replace("REPORT", json.dumps(report))), INFO).propose(context())
    assert (told.usage.requests, told.usage.input_tokens, told.usage.cost_usd) == (2, 30, 0.5)
    words = code.replace("REPORT", json.dumps({"rationale": "I said so"}))
    assert build(python(words), INFO).propose(context()).rationale == "I said so"
    broken = build(python(code.replace("REPORT", "not JSON at all")), INFO).propose(context())
    assert "cannot be read" in str(broken.notes["report"])
    assert broken.artifact.files["a.txt"] == b"new"
