"""What this machine offers a bubblewrap sandbox: the programs, the user to become, and a place to
show a path to that user which he may not reach by its name.
"""

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from daydream.sandbox import namespaces, seccomp, strict
from daydream.sandbox.workspace import remove_tree

USER: Final = strict.USER
"""The user and group that root becomes."""
OLDEST: Final = (0, 8)
"""First version with ``--disable-userns``."""
PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_INSTALL: Final = "install the package bubblewrap, for example: sudo apt-get install bubblewrap"
_TOOLS: Final = ("prlimit", "setpriv", "unshare", "mount")
_TRY_S: Final = 30


class Programs(NamedTuple):
    """Absolute paths of what a sandbox is started with."""

    bwrap: str
    prlimit: str
    setpriv: str
    unshare: str


def user() -> int | None:
    """Return the user that jobs run as; None when this process runs as an ordinary one already."""
    return USER if os.geteuid() == 0 else None


@functools.cache
def programs() -> Programs:
    """Return where the programs are; an empty text for one that is not there."""
    found = (shutil.which(name, path=PATH) or "" for name in ("bwrap", *_TOOLS[:3]))
    return Programs(*found)


@functools.cache
def missing() -> str:
    """Return why the sandbox cannot run on this machine and what to do; empty when it can.

    Found out once for a process, at last by starting a program in namespaces.
    """
    if sys.platform != "linux":
        return f"it needs Linux (found {sys.platform})"
    if not seccomp.known_machine():
        return "its filter knows x86-64 and arm64 alone"
    found = programs()
    if not found.bwrap:
        return f"bwrap is not installed; {_INSTALL}"
    absent = [name for name in _TOOLS if not shutil.which(name, path=PATH)]
    if absent:
        return f"{absent[0]} is not installed; install the package util-linux"
    version = _version(found.bwrap)
    if version < OLDEST:
        return f"bwrap is version {'.'.join(map(str, version))} (expected 0.8 or newer); {_INSTALL}"
    done = subprocess.run(
        [
            *become(),
            *(found.bwrap, "--unshare-all", "--unshare-user", "--disable-userns"),
            *("--ro-bind", "/", "/", "--proc", "/proc", "--", "/bin/sh", "-c", "exit 0"),
        ],
        capture_output=True,
        check=False,
        cwd="/",
        env={"PATH": PATH},
        timeout=_TRY_S,
    )
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip()[-300:]
    return (
        f"namespaces cannot be made here: {said or f'status {done.returncode}'} (expected a kernel "
        "and a container that allow user namespaces to ordinary users)"
    )


def _version(bwrap: str) -> tuple[int, ...]:
    done = subprocess.run([bwrap, "--version"], capture_output=True, check=False, timeout=_TRY_S)
    return tuple(int(part) for part in re.findall(rb"\d+", done.stdout)[:2]) or (0,)


def become() -> tuple[str, ...]:
    """Return the command before a command that makes root an ordinary user; else nothing.

    It fails, and with it all that follows, where root may not become that user.
    """
    number = user()
    if number is None:
        return ()
    options = (f"--reuid={number}", f"--regid={number}", "--clear-groups", "--inh-caps=-all")
    return (programs().setpriv, *options, "--")


class Shown(NamedTuple):
    """How paths are shown to a user who may not reach them by their names."""

    moved: dict[str, str]
    """A path to where it is found instead."""
    binds: tuple[tuple[str, str], ...]
    """What to mount where first, in a mount namespace of root's own."""


@contextlib.contextmanager
def shown(paths: Iterable[str], number: int | None) -> Iterator[Shown]:
    """Prepare a place that shows ``paths`` to user ``number``, who cannot enter some folder above.

    Where the interpreter or the user's folder lies in a home that is closed to others, the one who
    starts bubblewrap could not name them. Root can mount them elsewhere, seen by nobody else.
    """
    hidden = {} if number is None else namespaces.hidden_from(paths, number)
    if not hidden:
        yield Shown({}, ())
        return
    place = Path(tempfile.mkdtemp(prefix="daydream-shown-"))
    try:
        place.chmod(0o711)
        binds: dict[str, str] = {}
        for part in dict.fromkeys(hidden.values()):
            point = place / str(len(binds))
            if Path(part).is_dir():
                point.mkdir()
            else:
                point.touch()
            binds[part] = str(point)
        moved = {path: binds[part] + path[len(part) :] for path, part in hidden.items()}
        yield Shown(moved, tuple(binds.items()))
    finally:
        remove_tree(place)
