"""Kernels in torch: VGG16, LayerNorm, ConvDiv and ConvMax, as fast as can be and still right.

Owns the identity (which kernel, device, size and tolerance), the gate and the score, which is
inverse milliseconds. The artifact is ``kernel.py`` with ``prepare(weights)``, called once, and
``run(prepared, x)``, which is timed. Reference and candidate run in sandboxes of their own and are
timed as :mod:`daydream.tasks.timed` says: on a CPU by CPU time; on a GPU by wall time until the
result is back in memory that both sides hold, less what writing a result costs.

Every timed output is compared with the reference's on the same fresh input, by each number (as
``allclose`` does) and by the length of the difference. Weights, biases and inputs are random, and
the reference itself has to vary with its input by far more than the tolerance, else there is no
verdict: as published, two of the four do not. The default tolerance is 1e-4; ``tolerance=1e-2`` is
the laxer one of KernelBench's first version, and part of the name.

Provenance: the layers and their sizes are KernelBench's; code and checks are ours.
"""

import importlib.util
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple, cast

import msgspec
import numpy as np

from daydream.canonical import hash_of
from daydream.config import SandboxLevel, user_environment
from daydream.errors import EnvironmentMissing
from daydream.sandbox.base import Job, Limits
from daydream.sandbox.boot import python_job, python_places
from daydream.sandbox.choose import choose, strength
from daydream.sandbox.dialogue import Silent
from daydream.sandbox.profiles import PROFILES
from daydream.sandbox.workspace import workspace
from daydream.tasks.base import Args, Artifact, Evaluation, TaskInfo, choice, failed, ok, only
from daydream.tasks.candidate import file_problem, lay_out, shown_text
from daydream.tasks.kernel_specs import (
    KERNELS,
    Array,
    Shape,
    Size,
    Spec,
    difference,
    draw_input,
)
from daydream.tasks.timed import REPETITIONS, TURN, Faulted, Player, Times, player
from daydream.tree import Status

NAME: Final = "kernels"
KERNEL: Final = "kernel.py"
VERSION: Final = 1
"""Raised with every change here or in the driver that can change a verdict or a score."""
DEVICES: Final = ("cpu", "cuda")
SIZES: Final[tuple[Size, ...]] = ("small", "full")
TOLERANCES: Final = ("1e-4", "1e-2")
VARIES: Final = 10.0
"""Times the tolerance by which the reference's outputs have to differ between two inputs."""
CALL_S: Final = 120.0
ALL_S: Final = 900.0
HERE: Final = Path(__file__).parent


