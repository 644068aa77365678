"""Lean: what counts as a proof, against a stand-in for the toolchain, which is missing here."""

from pathlib import Path

import msgspec
import pytest

from daydream.errors import EnvironmentMissing, TaskError
from daydream.tasks import lean
from daydream.tasks.base import Artifact
from daydream.tasks.lean import STATEMENTS, build, file_of, proof, word_problem
from daydream.tasks.load import load_task
from daydream.tree import Status
from tests.real.commands import daydream
from tests.real.lean_stand_in import stand_in


@pytest.fixture
def toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a stand-in for Lean on PATH and return its program."""
    program = stand_in(tmp_path)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return program


@pytest.mark.usefixtures("toolchain")
@pytest.mark.parametrize(
    ("text", "status", "kind"),
    [
        ("intro a b c\nomega\n", Status.OK, None),
        ("classical\nexact foo", Status.OK, None),
        ("native_exact", Status.INVALID, "axiom"),
        ("simp", Status.INVALID, "rejected"),
        ("quiet", Status.ERROR, "no_answer"),
        ("early", Status.ERROR, "no_answer"),
        ("sorry", Status.INVALID, "sorry"),
        ("exact sorryAx _", Status.INVALID, "sorry"),
        ("omega\n\naxiom cheat : False", Status.INVALID, "forbidden"),
        ("omega\n#print axioms x", Status.INVALID, "forbidden"),
        ("native_decide", Status.INVALID, "forbidden"),
        ("exact Lean.ofReduceBool _ _ rfl", Status.INVALID, "forbidden"),
        ("omega\nmacro_rules | `(1 = 1) => `(True)", Status.INVALID, "forbidden"),
        ("run_tac Lean.logInfo \"'daydream' does not\"\nomega", Status.INVALID, "forbidden"),
        ("omega\n@[simp] x", Status.INVALID, "forbidden"),
        ("open Classical in omega", Status.INVALID, "forbidden"),
        ("  \n", Status.INVALID, "empty"),
    ],
)
def test_a_proof_is_judged_by_what_lean_says_and_by_its_axioms(
    text: str, status: Status, kind: str | None
) -> None:
    found = build({}).evaluate(proof(text))
    assert (found.status, found.error_class) == (status, kind), found
    assert found.score == (1.0 if status is Status.OK else 0.0)


@pytest.mark.usefixtures("toolchain")
def test_a_proof_that_never_ends_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean, "LIMITS", msgspec.structs.replace(lean.LIMITS, wall_s=1))
    found = build({}).evaluate(proof("spin"))
    assert (found.status, found.error_class, found.score) == (Status.TIMEOUT, "timeout", 0.0)


@pytest.mark.usefixtures("toolchain")
def test_what_is_no_proof_file_is_refused() -> None:
    for files, kind in (
        ({}, "no_program"),
        ({"proof.lean": b"\xff"}, "not_text"),
        ({"proof.lean": b"x" * (1 << 21)}, "too_large"),
    ):
        assert build({}).evaluate(Artifact(files)).error_class == kind


def test_the_eight_statements_are_tasks_and_the_statement_is_ours() -> None:
    assert len(STATEMENTS) == 8
    for number, (key, statement) in enumerate(STATEMENTS.items()):
        task = load_task(f"lean:statement={key}")
        assert task.info.name == ("lean" if number == 0 else f"lean:statement={key}")
        assert statement in task.info.statement
        assert file_of("t", statement, "omega").startswith(
            f"theorem t : {statement} := by\n  omega\n"
        )
    with pytest.raises(TaskError, match="add-swap"):
        load_task("lean:statement=false")


def test_ordinary_proofs_hold_no_forbidden_word() -> None:
    for text in (
        "intro n\nexact ⟨n / 2, by omega⟩",
        "intro p h\nexact Classical.byContradiction h",
        "intro a b\ncases a <;> cases b <;> rfl",
        "intro n\ninduction n with\n| zero => rfl\n| succ n ih => simp [List.range_succ]; omega",
        "intro n\nhave h : n % 2 < 2 := Nat.mod_lt n (by decide)\nomega",
        "rintro ⟨m, h⟩\nhave := h (m + 1)\nomega",
        "show _ = _\ncalc _ = _ := by ac_rfl",
    ):
        assert word_problem(text) is None


def test_without_a_toolchain_a_run_ends_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(EnvironmentMissing, match="no program lean on PATH"):
        build({}).ready()
    assert "task lean needs one" in " ".join(daydream("doctor").out.split())
    ran = daydream("run", "lean", "-m", "mock:", code=3, env={"PATH": "/usr/bin:/bin"})
    assert "elan" in ran.err
    assert not Path("runs").exists()


def test_a_shim_without_a_toolchain_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = tmp_path / "lean"
    shim.write_text("#!/bin/sh\necho no default toolchain >&2\nexit 1\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentMissing, match="--print-prefix"):
        build({}).ready()


def test_a_run_with_the_stand_in_finds_no_proof_and_says_so(
    toolchain: Path, tmp_path: Path
) -> None:
    ran = daydream(
        "run", "lean", "-m", "mock:", "--max-calls", "2", "--rounds", "1", "--policy",
        "parallel_refine-w2-d1", "--out", str(tmp_path / "run"), "--json",
        env={"PATH": f"{toolchain.parent}:/usr/bin:/bin"},
    )  # fmt: skip
    assert (ran.json["calls"], ran.json["best"]) == (2, None)
