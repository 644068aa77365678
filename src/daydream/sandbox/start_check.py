"""What a job says it is held by, beside what the sandbox promises: a missing layer closes it.

One short job for each kind of sandbox in a process, before the first that matters. It reads what
the kernel says of itself: its capabilities, filter, limits, mounts, interfaces and company. Trying
each limit out takes seconds and is :mod:`daydream.sandbox.self_check`.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from daydream.sandbox.profiles import Profile

SCRIPT: Final = r"""
while read -r name value rest; do
    case $name in CapEff:|CapBnd:|NoNewPrivs:|Seccomp:) echo "status $name $value";; esac
done </proc/self/status
while read -r line; do echo "limit $line"; done </proc/self/limits
while read -r device place kind options rest; do echo "mount $place $options"; done </proc/mounts
while read -r name rest; do echo "route $name"; done </proc/self/net/route
set -- /proc/[0-9]*
echo "processes $#"
for path in /etc/shadow /etc/hostname /sys; do [ ! -e "$path" ] || echo "sees $path"; done
if (: >>/proc/sys/kernel/core_pattern) 2>/dev/null; then echo "sees the kernel's settings"; fi
if setarch --addr-no-randomize true 2>/dev/null; then echo "sees refused system calls"; fi
echo end
"""
"""For ``/bin/sh``. Every line begins with what it is about."""
_STATUS: Final = {"CapEff:": "0", "CapBnd:": "0", "NoNewPrivs:": "1", "Seccomp:": "2"}
_LIMITS: Final = {
    "cpu": "Max cpu time",
    "fsize": "Max file size",
    "nofile": "Max open files",
    "nproc": "Max processes",
    "core": "Max core file size",
    "stack": "Max stack size",
    "memlock": "Max locked memory",
    "data": "Max data size",
}


def problems(said: str, profile: Profile, limits: Sequence[str]) -> Iterator[str]:
    """Yield what a job of ``profile`` said that was not promised.

    ``said`` is the output of :data:`SCRIPT`, ``limits`` the options of ``prlimit`` that were meant
    to hold.
    """
    lines = said.splitlines()
    if lines[-1:] != ["end"]:
        yield f"a first job said {said[-100:]!r} (expected all of what it is held by)"
        return
    yield from _status(_about(lines, "status"))
    yield from _limits(_about(lines, "limit"), limits)
    yield from _mounts(_about(lines, "mount"), profile)
    # A kernel may put idle tunnels into every new namespace, so interfaces say nothing.
    routes = set(_about(lines, "route")) - {"Iface", "lo"}
    if not profile.network and routes:
        yield f"network: routes over {', '.join(sorted(routes))} (expected none)"
    count = int(next(_about(lines, "processes"), "0"))
    if not 1 <= count <= 3:
        yield f"processes: {count} are seen (expected its own)"
    for what in _about(lines, "sees"):
        yield f"view: it reaches {what} (expected not to)"


def outside_problems(pid: int, *, held: bool, network: bool) -> Iterator[str]:
    """Yield what process ``pid`` of a job is on this machine that was not promised.

    ``held`` says whether its control group, where it was to have one, holds it; ``network`` whether
    it has the machine's own network.
    """
    # Where a machine shows nobody what others do, what the job says of itself has to be enough.
    with contextlib.suppress(PermissionError):
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        users = set("".join(re.findall(r"^Uid:(.*)$", text, re.MULTILINE)).split())
        if "0" in users:
            yield "user: it is root on this machine (expected not to be)"
    with contextlib.suppress(PermissionError):
        for name in ("user", "mnt", "pid", "ipc", "uts", *(() if network else ("net",))):
            if _namespace(pid, name) == _namespace(os.getpid(), name):
                yield f"namespaces: it shares {name} with us (expected its own)"
    if not held:
        yield "control group: its limits are not in force (expected memory and processes bounded)"


def _namespace(pid: int, name: str) -> str:
    return str(Path(f"/proc/{pid}/ns/{name}").readlink())


def _about(lines: Sequence[str], word: str) -> Iterator[str]:
    return (line.removeprefix(f"{word} ") for line in lines if line.startswith(f"{word} "))


def _status(lines: Iterator[str]) -> Iterator[str]:
    found = dict(line.split() for line in lines)
    for name, expected in _STATUS.items():
        value = found.get(name, "nothing").lstrip("0") or "0"
        if value != expected:
            yield f"{name.rstrip(':')} is {value} (expected {expected})"


def _limits(lines: Iterator[str], options: Sequence[str]) -> Iterator[str]:
    found = {}
    for line in lines:
        name, *values = re.split(r"\s{2,}", line)
        found[name] = values[0] if values else "nothing"
    wanted = dict(option.removeprefix("--").split("=", 1) for option in options)
    for short, name in _LIMITS.items():
        if short not in wanted:
            continue
        expected, value = wanted[short].partition(":")[0], found.get(name, "nothing")
        if not (value.isdigit() and int(value) <= int(expected)):
            yield f"limits: {name.lower()} is {value} (expected {expected})"


def _mounts(lines: Iterator[str], profile: Profile) -> Iterator[str]:
    # A later mount covers an earlier one.
    found = dict(line.split(" ", 1) for line in lines)
    for place in {"/": "", "/dev": "", **found}:
        inner = place in {"/tmp", "/dev/shm"} or place.startswith(("/proc", "/dev/"))  # noqa: S108
        if not inner and "ro" not in found.get(place, "").split(","):
            yield f"view: {place} can be written (expected read-only)"
    for place, size_mb in (("/tmp", profile.space_mb), ("/dev/shm", profile.shared_mb)):  # noqa: S108
        if f"size={size_mb << 10}k" not in found.get(place, "").split(","):
            yield f"view: {place} is {found.get(place, 'absent')!r} (expected {size_mb} MiB)"
