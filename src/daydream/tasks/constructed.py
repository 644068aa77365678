"""Constructions made by programs: ``artifact=program`` of the mathematical tasks.

The artifact is ``program.py`` with a function ``construct()`` that returns the construction. It
runs in a sandbox of its own and only produces data, which is then judged exactly as if it had been
written into ``artifact.json``: by the evaluator of the data task, in a process where no code of the
program ever was. What the program prints, writes or claims counts for nothing.

Provenance: in the paper and the public suites (OpenEvolve, ShinkaEvolve, SimpleTES) these tasks are
programs that a model writes; the channel and the checks are ours.
"""

import json
import re
import secrets
from pathlib import Path
from typing import Final

import msgspec

from daydream.canonical import JsonValue, dumps, hash_of
from daydream.config import SandboxLevel, user_environment
from daydream.sandbox.base import Job, Limits, Sandbox
from daydream.sandbox.boot import python_job, python_places
from daydream.sandbox.choose import choose, strength
from daydream.sandbox.frames import between
from daydream.sandbox.producer import Request
from daydream.sandbox.profiles import PROFILES
from daydream.sandbox.workspace import workspace
from daydream.tasks.base import (
    ARTIFACT_FILE,
    Args,
    Artifact,
    Evaluation,
    Task,
    TaskInfo,
    choice,
    failed,
    whole,
)
from daydream.tasks.candidate import ended_badly, file_problem, lay_out, printed, shown_text
from daydream.tree import Status

PROGRAM: Final = "program.py"
FUNCTION: Final = "construct"
VERSION: Final = 1
"""Raised with every change here that can change what a program is worth."""
SECONDS: Final = 60
MAX_SECONDS: Final = 3_600
MEMORY_MB: Final = 1_024
KINDS: Final = ("data", "program")
KEYS: Final = ("artifact", "seconds")
"""Parameters that a task with programs has beside its own."""
SHOWN_BYTES: Final = 4_000
"""Constructions of up to so many bytes are kept with the node."""


