"""Running the command line as people do: a real process, a real folder."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = (sys.executable, "-m", "daydream")


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
    done = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, **(env or {})},
        check=False,
    )
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)


def start(*arguments: str) -> subprocess.Popen[bytes]:
    """Start ``daydream`` in the background."""
    return subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def history(run: Path) -> Sequence[tuple[str, bytes]]:
    """Return the names and bytes of a run's tree files."""
    return [(path.name, path.read_bytes()) for path in sorted((run / "history").glob("*"))]
