"""Lasso at full size: a solver in C++ that computes paths faster than scikit-learn.

Owns the identity (17 shapes, or one data set of the user's), the gate and the score. The artifact
is ``solver.cpp``. It is compiled and runs in sandboxes; how it is timed is in
:mod:`daydream.tasks.timed`. The score is the geometric mean over the shapes of scikit-learn's time
over the solver's, both measured in this evaluation and on the same instances.

The gate is that of the public benchmark: at each of 50 penalties the objective may exceed that of
scikit-learn's solution by at most 1e-6, and every coefficient is finite. It holds on fixed
instances (a cheap look first), on every timed output, and on 17 fresh instances that are not timed.
scikit-learn's own solutions of the fixed instances alone are kept, signed, and handed out as
copies; a time is never kept.

Provenance: shapes, gate and tolerance of SimpleTES ``numerical_tasks/lasso_path``; the ratio to
scikit-learn in the same run as in Dream-RSI's local loop. There the timed outputs are not checked
and the clock includes starting a process; here both are otherwise, so figures do not compare.
"""

import contextlib
import hashlib
import hmac
import importlib.util
import math
import secrets
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from daydream.canonical import hash_of
from daydream.config import SandboxLevel, user_environment
from daydream.errors import EnvironmentMissing, SandboxError
from daydream.sandbox.base import Job, Limits
from daydream.sandbox.boot import python_job, python_places
from daydream.sandbox.choose import choose, strength
from daydream.sandbox.dialogue import Silent
from daydream.sandbox.profiles import PROFILES
from daydream.sandbox.workspace import workspace
from daydream.tasks.base import Args, Artifact, Evaluation, TaskInfo, choice, failed, ok, only
from daydream.tasks.candidate import file_problem, shown_text
from daydream.tasks.compiled import FLAGS, compiled, compiler
from daydream.tasks.lasso import Lasso
from daydream.tasks.lasso import build as build_small
from daydream.tasks.lasso_instances import (
    HELD_OUT,
    PENALTIES,
    Case,
    Instance,
    Vector,
    held_out,
    synthetic,
)
from daydream.tasks.timed import REPETITIONS, TURN, Faulted, Player, Times, player
from daydream.tree import Status

NAME: Final = "lasso"
SOLVER: Final = "solver.cpp"
VERSION: Final = 1
"""Raised with every change here or around the solver that can change a verdict or a score."""
TOLERANCE: Final = 1e-6
CALL_S: Final = 60.0
"""Wall seconds of one call."""
ALL_S: Final = 900.0
"""Wall seconds of one evaluation: the budget that is stated to whoever writes a solver."""
FIXED: Final = 20_260_101
"""Number of the fixed instances."""
HERE: Final = Path(__file__).parent
Solve: TypeAlias = Callable[[Instance], Vector]
_KEY: Final = secrets.token_bytes(32)


class Refused(Exception):  # noqa: N818 - a fact about one answer
    """An answer does not pass the gate."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class LassoPath(msgspec.Struct, frozen=True):
    """The task for some cases."""

    info: TaskInfo
    cases: tuple[Case, ...]
    level: SandboxLevel
    repetitions: int = REPETITIONS

    def ready(self) -> None:
        """Raise :class:`EnvironmentMissing` without a compiler or without scikit-learn."""
        compiler()
        if importlib.util.find_spec("sklearn") is None:
            raise EnvironmentMissing(
                f"task {self.info.name} times solvers against scikit-learn, which is not "
                "installed; run: pip install 'daydream-rsi[lasso]'"
            )

    def root(self) -> Artifact:
        """Return plain coordinate descent."""
        return solver((HERE / "initial" / "lasso_solver.cpp").read_bytes())

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Compile the solver, check it, and time it against scikit-learn.

        Raises :class:`EnvironmentMissing` as :meth:`ready` does, and
        :class:`daydream.errors.SandboxError` only when the sandbox itself failed.
        """
        self.ready()
        refusal = file_problem(artifact, SOLVER)
        if refusal is not None:
            return refusal
        made = compiled({SOLVER: artifact.files[SOLVER], **_native("harness")}, self.level)
        if isinstance(made, Evaluation):
            return made
        null = compiled(_native("null") | _native("harness"), self.level)
        if isinstance(null, Evaluation):
            raise SandboxError(
                f"the program that does nothing does not compile: {null.message} (expected a "
                "compiler that works); compile any program by hand to see why"
            )
        with TURN, contextlib.ExitStack() as stack:
            stage = Stage(self, stack)
            players = Players(stage.program(made), stage.program(null), stage.scikit())
            contest = Contest(self.cases, self.repetitions, players)
            try:
                return contest.judged()
            except Refused as error:
                return failed(error.kind, str(error))
            except Faulted as error:
                return failed("forged", f"the solver answered {error}", status=Status.ERROR)
            except Silent as error:
                return contest.silent(error)


