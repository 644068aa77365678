"""Reading and feeding the pipes of a job without waiting and without keeping more than allowed."""

import os
from io import FileIO
from typing import IO, Final

RESULT_BYTES: Final = 1 << 20
"""Largest result of a job; more ends it."""
FLOOD_BYTES: Final = 64 << 20
"""A job that prints more than this, and than 64 times its ``output_bytes``, is ended."""
CHUNK: Final = 1 << 16


class Capture:
    """The head and the tail of a stream in at most ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self.total = 0
        self._limit = limit
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """Take the next piece of the stream."""
        self.total += len(data)
        room = max(0, self._limit - len(self._head))
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > self._limit + CHUNK:
            del self._tail[: -self._limit or None]

    def kept(self) -> bytes:
        """Return the stream, with a mark in the middle where it was too long."""
        if self.total <= self._limit:
            return bytes(self._head)
        mark = b"\n[%d bytes left out]\n" % (self.total - self._limit)
        room = max(0, self._limit - len(mark))
        half = room // 2
        whole = bytes(self._head + self._tail)
        return (whole[:half] + mark + whole[len(whole) - (room - half) :])[: self._limit]


def flood_limit(output_bytes: int) -> int:
    """Return how many bytes a job may print in all before it is ended."""
    return max(FLOOD_BYTES, 64 * output_bytes)


def feed(pipe: int, left: memoryview) -> memoryview:
    """Write some of ``left`` without waiting and return the rest; nothing when no one reads."""
    try:
        return left[os.write(pipe, left[:CHUNK]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[:0]


def take(file: IO[bytes] | FileIO, sink: Capture) -> bool:
    """Read once without waiting; return whether more may come."""
    try:
        data = os.read(file.fileno(), CHUNK)
    except BlockingIOError:
        return True
    sink.add(data)
    return bool(data)
