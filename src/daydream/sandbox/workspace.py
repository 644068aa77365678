"""Folders that hold the files of one job: made, filled, read back and removed without trust.

What a job leaves behind may be anything: links to places outside, pipes that block a reader, a
million levels of folders, files without permissions. Reading and removing here follows no link and
waits for nothing. Both expect that every process of the job has ended.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

MAX_FILES: Final = 2_000
MAX_BYTES: Final = 64 << 20
SKIPPED: Final = frozenset(
    {
        "__pycache__",
        ".git",
        ".hg",
        ".svn",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".DS_Store",
    }
)
"""Names that are never part of an artifact."""


class Unreadable(ValueError):  # noqa: N818 - a fact about a folder
    """A folder cannot be taken as files; the message names the entry and what was expected."""


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """Give a new private folder, absolute and without links, and remove it with all it holds."""
    place = Path(tempfile.mkdtemp(prefix="daydream-")).resolve()
    try:
        yield place
    finally:
        remove_tree(place)


def write_files(root: Path, files: Mapping[str, bytes]) -> None:
    """Write ``files`` (relative POSIX path to content) below ``root``.

    Raises ``OSError`` where the names cannot live beside each other in one folder.
    """
    for name, data in sorted(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def let_others_read(root: Path) -> None:
    """Give everyone read access below ``root``, whose own folder may stay closed to them."""
    for folder, _, names in os.walk(root):
        Path(folder).chmod(0o755)
        for name in names:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o444)


def let_nobody_write(root: Path) -> None:
    """Take write access to everything below ``root`` from everyone but root."""
    for folder, _, names in os.walk(root, topdown=False):
        for name in names:
            Path(folder, name).chmod(0o444)
        Path(folder).chmod(0o555)


def read_files(
    root: Path,
    *,
    max_files: int = MAX_FILES,
    max_bytes: int = MAX_BYTES,
    skip: Callable[[str], bool] = lambda _: False,
) -> dict[str, bytes]:
    """Return the regular files below ``root`` by relative POSIX path.

    Names in :data:`SKIPPED`, compiled Python files and what ``skip`` names are left out. A link is
    read as its target when that is a regular file inside ``root``.

    Raises :class:`Unreadable` for a link that leaves ``root``, a pipe, socket or device, a name
    that is no text, and for more files or bytes than allowed.
    """
    files: dict[str, bytes] = {}
    room = max_bytes
    for path, name in _entries(root, skip):
        if len(files) >= max_files:
            raise Unreadable(f"more than {max_files} files (expected at most that many)")
        data = _read_regular(root, path, name, room)
        room -= len(data)
        files[name] = data
    return files


def _entries(root: Path, skip: Callable[[str], bool]) -> Iterator[tuple[Path, str]]:
    waiting = [root]
    while waiting:
        for entry in sorted(os.scandir(waiting.pop()), key=lambda entry: entry.name):
            name = Path(entry.path).relative_to(root).as_posix()
            if entry.name in SKIPPED or entry.name.endswith(".pyc") or skip(name):
                continue
            if any("\ud800" <= letter <= "\udfff" for letter in name) or "\\" in name:
                raise Unreadable(f"{name!a} is no plain text name (expected UTF-8, no backslash)")
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            else:
                yield Path(entry.path), name


def _read_regular(root: Path, path: Path, name: str, room: int) -> bytes:
    target = path
    if path.is_symlink():
        target = path.resolve()
        if not target.is_relative_to(root.resolve()):
            raise Unreadable(f"{name} is a link to a place outside the workspace")
    try:
        descriptor = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(f"{name} cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable(f"{name} is no regular file")
        if found.st_size > room:
            raise Unreadable(f"{name} with {found.st_size} bytes is over the limit of bytes in all")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(room)
    finally:
        os.close(descriptor)


def remove_tree(root: Path) -> None:
    """Remove ``root`` and all it holds, however deep, whatever its permissions; follows no link.

    Folders are lifted to the top one level at a time, so that no path grows too long to name. What
    still cannot be removed stays behind: a leftover in the temporary folder ends no run.
    """
    number = 0
    with contextlib.suppress(OSError):
        while True:
            folders = []
            for entry in list(os.scandir(root)):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                else:
                    Path(entry.path).unlink()
            if not folders:
                break
            for folder in folders:
                folder.chmod(0o700)
                for entry in list(os.scandir(folder)):
                    inner = Path(entry.path)
                    if entry.is_dir(follow_symlinks=False):
                        inner.chmod(0o700)
                        number += 1
                        inner.rename(root / f".removing-{number}")
                    else:
                        inner.unlink()
                folder.rmdir()
        root.rmdir()