class Stage:
    """Starts players, each in a sandbox of its own, for one evaluation."""

    def __init__(self, task: LassoPath, stack: contextlib.ExitStack) -> None:
        self._level = task.level
        self._stack = stack
        doubles = max(c.n * c.p + c.n + PENALTIES * (c.p + 1) for c in task.cases)
        self._size = 8 * doubles

    def program(self, binary: bytes) -> Player:
        """Start a compiled solver."""
        place = self._stack.enter_context(workspace())
        home = place / "program"
        home.mkdir(mode=0o755)
        path = home / "run"
        path.write_bytes(binary)
        path.chmod(0o755)
        job = Job(
            argv=(str(path),),
            cwd=str(home),
            env=PROFILES["candidate"].environment(user_environment()),
            readable=(str(path),),
            scratch=(str(place), str(home)),
        )
        # One process without threads: what a solver spends, it spends in the call.
        return self._started(job, processes=1)

    def scikit(self) -> Player:
        """Start scikit-learn."""
        own = (str(HERE / "__init__.py"), str(HERE / "reference_lasso.py"))
        job = Job(
            argv=python_job("daydream.tasks.reference_lasso"),
            cwd="/",
            env=PROFILES["candidate"].environment(user_environment()),
            readable=(*python_places(), *own),
        )
        return self._started(job, processes=16)

    def _started(self, job: Job, *, processes: int) -> Player:
        memory_mb = 1024 + 6 * (self._size >> 20)
        limits = Limits(wall_s=ALL_S, memory_mb=memory_mb, processes=processes)
        sandbox = choose(self._level, PROFILES["candidate"])
        return self._stack.enter_context(
            player(sandbox, job, limits, size=self._size, call_s=CALL_S)
        )


class Players(NamedTuple):
    """Who plays."""

    solver: Player
    null: Player
    reference: Player


