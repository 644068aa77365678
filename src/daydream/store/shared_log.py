"""A log that several processes append to at once: whole lines, each there entirely or not at all.

Owns the lock, the healing of a tail that a killed writer or a full disk tore, and the reading of
what is whole. Refuses records that hold a line break. What stands before the last line break never
changes, so a reader needs the lock only for the moment in which it asks how far that is.
"""

import fcntl
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from daydream.errors import StoreError
from daydream.store.files import disk_errors, sync_folder

CHUNK = 1 << 16


class LogReading(msgspec.Struct, frozen=True):
    """The whole lines of a log when it was read."""

    lines: tuple[bytes, ...]
    """Without their line breaks."""
    end: int
    """Bytes that they take; where a later reading goes on."""
    torn: int
    """Bytes after them, of a record that was never acknowledged."""


class SharedLog:
    """One file. Any number of objects, threads and processes may append to it and read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._guard = threading.Lock()
        self._handle: int | None = None
        self._pid = os.getpid()

    def append(self, records: Sequence[bytes], *, durable: bool = True) -> None:
        """Append ``records``, one line each, next to each other.

        ``durable`` waits until they are on the disk. Raises :class:`StoreError` when they cannot be
        stored; then none of them is.
        """
        if any(b"\n" in record for record in records):
            raise StoreError(
                f"a record for {self.path} holds a line break (expected one line); write it as JSON"
            )
        if not records:
            return
        data = b"".join(record + b"\n" for record in records)
        with self._guard, disk_errors("write", self.path):
            handle = self._open()
            with _locked(handle, fcntl.LOCK_EX):
                end = _heal(handle)
                try:
                    _write(handle, data)
                except BaseException:
                    os.ftruncate(handle, end)
                    raise
            if durable:
                os.fsync(handle)

    def read(self, start: int = 0) -> LogReading:
        """Return the whole lines from byte ``start`` on; a log that does not exist has none."""
        with disk_errors("read", self.path):
            try:
                handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return LogReading((), 0, 0)
            with os.fdopen(handle, "rb", closefd=True) as file:
                with _locked(handle, fcntl.LOCK_SH):
                    size = os.fstat(handle).st_size
                    end = _last_line_end(handle, size)
                file.seek(start)
                data = file.read(max(0, end - start))
        return LogReading(tuple(data.split(b"\n")[:-1]), end, size - end)

    def close(self) -> None:
        """Close the file; appending opens it again."""
        with self._guard:
            handle, self._handle = self._handle, None
            if handle is not None:
                os.close(handle)

    def _open(self) -> int:
        # A lock belongs to the open file, which a forked child shares: it takes one of its own.
        if self._handle is None or self._pid != os.getpid():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = not self.path.exists()
            self._handle = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644
            )
            self._pid = os.getpid()
            if new:
                sync_folder(self.path.parent)
        return self._handle


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock file ``path`` for the length of the block; waits for whoever has it."""
    with disk_errors("lock", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        with disk_errors("lock", path):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def _locked(handle: int, kind: int) -> Iterator[None]:
    fcntl.flock(handle, kind)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


def _write(handle: int, data: bytes) -> None:
    done = os.write(handle, data)
    while done < len(data):
        done += os.write(handle, data[done:])


def _heal(handle: int) -> int:
    """Drop what follows the last line break, which nobody was told is stored; return the length."""
    size = os.fstat(handle).st_size
    end = _last_line_end(handle, size)
    if end != size:
        os.ftruncate(handle, end)
    return end


def _last_line_end(handle: int, size: int) -> int:
    at = size
    while at > 0:
        start = max(0, at - CHUNK)
        found = os.pread(handle, at - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0
