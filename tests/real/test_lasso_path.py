"""Lasso at full size: the gate refuses what is wrong, the clock favours nobody, nothing is kept.

Small shapes stand for the seventeen where a verdict is the point and no figure.
"""

import contextlib
import importlib.util
import os
import tempfile
from pathlib import Path

import msgspec
import numpy as np
import pytest

from daydream.errors import EnvironmentMissing, SandboxError, TaskError
from daydream.sandbox.boot import python_job
from daydream.sandbox.dialogue import Memory, Silent
from daydream.tasks import lasso_path
from daydream.tasks.base import Evaluation
from daydream.tasks.lasso_instances import (
    SHAPES,
    Case,
    Instance,
    held_out,
    make_instance,
    synthetic,
)
from daydream.tasks.lasso_path import (
    Contest,
    LassoPath,
    Players,
    Refused,
    Stage,
    build,
    gate,
    solutions,
    solver,
)
from daydream.tasks.load import load_task
from daydream.tasks.timed import Times
from daydream.tree import Status
from tests.processes import with_part
from tests.real.commands import daydream

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "lasso_path" / "solver.cpp"
TINY = synthetic(((40, 20, "gaussian"),))
HEAD = (
    "#include <cstring>\n#include <thread>\n#include <vector>\n#include <unistd.h>\n"
    '#include <sys/mman.h>\nextern "C" void lasso_path(int n, int p, int k, const double *x, '
    "const double *y, const double *penalties, double *b) {\n"
)


def small(cases: tuple[Case, ...] = TINY, repetitions: int = 2) -> LassoPath:
    task = build({"variant": "path17"})
    return msgspec.structs.replace(task, cases=cases, repetitions=repetitions)


def judged(body: str, head: str = HEAD) -> Evaluation:
    """Return what becomes of a solver of this body; nothing of it may be left."""
    with (
        tempfile.TemporaryDirectory(prefix="daydream-solvers-") as place,
        pytest.MonkeyPatch.context() as patch,
    ):
        Path(place).chmod(0o755)
        patch.setattr(tempfile, "tempdir", place)
        found = small().evaluate(solver(f"{head}{body}\n}}\n".encode()))
        # A solver is started by its path.
        assert with_part(place) == []
        assert list(Path(place).iterdir()) == []
    return found


def test_the_identity_and_the_shapes_are_those_of_the_benchmark() -> None:
    task = load_task("lasso:variant=path17")
    assert isinstance(task, LassoPath)
    assert (task.info.name, len(task.cases), task.repetitions) == ("lasso:variant=path17", 17, 9)
    assert task.info.noisy
    assert sum(n * p for n, p, _ in SHAPES) == 11_785_000
    with pytest.raises(TaskError, match="path17, heldout"):
        load_task("lasso:variant=path18")
    with pytest.raises(TaskError, match="no parameter 'data'"):
        load_task("lasso:variant=path17,data=colon")


@pytest.mark.parametrize("kind", ["gaussian", "sparse", "correlated_0.9", "dense_solution"])
def test_an_instance_follows_from_its_number(kind: str) -> None:
    one, same, other = (make_instance(30, 40, kind, number) for number in (5, 5, 6))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one.x, other.x)
    assert one.penalties[0] == pytest.approx(100 * one.penalties[-1])
    assert one.objectives(np.zeros((50, 40)))[0] == pytest.approx(one.y @ one.y / 60)


def test_the_gate_refuses_nan_and_a_millionth_too_much() -> None:
    instance = make_instance(40, 20, "gaussian", 1)
    known = np.zeros((50, 20))
    gate(instance, known, known, "same")
    for value in (np.nan, np.inf, -np.inf):
        broken = known.copy()
        broken[49, 19] = value
        with pytest.raises(Refused) as raised:
            gate(instance, broken, known, "broken")
        assert raised.value.kind == "not_finite"
    huge = np.full((50, 20), 1e200)
    with pytest.raises(Refused):
        gate(instance, huge, known, "overflows")
    off = known.copy()
    off[7, 0] = 1e-3
    with pytest.raises(Refused, match="penalty 7 of 50"):
        gate(instance, off, known, "off")


