"""The image builder as its user runs it, with a stand-in for Docker that is found on PATH."""

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from daydream_review_v1.building import IMAGES, PROJECT, base_tag
from daydream_review_v1.fixture import BASE_SHA, FIRST_SHA, REPO, SECOND_SHA, make_fixture
from daydream_review_v1.fixture import main as fixture_main
from daydream_review_v1.manifest import read_manifest
from daydream_review_v1.repository import git, snapshot_mirror, text

SCRIPT = IMAGES / "build_images.py"
FAKE = """\
#!{python}
import json, os, pathlib, shutil, sys
log = pathlib.Path({log!r})
words = sys.argv[1:]
seen = {{"words": words}}
if words[0] == "build":
    context = pathlib.Path(words[-1])
    seen["files"] = sorted(path.name for path in context.iterdir())
    seen["setup"] = (context / "setup.sh").read_text() if (context / "setup.sh").exists() else ""
    if (context / "mirror.git").exists():
        shutil.copytree(context / "mirror.git", log.parent / f"mirror-{{os.getpid()}}")
        seen["mirror"] = str(log.parent / f"mirror-{{os.getpid()}}")
with log.open("a") as file:
    file.write(json.dumps(seen) + "\\n")
failing = {failing!r}
fails = words[0] == "build" and any(failing and failing in word for word in words)
sys.exit(17 if fails else {status})
"""
Main = Callable[[Sequence[str]], int]
BuildLog = Callable[[], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def builder() -> Main:
    """Return the ``main`` of the script, which is no module."""
    main: Main = runpy.run_path(str(SCRIPT))["main"]
    return main


def fake_docker(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, failing: str = "", status: int = 0
) -> BuildLog:
    """Put a ``docker`` first on PATH and return what reads its log."""
    folder.mkdir()
    log = folder / "log"
    log.touch()
    text = FAKE.format(python=sys.executable, log=str(log), failing=failing, status=status)
    (folder / "docker").write_text(text)
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return lambda: [json.loads(line) for line in log.read_text().splitlines()]


def _argument(words: list[str], name: str) -> str:
    return next(word.partition("=")[2] for word in words if word.startswith(f"{name}="))


def _tags(words: list[str]) -> list[str]:
    return [words[i + 1] for i, word in enumerate(words) if word == "--tag"]


def test_every_pull_request_gets_an_image_tagged_by_its_head(
    builder: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fake_docker(tmp_path / "bin", monkeypatch)
    assert builder(["--no-base"]) == 0
    builds = [one for one in log() if one["words"][0] == "build"]
    tags = [_tags(one["words"]) for one in builds]
    assert tags == [
        [f"daydream-rl/review-fixture:{FIRST_SHA[:12]}"],
        [f"daydream-rl/review-fixture:{SECOND_SHA[:12]}"],
    ]
    words = builds[0]["words"]
    assert _argument(words, "BASE_IMAGE") == "daydream-rl/base:latest"
    assert _argument(words, "HEAD_SHA") == FIRST_SHA
    assert _argument(words, "BASE_SHA") == BASE_SHA
    assert _argument(words, "TEST_COMMAND") == "python -m unittest discover -q"
    assert builds[0]["files"] == ["mirror.git", "repo.Dockerfile", "setup.sh"]
    assert builds[0]["setup"] == "set -eu\n"
    mirror = Path(builds[0]["mirror"])
    assert text("rev-parse", "main", cwd=mirror) == FIRST_SHA
    with pytest.raises(RuntimeError):
        git("cat-file", "-e", SECOND_SHA, cwd=mirror)


def test_the_base_image_holds_a_fresh_wheel_and_names_this_checkout(
    builder: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fake_docker(tmp_path / "bin", monkeypatch)
    assert builder([]) == 0
    builds = [one["words"] for one in log() if one["words"][0] == "build"]
    assert _tags(builds[0]) == [base_tag(), "daydream-rl/base:latest"]
    assert re.fullmatch(
        r"daydream_rsi-[\w.]+-py3-none-any\.whl", _argument(builds[0], "DAYDREAM_WHEEL")
    )
    assert {_argument(words, "BASE_IMAGE") for words in builds[1:]} == {base_tag()}
    assert builder(["--base-only"]) == 0
    assert len([one for one in log() if one["words"][0] == "build"]) == 4


def test_a_failed_image_leaves_no_tag_and_the_others_are_built(
    builder: Main,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    log = fake_docker(tmp_path / "bin", monkeypatch, failing=f":{FIRST_SHA[:12]}")
    assert builder(["--no-base"]) == 1
    calls = [one["words"] for one in log() if one["words"][0] != "version"]
    assert [words[0] for words in calls] == ["build", "rmi", "build"]
    assert calls[1][-1] == f"daydream-rl/review-fixture:{FIRST_SHA[:12]}"
    told = capfd.readouterr()
    assert f"FAILED {REPO}#1" in told.err
    assert f"built daydream-rl/review-fixture:{SECOND_SHA[:12]}" in told.out


def test_red_replaces_the_last_commit_by_one_whose_tests_fail(
    builder: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fake_docker(tmp_path / "bin", monkeypatch)
    # The stand-in accepts everything, which a real test layer would not.
    assert builder(["--no-base", "--red"]) == 1
    heads = [_argument(one["words"], "HEAD_SHA") for one in log() if one["words"][0] == "build"]
    assert heads[0] == FIRST_SHA
    red = make_fixture(tmp_path / "red", red=True)
    assert heads[1] == red.second != SECOND_SHA


@pytest.mark.parametrize(
    "flags",
    [
        ("--red", "--base-only"),
        ("--no-base", "--base-only"),
        ("--native", "--base-only"),
        ("--only", "acme/widgets"),
        ("--corpus", "nowhere"),
        ("--manifest", "nowhere.toml"),
        ("--red", "--corpus", str(PROJECT / "tests" / "fixtures" / "corpus-reference")),
    ],
    ids=" ".join,
)
def test_wrong_arguments_end_with_2_and_start_nothing(
    builder: Main, flags: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fake_docker(tmp_path / "bin", monkeypatch)
    with pytest.raises(SystemExit) as caught:
        builder(flags)
    assert caught.value.code == 2
    assert [one for one in log() if one["words"][0] == "build"] == []


def test_without_a_daemon_the_builder_says_so_with_3(
    builder: Main,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake_docker(tmp_path / "bin", monkeypatch, status=1)
    assert builder(["--no-base"]) == 3
    assert "--native" in capsys.readouterr().err


def test_a_repository_without_a_manifest_entry_is_a_failure(
    builder: Main,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake_docker(tmp_path / "bin", monkeypatch)
    (tmp_path / "manifest.toml").write_text(
        '[repos."a/b"]\nclone_url = "x"\nimage = "i"\ntest_command = "true"\n'
    )
    assert builder(["--no-base", "--manifest", str(tmp_path / "manifest.toml")]) == 1
    assert f"no entry for {REPO}" in capsys.readouterr().err


def test_native_builds_show_that_the_baseline_is_green(
    builder: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert builder(["--native"]) == 0
    told = capsys.readouterr().out
    assert f"green {REPO}#1 {FIRST_SHA[:12]}" in told
    assert f"green {REPO}#2 {SECOND_SHA[:12]}" in told


def test_a_native_build_rejects_a_red_baseline(
    builder: Main, capsys: pytest.CaptureFixture[str]
) -> None:
    assert builder(["--native", "--red"]) == 1
    told = capsys.readouterr()
    assert f"FAILED {REPO}#2: the baseline is red: the test command failed (status 1)" in told.err
    assert f"green {REPO}#1" in told.out


def test_a_set_up_that_fails_is_told_apart_from_red_tests(
    builder: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = (IMAGES / "manifest.toml").read_text()
    changed = manifest.replace(
        "\nprotected_test_paths",
        '\nsetup_cmds = ["echo begun", "false"]\nprotected_test_paths',
        1,
    )
    (tmp_path / "manifest.toml").write_text(changed)
    assert builder(["--native", "--manifest", str(tmp_path / "manifest.toml")]) == 1
    assert "#1: the set-up failed (status 1): begun" in capsys.readouterr().err


def test_the_fixture_is_the_same_everywhere(tmp_path: Path) -> None:
    assert make_fixture(tmp_path / "one") == (BASE_SHA, FIRST_SHA, SECOND_SHA)
    assert fixture_main([str(tmp_path / "two")]) == 0
    done = subprocess.run(
        [sys.executable, "-m", "unittest", "discover", "-q"],
        cwd=tmp_path / "two",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Ran 4 tests" in done.stderr
    with pytest.raises(SystemExit) as caught:
        fixture_main([str(tmp_path / "two")])
    assert caught.value.code == 2


def test_a_mirror_holds_nothing_later_than_the_head(tmp_path: Path) -> None:
    make_fixture(tmp_path / "source")
    mirror = tmp_path / "mirror.git"
    snapshot_mirror(str(tmp_path / "source"), mirror, base=BASE_SHA, head=FIRST_SHA)
    assert text("rev-list", "--all", "--count", cwd=mirror) == "2"


BAD_MANIFESTS = (
    ("not toml", "no image manifest"),
    ('[repos."a/b"]\nimage = "i"\ntest_command = "t"\n', "clone_url"),
    ('[repos."a/b"]\nclone_url="u"\nimage="i:1"\ntest_command="t"\n', "without a tag"),
    ('[repos."a/b"]\nclone_url="u"\nimage="i"\ntest_command=" "\n', "test_command is empty"),
    ('[repos."a/b"]\nclone_url="u"\nimage="i"\ntest_command="t"\nodd=1\n', "odd"),
    (
        '[repos."a/b"]\nclone_url="u"\nimage="i"\ntest_command="t"\n'
        'protected_test_paths=["tests/*"]\n',
        "no plain relative path",
    ),
)


@pytest.mark.parametrize(("content", "words"), BAD_MANIFESTS, ids=[w for _, w in BAD_MANIFESTS])
def test_a_wrong_manifest_is_named(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "manifest.toml"
    path.write_text(content)
    with pytest.raises(ValueError, match=re.escape(words)):
        read_manifest(path)


def test_an_image_on_a_registry_with_a_port_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "manifest.toml"
    path.write_text(
        '[repos."A/b"]\nclone_url="u"\nimage="host:5000/i"\ntest_command="t"\n', encoding="utf-8"
    )
    found = read_manifest(path).find("a/B")
    assert found is not None
    assert found.image == "host:5000/i"


def test_everything_fetched_for_the_base_image_is_pinned_and_checked() -> None:
    content = (IMAGES / "base.Dockerfile").read_text()
    images = re.findall(r"^FROM (\S+)", content, re.MULTILINE)
    assert all(re.search(r"@sha256:[0-9a-f]{64}$", image) for image in images)
    for name, version in (
        ("CLAUDE_CODE", "2.1.214"),
        ("CODEX", "0.145.0"),
        ("NODE", "22.17.1"),
        ("PI", "0.82.1"),
    ):
        assert f"ARG {name}_VERSION={version}\n" in content
    assert "uv:0.11.29@" in images[0]
    for name in ("CLAUDE", "CODEX", "PI"):
        assert f"ARG INSTALL_{name}=1\n" in content
        assert f'if [ "$INSTALL_{name}" = 1 ]' in content
    # Every download is followed by a check of its digest before anything of it is run.
    layers = [layer for layer in content.split("\nRUN ") if "--output" in layer]
    assert len(layers) == 3
    for layer in layers:
        assert "sha256sum --check --strict" in layer
        assert "| sh" not in layer.replace("| sha256sum", "")
    assert content.count("*) echo") == 3


def test_the_last_layer_of_a_repository_image_runs_its_tests() -> None:
    content = (IMAGES / "repo.Dockerfile").read_text()
    last = [line for line in content.splitlines() if line and not line.startswith("#")][-1]
    assert last == 'RUN run-as-agent /bin/sh -c "${TEST_COMMAND:?}" 2>&1 | tee /srv/baseline.log'
    assert "ARG BASE_IMAGE=daydream-rl/base:latest" in content
