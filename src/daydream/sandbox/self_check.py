"""The sandbox tries its own limits: each probe asks for something that a job must not get.

A probe runs in the sandbox like any job and says what it reached. It takes under a second, 300 MiB
and a hundred processes at the most. A limit that does not hold is reported, never assumed.
"""

import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from daydream.config import user_environment
from daydream.sandbox.base import ExecResult, Job, Limits, Sandbox

_WALL_S: Final = 20.0
_PRELUDE: Final = """import errno, os, signal, socket, sys, time
def say(text): os.write(1, str(text).encode())
def tried(function, *arguments):
    try: function(*arguments)
    except OSError as error: return errno.errorcode.get(error.errno, "OSError")
    except MemoryError: return "MemoryError"
    return "done"
"""


class Probe(msgspec.Struct, frozen=True):
    """One thing that a job must not get."""

    name: str
    promise: str
    code: str
    """Python that says what it reached."""
    holds: Callable[[ExecResult, str], bool]
    """Whether the promise holds, of the result and of what was said."""
    limits: Limits = Limits(wall_s=_WALL_S)


class Finding(msgspec.Struct, frozen=True):
    """What came of one probe."""

    name: str
    promise: str
    ok: bool
    detail: str


def _said(*expected: str) -> Callable[[ExecResult, str], bool]:
    return lambda _, text: text in expected


def _outcome(*expected: str) -> Callable[[ExecResult, str], bool]:
    return lambda result, _: result.outcome in expected


def probes(secret: Path) -> Iterator[Probe]:
    """Yield every probe; ``secret`` is a file of ours outside every job's view."""
    yield Probe("runs", "an ordinary program runs", "say('here')", _said("here"))
    yield Probe(
        "user",
        "the job is nobody to the machine: no capability, and no way to one",
        "found = dict(l.split(':', 1) for l in open('/proc/self/status'))\n"
        "say([os.getuid() != 0, int(found['CapEff'], 16), int(found['CapBnd'], 16),\n"
        "    found['NoNewPrivs'].strip()])",
        _said("[True, 0, 0, '1']"),
    )
    yield Probe(
        "host settings",
        "the kernel's settings cannot be written",
        "say(tried(os.open, '/proc/sys/kernel/core_pattern', os.O_WRONLY))",
        _said("EACCES", "EROFS", "EPERM"),
    )
    yield Probe(
        "host files",
        "files of the machine cannot be seen",
        f"say([os.path.exists(p) for p in ({str(secret)!r}, '/etc/shadow', '/etc/hostname')])",
        _said("[False, False, False]"),
    )
    yield Probe(
        "read-only root",
        "nothing of the system can be written",
        "say(sorted({tried(os.open, p + '/daydream-probe', os.O_WRONLY | os.O_CREAT)\n"
        "    for p in ('/', '/etc', '/dev', '/usr')} - {'EROFS', 'EACCES', 'EPERM'}))",
        _said("[]"),
    )
    yield Probe(
        "room",
        "what a job may write has a size",
        "def fill():\n    with open('/tmp/fill', 'wb', buffering=0) as f:\n"
        "        for _ in range(3000): f.write(bytes(1 << 20))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nsay(tried(fill))",
        lambda result, text: text in {"ENOSPC", "EFBIG"} or result.outcome == "memory",
        Limits(wall_s=_WALL_S, memory_mb=300),
    )
    yield Probe(
        "environment",
        "the job sees its own variables alone",
        "say(sorted(os.environ))",
        lambda _, text: not _foreign(text),
    )
    yield Probe(
        "processes",
        "other processes cannot be seen",
        "say(len([n for n in os.listdir('/proc') if n.isdigit()]) <= 3)",
        _said("True"),
    )
    yield Probe(
        "network",
        "there is no way out: no route but over loopback, no other family",
        "ways = [l.split() for l in open('/proc/net/route').readlines()[1:]]\n"
        "more = open('/proc/net/ipv6_route').readlines() if os.path.exists('/proc/net/ipv6_route')"
        " else []\n"
        "bad = {w[0] for w in ways} | {l.split()[-1] for l in more}\n"
        "say([sorted(bad - {'lo'}), tried(socket.socket, 40, socket.SOCK_STREAM) != 'done'])",
        _said("[[], True]"),
    )
    yield Probe(
        "system calls",
        "new namespaces, tracing and keys are refused",
        "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\n"
        "calls = (c.unshare, (0x10000000,)), (c.mount, (b'a', b'/tmp', b'tmpfs', 0, None)),"
        " (c.ptrace, (0, 0, None, None)), (c.setns, (0, 0)), (c.personality, (8,))\n"
        "say([f(*a) for f, a in calls])",
        _said("[-1, -1, -1, -1, -1]"),
    )
    yield from _limit_probes()


