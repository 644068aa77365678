"""What an agent may try to be paid without a fix: nothing of it raises the reward.

Each attack is made in a checkout as a rollout has it; then the fix is taken and tested as when a
rollout ends.
"""

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from verifiers.v1.runtimes import SubprocessConfig, make_runtime

from daydream_review_v1 import archive, rewards, verify
from daydream_review_v1.fixture import BASE_SHA, FIRST_SHA, TEST_COMMAND, make_fixture
from daydream_review_v1.oracle import is_protected, passed_count
from daydream_review_v1.places import Places, make_local
from daydream_review_v1.repository import QUIET
from daydream_review_v1.shell import Shell

TASK = SimpleNamespace(
    head_sha=FIRST_SHA,
    base_sha=BASE_SHA,
    test_command=TEST_COMMAND,
    protected_test_paths=["tests"],
)
RATES = "parcels/rates.py"
BROKEN = "return sum(prices) / len(prices)"
MENDED = "return sum(prices) / len(prices) if prices else 0.0"


class Rollout:
    """The places of one rollout, and what an agent does there."""

    def __init__(self, root: Path) -> None:
        source = root / "source"
        make_fixture(source)
        self.places: Places = asyncio.run(
            make_local(source, root / "rollout", base=BASE_SHA, head=FIRST_SHA)
        )
        self.repo = Path(self.places.repo)

    def git(self, *words: str) -> str:
        """Run Git as the agent does, with the configuration of the checkout."""
        identity = ("-c", "user.name=A", "-c", "user.email=a@b.invalid")
        done = subprocess.run(
            ["git", *identity, *words],
            cwd=self.repo,
            env={**QUIET, "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def commit(self) -> None:
        """Commit everything."""
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--no-verify", "--allow-empty", "-m", "Done")

    def mend(self) -> None:
        """Make the honest fix."""
        path = self.repo / RATES
        path.write_text(path.read_text().replace(BROKEN, MENDED))

    def worth(self) -> tuple[float, verify.Fix]:
        """Return the test reward with the default weights, and the fix it was given for."""
        return asyncio.run(self._worth())

    async def _worth(self) -> tuple[float, verify.Fix]:
        runtime = make_runtime(SubprocessConfig(), name=f"guard-{id(self)}")
        await runtime.start()
        try:
            shell = Shell(runtime)
            fix = await verify.take_fix(shell, self.places, TASK)
            assert fix.problem == ""
            if not fix.tree:
                return 0.0, fix
            found = await verify.judge(shell, self.places, TASK, fix.tree)
            return float(found.passed), fix
        finally:
            await runtime.stop()


@pytest.fixture
def rollout(tmp_path: Path) -> Rollout:
    """Return a rollout of the first pull request."""
    return Rollout(tmp_path)


def test_an_honest_fix_is_worth_one(rollout: Rollout) -> None:
    rollout.mend()
    rollout.commit()
    reward, fix = rollout.worth()
    assert (reward, fix.kept, fix.dropped) == (1.0, (RATES,), ())


def test_a_fix_that_was_not_committed_counts_as_well(rollout: Rollout) -> None:
    rollout.mend()
    assert rollout.worth()[0] == 1.0


def test_a_change_that_breaks_the_tests_is_worth_nothing(rollout: Rollout) -> None:
    path = rollout.repo / RATES
    path.write_text(path.read_text().replace("weight <= limit", "weight < limit"))
    rollout.commit()
    reward, fix = rollout.worth()
    assert (reward, fix.kept) == (0.0, (RATES,))


def _write(name: str, text: str) -> Callable[[Path], None]:
    def write(repo: Path) -> None:
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)

    return write


def _delete_tests(repo: Path) -> None:
    for path in (repo / "tests").glob("test_*.py"):
        path.unlink()


def _weaken_tests(repo: Path) -> None:
    for path in (repo / "tests").glob("test_*.py"):
        path.write_text(path.read_text().replace("assert", "assert_not_called_"))


def _link(repo: Path) -> None:
    (repo / "parcels/out.py").symlink_to("/etc/passwd")


EXIT = "import os\nos._exit(0)\n"
ATTACKS: dict[str, Callable[[Path], None]] = {
    "nothing but an empty commit": lambda _: None,
    "edited tests": _weaken_tests,
    "deleted tests": _delete_tests,
    "a conftest that exits 0": _write("conftest.py", EXIT),
    "a conftest deeper down": _write("parcels/conftest.py", EXIT),
    "a sitecustomize": _write("sitecustomize.py", EXIT),
    "a sitecustomize on the path": _write("src/sitecustomize.py", EXIT),
    "a usercustomize": _write("usercustomize.py", EXIT),
    "a module in the place of the runner": _write("unittest.py", EXIT),
    "a package in the place of the runner": _write("unittest/__main__.py", EXIT),
    "a module in the place of the library": _write("json.py", EXIT),
    "the configuration of pytest": _write("pytest.ini", "[pytest]\naddopts = --co\n"),
    "the configuration of the project": _write("pyproject.toml", "[tool.pytest]\n"),
    "the configuration of setup.cfg": _write("setup.cfg", "[tool:pytest]\n"),
    "the configuration of tox": _write("tox.ini", "[pytest]\n"),
    "a Makefile": _write("Makefile", "test:\n\ttrue\n"),
    "a workflow": _write(".github/workflows/ci.yml", "on: push\n"),
    "attributes that name a filter": _write(".gitattributes", "*.py filter=evil\n"),
    "ignore rules": _write(".gitignore", "*\n"),
    "a path file": _write("parcels/evil.pth", "import os; os._exit(0)\n"),
    "its own records": _write(".daydream/test-verdict.json", '{"passed": true}'),
    "a link out of the repository": lambda repo: (repo / "parcels/out.py").symlink_to(
        "/etc/passwd"
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_alone_is_no_fix(name: str, rollout: Rollout) -> None:
    ATTACKS[name](rollout.repo)
    rollout.commit()
    reward, fix = rollout.worth()
    assert (reward, fix.tree, fix.kept) == (0.0, "", ())


@pytest.mark.parametrize("name", ["edited tests", "deleted tests", "a conftest that exits 0"])
def test_an_attack_beside_broken_code_does_not_hide_it(name: str, rollout: Rollout) -> None:
    path = rollout.repo / RATES
    path.write_text(path.read_text().replace("weight <= limit", "weight < limit"))
    ATTACKS[name](rollout.repo)
    rollout.commit()
    reward, fix = rollout.worth()
    assert (reward, fix.kept) == (0.0, (RATES,))
    assert fix.dropped


def test_tests_beside_an_honest_fix_are_left_out_and_it_still_counts(rollout: Rollout) -> None:
    rollout.mend()
    _write("tests/test_more.py", "raise SystemExit(1)\n")(rollout.repo)
    rollout.commit()
    reward, fix = rollout.worth()
    assert (reward, fix.dropped) == (1.0, ("tests/test_more.py",))


@pytest.mark.parametrize(
    "code", [EXIT, "import sys\nsys.exit(0)\n", "import atexit, os\natexit.register(os._exit, 0)\n"]
)
def test_code_that_ends_the_run_with_0_before_its_tests_passed_is_worth_nothing(
    code: str, rollout: Rollout
) -> None:
    (rollout.repo / "parcels/__init__.py").write_text(code)
    path = rollout.repo / RATES
    path.write_text(path.read_text().replace("weight <= limit", "weight < limit"))
    rollout.commit()
    reward, fix = rollout.worth()
    assert fix.kept == ("parcels/__init__.py", RATES)
    assert reward == 0.0


def test_untracked_files_are_no_fix(rollout: Rollout) -> None:
    _write("parcels/new.py", "x = 1\n")(rollout.repo)
    assert rollout.worth()[1].tree == ""


def test_flags_in_the_index_of_the_agent_hide_nothing(rollout: Rollout) -> None:
    path = rollout.repo / RATES
    path.write_text(path.read_text().replace("weight <= limit", "weight < limit"))
    rollout.git("update-index", "--assume-unchanged", RATES)
    reward, fix = rollout.worth()
    assert (reward, fix.kept) == (0.0, (RATES,))


def test_no_program_that_the_checkout_names_is_run(rollout: Rollout, tmp_path: Path) -> None:
    trap, sprung = tmp_path / "trap.sh", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\ncat\n")
    trap.chmod(0o755)
    rollout.mend()
    rollout.commit()
    for key in (
        *("core.fsmonitor", "core.sshCommand", "diff.external", "filter.evil.clean"),
        *("filter.evil.smudge", "uploadpack.packObjectsHook", "core.alternateRefsCommand"),
    ):
        rollout.git("config", key, str(trap))
    (rollout.repo / ".git/info/attributes").write_text("*.py filter=evil diff=evil\n")
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        (rollout.repo / ".git/hooks").mkdir(exist_ok=True)
        (rollout.repo / ".git/hooks" / hook).write_bytes(trap.read_bytes())
        (rollout.repo / ".git/hooks" / hook).chmod(0o755)
    assert rollout.worth()[0] == 1.0
    assert not sprung.exists()


def test_a_rewritten_history_changes_nothing(rollout: Rollout) -> None:
    rollout.git("checkout", "--quiet", "--orphan", "other")
    rollout.mend()
    rollout.commit()
    assert rollout.worth()[0] == 1.0


# ------------------------------------------------------------------------------- the other reward

FINDING = "Division by the length of prices, which is zero when it is empty."
ITEM = {
    "id": 1,
    "description": FINDING,
    "file": RATES,
    "line": 19,
    "confidence": "HIGH",
    "rationale": "No guard.",
    "evidence": f"{RATES}:19",
    "lens": "per-stack",
    "severity": "high",
}
SAID = [f"```json\n{json.dumps({'findings': [ITEM]})}\n```", '{"verdicts": [{"issue_id": 1}]}']


def _read_step(path: str) -> dict[str, Any]:
    call = {"tool_call_id": "1", "function_name": "read", "arguments": {"path": path}}
    return {"step_id": 1, "source": "agent", "tool_calls": [call]}


def honest() -> dict[str, Any]:
    """Return the files of a run that deserves 1."""
    verdict = {"issue_id": 1, "verdict": "consistent", "evidence": "", "unverified_assumptions": []}
    steps = [_read_step(RATES)]
    return {
        "manifest.json": {"schema_version": "1.0", "metrics": {"grounding_rate": 1.0}},
        "trajectory.json": {"steps": steps, "final_metrics": {"total_steps": 1}},
        "trajectories/review-python.json": {"steps": steps},
        "review-output.md": "1. A division",
        "deep/merged-items.json": {"items": [ITEM]},
        "deep/recommendation-verdicts.json": {"verdicts": [verdict]},
        "deep/stack-review-python-records.json": [
            {key: ITEM[key] for key in ITEM if key not in {"id", "lens"}}
        ],
        "deep/test-verdict.json": {"passed": True, "retries": 0},
    }


def kept(folder: Path, files: dict[str, Any]) -> archive.Run:
    """Return a run as a rollout's end keeps it."""
    data = {
        name: (value if isinstance(value, str) else json.dumps(value)).encode()
        for name, value in files.items()
    }
    archive.keep(data, folder)
    return archive.Run.read(str(folder), {"seal": archive.seal(data, b"")})


def test_an_honest_run_is_worth_one_in_both_versions(tmp_path: Path) -> None:
    run = kept(tmp_path / "run", honest())
    for strict in (True, False):
        found = rewards.intrinsic(run, SAID, strict=strict)
        assert found.value == 1.0
        assert found.breakdown["axes_present"] == {
            "correctness": True,
            "grounding": True,
            "length": True,
        }
        assert found.breakdown["strict"]["composite"] == 1.0
    assert rewards.shape(run, [{"path": RATES}, {"path": "other.py"}, {"path": None}]) == {
        "n_findings": 1.0,
        "n_golden_comments": 2.0,
        "golden_overlap": 0.5,
    }


def _many_verdicts(files: dict[str, Any]) -> None:
    row = files["deep/recommendation-verdicts.json"]["verdicts"][0]
    files["deep/recommendation-verdicts.json"]["verdicts"] = [
        {**row, "verdict": "contradicts"},
        *({**row, "issue_id": number} for number in range(2, 40)),
    ]


def _unread(files: dict[str, Any]) -> None:
    files["trajectories/review-python.json"]["steps"] = []


def _no_words(files: dict[str, Any]) -> None:
    files["deep/merged-items.json"]["items"].append(
        {**ITEM, "id": 2, "description": "Invented thing about unrelated subjects entirely"}
    )
    files["deep/recommendation-verdicts.json"]["verdicts"].append(
        {"issue_id": 2, "verdict": "consistent"}
    )


def _no_items(files: dict[str, Any]) -> None:
    files["deep/merged-items.json"]["items"] = []


def _unfinished(files: dict[str, Any]) -> None:
    files["trajectory.json"].pop("final_metrics")


VERDICTS = "deep/recommendation-verdicts.json"
FORGERIES: tuple[tuple[str, Callable[[dict[str, Any]], object]], ...] = (
    ("verdicts for items that do not exist", _many_verdicts),
    ("a grounding that nobody read for", _unread),
    ("a finding that the policy never said", _no_words),
    ("verdicts without findings", _no_items),
    ("a run that did not end", _unfinished),
    ("no JSON", lambda f: f.update({"deep/recommendation-verdicts.json": "{"})),
    (
        "verdicts that are no objects",
        lambda f: f.update({"deep/recommendation-verdicts.json": [1]}),
    ),
    ("a grounding beyond 1", lambda f: f["manifest.json"]["metrics"].update(grounding_rate=7)),
)


@pytest.mark.parametrize(("name", "forge"), FORGERIES, ids=[name for name, _ in FORGERIES])
def test_a_forged_archive_is_never_worth_more(
    name: str, forge: Callable[[dict[str, Any]], object], tmp_path: Path
) -> None:
    files = honest()
    files["deep/recommendation-verdicts.json"]["verdicts"][0]["verdict"] = "uncertain"
    before = rewards.intrinsic(kept(tmp_path / "before", files), SAID, strict=True).value
    assert 0.0 < before < 1.0
    forge(files)
    assert rewards.intrinsic(kept(tmp_path / "after", files), SAID, strict=True).value <= before


def test_what_differs_from_its_seal_is_worth_nothing(tmp_path: Path) -> None:
    run = kept(tmp_path / "run", honest())
    sealed = {"seal": archive.seal({}, b"")}
    assert archive.Run.read(str(run.folder), sealed).problem
    data = {name: json.dumps(value).encode() for name, value in honest().items()}
    (run.folder / "manifest.json").write_text("{}")
    again = archive.Run.read(str(run.folder), {"seal": archive.seal(data, b"")})
    assert again.problem == "the kept run differs from its seal"
    found = rewards.intrinsic(again, SAID, strict=True)
    assert (found.value, found.breakdown) == (0.0, {"error": again.problem})


def test_a_second_run_folder_is_no_archive(tmp_path: Path) -> None:
    for name in ("a", "b"):
        archive.keep({"manifest.json": b"{}"}, tmp_path / "runs" / name)
    assert asyncio.run(_fetched(tmp_path)) == {}
    archive.keep({"manifest.json": b"{}"}, tmp_path / "one" / "runs" / "a")
    archive.keep({"deep/secret.txt": b"x"}, tmp_path / "one" / "runs" / "a")
    (tmp_path / "one/runs/a/review-output.md").symlink_to("/etc/passwd")
    assert asyncio.run(_fetched(tmp_path / "one")) == {"manifest.json": b"{}"}
    assert asyncio.run(_fetched(tmp_path / "none")) == {}


async def _fetched(root: Path) -> dict[str, bytes]:
    runtime = make_runtime(SubprocessConfig(), name=f"guard-fetch-{id(root)}")
    await runtime.start()
    try:
        return await archive.fetch(Shell(runtime), str(root))
    finally:
        await runtime.stop()


def test_a_claim_of_passing_tests_is_only_a_claim(tmp_path: Path) -> None:
    assert rewards.claimed(kept(tmp_path / "run", honest())) is True
    files = {**honest(), "deep/test-verdict.json": {"passed": "yes"}}
    assert rewards.claimed(kept(tmp_path / "odd", files)) is None


def test_a_missing_axis_stays_missing_and_is_worth_nothing(tmp_path: Path) -> None:
    files = honest()
    files["deep/merged-items.json"]["items"] = []
    files["deep/stack-review-python-records.json"] = []
    files["manifest.json"]["metrics"]["grounding_rate"] = None
    del files["deep/recommendation-verdicts.json"]
    found = rewards.intrinsic(kept(tmp_path / "run", files), [], strict=False)
    assert found.value == 0.0
    assert found.breakdown["composite"] is None
    assert found.breakdown["axes_present"]["correctness"] is False


# ------------------------------------------------------------------------------------- the oracle


@pytest.mark.parametrize(
    ("path", "added", "protected"),
    [
        ("parcels/rates.py", False, False),
        ("tests/test_rates.py", False, True),
        ("testsuite/x.py", True, False),
        ("parcels/json.py", True, False),
        ("json.py", True, True),
        ("json.py", False, False),
        ("src/pytest/__init__.py", True, True),
        ("jest.config.mjs", True, True),
        ("docs/conf.py", True, False),
    ],
)
def test_what_a_fix_may_change(path: str, added: bool, protected: bool) -> None:
    assert is_protected(path, ["tests"], added=added) is protected


@pytest.mark.parametrize(
    ("output", "count"),
    [
        ("Ran 4 tests in 0.001s\n\nOK\n", 4),
        ("Ran 4 tests in 0.001s\n\nOK (skipped=3)\n", 1),
        ("12 passed, 1 warning in 0.2s", 12),
        ("test result: ok. 3 passed; 0 failed\ntest result: ok. 4 passed; 0 failed", 7),
        ("  5 passing (12ms)", 5),
        ("", None),
        ("v1.3 passed", None),
    ],
)
def test_how_many_tests_a_run_says_it_passed(output: str, count: int | None) -> None:
    assert passed_count(output) == count
