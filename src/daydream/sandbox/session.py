"""A long-lived child that answers one message with one message, and is believed in nothing else.

Frames are a length of four bytes and as many bytes, bounded both ways. Time is bounded for every
answer and for all of them. A page that both sides share says where the child was when it ended; the
child may write anything there, so it is a hint for people and no fact.
"""

import mmap
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from daydream.errors import SandboxError
from daydream.sandbox.frames import HEADER, PAGE

_CHUNK: Final = 1 << 16
PATIENCE: Final = 12
"""Wall seconds to wait for a CPU second of the child: others may need the cores."""
_BOOT: Final = """\
import sys, types
package, module, places = sys.argv[1], sys.argv[2], sys.argv[6:]
sys.path += places
daydream = sys.modules["daydream"] = types.ModuleType("daydream")
daydream.__path__ = [package]
__import__("importlib").import_module(module).main(*map(int, sys.argv[3:6]))
"""
"""Without the package's own __init__, which brings what a child never needs."""

Kind = Literal["ended", "time", "size", "extra"]


class SessionFailed(SandboxError):  # noqa: N818 - a fact about the child
    """The child ended, was too slow, or sent what was not asked; ``place`` is its last hint."""

    def __init__(self, kind: Kind, message: str, place: int) -> None:
        super().__init__(message)
        self.kind = kind
        self.place = place


class SessionLimits(msgspec.Struct, frozen=True):
    """Bounds on one session. A child over a bound is killed."""

    answer_s: float = 5.0
    """CPU time of one answer; wall time may be :data:`PATIENCE` times it on a busy machine."""
    total_s: float = 120.0
    """The same for all answers together."""
    start_s: float = 20.0
    """The same until the first answer."""
    message_bytes: int = 1 << 20
    """Largest answer."""


class Session:
    """One child of this process. A context manager; nothing of the child is left afterwards.

    ``module`` is a module of this package with ``main(reader, writer, page)``, ``places`` are
    folders of packages that it imports. Its environment is a hash seed and nothing else.

    Raises :class:`SandboxError` when the child cannot be started.
    """

    def __init__(
        self, module: str, places: Sequence[Path], limits: SessionLimits, *, hash_seed: int
    ) -> None:
        self._limits = limits
        self._left_s = limits.total_s
        self._bound = 0.0
        self._answers = 0
        self._buffer = bytearray()
        with tempfile.TemporaryFile() as shared:
            shared.truncate(mmap.PAGESIZE)
            self._page = mmap.mmap(shared.fileno(), mmap.PAGESIZE)
            theirs_in, self._writer = os.pipe()
            self._reader, theirs_out = os.pipe()
            fds = (theirs_in, theirs_out, shared.fileno())
            package = str(Path(__file__).resolve().parents[1])
            names = [package, module, *map(str, fds), *map(str, places)]
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-s", "-S", "-P", "-B", "-c", _BOOT, *names],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={"PYTHONHASHSEED": str(hash_seed), "LC_ALL": "C.UTF-8"},
                    pass_fds=fds,
                    start_new_session=True,
                )
            except OSError as error:
                self._release()
                raise SandboxError(
                    f"cannot start {sys.executable}: {error.strerror} (expected a running "
                    "interpreter); free processes or memory and try again"
                ) from None
            finally:
                os.close(theirs_in)
                os.close(theirs_out)
        os.set_blocking(self._writer, False)
        os.set_blocking(self._reader, False)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the child and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        self._release()

    def _release(self) -> None:
        for number in (self._writer, self._reader):
            if number >= 0:
                os.close(number)
        self._writer = self._reader = -1
        self._page.close()

    def ask(self, message: bytes) -> bytes:
        """Send ``message`` and return the answer; raises :class:`SessionFailed`."""
        limits = self._limits
        started, spent = time.monotonic(), self._cpu_s()
        most = min(limits.answer_s if self._answers else limits.start_s, max(0.0, self._left_s))
        self._bound = spent + most
        deadline = started + PATIENCE * most
        self._send(HEADER.pack(len(message)) + message, deadline)
        answer = self._receive(deadline)
        self._answers += 1
        self._left_s -= self._cpu_s() - spent
        return answer

    def _send(self, data: bytes, deadline: float) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._writer, left) :]
            except BlockingIOError:
                self._wait(self._writer, select.POLLOUT, deadline)
            except BrokenPipeError:
                raise self._ended() from None

    def _receive(self, deadline: float) -> bytes:
        buffer = self._buffer
        while True:
            if len(buffer) >= HEADER.size:
                end = HEADER.size + HEADER.unpack_from(buffer)[0]
                if end - HEADER.size > self._limits.message_bytes:
                    raise self.failed("size", f"announced a message of {end - HEADER.size} bytes")
                if len(buffer) > end:
                    raise self.failed("extra", "wrote more than one message")
                if len(buffer) == end:
                    answer = bytes(buffer[HEADER.size :])
                    buffer.clear()
                    return answer
            try:
                data = os.read(self._reader, _CHUNK)
            except BlockingIOError:
                self._wait(self._reader, select.POLLIN, deadline)
                continue
            if not data:
                raise self._ended()
            buffer += data

    def _wait(self, number: int, what: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(number, what)
        while not poll.poll(1000 * max(0.001, min(0.5, self._bound - self._cpu_s()))):
            if self._cpu_s() >= self._bound or time.monotonic() >= deadline:
                most = self._limits.answer_s if self._answers else self._limits.start_s
                total = self._limits.total_s
                said = f"gave no answer within {most:g} s of CPU time, or {total:g} s in all"
                raise self.failed("time", said)

    def _cpu_s(self) -> float:
        """Return the CPU seconds of the child; wall seconds where the system does not tell."""
        if sys.platform != "linux":
            return time.monotonic()
        # The number of a process's CPU clock, as clock_getcpuclockid(3) makes it.
        try:
            return time.clock_gettime((~self._process.pid << 3) | 2)
        except OSError:
            return self._bound

    def _ended(self) -> SessionFailed:
        try:
            status = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return self.failed("ended", "closed its pipe")
        if -status == signal.SIGXCPU:
            return self.failed("time", "used up its CPU time")
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return self.failed("ended", f"ended with {how}")

    def failed(self, kind: Kind, what: str) -> SessionFailed:
        """Return the error for a child that did ``what``."""
        place = PAGE.unpack_from(self._page)[0]
        return SessionFailed(kind, f"the child {what}", place)
