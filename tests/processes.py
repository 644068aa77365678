"""Looking for processes from the outside: who is still there of what a test started."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path


def with_word(word: str) -> list[int]:
    """Return the processes that have ``word`` as one of their arguments."""
    return _those("cmdline", lambda words: word.encode() in words)


def with_part(part: str) -> list[int]:
    """Return the processes with ``part`` in one of their arguments."""
    return _those("cmdline", lambda words: any(part.encode() in word for word in words))


def with_variable(part: str) -> list[int]:
    """Return the other processes with ``part`` in a variable of their environment."""
    found = _those("environ", lambda words: any(part.encode() in word for word in words))
    return [pid for pid in found if pid != os.getpid()]


def _those(name: str, wanted: Callable[[Sequence[bytes]], bool]) -> list[int]:
    found = []
    for path in Path("/proc").glob(f"[0-9]*/{name}"):
        try:
            if wanted(path.read_bytes().split(b"\0")):
                found.append(int(path.parent.name))
        except OSError:  # It ended meanwhile, or is somebody else's.
            continue
    return found
