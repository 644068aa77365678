"""Running the command line as people do, in a real folder.

A test with ``daydream`` holds in both forms: called in this process, which is what the default
tests do because most of a short command is the start of Python, and as a process of its own, which
is what ``--slow`` does.
"""

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from daydream.cli.main import main

COMMAND = (sys.executable, "-m", "daydream")
APART = False
"""Whether ``daydream`` starts a process each time. Set by ``tests/conftest.py``."""


class Ran(NamedTuple):
    """What a finished command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The last line of standard output, parsed."""
        return json.loads(self.out.splitlines()[-1])

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Every line of standard output, parsed."""
        return [json.loads(line) for line in self.out.splitlines()]


def daydream(*arguments: str, code: int = 0, env: Mapping[str, str] | None = None) -> Ran:
    """Run ``daydream`` with ``arguments``, check its exit code, and return what it printed."""
    return (process if APART else call)(*arguments, code=code, env=env)


def process(*arguments: str, code: int = 0, env: Mapping[str, str] | None = None) -> Ran:
    """Do what ``daydream`` does in a process of its own, whichever tests run."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, **(env or {})},
        check=False,
    )
    return _checked(Ran(done.returncode, done.stdout, done.stderr), code)


def call(*arguments: str, code: int = 0, env: Mapping[str, str] | None = None) -> Ran:
    """Do what ``daydream`` does in this process, whichever tests run."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err), patch.dict(os.environ, env or {}):
        found = main(arguments)
    texts = []
    for stream in (out, err):
        stream.seek(0)
        texts.append(stream.read())
    return _checked(Ran(found, *texts), code)


def _checked(ran: Ran, code: int) -> Ran:
    assert ran.code == code, ran.err + ran.out
    assert "Traceback" not in ran.err, ran.err
    return ran


def start(*arguments: str) -> subprocess.Popen[bytes]:
    """Start ``daydream`` in the background."""
    return subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def history(run: Path) -> Sequence[tuple[str, bytes]]:
    """Return the names and bytes of a run's tree files."""
    return [(path.name, path.read_bytes()) for path in sorted((run / "history").glob("*"))]
