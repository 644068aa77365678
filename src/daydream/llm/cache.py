"""Answers already paid for, by the identity of their question. A run folder has one.

What a killed attempt was answered is here when the attempt is made again, so it is not paid for
twice. The same file makes a run repeatable without a server, as a cassette does.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from daydream.errors import StoreError
from daydream.llm.base import Reply

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS replies"
    " (key TEXT PRIMARY KEY, model TEXT NOT NULL, reply BLOB NOT NULL) WITHOUT ROWID"
)


class ReplyCache:
    """One file of answers, shared by threads. Close it when done."""

    def __init__(self, path: Path) -> None:
        """Open ``path`` where it exists; raises :class:`StoreError` when it is no such file.

        It is made with the first answer to keep.
        """
        self._path = path
        self._guard = threading.Lock()
        self._base: sqlite3.Connection | None = None
        self._closed = False
        if path.exists():
            self._open()

    def _open(self) -> None:
        with self._errors():
            # An answer must outlive the process as soon as put() returns; autocommit sees to that.
            base = sqlite3.connect(
                self._path, check_same_thread=False, isolation_level=None, timeout=30
            )
            self._base = base
            base.execute("PRAGMA synchronous = NORMAL")
            base.execute(_TABLE)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            raise StoreError(
                f"the cache of answers {self._path} cannot be used: {error}; move it away, or run "
                "with --cache off"
            ) from None

    def close(self) -> None:
        """Close the file; safe to call twice."""
        with self._guard:
            base, self._base, self._closed = self._base, None, True
            if base is not None:
                base.close()

    def get(self, key: str) -> Reply | None:
        """Return the stored answer with what it cost then, or None."""
        with self._guard, self._errors():
            if self._base is None and not self._closed and self._path.exists():
                self._open()
            if self._base is None:
                return None
            row = self._base.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
            return None if row is None else msgspec.json.decode(row[0], type=Reply)

    def put(self, key: str, model: str, reply: Reply) -> None:
        """Store an answer; a second one to the same question changes nothing."""
        with self._guard, self._errors():
            if self._base is None and not self._closed:
                self._open()
            if self._base is not None:
                self._base.execute(
                    "INSERT OR IGNORE INTO replies VALUES (?, ?, ?)",
                    (key, model, msgspec.json.encode(reply)),
                )