class Contest:
    """A solver against scikit-learn, beside a solver that does nothing."""

    def __init__(self, cases: tuple[Case, ...], repetitions: int, players: Players) -> None:
        self._cases = cases
        self._repetitions = repetitions
        self._solver, self._null, self._reference = players
        self._null.ours = self._reference.ours = True
        # Nobody who plays can know what is asked next.
        self._number = secrets.randbits(24) + 1

    def judged(self) -> Evaluation:
        """Return the score; raises :class:`Refused` or :class:`Silent`."""
        for case in self._cases:
            instance = case.make(FIXED)
            known = solutions(case, instance, self._solve)
            self._deliver(self._solver, instance)
            self._solver.play()
            gate(instance, self._answer(self._solver, instance), known, f"{case.name}, fixed")
        times = [Times() for _ in self._cases]
        for turn in range(self._repetitions):
            for case, record in zip(self._cases, times, strict=True):
                self._round(case, record, turn)
        for case in self._cases:
            instance = case.make(self._fresh())
            known = self._solve(instance)
            self._deliver(self._solver, instance)
            self._solver.play()
            gate(instance, self._answer(self._solver, instance), known, f"{case.name}, fresh")
        ratios = [record.speed_up() for record in times]
        score = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
        rows = {
            case.name: [
                round(1e3 * record.net_candidate(), 4), round(1e3 * record.net_reference(), 4)
            ]
            for case, record in zip(self._cases, times, strict=True)
        }  # fmt: skip
        slowest = min(zip(ratios, self._cases, strict=True), key=lambda pair: pair[0])
        if not math.isfinite(score):
            raise Refused("not_finite", "the times give no finite ratio (expected one)")
        return ok(
            score,
            feedback=f"Least speed-up: {slowest[0]:.3g} on {slowest[1].name}. CPU milliseconds of "
            "the solver and of scikit-learn are in the diagnostics.",
            milliseconds=rows,
            least_speed_up=slowest[0],
            repetitions=self._repetitions,
        )

    def silent(self, error: Silent) -> Evaluation:
        """Return the failure of a solver that gave no answer."""
        log = shown_text(self._solver.dialogue.printed())
        over = error.kind in {"timeout", "memory", "cpu"}
        kind = {"ended": "crash", "word": "forged"}.get(error.kind, error.kind)
        return failed(
            kind,
            f"the solver gave no answer: {error}; one call may take {CALL_S:g} s and an evaluation "
            f"{ALL_S:g} s",
            status=Status.TIMEOUT if over else Status.ERROR,
            feedback=log,
        )

    def _round(self, case: Case, record: Times, turn: int) -> None:
        """Let everyone play a fresh instance of ``case`` once, taking turns at who begins."""
        instance = case.make(self._fresh())
        record.delivery.append(self._deliver(self._solver, instance))
        record.floor_delivery.append(self._deliver(self._null, instance))
        self._deliver(self._reference, instance)
        record.floor.append(self._null.play())
        if turn % 2:
            record.candidate.append(self._solver.play())
            record.reference.append(self._reference.play())
        else:
            record.reference.append(self._reference.play())
            record.candidate.append(self._solver.play())
        known = self._answer(self._reference, instance)
        record.reference_floor.append(self._reference.play(b"N"))
        gate(instance, self._answer(self._solver, instance), known, f"{case.name}, timed")

    def _fresh(self) -> int:
        self._number += 1
        return self._number

    def _solve(self, instance: Instance) -> Vector:
        self._deliver(self._reference, instance)
        self._reference.play()
        return self._answer(self._reference, instance)

    def _deliver(self, to: Player, instance: Instance) -> float:
        n, p = instance.x.shape
        told = struct.pack("<3i", n, p, PENALTIES)
        return to.deliver(told, [part.data for part in instance], PENALTIES * p * 8)

    def _answer(self, of: Player, instance: Instance) -> Vector:
        found = np.frombuffer(of.result(), dtype=np.float64)
        return found.reshape(PENALTIES, instance.x.shape[1])


def gate(instance: Instance, found: Vector, known: Vector, what: str) -> None:
    """Raise :class:`Refused` unless ``found`` is as good as ``known`` at every penalty."""
    if not bool(np.isfinite(found).all()):
        raise Refused("not_finite", f"{what}: a coefficient is not finite (expected numbers)")
    excess = instance.objectives(found) - instance.objectives(known)
    worst = int(np.argmax(excess))
    if not bool(np.all(excess <= TOLERANCE)):
        raise Refused(
            "objective",
            f"{what}: the objective at penalty {worst} of {PENALTIES} exceeds scikit-learn's by "
            f"{excess[worst]:.3g} (allowed: {TOLERANCE:g}); solve it more exactly",
        )


_SOLVED: Final[dict[tuple[str, str], tuple[bytes, bytes]]] = {}
"""Case and hash of the fixed instance -> scikit-learn's solution and its signature."""


