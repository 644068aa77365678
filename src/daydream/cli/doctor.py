"""``daydream doctor``: what this machine has, and what is missing."""

import platform
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daydream.cli import output
from daydream.config import cores
from daydream.rounds import versions
from daydream.sandbox import host
from daydream.sandbox.bubblewrap import BubblewrapSandbox

OPTIONAL = frozenset({"isolation", "scipy"})


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
        (
            "scipy",
            find_spec("scipy") is not None,
            "local_search can run"
            if find_spec("scipy") is not None
            else "missing: pip install 'daydream-rsi[tasks]' for local_search",
        ),
        ("isolation", not host.missing(), _isolation()),
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


def _isolation() -> str:
    """Return the isolation that evaluations of a folder get here, and why no stronger one."""
    reason = host.missing()
    if not reason:
        return ", ".join(BubblewrapSandbox().layers)
    fallback = "process limits only: evaluators see your files; run code you trust"
    if host.user() is not None:
        fallback = "none for root unless asked for with sandbox = process"
    return f"{fallback}. bubblewrap: {reason}"
