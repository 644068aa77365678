"""The job's side of a dialogue, for drivers in Python: see :mod:`daydream.sandbox.dialogue`."""

import os
import struct
from collections.abc import Iterator
from typing import Final

HEADER: Final = struct.Struct("<I16s")
RESULT_FD: Final = 3


class Line:
    """Reads questions from standard input and answers them over a descriptor of its own."""

    def __init__(self) -> None:
        self._inlet = os.dup(0)
        self._outlet = os.dup(RESULT_FD)
        os.close(RESULT_FD)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        self._owner = os.getpid()

    def questions(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the word and the content of every question until there are no more."""
        while True:
            header = self._read(HEADER.size)
            if len(header) < HEADER.size:
                return
            size, word = HEADER.unpack(header)
            yield word, self._read(size)

    def answer(self, word: bytes, content: bytes) -> None:
        """Answer the question ``word``; a fork of this process ends here instead."""
        if os.getpid() != self._owner:
            os._exit(1)
        data = memoryview(HEADER.pack(len(content), word) + content)
        while data:
            data = data[os.write(self._outlet, data) :]

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            piece = os.read(self._inlet, size - len(parts))
            if not piece:
                break
            parts += piece
        return bytes(parts)
