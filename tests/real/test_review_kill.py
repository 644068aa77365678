"""``kill -9`` in every phase of a review: what is the user's stays, and the next review works."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.real.checkouts import CHECKS, PLACES, git, seeded, state
from tests.real.commands import COMMAND, daydream
from tests.real.review_server import ReviewServer


@contextmanager
def _reviewing(server: ReviewServer, *arguments: str) -> Iterator[IO[bytes]]:
    """Review in the background; give its JSON lines, and kill it at the end."""
    words = ("review", "repo", "-m", server.model, "--archive", "archive", "--yes", "--json")
    process = subprocess.Popen(
        [*COMMAND, *words, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        yield process.stdout
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _goes_on() -> None:
    """The archive of the killed review says so; the next one cleans up behind it."""
    runs = sorted(Path("archive", "runs").iterdir())
    assert [json.loads((run / "manifest.json").read_text())["status"] for run in runs] == [
        "partial"
    ]
    assert len([one for one in Path("archive", "work").iterdir() if one.is_dir()]) == 1
    with ReviewServer() as server:
        done = daydream(
            *("review", "repo", "-m", server.model, "--archive", "archive", "--json"),
            *("--yes", "--test-command", CHECKS),
        ).json
    assert {(one["file"], one["line"]) for one in done["items"]} == PLACES
    assert git("repo", "rev-parse", done["branch"]) == done["commit"]
    assert [one for one in Path("archive", "work").iterdir() if one.is_dir()] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "phase", ["intent", "review-python", "structure", "verify", "fix-2", "heal"]
)
def test_a_review_killed_while_a_model_is_asked_changes_nothing(phase: str) -> None:
    before = state(seeded(Path("repo")))
    with (
        ReviewServer(lambda asks, number: "hold" if asks == phase else "ok") as server,
        _reviewing(server, "--test-command", "exit 1", "--in-place"),
    ):
        assert server.held.wait(90)
    assert state(Path("repo")) == before
    _goes_on()


@pytest.mark.slow
def test_a_review_killed_while_the_tests_run_changes_nothing() -> None:
    before = state(seeded(Path("repo")))
    with (
        ReviewServer() as server,
        _reviewing(server, "--test-command", "exec tail -f /dev/null", "--in-place") as lines,
    ):
        assert any(json.loads(line).get("phase") == "test" for line in lines)
    assert state(Path("repo")) == before
    _goes_on()


@pytest.mark.slow
def test_an_interrupt_ends_the_tests_and_changes_nothing() -> None:
    before = state(seeded(Path("repo")))
    words = ("review", "repo", "-m", "mock:", "--archive", "archive", "--yes", "--json")
    process = subprocess.Popen(
        [*COMMAND, *words, "--test-command", "exec tail -f /dev/null"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert any(json.loads(line).get("phase") == "test" for line in process.stdout)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    process.stdout.close()
    assert state(Path("repo")) == before
    assert [one for one in Path("archive", "work").iterdir() if one.is_dir()] == []


@pytest.mark.slow
def test_a_review_killed_while_it_pushes_leaves_one_branch_and_nothing_else() -> None:
    repo = seeded(Path("repo"))
    git(".", "clone", "--quiet", "--bare", "repo", "origin.git")
    git(repo, "remote", "add", "origin", str(Path("origin.git").absolute()))
    gate = Path("gate").absolute()
    os.mkfifo(gate)
    hook = Path("origin.git", "hooks", "pre-receive")
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nread line < '{gate}'\n")
    hook.chmod(0o755)
    before = state(repo)
    with (
        ReviewServer() as server,
        _reviewing(server, "--push", "--in-place", "--base", "main"),
        gate.open("wb"),  # Opens once the hook of origin reads from it.
    ):
        pass
    after = state(repo)
    assert after._replace(refs="") == before._replace(refs="")
    new = set(after.refs.splitlines()) - set(before.refs.splitlines())
    assert len(new) == 1
    assert new.pop().split("\t")[1].startswith("refs/heads/daydream/review-")
    hook.unlink()
    _goes_on()
