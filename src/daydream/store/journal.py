"""The journal: append-only canonical JSON lines, one writer, any byte prefix is a valid prefix.

A record counts once its newline is there. What follows the last whole record, a line cut short by a
crash or a full disk, or the NUL bytes of a power cut, is the torn tail: it is reported, and removed
when the journal is next opened for writing. Damage anywhere else is refused, never repaired.
"""

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from daydream.canonical import clean_json, dumps
from daydream.errors import StoreError
from daydream.store.events import DURABLE, JOURNAL_VERSION, AnyEvent
from daydream.store.files import disk_errors, sync_folder

EXCERPT = 60
"""Bytes of a damaged line shown in messages."""

Clock = Callable[[], float]
"""Seconds since 1970 in UTC."""


class JournalReading(msgspec.Struct, frozen=True):
    """What a journal held when it was read."""

    events: tuple[AnyEvent, ...]
    torn: str | None
    """What was found after the last whole record, in words; None when nothing was."""
    good_bytes: int
    """Length of the valid prefix."""


class _Header(msgspec.Struct):
    schema_version: int = 0


_DECODER: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
_HEADER = msgspec.json.Decoder(_Header)


def read_journal(path: Path) -> JournalReading:
    """Return the whole records of ``path`` in order, and what follows them.

    Raises :class:`StoreError` for a file that cannot be read, a damaged record with whole ones
    after it, or a record of a newer version of Daydream.
    """
    events: list[AnyEvent] = []
    good = 0
    with disk_errors("read", path), path.open("rb") as file:
        for line in file:
            event = _decode(line)
            if event is None:
                torn = _torn(path, len(events) + 1, good, line, file.read())
                return JournalReading(tuple(events), torn, good)
            if event.schema_version > JOURNAL_VERSION:
                raise _too_new(path, len(events) + 1, event.schema_version)
            events.append(event)
            good += len(line)
    return JournalReading(tuple(events), None, good)


def _decode(line: bytes) -> AnyEvent | None:
    if not line.endswith(b"\n"):
        return None
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _torn(path: Path, number: int, start: int, line: bytes, rest: bytes) -> str:
    """Return the description of a torn tail; raise :class:`StoreError` where it is damage."""
    size = len(line) + len(rest)
    if not rest and not line.endswith(b"\n"):
        return f"line {number} of {path} is cut off after {size} bytes (byte {start} on)"
    later = [event for event in map(_decode, rest.splitlines(keepends=True)) if event is not None]
    # What was synced made everything before it durable, so zeros followed by unsynced records
    # only are the work of a power cut.
    if b"\0" in line and not any(isinstance(event, DURABLE) for event in later):
        return f"{size} bytes from line {number} of {path} on hold zeros (byte {start} on)"
    if not rest and not _is_json(line):
        return f"line {number} of {path} is damaged and the last one (byte {start} on)"
    version = _version(line)
    if version > JOURNAL_VERSION:
        raise _too_new(path, number, version)
    excerpt = line[:EXCERPT].decode("utf-8", "replace").rstrip("\n")
    raise StoreError(
        f"line {number} of {path} is no record of a journal: found {excerpt!r} (expected canonical "
        f"JSON with a known 'event'); restore the file from a copy, or keep only what comes before "
        f"it: head -n {number - 1} {path} > rescued.jsonl"
    )


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True


def _version(line: bytes) -> int:
    try:
        return _HEADER.decode(line).schema_version
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return 0


def _too_new(path: Path, number: int, version: int) -> StoreError:
    return StoreError(
        f"line {number} of {path} has schema_version {version} (expected at most "
        f"{JOURNAL_VERSION}); it was written by a newer Daydream: upgrade daydream-rsi"
    )


