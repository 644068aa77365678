"""Other processes that use a run folder: ``python store_processes.py DEED FOLDER [NUMBER]``.

Each prints one line for every step that is done, so that a test knows what must be on the disk.
"""

import os
import resource
import sys
from pathlib import Path

from daydream.errors import StoreError
from daydream.store.run_folder import RunFolder
from tests.unit.store.samples import clock, dispatched, finished, round_started, started

VERSIONS = (
    {"program.py": b"a = 1\n" * 50, "lib/x.py": b"x" * 1000},
    {"program.py": b"b = 2\n" * 50},
)


def say(text: object) -> None:
    os.write(1, f"{text}\n".encode())


def opened(path: Path) -> RunFolder:
    if (path / "journal.jsonl").exists():
        return RunFolder.open(path, clock=clock)
    return RunFolder.create(path, {"task": "t"}, clock=clock)


def hold(path: Path) -> None:
    """Hold the run until standard input ends."""
    with opened(path):
        say(os.getpid())
        sys.stdin.read()


def hold_and_fork(path: Path) -> None:
    """Hold the run beside a forked child; both live until standard input ends."""
    with opened(path) as run:
        child = os.fork()
        if child == 0:
            refused = False
            try:
                run.journal.append(started())
            except StoreError:
                refused = True
            say(f"child {os.getpid()} {refused}")
            sys.stdin.read()
            os._exit(0)
        sys.stdin.read()


def append(path: Path) -> None:
    """Append attempts with artifacts for ever, from where the run stands."""
    with opened(path) as run:
        state = run.state()
        if state.started is None:
            run.journal.append(started())
        if 1 not in state.rounds:
            run.journal.append(round_started())
        number = state.calls
        while True:
            number += 1
            run.journal.append(dispatched(number))
            artifact = run.put_artifact({"program.py": b"%d" % number, "same.py": b"same"})
            run.journal.append(finished(number, artifact=artifact))
            say(number)


def create(path: Path) -> None:
    """Make run folders for ever."""
    number = 0
    while True:
        number += 1
        with RunFolder.create(path / f"{number:05d}", {"task": "t"}, clock=clock):
            say(number)


def rewrite_best(path: Path) -> None:
    """Rewrite the best for ever."""
    with opened(path) as run:
        number = 0
        while True:
            run.write_best(VERSIONS[number % 2], {})
            number += 1
            say(number)


def fill(path: Path, limit: int) -> None:
    """Append under a limit of file size until it is refused, then try once more and a blob."""
    with opened(path) as run:
        run.journal.append(started())
        run.journal.append(round_started())
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        number = 0
        for turn in range(2):
            try:
                while True:
                    run.journal.append(finished(number + 1))
                    number += 1
            except StoreError as error:
                say(f"{turn} {number} {error}")
        try:
            run.put_artifact({"noise": os.urandom(2 * limit)})
        except StoreError as error:
            say(f"2 {number} {error}")


if __name__ == "__main__":
    deeds = {deed.__name__: deed for deed in (hold, hold_and_fork, append, create, rewrite_best)}
    deed, folder, *numbers = sys.argv[1:]
    if deed == "fill":
        fill(Path(folder), int(numbers[0]))
    else:
        deeds[deed](Path(folder))
