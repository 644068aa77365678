"""Run ``daydream`` and kill it with -9 in the moment in which it would put a certain file in place.

    python -m tests.real.killed_at SUFFIX ARGUMENTS...

What is still to be written then is the file whose path ends with SUFFIX, or one more record of it.
"""

import os
import signal
import subprocess
import sys

from daydream.cli.main import main
from tests.conftest import ROOT


def _watch(suffix: str) -> None:
    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.rename":
            target = str(arguments[1])
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_APPEND:
            target = str(arguments[0])
        else:
            return
        if target.endswith(suffix):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def killed_at(suffix: str, *arguments: str) -> None:
    """Run ``daydream`` with ``arguments`` until it is killed at ``suffix``."""
    command = [sys.executable, "-m", "tests.real.killed_at", suffix, *arguments]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


if __name__ == "__main__":
    _watch(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
