"""``daydream doctor``: what this machine has, and what is missing."""

import platform
import shutil
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daydream.cli import output
from daydream.config import cores, environment_layer, resolve, user_environment
from daydream.rounds import versions
from daydream.sandbox import host
from daydream.sandbox.bubblewrap import BubblewrapSandbox
from daydream.tasks.compiled import COMPILERS

PACKAGES = (
    ("scipy", "scipy", "local_search", "tasks"),
    ("scikit-learn", "sklearn", "lasso:variant=path17", "lasso"),
    ("torch", "torch", "kernels", "kernels"),
)
"""Package, module, what needs it, and the extra that brings it."""
OPTIONAL = frozenset({"isolation", "C++ compiler", "lean", *(name for name, *_ in PACKAGES)})


def doctor(*, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Check this machine: versions, extras, the isolation in force, room on the disk.

    Parameters
    ----------
    json
        Print JSON and nothing else on standard output.
    """
    free_gb = shutil.disk_usage(Path()).free / 1e9
    checks: list[tuple[str, bool, str]] = [
        ("python", sys.version_info >= (3, 11), platform.python_version()),
        *((name, True, text) for name, text in versions().items() if name != "python"),
        ("cores", True, str(cores())),
        *(_package(*one) for one in PACKAGES),
        _program("C++ compiler", COMPILERS, host.PATH, "lasso:variant=path17"),
        _program("lean", ("lean",), user_environment().get("PATH", ""), "lean"),
        ("isolation", *_isolation()),
        ("disk", free_gb > 1, f"{free_gb:.1f} GB free here"),
    ]
    missing = [name for name, good, _ in checks if not good and name not in OPTIONAL]
    if json:
        output.emit(
            {
                "checks": [{"name": n, "ok": good, "detail": text} for n, good, text in checks],
                "ok": not missing,
            }
        )
    else:
        rows = [(n, "ok" if good else "missing", text) for n, good, text in checks]
        output.out().print(output.table("This machine", ("what", "state", "detail"), rows))
        output.next_step("daydream run branch-world")
    return 3 if missing else 0


def _package(name: str, module: str, what: str, extra: str) -> tuple[str, bool, str]:
    """Return whether a package is installed, and what for."""
    if find_spec(module) is not None:
        return name, True, f"{what} can run"
    return name, False, f"missing: pip install 'daydream-rsi[{extra}]' for {what}"


def _program(name: str, programs: Iterable[str], places: str, what: str) -> tuple[str, bool, str]:
    """Return whether one of ``programs`` is there, and what for."""
    found = next(filter(None, (shutil.which(one, path=places) for one in programs)), None)
    return name, found is not None, found or f"missing: task {what} needs one"


def _isolation() -> tuple[bool, str]:
    """Return whether programs are kept apart here, by what, and why not by more."""
    if resolve([environment_layer()]).sandbox == "process":
        return True, "process limits only, as DAYDREAM_SANDBOX asks: programs see your files"
    reason = host.missing()
    if not reason:
        doubt = BubblewrapSandbox().doubt()
        found = f"it does not hold, so nothing runs in it: {doubt}; see: daydream sandbox check"
        return not doubt, found if doubt else ", ".join(BubblewrapSandbox().layers)
    fallback = "process limits only: evaluators see your files; run code you trust"
    if host.user() is not None:
        fallback = "none for root unless asked for with sandbox = process"
    return False, f"{fallback}. bubblewrap: {reason}"