def _limit_probes() -> Iterator[Probe]:
    yield Probe(
        "memory",
        "the job as a whole is ended over its memory",
        "os.fork()\nheld = bytearray(150 << 20)\nheld[::4096] = b'x' * len(held[::4096])\n"
        "time.sleep(5)",
        _outcome("memory"),
        Limits(wall_s=_WALL_S, memory_mb=200),
    )
    yield Probe(
        "number of processes",
        "a fork bomb ends at its limit",
        "made = 0\nfor _ in range(100):\n    try: child = os.fork()\n    except OSError: break\n"
        "    if child == 0: time.sleep(5); os._exit(0)\n    made += 1\nsay(made < 40)",
        lambda result, text: text == "True" or result.outcome == "processes",
        Limits(wall_s=_WALL_S, processes=20),
    )
    yield Probe(
        "CPU time",
        "a busy loop is ended",
        "while True: pass",
        _outcome("cpu"),
        Limits(wall_s=_WALL_S, cpu_s=1),
    )
    yield Probe(
        "wall time", "a hang is ended", "time.sleep(60)", _outcome("wall"), Limits(wall_s=0.3)
    )
    yield Probe(
        "open files",
        "descriptors have a limit",
        "say(tried(lambda: [os.dup(1) for _ in range(5000)]))",
        _said("EMFILE"),
    )
    yield Probe(
        "result",
        "a result without end is none",
        "while True: os.write(3, bytes(65536))",
        lambda result, _: result.outcome == "output" and not result.result,
    )


def _foreign(text: str) -> set[str]:
    return {name for name in user_environment() if repr(name) in text} - {"PATH", "PWD", "LC_CTYPE"}


def check(sandbox: Sandbox, python: str = sys.executable) -> tuple[Finding, ...]:
    """Return what each probe found in ``sandbox``; never raises for a promise that does not hold.

    Raises :class:`daydream.errors.SandboxError` when the sandbox itself fails.
    """
    with tempfile.TemporaryDirectory(prefix="daydream-check-") as place:
        secret = Path(place, secrets.token_urlsafe(9))
        secret.write_text("secret", encoding="ascii")
        found = [_tried(sandbox, python, probe) for probe in probes(secret)]
    return (*found, _nothing_left(sandbox, python))


def _tried(sandbox: Sandbox, python: str, probe: Probe) -> Finding:
    result = sandbox.run(_job(python, probe.code), probe.limits)
    said = result.stdout.decode("utf-8", "replace")
    words = result.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    detail = f"{result.outcome}: {said or ' '.join(words) or result.exit}"[:200]
    return Finding(probe.name, probe.promise, probe.holds(result, said), detail)


def _nothing_left(sandbox: Sandbox, python: str) -> Finding:
    mark = f"daydream-probe-{secrets.token_urlsafe(9)}"
    code = (
        "for _ in range(2):\n    if os.fork() == 0:\n        os.setsid()\n"
        "        if os.fork() == 0: time.sleep(30)\n        os._exit(0)\ntime.sleep(0.1)"
    )
    begun = time.monotonic()
    sandbox.run(_job(python, code, mark), Limits(wall_s=_WALL_S))
    took = time.monotonic() - begun
    left = sum(mark.encode() in _arguments(path) for path in Path("/proc").glob("[0-9]*/cmdline"))
    detail = f"{left} left, after {took:.1f} s"
    return Finding("nothing left", "daemons end with their job", left == 0, detail)


def _arguments(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _job(python: str, code: str, *arguments: str) -> Job:
    return Job((python, "-I", "-S", "-c", _PRELUDE + code, *arguments), "/", {"PATH": "/usr/bin"})
