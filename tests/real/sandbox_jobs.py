"""Jobs for the bubblewrap sandbox: after each none of its processes is left.

Every job is bounded: seconds, 400 MiB, 200 processes.
"""

import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from daydream.sandbox.base import ExecResult, Job, Limits
from daydream.sandbox.bubblewrap import BubblewrapSandbox
from daydream.sandbox.profiles import PROFILES
from tests.processes import with_word

PRELUDE = (
    "import ctypes, errno, mmap, os, resource, signal, socket, stat, sys, threading, time\n"
    "libc = ctypes.CDLL(None, use_errno=True)\n"
    "def tried(function, *arguments):\n"
    "    try: function(*arguments)\n"
    "    except OSError as error: return errno.errorcode[error.errno]\n"
    "    except MemoryError: return 'MemoryError'\n"
    "    return 'done'\n"
    "def call(name, *arguments):\n"
    "    ctypes.set_errno(0)\n"
    "    done = getattr(libc, name)(*arguments)\n"
    "    return errno.errorcode[ctypes.get_errno()] if done == -1 else 'done'\n"
)
SMALL = msgspec.structs.replace(PROFILES["candidate"], space_mb=16, shared_mb=8, open_files=64)
WIDE = Limits(wall_s=300, memory_mb=400)
NUMBERS = itertools.count()


def _machine() -> list[object]:
    files = (
        "/etc/passwd",
        "/etc/hosts",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
    )
    return [*map(Path.read_bytes, map(Path, files)), len(list(Path("/proc/self/fd").iterdir()))]


@contextmanager
def unharmed() -> Iterator[Path]:
    """Give a file that anyone may write; it and the machine are as they were at the end."""
    before = _machine()
    with tempfile.TemporaryDirectory(prefix="daydream-victim-") as name:
        Path(name).chmod(0o755)
        (file := Path(name, "host.txt")).write_text("as it was")
        file.chmod(0o666)
        yield file
        assert file.read_text() == "as it was"
        assert [path.name for path in Path(name).iterdir()] == ["host.txt"]
    assert _machine() == before


def run(
    code: str,
    *arguments: str,
    limits: Limits = WIDE,
    sandbox: BubblewrapSandbox | None = None,
    collect: tuple[str, ...] = (),
    readable: tuple[str, ...] = (),
) -> ExecResult:
    mark = f"hostile-{os.getpid()}-{next(NUMBERS)}"
    job = Job(
        (sys.executable, "-I", "-S", "-c", PRELUDE + code, *arguments, mark),
        "/work",
        {"PATH": "/usr/bin", "HOME": "/work"},
        readable=readable,
        scratch=("/work",),
        collect=collect,
    )
    found = (sandbox or BubblewrapSandbox(SMALL)).run(job, limits)
    assert with_word(mark) == [], "processes are left"
    return found


def said(code: str, sandbox: BubblewrapSandbox | None = None, limits: Limits = WIDE) -> str:
    found = run(code, sandbox=sandbox, limits=limits)
    assert (found.outcome, found.exit) == ("exited", 0), found
    return found.stdout.decode().strip()