class ByProgram(msgspec.Struct, frozen=True):
    """A task whose artifact is a program, over the task that judges what it constructs."""

    info: TaskInfo
    data: Task
    key: str
    """Where the construction stands in the artifact of ``data``."""
    start: bytes
    """The initial program."""
    limits: Limits
    sandbox: Sandbox

    def root(self) -> Artifact:
        """Return the initial program."""
        return Artifact({PROGRAM: self.start})

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Run the program once and judge what ``construct()`` returned.

        Raises :class:`daydream.errors.SandboxError` only when the sandbox itself failed.
        """
        problem = file_problem(artifact, PROGRAM)
        if problem is not None:
            return problem
        nonce = secrets.token_urlsafe(24)
        with workspace() as place:
            try:
                shown = lay_out(place, artifact)
            except OSError as error:
                return failed("bad_files", f"the files cannot be written: {error.strerror}")
            home = place / "program"
            request: Request = {
                "nonce": nonce,
                "program": str(home / PROGRAM),
                "function": FUNCTION,
            }
            job = Job(
                argv=python_job("daydream.sandbox.producer"),
                cwd=str(home),
                env=PROFILES["candidate"].environment(user_environment()) | {"HOME": str(home)},
                stdin=dumps(request),
                readable=(*shown, *python_places()),
                scratch=(str(place), str(home)),
            )
            result = self.sandbox.run(job, self.limits)
        answer = between(nonce, result.result) if result.outcome == "exited" else None
        if answer is None:
            return ended_badly(result, self.limits, "the program") or failed(
                "no_result",
                f"the program ended before {FUNCTION}() returned; return the construction",
                status=Status.ERROR,
                feedback=printed(result),
            )
        return self._judged(answer, printed(result))

    def _judged(self, answer: bytes, log: str) -> Evaluation:
        try:
            found = json.loads(answer, parse_constant=_refuse)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or len(found) != 1 or not {*found} <= {"ok", "error"}:
            return failed("malformed", "the program's answer is no frame of data", feedback=log)
        if "error" in found:
            return _raised(found["error"], log)
        # An infinity written as a large number becomes a word here that the judge refuses.
        data = json.dumps(found["ok"]).encode()
        artifact = Artifact({ARTIFACT_FILE: b'{"%s":%s}' % (self.key.encode(), data)})
        verdict = self.data.evaluate(artifact)
        if verdict.status is not Status.OK or len(data) > SHOWN_BYTES:
            return msgspec.structs.replace(verdict, feedback=verdict.feedback or log)
        facts = {**verdict.diagnostics, "construction": found["ok"]}
        return msgspec.structs.replace(verdict, diagnostics=facts, feedback=log)


def _refuse(token: str) -> float:
    raise ValueError(token)


def _raised(error: JsonValue, log: str) -> Evaluation:
    kind, text = "error", ""
    if isinstance(error, list) and len(error) == 2:
        kind, text = (shown_text(str(part).encode("utf-8", "replace")) for part in error)
    status = Status.INVALID if kind in {"no_function", "not_data"} else Status.ERROR
    if kind == "MemoryError":
        kind, status = "memory", Status.TIMEOUT
    return failed(kind or "error", f"the program failed: {text}", status=status, feedback=log)


def wants_program(args: Args) -> bool:
    """Return whether ``artifact=program`` is asked for; raises :class:`TaskError` for a kind that
    does not exist.
    """
    return choice(args, "artifact", "data", KINDS) == "program"


def without_program(args: Args) -> dict[str, str]:
    """Return the parameters of the data task; ``seconds`` stays there, and is refused."""
    dropped = KEYS if wants_program(args) else KEYS[:1]
    return {key: text for key, text in args.items() if key not in dropped}


def by_program(
    data: Task, args: Args, sandbox: SandboxLevel, *, key: str, constants: dict[str, int | str]
) -> ByProgram:
    """Return the task of programs whose construction ``data`` judges under ``key``.

    The initial program is ``tasks/initial/NAME.py`` with ``constants`` at its top. Raises
    :class:`TaskError` for ``seconds`` out of range, :class:`EnvironmentMissing` where ``sandbox``
    cannot run.
    """
    seconds = whole(args, "seconds", SECONDS, low=1, high=MAX_SECONDS)
    chosen = choose(sandbox, PROFILES["candidate"])
    info = data.info
    parts = [
        *filter(None, [info.name.partition(":")[2]]),
        "artifact=program",
        *([] if seconds == SECONDS else [f"seconds={seconds}"]),
    ]
    family = info.name.partition(":")[0]
    statement = (
        f"{info.statement}\n\nYou do not write {ARTIFACT_FILE} yourself: you write {PROGRAM}, a "
        f"Python program with a function {FUNCTION}() without arguments that returns the value of "
        f'"{key}" in that file as lists of plain numbers. It runs once, alone, for at most '
        f"{seconds} s with {MEMORY_MB} MiB and one core's worth of threads, without a network; "
        "numpy and scipy can be imported where they are installed. The score is computed from what "
        f"{FUNCTION}() returned and from nothing else."
    )
    return ByProgram(
        info=msgspec.structs.replace(
            info,
            name=f"{family}:{','.join(parts)}",
            title=f"{info.title}, by a program",
            statement=statement,
            evaluator=hash_of(
                [info.evaluator, "program", VERSION, seconds, MEMORY_MB, strength(chosen.layers)]
            ),
            agent="",
            attempt_cost="one run of the program",
            isolation=chosen.layers,
            entry=PROGRAM,
        ),
        data=data,
        key=key,
        start=initial_program(family, constants),
        limits=Limits(wall_s=seconds, memory_mb=MEMORY_MB, processes=16),
        sandbox=chosen,
    )


def initial_program(family: str, constants: dict[str, int | str]) -> bytes:
    """Return the initial program of a task with the lines ``NAME = value`` set to ``constants``."""
    path = Path(__file__).parent / "initial" / f"{family.replace('-', '_')}.py"
    text = path.read_text(encoding="utf-8")
    for name, value in constants.items():
        text = re.sub(rf"^{name} = .*$", f"{name} = {value!r}", text, count=1, flags=re.MULTILINE)
    return text.encode()