def test_kept_solutions_are_copies_and_a_changed_one_is_computed_anew() -> None:
    case, instance = TINY[0], make_instance(40, 20, "gaussian", 3)
    asked: list[Instance] = []

    def solve(one: Instance) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        asked.append(one)
        return np.ones((50, 20))

    first = solutions(case, instance, solve)
    first[:] = np.nan
    assert (solutions(case, instance, solve) == 1).all()
    assert len(asked) == 1
    key = next(one for one in lasso_path._SOLVED if one[0] == case.name)
    lasso_path._SOLVED[key] = (b"\0" * 8_000, lasso_path._SOLVED[key][1])
    assert (solutions(case, instance, solve) == 1).all()
    assert len(asked) == 2


def test_the_net_time_subtracts_the_floor_and_adds_what_a_delivery_hides() -> None:
    honest = Times(
        [0.011, 0.012], [0.1, 0.11], [0.001, 0.002], [0.02, 0.03], [0.003] * 2, [0.003] * 2
    )
    assert honest.net_candidate() == pytest.approx(0.010)
    assert honest.net_reference() == pytest.approx(0.08)
    assert honest.speed_up() == pytest.approx(8.0)
    hidden = msgspec.structs.replace(honest, candidate=[0.001] * 2, delivery=[0.025] * 2)
    assert hidden.net_candidate() == pytest.approx(0.02)
    nothing = msgspec.structs.replace(honest, candidate=[0.0] * 2)
    assert nothing.net_candidate() > 0


def test_memory_that_is_shared_cannot_be_shortened() -> None:
    with Memory(4096) as memory:
        memory.write(10, b"abc")
        assert memory.read(9, 5) == b"\0abc\0"
        with pytest.raises(PermissionError):
            os.ftruncate(memory.number, 0)


@pytest.mark.slow
def test_the_initial_solver_is_valid() -> None:
    found = small().evaluate(small().root())
    assert (found.status, found.error_class) == (Status.OK, None), found
    assert found.score > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        # Near misses: nothing, almost nothing, the last penalty left out, not a number.
        ("", Status.INVALID, "objective"),
        ("b[0] = 1e-3;", Status.INVALID, "objective"),
        ("for (int i = 0; i < k * p; ++i) b[i] = 0.0 / 0.0 * n;", Status.INVALID, "not_finite"),
        # 29: kept from one call to the next.
        (
            "static std::vector<double> kept; static int calls = 0; ++calls;\n"
            "if (kept.empty()) kept.assign(k * p, 0.0);\nstd::memcpy(b, kept.data(), 8L * k * p);",
            Status.INVALID, "objective",
        ),
        # 25: an answer before it is asked for, and one too many.
        ('write(3, "\\4\\0\\0\\0forged forged forged", 24);', Status.ERROR, "forged"),
        # 29, 30: threads and children have no room.
        ("std::thread([] { for (;;) {} }).detach();", Status.ERROR, "crash"),
        ("if (fork() != -1) _exit(0); b[0] = 1;", Status.INVALID, "objective"),
        # 31: the shared memory is its own.
        (
            "double *m = (double *)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,"
            " 40, 0);\n"
            "for (int i = 0; i < 512; ++i) m[i] = 0;",
            Status.INVALID, "objective",
        ),
        ("_exit(0);", Status.ERROR, "crash"),
        ("*(volatile int *)0 = 1;", Status.ERROR, "crash"),
        ("for (;;) {}", Status.TIMEOUT, "timeout"),
        ("for (long i = 0;; ++i) write(2, x, 65536);", Status.ERROR, "output"),
    ],
    ids=(
        "nothing", "almost nothing", "not a number", "keeps an answer", "answers ahead", "threads",
        "children", "writes into its inputs", "ends", "crashes", "never ends", "prints without end",
    ),
)  # fmt: skip
def test_a_solver_that_is_wrong_or_hostile_scores_nothing(
    body: str, status: Status, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasso_path, "CALL_S", 2.0 if kind == "timeout" else 200.0)
    found = judged(body)
    assert (found.status, found.error_class, found.score) == (status, kind, 0.0), found