def solutions(case: Case, instance: Instance, solve: Solve) -> Vector:
    """Return a copy of scikit-learn's solution of a fixed instance, from the cache if it is there.

    What is in the cache is signed with a key of this process; a changed entry is computed anew.
    """
    digest = hashlib.sha256(b"".join(part.tobytes() for part in instance)).hexdigest()
    key = (case.name, digest)
    kept = _SOLVED.get(key)
    if kept is None or not hmac.compare_digest(_signed(key, kept[0]), kept[1]):
        data = solve(instance).tobytes()
        kept = _SOLVED[key] = (data, _signed(key, data))
    return np.frombuffer(kept[0], dtype=np.float64).reshape(PENALTIES, -1).copy()


def _signed(key: tuple[str, str], data: bytes) -> bytes:
    return hmac.digest(_KEY, "\0".join(key).encode() + b"\0" + data, "sha256")


def _native(name: str) -> dict[str, bytes]:
    path = HERE / "native" / f"lasso_{name}.cpp"
    return {path.name: path.read_bytes()}


def solver(text: bytes) -> Artifact:
    """Return the artifact with this solver."""
    return Artifact({SOLVER: text})


def build(args: Args, sandbox: SandboxLevel = "auto") -> LassoPath:
    """Return the task of ``lasso:variant=path17`` or ``lasso:variant=heldout,data=NAME``.

    Raises :class:`TaskError` for other parameters, :class:`EnvironmentMissing` for a data set that
    is not at hand and where ``sandbox`` cannot run.
    """
    variant = choice(args, "variant", "path17", ("path17", "heldout"))
    only(NAME, args, "variant", *(("data",) if variant == "heldout" else ()))
    if variant == "path17":
        cases, name = synthetic(), f"{NAME}:variant=path17"
        what = "17 shapes, from 200 x 100 to 2000 x 3000"
    else:
        data = choice(args, "data", HELD_OUT[0], HELD_OUT)
        cases, name = (held_out(data),), f"{NAME}:variant=heldout,data={data}"
        what = f"the data set {data}, {cases[0].n} x {cases[0].p}"
    layers = choose(sandbox, PROFILES["candidate"]).layers
    info = TaskInfo(
        name=name,
        title=f"Lasso paths faster than scikit-learn: {what}",
        statement=_statement(what),
        evaluator=hash_of(
            [name, VERSION, TOLERANCE, REPETITIONS, FLAGS, sys.version_info[:2], strength(layers)]
        ),
        policy="parallel_refine-w4-d4",
        agent="",
        measure="speed-up over scikit-learn",
        scale=1.0,
        noisy=True,
        attempt_cost=f"one compilation and {REPETITIONS + 2} solves of each shape",
        isolation=layers,
        entry=SOLVER,
    )
    return LassoPath(info, cases, sandbox)


def load(args: Args, sandbox: SandboxLevel = "auto") -> Lasso | LassoPath:
    """Return the task of :func:`build` where a variant is named, else the small machine's.

    Raises as the two do.
    """
    return build(args, sandbox) if "variant" in args else build_small(args)


def _statement(what: str) -> str:
    return f"""\
Write {SOLVER}, C++17 with the standard library, with the function
    extern "C" void lasso_path(int n, int p, int k, const double *x, const double *y,
                               const double *penalties, double *coefficients);
x is n x p, row-major. For each of the {PENALTIES} decreasing penalties l, minimise
    1/(2n) |y - X b|^2 + l |b|_1
and write b to the next p numbers of coefficients, which are 0 before.

It is compiled with {" ".join(FLAGS[:3])} and timed on {what}. The penalties are geometric from
max|X'y|/n to a hundredth of it. The score is the geometric mean of scikit-learn's CPU time over
yours, each the least of {REPETITIONS} repetitions on fresh instances, so nothing can be kept from
one call to the next. It runs as one process without threads; one call may take {CALL_S:g} s and
the whole evaluation {ALL_S:g} s. On every instance and at every penalty the objective may exceed
scikit-learn's by at most {TOLERANCE:g}; one that does makes the score 0."""
