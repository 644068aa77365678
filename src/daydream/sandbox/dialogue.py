"""A job that is asked and answers, and that is frozen whenever it is not its turn.

Every question carries a random word of its own, and an answer that does not bring it back is none:
what was written before the question was asked, or by somebody else, is found out. Both directions
are frames: a length of four bytes, sixteen bytes of the word, and the content. The time of an
answer is the CPU time that the kernel counted for all processes of the job, read while they are
stopped, so work after the answer and in children counts as well.

Large data goes through memory that both sides hold, filled and read by calls that cannot fail in
the middle, whatever the job does to it.
"""

import contextlib
import fcntl
import os
import secrets
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from daydream.errors import EnvironmentMissing, SandboxError
from daydream.sandbox import cell, supervisor
from daydream.sandbox.base import RESULT_FD, Job, Limits, Sandbox
from daydream.sandbox.bubblewrap import FREE_FD, BubblewrapSandbox
from daydream.sandbox.pipes import CHUNK, Capture, flood_limit

WORD_BYTES: Final = 16
HEADER: Final = struct.Struct("<I16s")
"""Bytes of content that follow, and the word of the question."""
MESSAGE_BYTES: Final = 8 << 20
"""Largest answer."""
MEMORY_FD: Final = FREE_FD
"""Number that the job knows the shared memory by."""
_LOOK_S: Final = 0.05
_STOP_S: Final = 10.0
_ENTER: Final = 'ulimit -c 0; cd "$0" && exec "$@"'
_SEAL: Final = getattr(fcntl, "F_SEAL_SHRINK", 2) | getattr(fcntl, "F_SEAL_GROW", 4)

Kind = Literal["ended", "timeout", "cpu", "memory", "output", "word", "size"]


