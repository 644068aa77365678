"""One started bubblewrap: its process, its pipes, the gate in front of the job, and its end.

Before the gate opens only code of ours has run inside, and everything is set up. The end kills the
first process of the job's process namespace, with which the kernel kills every other one, daemons
included, before it reports the first as dead.
"""

import contextlib
import fcntl
import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import FileIO
from typing import Final

from daydream.errors import SandboxError
from daydream.sandbox.base import RESULT_FD, Limits, Outcome
from daydream.sandbox.collect import open_folder
from daydream.sandbox.pipes import CHUNK, RESULT_BYTES, Capture, feed, flood_limit, take

READY_FD: Final = 4
GO_FD: Final = 5
INFO_FD: Final = 6
FIRST_FD: Final = 7
"""First number for descriptors that the caller adds."""
STARTER: Final = (
    f'echo >&{READY_FD}; read -r go <&{GO_FD} || exit 125; exec {READY_FD}>&- {GO_FD}<&-; exec "$@"'
)
"""Shell script that waits at the gate and then becomes the job."""
SETUP_S: Final = 30.0
END_S: Final = 15.0
_LOOK_S: Final = 0.05
_ABOVE: Final = 64
"""Where descriptors are kept until they get their numbers in the new process."""
_DEFAULT_SIGNALS: Final = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM)


class Ended:
    """What the kernel says of a cell that is no more."""

    def __init__(self, status: int, cpu_s: float) -> None:
        self.status = os.waitstatus_to_exitcode(status)
        """Exit status, or a signal's number below 0."""
        self.cpu_s = cpu_s
        """CPU seconds of all processes that somebody waited for."""


class Cell:
    """A started sandbox. Used by the thread that started it: with that thread it dies."""

    def __init__(self, pid: int, stack: contextlib.ExitStack, ends: Mapping[int, FileIO]) -> None:
        self._pid = pid
        self._stack = stack
        self._ends = ends
        self._monitor = os.pidfd_open(pid)
        stack.callback(os.close, self._monitor)
        self._first: int | None = None
        self._ended: Ended | None = None
        self.first_pid = 0
        """Number, outside, of the first process inside."""
        self.captures = {
            1: Capture(CHUNK),
            2: Capture(CHUNK),
            RESULT_FD: Capture(RESULT_BYTES),
        }

    def await_gate(self) -> None:
        """Wait until everything is set up; raises :class:`SandboxError` with what went wrong."""
        ready = self._ends[READY_FD]
        select.select([ready], [], [], SETUP_S)
        os.set_blocking(ready.fileno(), False)
        if not ready.read(1):
            self.end()
            self._drain()
            said = self.captures[2].kept().decode("utf-8", "replace").strip()
            raise SandboxError(
                f"bubblewrap could not start a job: {said or 'no word of it'} (expected a ready "
                "sandbox); run: daydream sandbox check"
            )
        told = self._ends[INFO_FD].read(CHUNK) or b""
        found = re.search(rb'"child-pid"\s*:\s*(\d+)', told)
        if found is None:
            raise SandboxError(
                f"bubblewrap names no process: {told[:200]!r} (expected child-pid); install 0.8 or "
                "newer"
            )
        self.first_pid = int(found[1])
        self._first = os.pidfd_open(self.first_pid)
        self._stack.callback(os.close, self._first)

    def open_folder(self, path: str) -> int | None:
        """Return a descriptor of the folder that is ``path`` inside; None where there is none.

        It stays readable after every process inside is dead.
        """
        folder = open_folder(f"/proc/{self.first_pid}/root{path}")
        if folder is not None:
            self._stack.callback(os.close, folder)
        return folder

    def follow(self, stdin: bytes, limits: Limits, over: Callable[[], Outcome | None]) -> Outcome:
        """Open the gate and return why the job is over: exited, wall, output or what ``over`` says.

        ``over`` is asked some times a second and returns nothing while all is well.
        """
        self.captures[1] = Capture(limits.output_bytes)
        self.captures[2] = Capture(limits.output_bytes)
        poll = select.poll()
        open_ends = {self._ends[n].fileno(): (self._ends[n], s) for n, s in self.captures.items()}
        for number in open_ends:
            os.set_blocking(number, False)
            poll.register(number, select.POLLIN)
        inlet, left = self._ends[0], memoryview(stdin)
        os.set_blocking(inlet.fileno(), False)
        poll.register(inlet.fileno(), select.POLLOUT)
        poll.register(self._monitor, select.POLLIN)
        flood = flood_limit(limits.output_bytes)
        deadline = time.monotonic() + limits.wall_s
        self.open_gate()
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return "wall"
            for number, _ in poll.poll(min(remaining, _LOOK_S) * 1000 + 1):
                if number == self._monitor:
                    return "exited"
                if number in open_ends:
                    if not take(*open_ends[number]):
                        poll.unregister(number)
                        del open_ends[number]
                    continue
                left = feed(number, left)
                if not left:
                    poll.unregister(number)
                    inlet.close()
            printed = self.captures[1].total + self.captures[2].total
            if printed > flood or self.result_too_long():
                return "output"
            word = over()
            if word:
                return word

    def open_gate(self) -> None:
        """Let the job begin, to be followed by somebody else."""
        with contextlib.suppress(BrokenPipeError):
            self._ends[GO_FD].write(b"\n")

    @property
    def ends(self) -> Mapping[int, FileIO]:
        """Our ends of the job's standard input, outputs and result, by its numbers."""
        return self._ends

    @property
    def monitor(self) -> int:
        """A descriptor that becomes readable when the sandbox has ended."""
        return self._monitor

    @property
    def pid(self) -> int:
        """Number of the process that started the sandbox."""
        return self._pid

    def result_too_long(self) -> bool:
        """Return whether the job wrote more than a result may hold."""
        return self.captures[RESULT_FD].total > RESULT_BYTES

    def end(self) -> Ended:
        """Kill everything inside, wait for it, and return what it used. May be called again.

        Raises :class:`SandboxError` when the kernel does not end it in time.
        """
        if self._ended is not None:
            return self._ended
        self._ends[GO_FD].close()
        if self._first is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            if not select.select([self._first], [], [], END_S)[0]:
                raise SandboxError(
                    f"a job's first process {self.first_pid} could not be ended (expected none "
                    "left); see what it waits for"
                )
        if self._first is None or not select.select([self._monitor], [], [], END_S)[0]:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._monitor, signal.SIGKILL)
        _, status, used = os.wait4(self._pid, 0)
        self._ended = Ended(status, used.ru_utime + used.ru_stime)
        self._drain()
        return self._ended

    def _drain(self) -> None:
        """Take what is still in the pipes; no one writes to them any more."""
        for number, sink in self.captures.items():
            end = self._ends[number]
            os.set_blocking(end.fileno(), False)
            while select.select([end], [], [], 0)[0] and take(end, sink):
                pass


