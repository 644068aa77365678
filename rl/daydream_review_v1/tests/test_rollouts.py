"""Whole evaluations, as a user runs them: ``eval`` against the stub upstream, without Docker."""

import asyncio
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from atif import Trajectory
from verifiers.v1.cli.eval.main import main as eval_main
from verifiers.v1.configs.eval import EvalConfig
from verifiers.v1.runtimes import SubprocessConfig
from verifiers.v1.runtimes.subprocess import SubprocessRuntime

from daydream_review_v1 import verify
from daydream_review_v1.__main__ import main
from daydream_review_v1.backends import Endpoint, Options, wiring
from daydream_review_v1.building import PROJECT
from daydream_review_v1.fixture import BASE_SHA, FIRST_SHA, SECOND_SHA, TEST_COMMAND, make_fixture
from daydream_review_v1.harness import ReviewHarness, ReviewHarnessConfig
from daydream_review_v1.places import make_local
from daydream_review_v1.repository import text
from daydream_review_v1.stub_upstream import MODES, Stub
from daydream_review_v1.taskset import ReviewTasksetConfig

EVAL = Path(sys.executable).parent / "eval"
STUB = PROJECT / "configs" / "eval-stub.toml"


class Smoke:
    """The folders of one evaluation and its outcome."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo, self.out = root / "repo", root / "out"
        make_fixture(self.repo)
        for name in ("archive", "home"):
            (root / name).mkdir()

    def run(self, stub: Stub, *more: str, config: Path = STUB) -> list[dict[str, Any]]:
        """Run the command ``eval`` and return its traces."""
        done = subprocess.run(
            [str(EVAL), *self._words(stub, config), *more],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return self._traces()

    def run_here(self, stub: Stub, *more: str, config: Path = STUB) -> list[dict[str, Any]]:
        """Run ``eval`` in this process, which saves loading it again, and return its traces."""
        eval_main([*self._words(stub, config), *more])
        return self._traces()

    def _words(self, stub: Stub, config: Path) -> list[str]:
        return [
            *("@", str(config), "--client.base-url", stub.url),
            *("--harness.repo-path", str(self.repo)),
            *("--harness.archive-root", str(self.root / "archive")),
            *("--harness.home", str(self.root / "home"), "-o", str(self.out)),
        ]

    def _traces(self) -> list[dict[str, Any]]:
        lines = (self.out / "traces.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def smoke(tmp_path: Path) -> Smoke:
    """Return the folders of an evaluation."""
    return Smoke(tmp_path)


def test_the_scripted_reviewer_finds_mends_and_commits(
    smoke: Smoke, capsys: pytest.CaptureFixture[str]
) -> None:
    before = text("rev-parse", "HEAD", cwd=smoke.repo), text("status", "-s", cwd=smoke.repo)
    with Stub(MODES["scripted"]) as stub:
        traces = smoke.run(stub)
    assert len(traces) == 2
    for trace in traces:
        assert trace["errors"] == []
        assert trace["rewards"] == {"intrinsic_composite": 1.0, "fix_tests_pass": 1.0}
        metrics, info = trace["metrics"], trace["info"]
        assert metrics["golden_overlap"] == 1.0
        assert metrics["fixes_applied"] == 1.0
        # Intent, two reviewers, verification and fix: conversations of their own.
        assert metrics["captured_branches"] == 5.0
        assert metrics["captured_turns"] > 5.0
        breakdown = info["reward_breakdown"]
        assert breakdown["composite"] == breakdown["strict"]["composite"] == 1.0
        assert all(breakdown["axes_present"].values())
        assert info["tests"]["passed"]
        assert info["tests"]["counted"] == info["tests"]["expected"]
        assert info["seal"]["artifact_digests"]["trajectory.json"]
        repo = Path(info["daydream_repo_path"])
        assert "Daydream-Tests: passed" in text("log", "-1", "--format=%B", cwd=repo)
    assert len({trace["info"]["daydream_archive_root"] for trace in traces}) == 2
    bodies = [json.dumps(body, sort_keys=True) for _, body in stub.requests]
    assert len(set(bodies)) == len(bodies)
    assert not any(body.get("stream") for _, body in stub.requests)
    after = text("rev-parse", "HEAD", cwd=smoke.repo), text("status", "-s", cwd=smoke.repo)
    assert before == after
    _check_trajectories(smoke.root / "archive")
    assert main(["report", str(smoke.out), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["rollouts"], summary["failed"]) == (2, 0)
    assert summary["rewards"]["total"] == 2.0


def _check_trajectories(archive: Path) -> None:
    """Have the package of the interchange format read every trajectory that the product wrote."""
    wholes = sorted(archive.rglob("trajectory.json"))
    forks = sorted(archive.rglob("trajectories/*.json"))
    assert len(wholes) == 2
    assert len(forks) == 2 * 5
    for path in [*wholes, *forks]:
        read = Trajectory.model_validate_json(path.read_text())
        assert read.schema_version == "ATIF-v1.7"
        assert read.steps
    assert all(Trajectory.model_validate_json(p.read_text()).final_metrics for p in wholes)


def test_the_canned_reviewer_is_worth_nothing(
    smoke: Smoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT)
    with Stub(MODES["canned"]) as stub:
        (trace,) = smoke.run_here(stub, "-n", "1")
    assert trace["errors"] == []
    assert trace["rewards"] == {"intrinsic_composite": 0.0, "fix_tests_pass": 0.0}
    assert trace["metrics"]["captured_turns"] > 0.0
    assert trace["metrics"]["fixes_applied"] == 0.0
    breakdown = trace["info"]["reward_breakdown"]
    assert breakdown["composite"] is None
    assert breakdown["strict"]["state"] == "empty"


def test_a_rollout_that_bypasses_the_interception_is_rejected(
    smoke: Smoke,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(PROJECT)
    # The program answers itself, as one would that found another way to a model.
    config = tmp_path / "bypass.toml"
    line = 'env = { DAYDREAM_MOCK = "1" }\nrepo_path'
    config.write_text(STUB.read_text().replace("repo_path", line, 1))
    with Stub(MODES["scripted"]) as stub:
        (trace,) = smoke.run_here(stub, "-n", "1", config=config)
    assert stub.requests == []
    assert "no captured model calls" in trace["errors"][0]["message"]
    assert trace["rewards"] == {}
    assert main(["report", str(smoke.out)]) == 1
    assert "rollouts 1, failed 1" in capsys.readouterr().out


def test_both_configurations_are_valid_and_push_nothing() -> None:
    for name, backend in (("eval-docker.toml", "claude"), ("eval-stub.toml", "chat")):
        values = tomllib.loads((PROJECT / "configs" / name).read_text())
        config = EvalConfig.model_validate({"model": "policy", **values})
        assert config.push is False
        assert isinstance(config.harness, ReviewHarnessConfig)
        assert isinstance(config.taskset, ReviewTasksetConfig)
        assert config.harness.backend == backend
        assert config.client.base_url.endswith("/v1")


# ------------------------------------------------------------------------ the harness, by its parts


class ContainerLike(SubprocessRuntime):
    """A runtime that says it is a container; commands run here."""

    type = "docker"


def harness(**settings: Any) -> ReviewHarness:
    """Return a harness with ``settings``."""
    return ReviewHarness(ReviewHarnessConfig(id="daydream-review-v1", **settings))


@pytest.fixture
def container() -> Iterator[ContainerLike]:
    """Return a started runtime."""
    runtime = ContainerLike(SubprocessConfig(), name=f"rollout-{os.getpid()}")
    asyncio.run(runtime.start())
    yield runtime
    asyncio.run(runtime.stop())


def test_an_image_without_the_program_of_the_backend_is_rejected(
    container: ContainerLike, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("daydream", "claude"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    here = {"repo_path": str(tmp_path)}
    asyncio.run(harness(backend="claude", **here).setup(container))
    asyncio.run(harness(backend="chat", **here).setup(container))
    for backend in ("codex", "pi"):
        with pytest.raises(RuntimeError, match=f"{backend} is not in the image"):
            asyncio.run(harness(backend=backend, **here).setup(container))
    with pytest.raises(RuntimeError, match="no folder"):
        asyncio.run(harness(backend="claude", repo_path="/nowhere").setup(container))
    (tmp_path / "daydream").unlink()
    with pytest.raises(RuntimeError, match="daydream is not in the image"):
        asyncio.run(harness(backend="chat", **here).setup(container))


def test_a_checkout_that_is_not_at_its_clean_head_is_rejected(
    container: ContainerLike, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_fixture(tmp_path / "repo")
    (tmp_path / "bin").mkdir()
    for name in ("chown", "run-as-agent"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    made = harness(
        backend="chat", repo_path=str(tmp_path / "repo"), archive_root=str(tmp_path / "archive")
    )

    def launch(head: str) -> Any:
        task = SimpleNamespace(
            name="t", base_sha=BASE_SHA, head_sha=head, test_command=TEST_COMMAND
        )
        trace = SimpleNamespace(id="t", info={}, num_turns=0, task=SimpleNamespace(data=task))
        context = SimpleNamespace(model="m", client=SimpleNamespace(base_url="http://x/v1"))
        launched = made.launch(context, trace, container, "http://127.0.0.1:1/v1", "s", {})
        return asyncio.run(launched)

    with pytest.raises(RuntimeError, match="is not the clean head"):
        launch(FIRST_SHA)
    with pytest.raises(RuntimeError, match="no captured model calls"):
        launch(SECOND_SHA)
    (tmp_path / "repo" / "README.md").write_text("changed")
    with pytest.raises(RuntimeError, match="is not the clean head"):
        launch(SECOND_SHA)


def test_each_rollout_has_a_copy_of_its_own(tmp_path: Path) -> None:
    make_fixture(tmp_path / "source")
    places = [
        asyncio.run(make_local(tmp_path / "source", tmp_path / name, base=BASE_SHA, head=FIRST_SHA))
        for name in ("one", "two")
    ]
    assert len({one.repo for one in places} | {one.archive for one in places}) == 4
    repo = Path(places[0].repo)
    assert text("rev-parse", "HEAD", cwd=repo) == FIRST_SHA
    assert text("remote", "get-url", "origin", cwd=repo) == str(tmp_path / "one" / "mirror.git")
    assert text("rev-list", "--all", "--count", cwd=Path(places[0].pristine)) == "2"


def test_the_address_of_the_policy_loses_its_suffix_for_claude_alone() -> None:
    for backend, url in (("claude", "http://h"), ("chat", "http://h/v1"), ("codex", "http://h/v1")):
        context = SimpleNamespace(client=SimpleNamespace(base_url="http://h/v1"))
        harness(backend=backend)._mend_base_url(context)
        assert context.client.base_url == url


def test_an_unknown_backend_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'chat', 'claude', 'codex' or 'pi'"):
        harness(backend="osprey")


END = Endpoint("http://127.0.0.1:9/v1", "s3cret", "org/policy")


def test_each_backend_gets_its_endpoint_and_nothing_else() -> None:
    options = Options(home="/rollout", fanout=4)
    chat = wiring("chat", END, options)
    assert chat.model == ("local/org/policy@http://127.0.0.1:9/v1?api_key_env=VF_INTERCEPT_API_KEY")
    assert chat.env == {"VF_INTERCEPT_API_KEY": "s3cret"}
    claude = wiring("claude", END, options)
    assert claude.env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:9"
    assert claude.env["ANTHROPIC_API_KEY"] == "s3cret"
    assert claude.env["CLAUDE_CONFIG_DIR"] == "/rollout/.claude"
    codex = wiring("codex", END, options)
    assert codex.env["CODEX_HOME"] == "/rollout/.codex"
    config = codex.files["/rollout/.codex/config.toml"]
    assert 'wire_api = "responses"' in config
    assert 'env_key = "CODEX_INTERCEPT_KEY"' in config
    assert "s3cret" not in config
    pi = wiring("pi", END, options)
    folder = "/rollout/.pi/extensions/vf-intercept"
    assert pi.before == (("pi", "install", folder),)
    extension = pi.files[f"{folder}/index.ts"]
    assert '"$VF_INTERCEPT_API_KEY"' in extension
    assert '"openai-completions"' in extension
    assert "s3cret" not in extension
    assert pi.env["DAYDREAM_PI_FANOUT_CONCURRENCY"] == "4"


def test_a_baseline_is_run_once_for_a_head(tmp_path: Path) -> None:
    make_fixture(tmp_path / "source")
    places = asyncio.run(
        make_local(tmp_path / "source", tmp_path / "one", base=BASE_SHA, head=FIRST_SHA)
    )
    task = SimpleNamespace(head_sha=FIRST_SHA, base_sha=BASE_SHA, test_command=TEST_COMMAND)
    task.protected_test_paths = ["tests"]
    shell = SimpleNamespace(contained=False)
    first = asyncio.run(verify.baseline(shell, places, task))
    assert (first.passed, first.counted) == (True, 3)
    assert asyncio.run(verify.baseline(shell, places, task)) is first


OLD = {"rewards": {"a": 0.5}, "metrics": {"m": 2.0}, "nodes": [], "errors": [], "info": {}}
NEW = {"rewards": {"a": {"score": 0.5, "weight": 2.0}}, "metrics": {}, "errors": [], "info": {}}
BAD = {"rewards": {}, "errors": [{"type": "HarnessError", "message": "gone"}], "info": {}}


def test_reports_read_both_shapes_of_traces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (OLD, {"traces": [NEW, BAD]})))
    assert main(["report", str(tmp_path), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["rollouts"], summary["failed"]) == (3, 1)
    assert summary["rewards"] == {"a": 0.75, "total": 0.75}
    path.write_text(json.dumps(BAD) + "\n")
    assert main(["report", str(path)]) == 1
    assert "1 x HarnessError: gone" in capsys.readouterr().out
    path.write_text('{"half')
    assert main(["report", str(path)]) == 2
    assert main(["report", str(tmp_path / "empty")]) == 2
