"""Where code that is not ours runs: one command with files and limits, and what became of it."""

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

Outcome = Literal["exited", "signalled", "wall", "cpu", "memory", "processes", "output", "stopped"]
"""How a job ended. ``stopped``: whoever ran it asked for its end."""
Stop = Callable[[], bool]
"""Says whether a running job has to end now."""
RESULT_FD = 3
"""The descriptor that a job writes its result to."""


class Limits(msgspec.Struct, frozen=True):
    """Bounds on one job. A job over a bound is killed with everything it started."""

    wall_s: float = 60.0
    cpu_s: float | None = None
    """CPU seconds of one process of the job; None follows ``wall_s``."""
    memory_mb: int | None = None
    """Resident MiB of the whole process tree."""
    output_bytes: int = 1 << 20
    """Bytes kept of each of standard output and standard error; more is read and dropped."""
    processes: int | None = None


class Job(msgspec.Struct, frozen=True):
    """One command."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] = {}
    """The whole environment; nothing is inherited."""
    stdin: bytes = b""
    readable: tuple[str, ...] = ()
    """Absolute paths that the job reads. A sandbox that hides the disk shows them as they are."""
    scratch: tuple[str, ...] = ()
    """Absolute paths of folders that the job writes in. A sandbox that hides the disk gives empty
    ones of limited size, but for what ``readable`` shows in them, and drops them afterwards."""
    collect: tuple[str, ...] = ()
    """Files below ``cwd`` to be read back once every process of the job has ended."""
    whole: bool = False
    """Read back every file below ``cwd`` as well, but for names that are never an artifact's."""


class ExecResult(msgspec.Struct, frozen=True):
    """What became of a job. A failing command is a result, not an error."""

    outcome: Outcome
    exit: int | None
    """Exit status, or None when a signal or a limit ended it."""
    stdout: bytes
    stderr: bytes
    wall_s: float
    cpu_s: float
    peak_mb: float
    layers: tuple[str, ...]
    """The isolation that was in force."""
    result: bytes = b""
    """What the job wrote to its result descriptor, which standard output cannot reach."""
    signal: int | None = None
    """Number of the signal that ended a ``signalled`` job."""
    files: dict[str, bytes] = {}
    """What was asked for with ``collect`` and could be taken."""
    not_taken: dict[str, str] = {}
    """What was asked for and not taken, and why: a link, no regular file, too large, not there."""


class Sandbox(Protocol):
    """Runs jobs."""

    @property
    def layers(self) -> tuple[str, ...]:
        """The isolation that it gives; the first says how strong it is."""
        ...

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job`` to its end or its bounds; no process of it is left when this returns.

        Raises :class:`daydream.errors.SandboxError` only when the sandbox itself failed.
        """
        ...