class Silent(SandboxError):  # noqa: N818 - a fact about the job
    """A job gave no answer: it ended, went over a limit, or wrote something else."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind: Kind = kind


class _Place(msgspec.Struct, frozen=True):
    """Where a job runs, whatever started it."""

    inlet: int
    result: int
    outputs: tuple[int, ...]
    monitor: int
    """Readable when the job has ended."""
    members: Callable[[], set[int]]
    cpu_s: Callable[[], float]
    over: Callable[[], str | None]
    layers: tuple[str, ...]


class Dialogue:
    """One started job. Used by the thread that started it."""

    def __init__(self, place: _Place, limits: Limits) -> None:
        self._place = place
        self._limits = limits
        self._buffer = bytearray()
        self._flood = flood_limit(limits.output_bytes)
        self._outputs = {number: Capture(limits.output_bytes) for number in place.outputs}
        self._deadline = time.monotonic() + limits.wall_s
        for number in (place.inlet, place.result, *place.outputs):
            os.set_blocking(number, False)

    @property
    def layers(self) -> tuple[str, ...]:
        """The isolation in force."""
        return self._place.layers

    def ask(self, content: bytes, *, wall_s: float) -> bytes:
        """Send ``content`` and return the answer; raises :class:`Silent`.

        ``wall_s`` bounds this answer, and the limits of the job all of them together.
        """
        word = secrets.token_bytes(WORD_BYTES)
        deadline = min(time.monotonic() + wall_s, self._deadline)
        self._send(HEADER.pack(len(content), word) + content, deadline)
        while True:
            found = self._frame(word)
            if found is not None:
                return found
            self._wait(None, deadline)

    def timed(self, content: bytes, *, wall_s: float) -> tuple[bytes, float, float]:
        """Ask, freeze the job at its answer, and return the answer, CPU and wall seconds.

        The job is frozen before as well, and stays so afterwards: see :meth:`thaw`. CPU seconds are
        those of all processes until they have stopped, wall seconds those until the answer.
        """
        self.freeze()
        before = self._place.cpu_s()
        self.thaw()
        begun = time.monotonic()
        answer = self.ask(content, wall_s=wall_s)
        took = time.monotonic() - begun
        self.freeze()
        return answer, self._place.cpu_s() - before, took

    def freeze(self) -> None:
        """Stop every process of the job, and return when all have stopped.

        None of them can wake another one then. Raises :class:`Silent` when that cannot be done.
        """
        deadline = time.monotonic() + _STOP_S
        settled: set[int] | None = None
        while time.monotonic() < deadline:
            members = self._place.members()
            running = {pid for pid in members if _state(pid) not in "TtZX"}
            if not running and members == settled:
                return
            settled = members
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
        raise Silent("ended", "processes of the job could not be stopped")

    def thaw(self) -> None:
        """Let the job go on."""
        for pid in self._place.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def printed(self) -> bytes:
        """Return the end of what the job printed, errors first where there are any."""
        self._read_outputs()
        out, err = (sink.kept() for sink in self._outputs.values())
        return err or out

    def _send(self, data: bytes, deadline: float) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._place.inlet, left[:CHUNK]) :]
            except BlockingIOError:
                self._wait(self._place.inlet, deadline)
            except BrokenPipeError:
                raise Silent("ended", "the job ended or closed its input") from None

    def _frame(self, word: bytes) -> bytes | None:
        """Return the content of the frame that has arrived; None while it is not whole."""
        if len(self._buffer) < HEADER.size:
            return None
        size, brought = HEADER.unpack_from(self._buffer)
        if brought != word:
            raise Silent("word", "the job answered something that it was not asked")
        if size > MESSAGE_BYTES:
            raise Silent("size", f"the job announced an answer of {size} bytes")
        end = HEADER.size + size
        if len(self._buffer) < end:
            return None
        if len(self._buffer) > end:
            raise Silent("word", "the job wrote more than one answer")
        content = bytes(self._buffer[HEADER.size : end])
        self._buffer.clear()
        return content

    def _wait(self, inlet: int | None, deadline: float) -> None:
        """Take what has arrived; where nothing comes for a moment, see that the limits hold."""
        poll = select.poll()
        for number in (self._place.result, self._place.monitor, *self._place.outputs):
            poll.register(number, select.POLLIN)
        if inlet is not None:
            poll.register(inlet, select.POLLOUT)
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise Silent("timeout", "the job gave no answer in time")
        ready = dict(poll.poll(1 + 1000 * min(remaining, _LOOK_S)))
        self._read_outputs()
        said = self._read()
        if self._place.monitor in ready and not said:
            raise self._ended()
        if sum(sink.total for sink in self._outputs.values()) > self._flood:
            raise Silent("output", "the job printed without end")
        if not ready and self._place.over():
            raise Silent("memory", "the job used too much memory")

    def _read(self) -> bool:
        try:
            data = os.read(self._place.result, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            raise self._ended()
        self._buffer += data
        if len(self._buffer) > MESSAGE_BYTES + HEADER.size:
            raise Silent("size", "the job answered more than is read")
        return True

    def _read_outputs(self) -> None:
        for number, sink in self._outputs.items():
            with contextlib.suppress(BlockingIOError):
                while data := os.read(number, CHUNK):
                    sink.add(data)

    def _ended(self) -> Silent:
        if self._place.over():
            return Silent("memory", "the job used too much memory")
        return Silent("ended", "the job ended or closed its answers")


def _state(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "X"
    return text[text.rfind(")") + 2]


@contextlib.contextmanager
def converse(
    sandbox: Sandbox, job: Job, limits: Limits, memory: "Memory | None" = None
) -> Iterator[Dialogue]:
    """Give a dialogue with ``job``, started in ``sandbox``; it is gone at the end in any case.

    ``limits.wall_s`` bounds all answers together. Raises :class:`EnvironmentMissing` where no such
    thing can be, and :class:`SandboxError` when the sandbox failed.
    """
    shared = {} if memory is None else {MEMORY_FD: memory.number}
    if isinstance(sandbox, BubblewrapSandbox):
        with sandbox.opened(job, limits, shared) as (box, watch, bounds):

            def members() -> set[int]:
                return watch.members() - {box.pid}

            def cpu_s() -> float:
                return watch.cpu_s() if watch.counts() else sum(map(_clock, members()))

            box.open_gate()
            place = _Place(
                inlet=box.ends[0].fileno(),
                result=box.ends[RESULT_FD].fileno(),
                outputs=(box.ends[1].fileno(), box.ends[2].fileno()),
                monitor=box.monitor,
                members=members,
                cpu_s=cpu_s,
                over=watch.over,
                layers=sandbox.layers,
            )
            yield Dialogue(place, bounds.limits)
        return
    with _plain(job, limits, shared) as place:
        yield Dialogue(msgspec.structs.replace(place, layers=sandbox.layers), limits)


def _clock(pid: int) -> float:
    """Return the CPU seconds of all threads of ``pid``, its own number of clock as in
    clock_getcpuclockid(3).
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


