"""Small Git repositories with a change to review, and what a review must leave as it was."""

import os
import subprocess
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

CALM = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0"}
BEFORE = {
    "stock.py": "def total(rows):\n    return sum(rows)\n",
    "shelf.py": "def label(name):\n    return name.strip()\n",
    "till.py": "def change(paid, due):\n    return paid - due\n",
    "checks.py": "import stock\nassert stock.total([1, 2]) == 3\n",
}
AFTER = {
    "stock.py": (
        "def total(rows):\n    return sum(rows)\n\n\n"
        "def usual(rows):\n    return sum(rows) / len(rows)\n"
    ),
    "shelf.py": (
        "def label(name):\n    if name == None:\n        return 'unnamed'\n"
        "    return name.strip()\n"
    ),
    "till.py": (
        "def change(paid, due):\n    try:\n        return paid - due\n    except:\n"
        "        return 0\n"
    ),
    "checks.py": (
        "import stock, shelf, till\nassert stock.total([1, 2]) == 3\n"
        "assert stock.usual([]) == 0.0, 'no rows, no mean'\n"
    ),
}
PLACES = {("stock.py", 6), ("shelf.py", 2), ("till.py", 4)}
"""Where the three slips are that the change brings in."""
CHECKS = "python3 checks.py"


def git(folder: Path | str, *words: str, code: int = 0) -> str:
    """Run git as a person would, without the settings of this machine."""
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(
        ["git", *who, *words],
        cwd=folder,
        capture_output=True,
        env={**os.environ, **CALM},
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def put(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files."""
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode())


def commit(folder: Path, message: str) -> str:
    """Commit everything and return the commit."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def seeded(
    folder: Path,
    after: Mapping[str, str | bytes] = AFTER,
    before: Mapping[str, str | bytes] = BEFORE,
) -> Path:
    """Make a checkout whose branch ``topic`` brings three slips, each in a file of its own."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    put(folder, before)
    commit(folder, "Begin")
    git(folder, "switch", "--quiet", "--create", "topic")
    put(folder, after)
    commit(folder, "Change")
    return folder


class State(NamedTuple):
    """What belongs to the user."""

    head: str
    branch: str
    refs: str
    status: str
    staged: str
    """The index: its bytes, time and inode."""
    files: tuple[tuple[str, str], ...]


def state(folder: Path) -> State:
    """Return everything that a review must not change, bytes and times of the index included."""
    index = Path(folder, git(folder, "rev-parse", "--git-path", "index"))
    held = index.stat()
    return State(
        git(folder, "rev-parse", "HEAD"),
        git(folder, "rev-parse", "--abbrev-ref", "HEAD"),
        git(folder, "for-each-ref"),
        git(folder, "status", "--porcelain", "--ignored"),
        f"{sha256(index.read_bytes()).hexdigest()} {held.st_mtime_ns} {held.st_ino}",
        tuple(
            (str(path), str(path.readlink()) if path.is_symlink() else _digest(path))
            for path in sorted(folder.rglob("*"))
            if ".git" not in path.parts and (path.is_symlink() or path.is_file())
        ),
    )


def _digest(path: Path) -> str:
    return f"{sha256(path.read_bytes()).hexdigest()} {path.stat().st_mtime_ns}"
