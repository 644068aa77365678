"""Worker processes for our own computing agents: one request at a time, killed as one.

A worker is a fresh interpreter running :mod:`daydream.sandbox.worker_child`; it dies with its
parent. It isolates crashes and uses a core of its own. It is no boundary against hostile code.
"""

import contextlib
import pickle
import struct
import subprocess
import sys
from collections.abc import Mapping
from typing import IO, Final

from daydream.errors import SandboxError

_HEADER: Final = struct.Struct("!Q")


class WorkerFailed(SandboxError):  # noqa: N818 - a fact about one request
    """The request raised in the worker (``error_class`` names what), or the worker died."""

    def __init__(self, error_class: str, message: str) -> None:
        super().__init__(message)
        self.error_class = error_class


class Worker:
    """One process. ``setup`` is ``module:function`` with its arguments, called once inside."""

    def __init__(self, setup: str, arguments: tuple[object, ...], env: Mapping[str, str]) -> None:
        self._setup = (setup, arguments)
        self._env = dict(env)
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, function: str, argument: object) -> object:
        """Return ``function(state, argument)`` from the worker, starting it where needed.

        Raises :class:`WorkerFailed` when the call raised or the process died; the next call starts
        a new one.
        """
        process = self._process if self._process is not None else self._start()
        stdin, stdout = process.stdin, process.stdout
        if stdin is None or stdout is None:
            raise SandboxError("worker has no pipes (expected stdin and stdout); start it again")
        try:
            send(stdin, (function, argument))
            reply = receive(stdout)
        except (OSError, EOFError):
            code = process.wait()
            self._process = None
            raise WorkerFailed(
                "WorkerDied", f"worker process ended with status {code} during {function}"
            ) from None
        if not (isinstance(reply, tuple) and len(reply) == 3):
            raise SandboxError(f"worker sent {type(reply).__name__} (expected a reply of 3 parts)")
        good, first, second = reply
        if good:
            return second
        raise WorkerFailed(str(first), str(second))

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "daydream.sandbox.worker_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._env,
            start_new_session=True,
        )
        self._process = process
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                send(process.stdin, self._setup)
        return process

    def close(self) -> None:
        """Kill the process, if any, and wait for it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()


def send(pipe: IO[bytes], value: object) -> None:
    """Write one length-prefixed pickle. Both ends are ours."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(_HEADER.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> object:
    """Read what :func:`send` wrote; raises ``EOFError`` at the end of the stream."""
    header = pipe.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise EOFError
    (size,) = _HEADER.unpack(header)
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    value: object = pickle.loads(data)
    return value
