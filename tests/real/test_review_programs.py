"""``claude``, ``codex`` and ``pi`` as reviewers, played by faithful programs on ``PATH``."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.real.checkouts import CHECKS, PLACES, git, seeded, state
from tests.real.commands import COMMAND, Ran, daydream
from tests.real.fake_reviewers import install

KINDS = ("claude", "codex", "pi")


def _path(folder: Path) -> dict[str, str]:
    return {"PATH": f"{folder.absolute()}:{os.environ['PATH']}"}


def _review(kind: str, folder: Path, *arguments: str, code: int = 0) -> Ran:
    return daydream(
        *("review", "repo", "--backend", kind, "--archive", "archive", "--json"),
        *arguments,
        code=code,
        env=_path(folder),
    )


def _fork(done: Any, name: str) -> Any:
    return json.loads(Path(done["archive"], "trajectories", f"{name}.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_program_reviews_and_mends_and_what_it_strays_into_is_dropped(kind: str) -> None:
    repo = seeded(Path("repo"))
    before = state(repo)
    folder = install(Path("bin"), kind, "stray")
    done = _review(kind, folder, "--yes", "-m", "some-model").json
    assert {(one["file"], one["line"]) for one in done["items"]} == PLACES
    changed = git(repo, "diff", "--name-only", "HEAD", done["commit"]).split()
    assert changed == ["shelf.py", "stock.py", "till.py"]
    assert "is None" in git(repo, "show", f"{done['commit']}:shelf.py")
    assert state(repo)._replace(refs="") == before._replace(refs="")
    asked = [json.loads(line) for line in Path("bin", "asked").read_text().splitlines()]
    assert all("some-model" in words for words in asked)
    usage = done["usage"]
    if kind == "codex":
        assert usage["cost_usd"] is None
    else:
        assert usage["cost_usd"] == pytest.approx(0.25 * len(asked))
    assert usage["output_tokens"] == 40 * len(asked)
    calls = [call for step in _fork(done, "verify")["steps"] for call in step.get("tool_calls", ())]
    assert len(calls) == 3
    manifest = json.loads(Path(done["archive"], "manifest.json").read_text())
    assert manifest["run"]["backend"] == kind
    assert manifest["score"]["strict"]["composite"] == 1.0


def test_a_program_that_is_not_installed_is_named_with_what_to_do() -> None:
    seeded(Path("repo"))
    Path("bin").mkdir()
    for name in ("git", "sh"):
        found = next(p for d in os.environ["PATH"].split(":") if (p := Path(d, name)).exists())
        Path("bin", name).symlink_to(found)
    for kind in KINDS:
        said = daydream(
            *("review", "repo", "--backend", kind, "--archive", "archive"),
            code=3,
            env={"PATH": str(Path("bin").absolute())},
        ).err
        assert f"{kind} on PATH" in said
        assert "npm install" in said


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("behaviour", "words"),
    [("garbage", "gave no answer in"), ("fail", "the service is overloaded")],
)
def test_a_program_that_brings_no_answer_is_an_error_that_says_why(
    kind: str, behaviour: str, words: str
) -> None:
    before = state(seeded(Path("repo")))
    said = _review(kind, install(Path("bin"), kind, behaviour), "--yes", code=1)
    assert "no reviewer answered" in said.err
    assert words in " ".join(said.err.split())
    assert state(Path("repo")) == before


@pytest.mark.slow
def test_bounds_hold_between_the_conversations_of_a_program() -> None:
    seeded(Path("repo"))
    folder = install(Path("bin"), "claude")
    words = ("--no-fix", "--fanout", "1", "--budget", "0.4usd")
    done = _review("claude", folder, *words).json
    assert done["stopped"] == "the budget of 0.4 usd is spent"
    assert len(Path("bin", "asked").read_text().splitlines()) == 2


@pytest.mark.slow
def test_an_interrupt_ends_a_program_and_changes_nothing() -> None:
    before = state(seeded(Path("repo")))
    folder = install(Path("bin"), "pi", "hang")
    os.mkfifo(folder / "hanging")
    words = ("review", "repo", "--backend", "pi", "--archive", "archive", "--json", "--yes")
    process = subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, env={**os.environ, **_path(folder)}
    )
    assert process.stdout is not None
    with Path("bin", "hanging").open("rb"):  # Opens once the program opens it too.
        pass
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    process.stdout.close()
    assert state(Path("repo")) == before


@pytest.mark.slow
def test_a_program_runs_the_tests_too() -> None:
    seeded(Path("repo"))
    done = _review("codex", install(Path("bin"), "codex"), "--yes", "--test-command", CHECKS).json
    assert done["tests"]["passed"]
