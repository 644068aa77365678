"""One writer a run: an advisory lock that the system drops when its process dies."""

import fcntl
import os
import socket
import weakref
from contextlib import suppress
from pathlib import Path

import msgspec

from daydream.canonical import dumps
from daydream.errors import StoreError
from daydream.store.files import disk_errors


class Holder(msgspec.Struct, frozen=True):
    """Who holds a lock, as its file says."""

    pid: int
    host: str


class RunLock:
    """The lock of one run folder, held from construction to :meth:`release`.

    ``flock`` belongs to the open file, so a forked child would keep it alive after its parent's
    death: children close their copy at the fork.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock file ``path``.

        Raises :class:`StoreError` naming the holder when another process, or another object of
        this process, holds it.
        """
        self._path = path
        run = path.parent
        with disk_errors("lock", path, run):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            with disk_errors("lock", path, run):
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise self._refusal() from None
                os.ftruncate(handle, 0)
                os.pwrite(handle, dumps(Holder(os.getpid(), socket.gethostname())) + b"\n", 0)
        except BaseException:
            os.close(handle)
            raise
        self._handle: int | None = handle
        _HELD.add(self)

    def release(self) -> None:
        """Give the lock back; safe to call twice."""
        handle, self._handle = self._handle, None
        if handle is not None:
            # Emptied while still held, so that a lock file naming a process means that it has it.
            try:
                with suppress(OSError):
                    os.ftruncate(handle, 0)
            finally:
                os.close(handle)

    def forget(self) -> None:
        """Close this process's copy without releasing the lock: for a forked child."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _refusal(self) -> StoreError:
        holder = read_holder(self._path)
        run = self._path.parent
        who = "another process"
        stop = "stop it"
        if holder is not None:
            who = f"process {holder.pid} on host {holder.host}"
            stop = f"stop it there (kill -INT {holder.pid})"
        return StoreError(
            f"run {run} is being written by {who} (expected no other writer); wait for it or "
            f"{stop}, then: daydream resume {run}"
        )


_HELD: "weakref.WeakSet[RunLock]" = weakref.WeakSet()


def _forget_in_child() -> None:
    for lock in list(_HELD):
        lock.forget()


os.register_at_fork(after_in_child=_forget_in_child)


def read_holder(path: Path) -> Holder | None:
    """Return whom the lock file ``path`` names; None when nobody, or when it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, msgspec.MsgspecError):
        return None