@pytest.mark.slow
def test_a_solver_too_lax_for_the_gate_is_refused() -> None:
    text = small().root().files["solver.cpp"].replace(b"1e-10", b"1e-4")
    found = small(synthetic(((100, 200, "correlated_0.9"),))).evaluate(solver(text))
    assert (found.status, found.error_class) == (Status.INVALID, "objective")


@pytest.mark.slow
def test_scikit_learn_against_itself_is_near_one_in_some_contest() -> None:
    cases = synthetic(((200, 500, "gaussian"), (1000, 500, "sparse")))
    scores: list[float] = []
    with contextlib.ExitStack() as stack:
        stage = Stage(small(cases), stack)
        nobody = stage.scikit()
        nobody.question = b"N"
        players = Players(stage.scikit(), nobody, stage.scikit())
        # A judge that favours one side does so in each contest; other work on the machine does not.
        while len(scores) < 6 and not (scores and 0.7 <= scores[-1] <= 1.4):
            scores.append(Contest(cases, 9, players).judged().score)
    assert 0.7 <= scores[-1] <= 1.4, scores


@pytest.mark.slow
def test_a_reference_that_gives_no_answer_is_nobodys_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = python_job("daydream.tasks.none")
    monkeypatch.setattr(lasso_path, "python_job", lambda module: broken)
    lasso_path._SOLVED.clear()
    with pytest.raises(SandboxError, match="the reference gave no answer") as raised:
        small().evaluate(small().root())
    assert not isinstance(raised.value, Silent)


@pytest.mark.slow
def test_our_solver_passes_the_gate() -> None:
    cases = synthetic(tuple(shape for shape in SHAPES if shape[0] * shape[1] <= 150_000))
    found = small(cases).evaluate(solver(EXAMPLE.read_bytes()))
    assert found.status is Status.OK, found
    # How many times faster it is, benchmarks/lasso_path.py measures; here, a tenth of that.
    assert found.score >= 0.5


@pytest.mark.slow
def test_a_users_own_data_set_is_played_in_other_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "colon.npz", X=rng.random((30, 60)), y=rng.choice([-1, 1], 30))
    monkeypatch.setenv("DAYDREAM_DATA", str(tmp_path))
    task = load_task("lasso:variant=heldout,data=colon")
    assert isinstance(task, LassoPath)
    assert task.info.title.endswith("the data set colon, 30 x 60")
    found = msgspec.structs.replace(task, repetitions=2).evaluate(solver(EXAMPLE.read_bytes()))
    assert found.status is Status.OK, found


def test_a_data_set_that_is_not_at_hand_or_broken_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = daydream("run", "lasso:variant=heldout,data=duke", "-m", "mock:", code=3)
    assert "DAYDREAM_DATA is not set" in ran.err
    monkeypatch.setenv("DAYDREAM_DATA", str(tmp_path))
    with pytest.raises(EnvironmentMissing, match=r"duke\.npz"):
        held_out("duke")
    (tmp_path / "duke.npz").write_bytes(b"no archive")
    with pytest.raises(TaskError, match="cannot read"):
        held_out("duke")
    np.savez(tmp_path / "dna.npz", X=np.zeros((3, 2)), y=np.zeros(2))
    with pytest.raises(TaskError, match="expected n x p and n"):
        held_out("dna")
    np.savez(tmp_path / "rcv1.npz", X=np.full((2, 2), np.nan), y=np.zeros(2))
    with pytest.raises(TaskError, match="not finite"):
        held_out("rcv1")
    np.savez(tmp_path / "gisette.npz", X=np.array([{}], dtype=object), y=np.zeros(1))
    with pytest.raises(TaskError, match="cannot read"):
        held_out("gisette")


def test_what_the_task_needs_is_named_before_anything_is_spent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = build({"variant": "path17"})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentMissing, match="scikit-learn"):
        task.ready()
    monkeypatch.setattr("daydream.tasks.compiled.COMPILERS", ())
    with pytest.raises(EnvironmentMissing, match=r"g\+\+"):
        task.ready()