class Wrong(Exception):  # noqa: N818 - a fact about one output
    """An output does not pass; ``kind`` is one word for tables and policies."""

    def __init__(self, kind: str, message: str, *, ours: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.ours = ours
        """The fault is the reference's."""


class Setting(NamedTuple):
    """What changes a number beside the kernel itself."""

    kernel: str
    device: str
    size: Size
    tolerance: str

    @property
    def name(self) -> str:
        """The identity; what is default is left out, but never the device's own size."""
        parts = [] if self.kernel == "layernorm" else [f"kernel={self.kernel}"]
        parts += [] if self.device == "cpu" else [f"device={self.device}"]
        usual = "small" if self.device == "cpu" else "full"
        parts += [] if self.size == usual else [f"size={self.size}"]
        parts += [] if self.tolerance == TOLERANCES[0] else [f"tolerance={self.tolerance}"]
        return f"{NAME}:{','.join(parts)}" if parts else NAME


class Kernels(msgspec.Struct, frozen=True):
    """The task of one kernel."""

    info: TaskInfo
    setting: Setting
    spec: Spec
    level: SandboxLevel
    repetitions: int = REPETITIONS

    def ready(self) -> None:
        """Raise :class:`EnvironmentMissing` without torch, and without the device."""
        if importlib.util.find_spec("torch") is None:
            raise EnvironmentMissing(
                f"task {self.info.name} runs kernels in torch, which is not installed; run: "
                "pip install 'daydream-rsi[kernels]'"
            )
        if self.setting.device == "cuda" and not list(Path("/dev").glob("nvidia[0-9]*")):
            raise EnvironmentMissing(
                f"task {self.info.name} needs a CUDA device, and there is none here; leave out "
                "device=cuda for the small sizes on a CPU"
            )

    def root(self) -> Artifact:
        """Return the reference itself."""
        return kernel(_reference(self.setting.kernel))

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Compare and time the kernel; a failed evaluation where torch is missing."""
        try:
            self.ready()
        except EnvironmentMissing as error:
            return failed("environment", str(error), status=Status.ERROR)
        refusal = file_problem(artifact, KERNEL)
        if refusal is not None:
            return refusal
        try:
            with TURN, self._started(artifact) as ours, self._started(self.root()) as reference:
                return Trial(self, ours, reference).judged()
        except OSError as error:
            return failed("bad_files", f"the files cannot be written: {error.strerror}")

    @contextmanager
    def _started(self, artifact: Artifact) -> Iterator[Player]:
        spec = self.spec
        numbers = max(spec.largest, _count(spec.input) + _count(spec.output))
        memory_mb = 3_072 + 12 * (4 * numbers >> 20)
        limits = Limits(wall_s=ALL_S, memory_mb=memory_mb, processes=64)
        gpu = self.setting.device == "cuda"
        sandbox = choose(self.level, PROFILES["candidate"], devices=gpu)
        with workspace() as place:
            shown = lay_out(place, artifact)
            home = place / "program"
            own = (str(HERE / "__init__.py"), str(HERE / "kernel_host.py"))
            job = Job(
                argv=python_job(
                    "daydream.tasks.kernel_host", str(home / KERNEL), self.setting.device
                ),
                cwd=str(home),
                env=PROFILES["candidate"].environment(user_environment()) | {"HOME": str(home)},
                readable=(*shown, *python_places(), *own),
                scratch=(str(place), str(home)),
            )
            with player(sandbox, job, limits, size=4 * numbers, call_s=CALL_S) as started:
                started.by_wall = gpu
                yield started


class Trial:
    """One candidate against the reference."""

    def __init__(self, task: Kernels, ours: Player, reference: Player) -> None:
        self._spec = task.spec
        self._repetitions = task.repetitions
        self._tolerance = float(task.setting.tolerance)
        self._ours = ours
        self._reference = reference
        reference.ours = True
        self._rng = np.random.default_rng(secrets.randbits(64))

    def judged(self) -> Evaluation:
        """Return the verdict."""
        try:
            times = self._times()
        except Wrong as error:
            return failed(
                error.kind, str(error), status=Status.ERROR if error.ours else Status.INVALID
            )
        except Faulted as error:
            return failed(error.kind, f"the kernel raised {error}", status=Status.ERROR)
        except Silent as error:
            over = error.kind in {"timeout", "memory", "cpu"}
            return failed(
                {"ended": "crash", "word": "forged"}.get(error.kind, error.kind),
                f"the kernel gave no answer: {error}",
                status=Status.TIMEOUT if over else Status.ERROR,
                feedback=shown_text(self._ours.dialogue.printed()),
            )
        ours, known = 1e3 * times.net_candidate(), 1e3 * times.net_reference()
        return ok(
            1.0 / ours,
            feedback=f"{ours:.4g} ms; the reference took {known:.4g} ms in the same run.",
            milliseconds=ours,
            reference_milliseconds=known,
            speed_up=known / ours,
            repetitions=self._repetitions,
        )

    def _times(self) -> Times:
        weights = self._spec.weights(self._rng)
        for one in (self._ours, self._reference):
            told = {"what": "weights", "shapes": [[k, list(v.shape)] for k, v in weights.items()]}
            one.deliver(json.dumps(told).encode(), [v.data for v in weights.values()], 0)
        times = Times()
        before: Array | None = None
        # The first turn warms up and is checked, and counts for nothing.
        for turn in range(self._repetitions + 1):
            record = times if turn else Times()
            found, known = self._turn(turn, record)
            if before is not None and not self._apart(before, known):
                raise Wrong(
                    "insensitive",
                    "the reference hardly varies with its input, so nothing can be judged",
                    ours=True,
                )
            before = known
            gap = difference(found, known, self._tolerance)
            if not gap.within(self._tolerance):
                raise Wrong(
                    "wrong",
                    f"input {turn}: the output is off by {gap.largest:.3g} times what is allowed "
                    f"at one number, and by {gap.relative:.3g} of its length (allowed: "
                    f"{self._tolerance:g}); compute the same",
                )
        return times

    def _turn(self, turn: int, record: Times) -> tuple[Array, Array]:
        x = draw_input(self._spec.input, turn, self._rng)
        told = json.dumps(
            {"what": "input", "shapes": [["x", list(x.shape)]], "output": list(self._spec.output)}
        ).encode()
        room = 4 * _count(self._spec.output)
        record.delivery.append(self._ours.deliver(told, [x.data], room))
        record.floor_delivery.append(self._reference.deliver(told, [x.data], room))
        order = [(self._ours, record.candidate), (self._reference, record.reference)]
        found: dict[int, Array] = {}
        for one, seconds in order if turn % 2 else reversed(order):
            seconds.append(one.play())
            result = np.frombuffer(one.result(), dtype=np.float32)
            found[id(one)] = result.reshape(self._spec.output)
        floor = self._reference.play(b"N")
        record.floor.append(floor)
        record.reference_floor.append(floor)
        return found[id(self._ours)], found[id(self._reference)]

    def _apart(self, one: Array, other: Array) -> bool:
        return difference(one, other, self._tolerance).relative >= VARIES * self._tolerance


def _count(shape: Shape) -> int:
    return int(np.prod(shape))


def _reference(name: str) -> bytes:
    return (HERE / "initial" / f"kernels_{name}.py").read_bytes()


def kernel(text: bytes) -> Artifact:
    """Return the artifact with this kernel."""
    return Artifact({KERNEL: text})


def build(args: Args, sandbox: SandboxLevel = "auto") -> Kernels:
    """Return the task of ``kernels[:kernel=NAME,device=cpu|cuda,size=small|full,tolerance=T]``.

    By default LayerNorm on the CPU at its small size; ``device=cuda`` has the full size. Raises
    :class:`TaskError` for other parameters, :class:`EnvironmentMissing` where ``sandbox`` cannot
    run.
    """
    only(NAME, args, "kernel", "device", "size", "tolerance")
    device = choice(args, "device", "cpu", DEVICES)
    usual = "small" if device == "cpu" else "full"
    setting = Setting(
        choice(args, "kernel", "layernorm", tuple(KERNELS)),
        device,
        cast("Literal['small', 'full']", choice(args, "size", usual, SIZES)),
        choice(args, "tolerance", TOLERANCES[0], TOLERANCES),
    )
    spec = KERNELS[setting.kernel](setting.size)
    layers = choose(sandbox, PROFILES["candidate"], devices=device == "cuda").layers
    lax = "" if setting.tolerance == TOLERANCES[0] else f", tolerance {setting.tolerance}"
    info = TaskInfo(
        name=setting.name,
        title=f"A fast {setting.kernel} kernel in torch: {setting.device}, {setting.size}{lax}",
        statement=_statement(setting, spec),
        evaluator=hash_of([setting, VERSION, REPETITIONS, strength(layers)]),
        policy="parallel_refine-w4-d4",
        agent="",
        measure="1 / ms",
        scale=None,
        noisy=True,
        attempt_cost=f"{REPETITIONS + 1} runs of the kernel and of the reference",
        isolation=layers,
        entry=KERNEL,
    )
    return Kernels(info, setting, spec, sandbox)


def _statement(setting: Setting, spec: Spec) -> str:
    clock = (
        "CPU time on one core, with one thread"
        if setting.device == "cpu"
        else "wall time until the result is on the host, less the price of copying one"
    )
    return f"""\
Make this faster in torch ({setting.device}, float32): {spec.what}.
Input {spec.input}, output {spec.output}.

Write {KERNEL} with two functions:
    prepare(weights)     called once, before the clock runs, with a dict of tensors on the device
    run(prepared, x)     timed, returns a float32 tensor; x is fresh every time
Weights and biases are random, and inputs are uniform, normal and wide by turns. Every output is
compared with the reference's on the same input: each number within {setting.tolerance} (1 + |v|),
and the whole within {setting.tolerance} of its length. The score is 1 / milliseconds: {clock}, the
least of {REPETITIONS} repetitions."""