@contextlib.contextmanager
def started(
    argv: Sequence[str], environment: Mapping[str, str], extra: Mapping[int, int]
) -> Iterator[Cell]:
    """Start ``argv``, a bubblewrap behind :data:`STARTER`; it is gone at the end in any case.

    ``extra`` gives further descriptors: the number in the new process to one of ours. Nothing else
    that this process holds open is passed on.
    """
    with contextlib.ExitStack() as stack:
        ours: dict[int, FileIO] = {}
        theirs: dict[int, FileIO] = {}
        for number in (0, 1, 2, RESULT_FD, READY_FD, GO_FD, INFO_FD):
            reader, writer = (stack.enter_context(end) for end in _pipe())
            into = number in (0, GO_FD)
            ours[number], theirs[number] = (writer, reader) if into else (reader, writer)
        numbers = {**extra, **{number: end.fileno() for number, end in theirs.items()}}
        pid = spawn(argv, environment, numbers)
        cell = Cell(pid, stack, ours)
        try:
            for end in theirs.values():
                end.close()
            yield cell
        finally:
            cell.end()


def _pipe() -> tuple[FileIO, FileIO]:
    reader, writer = os.pipe()
    return FileIO(reader, "rb"), FileIO(writer, "wb")


def _high(stack: contextlib.ExitStack, number: int) -> int:
    """Return a copy of descriptor ``number`` above all numbers that the new process gets."""
    copy = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
    stack.callback(os.close, copy)
    return copy


def spawn(argv: Sequence[str], environment: Mapping[str, str], numbers: Mapping[int, int]) -> int:
    """Start ``argv`` in a session of its own and return its number.

    It gets the descriptors ``numbers``, its number to ours, and none else that this process holds.
    Raises :class:`SandboxError` where there is no such program.
    """
    with contextlib.ExitStack() as passing:
        held = {number: _high(passing, ours) for number, ours in numbers.items()}
        return _spawn(argv, environment, held)


def _spawn(argv: Sequence[str], environment: Mapping[str, str], held: Mapping[int, int]) -> int:
    actions: list[tuple[int, ...]] = [(os.POSIX_SPAWN_CLOSE, number) for number in _inherited()]
    actions += [(os.POSIX_SPAWN_DUP2, ours, number) for number, ours in held.items()]
    try:
        return os.posix_spawn(
            argv[0],
            list(argv),
            dict(environment),
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,
        )
    except OSError as error:
        raise SandboxError(
            f"cannot start {argv[0]}: {error.strerror} (expected a program); run: daydream sandbox "
            "check"
        ) from None


def _inherited() -> list[int]:
    """Return what this process would pass on to any child, but for the standard three."""
    found = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - plain numbers
        with contextlib.suppress(OSError):
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return found