class Journal:
    """The writing side. Only the holder of the run's lock may have one; threads may share it."""

    def __init__(self, path: Path, *, clock: Clock, good_bytes: int) -> None:
        """Open ``path`` for appending, creating it, and drop everything after ``good_bytes``.

        Raises :class:`StoreError` when the file cannot be written.
        """
        self._path = path
        self._clock = clock
        self._guard = threading.Lock()
        self._good = good_bytes
        self._pending = 0
        self._broken: str | None = None
        self._pid = os.getpid()
        with disk_errors("open", path, path.parent):
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                if os.fstat(self._handle).st_size != good_bytes:
                    os.ftruncate(self._handle, good_bytes)
                os.fsync(self._handle)
                sync_folder(path.parent)
            except BaseException:
                os.close(self._handle)
                raise

    def append(self, event: AnyEvent, *, durable: bool | None = None) -> AnyEvent:
        """Append ``event``, stamped with the time, and return it as it was stored.

        ``durable`` waits until the record and all before it are on the disk; None does so for the
        kinds in :data:`daydream.store.events.DURABLE`. Raises :class:`StoreError` when the record
        cannot be stored; then the journal holds what it held before.
        """
        stamp = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        stored = msgspec.structs.replace(event, at=stamp)
        line = _line(stored)
        with self._guard:
            if self._broken is not None:
                raise StoreError(self._broken)
            if os.getpid() != self._pid:
                raise StoreError(
                    f"a forked child may not write {self._path} (expected its one writer); "
                    "send the result to the parent process"
                )
            self._settle()
            self._write(line)
            if isinstance(event, DURABLE) if durable is None else durable:
                self._sync()
        return stored

    def close(self) -> None:
        """Make everything appended durable and close the file; safe to call twice."""
        with self._guard:
            if self._handle < 0:
                return
            handle, self._handle = self._handle, -1
            self._broken = f"journal {self._path} is closed; open the run folder again"
            try:
                if os.getpid() == self._pid:
                    with disk_errors("write", self._path, self._path.parent):
                        os.fsync(handle)
            finally:
                os.close(handle)

    def _settle(self) -> None:
        """Account for an append that an interrupt cut off between its write and its bookkeeping."""
        with disk_errors("write", self._path, self._path.parent):
            size = os.fstat(self._handle).st_size
            if size == self._good + self._pending:
                self._good = size
            elif self._good <= size < self._good + self._pending:
                os.ftruncate(self._handle, self._good)
            else:
                self._broken = (
                    f"journal {self._path} has {size} bytes (expected {self._good}): something "
                    f"else wrote to it; stop it, then: daydream resume {self._path.parent}"
                )
                raise StoreError(self._broken)
            self._pending = 0

    def _write(self, line: bytes) -> None:
        self._pending = len(line)
        try:
            with disk_errors("write", self._path, self._path.parent):
                done = os.write(self._handle, line)
                while done < len(line):
                    done += os.write(self._handle, line[done:])
        except StoreError:
            self._take_back()
            raise
        self._good += len(line)
        self._pending = 0

    def _take_back(self) -> None:
        """Remove a record written in part, so that the next append starts on a line of its own."""
        try:
            os.ftruncate(self._handle, self._good)
        except OSError:
            self._broken = (
                f"journal {self._path} ends in half a record that cannot be removed now; "
                f"continue with: daydream resume {self._path.parent}"
            )
        self._pending = 0

    def _sync(self) -> None:
        try:
            with disk_errors("write", self._path, self._path.parent):
                os.fsync(self._handle)
        except StoreError as error:
            # After a failed fsync the kernel may have dropped the data: nothing can be promised.
            self._broken = str(error)
            raise


def _line(event: AnyEvent) -> bytes:
    try:
        return dumps(event) + b"\n"
    except UnicodeEncodeError:
        # Lone surrogates, as in text that a model or a program printed, have no UTF-8 form.
        plain = clean_json(msgspec.to_builtins(event), text_limit=1 << 30, items=1 << 30)
        return dumps(plain) + b"\n"
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"event {type(event).__name__} cannot be stored: {error} (expected JSON values and "
            "finite numbers); pass it through canonical.clean_json"
        ) from error
