"""Programs that a model wrote, run once in the sandbox: what went in, and what became of it.

Owns what tasks of programs share: reading the one file that matters, the workspace of a job, and
the words for a job that ended badly. Refuses artifacts without the file, or larger than a program.
"""

from pathlib import Path
from typing import Final

from daydream.canonical import clean_text
from daydream.sandbox.base import ExecResult, Limits
from daydream.sandbox.workspace import let_others_read, write_files
from daydream.tasks.base import Artifact, Evaluation, failed
from daydream.tasks.verdict import signal_name
from daydream.tree import Status

MAX_BYTES: Final = 1 << 20
"""Bytes of all files of a program."""
TAIL: Final = 2_000


def file_problem(artifact: Artifact, entry: str) -> Evaluation | None:
    """Return why ``artifact`` is no program with the file ``entry``; None when it is one."""
    if entry not in artifact.files:
        found = ", ".join(sorted(artifact.files)[:8]) or "nothing"
        return failed("no_program", f"the artifact has no {entry} (found {found}); write it")
    size = sum(map(len, artifact.files.values()))
    if not size <= MAX_BYTES:
        return failed(
            "too_large", f"the artifact has {size} bytes (expected at most {MAX_BYTES}); shorten it"
        )
    return None


def lay_out(place: Path, artifact: Artifact) -> tuple[str, ...]:
    """Write the files below ``place/program`` and return the paths that a job has to be shown.

    Raises ``OSError`` where the names cannot live beside each other.
    """
    home = place / "program"
    write_files(home, artifact.files)
    let_others_read(home)
    return tuple(str(path) for path in home.iterdir())


def ended_badly(result: ExecResult, limits: Limits, what: str) -> Evaluation | None:
    """Return the failure of a job that did not end by itself with status 0; None for one that did.

    ``what`` is the job in two words, such as ``the program``.
    """
    log = printed(result)
    if result.outcome == "exited" and result.exit == 0:
        return None
    kind: str = result.outcome
    status = Status.TIMEOUT
    if result.outcome == "wall":
        kind, said = "timeout", f"took over {limits.wall_s:g} s and was killed; do less"
    elif result.outcome == "cpu":
        said = "used more CPU time than its limit and was killed; do less"
    elif result.outcome == "memory":
        said = f"used over {limits.memory_mb} MiB of memory and was killed; keep less of it"
    elif result.outcome == "exited":
        status, kind, said = Status.ERROR, "crash", f"ended with status {result.exit}"
    elif result.outcome == "signalled":
        status, kind = Status.ERROR, "crash"
        said = f"was killed by {signal_name(result.signal)}"
    else:
        status, said = Status.ERROR, f"was ended over its limit of {result.outcome}"
    after = f"; it printed last:\n{log}" if log else ""
    return failed(kind, f"{what} {said}{after}", status=status, feedback=log)


def printed(result: ExecResult) -> str:
    """Return the end of what a job printed, safe to show."""
    return shown_text((result.stderr or result.stdout)[-2 * TAIL :])


def shown_text(data: bytes) -> str:
    """Return the end of ``data`` as text without control characters."""
    text = "".join(
        letter
        for letter in data.decode("utf-8", "replace")
        if letter in "\n\t" or letter.isprintable()
    )
    return clean_text(text[-TAIL:], TAIL)
