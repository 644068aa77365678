"""What has to be quick on a machine that does nothing else, in CPU seconds: the least of three.

    python benchmarks/bounds.py

Prints each figure beside its bound; the exit code is 1 when one is missed.
"""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from daydream.cli.main import main as daydream
from daydream.proposers.developer import fenced_blocks
from daydream.store.journal import read_journal

ATTEMPTS: Final = 100_000
FENCES: Final = ("```a\n", "~~~~a\n", "`" * 5, "```\n")


def help_s() -> float:
    """Return what ``daydream --help`` takes, in a process of its own."""
    code = "import sys; from daydream.cli.main import main; sys.exit(main(['--help']))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit("daydream --help failed; see why by running it")
    return usage.ru_utime + usage.ru_stime


def journal(folder: Path) -> Path:
    """Write a journal of :data:`ATTEMPTS` attempts, those of a real run over and over."""
    run = folder / "run"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = daydream(["run", "branch-world", "--rounds", "1", "--out", str(run), "--json"])
    if code:
        sys.exit(f"a run of branch-world ended with {code}; run it by hand to see why")
    first, *lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b'"event":"attempt_finished"' in line]
    path = folder / "long.jsonl"
    path.write_bytes(first + b"".join(kept[number % len(kept)] for number in range(ATTEMPTS)))
    return path


def fences() -> None:
    """Look for blocks in answers that hold nothing but fences."""
    for line in FENCES:
        fenced_blocks(line * 200_000)


def spent(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this process that ``work`` takes."""
    before = time.process_time()
    work()
    return time.process_time() - before


def main() -> int:
    """Measure and print; return 1 when a bound is missed."""
    with tempfile.TemporaryDirectory() as name:
        long = journal(Path(name))
        bounds: tuple[tuple[str, float, Callable[[], float]], ...] = (
            ("daydream --help", 0.5, help_s),
            (f"reading a journal of {ATTEMPTS} attempts", 3.0, lambda: spent(_read(long))),
            ("finding the blocks in 200000 lines of fences", 3.0, lambda: spent(fences)),
        )
        missed = 0
        for what, bound, measure in bounds:
            found = min(measure() for _ in range(3))
            kept = found < bound
            missed += not kept
            print(f"{found:8.3f} s  {what} (under {bound:g}){'' if kept else ': missed'}")
    return 1 if missed else 0


def _read(path: Path) -> Callable[[], object]:
    return lambda: read_journal(path)


if __name__ == "__main__":
    sys.exit(main())