@contextlib.contextmanager
def _plain(job: Job, limits: Limits, shared: Mapping[int, int]) -> Iterator[_Place]:
    """Start ``job`` as a process of this user: bounded and ended as a tree, and not kept apart."""
    if sys.platform != "linux":
        raise EnvironmentMissing(
            "this task freezes and times programs, which needs Linux (found "
            f"{sys.platform}); run it there"
        )
    memory = (limits.memory_mb or 1024) << 20
    with contextlib.ExitStack() as stack:
        ours: dict[int, int] = {}
        with contextlib.ExitStack() as passing:
            theirs = dict(shared)
            for number in (0, 1, 2, RESULT_FD):
                reader, writer = os.pipe()
                ours[number], theirs[number] = (writer, reader) if number == 0 else (reader, writer)
                stack.callback(os.close, ours[number])
                passing.callback(os.close, theirs[number])
            pid = cell.spawn(("/bin/sh", "-c", _ENTER, job.cwd, *job.argv), job.env, theirs)
        stack.callback(_end, pid)
        monitor = os.pidfd_open(pid)
        stack.callback(os.close, monitor)
        yield _Place(
            inlet=ours[0],
            result=ours[RESULT_FD],
            outputs=(ours[1], ours[2]),
            monitor=monitor,
            members=lambda: set(_tree(pid)),
            cpu_s=lambda: sum(map(_clock, _tree(pid))),
            over=lambda: "memory" if _resident(pid) > memory else None,
            layers=(),
        )


def _tree(first: int) -> dict[int, supervisor.Process]:
    """Return the processes of a plain job: its session, and what descends from its first one."""
    table = supervisor.process_table()
    session = {pid: one for pid, one in table.items() if one.session == first}
    return {**session, **supervisor.below(table, first)}


def _resident(first: int) -> int:
    return sum(process.resident for process in _tree(first).values())


def _end(first: int) -> None:
    """Kill a plain job and all that was seen of it, wait until it is gone, and reap it."""
    seen = _tree(first)
    while True:
        table = supervisor.process_table()
        alive = {pid for pid, one in seen.items() if pid in table and table[pid].start == one.start}
        # An orphan in a session of its own is found by who made it, as long as that one is seen.
        for pid in alive:
            seen.update(supervisor.below(table, pid))
        seen.update(_tree(first))
        for pid in alive:
            supervisor.send(pid, seen[pid], signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(first, 0 if not alive else os.WNOHANG)
        if not alive:
            return


class Memory:
    """Memory shared with jobs, of a fixed size. A context manager."""

    def __init__(self, size: int) -> None:
        self.size = size
        if not hasattr(os, "memfd_create"):
            raise EnvironmentMissing(
                "this task shares memory with programs, which needs Linux; run it there"
            )
        self.number = os.memfd_create("daydream-data", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.number, size)
        # A job that shortened it would end whoever reads it through a mapping.
        fcntl.fcntl(self.number, fcntl.F_ADD_SEALS, _SEAL)

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.number)

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Put ``data`` at ``offset``."""
        view = memoryview(data).cast("B")
        while view:
            written = os.pwrite(self.number, view, offset)
            view, offset = view[written:], offset + written

    def read(self, offset: int, size: int) -> bytes:
        """Return a copy of ``size`` bytes at ``offset``."""
        parts = bytearray()
        while len(parts) < size:
            piece = os.pread(self.number, size - len(parts), offset + len(parts))
            if not piece:
                raise SandboxError(f"shared memory ended at {offset + len(parts)} of {self.size}")
            parts += piece
        return bytes(parts)
