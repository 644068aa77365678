"""Files that survive a crash: atomic writes, and what to say when the disk refuses.

A file written here is either the old one or the new one after a crash at any instant. Every
``OSError`` of the store leaves through :func:`disk_errors` as a :class:`StoreError`.
"""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Final

from daydream.errors import StoreError

REASONS: Final[Mapping[int, tuple[str, str]]] = {
    errno.ENOSPC: ("the disk is full", "free space"),
    errno.EDQUOT: ("the disk quota is used up", "free space"),
    errno.EFBIG: ("the file size limit is reached", "raise the limit (ulimit -f)"),
    errno.EACCES: ("permission is denied", "make the folder writable for this user"),
    errno.EPERM: ("permission is denied", "make the folder writable for this user"),
    errno.EROFS: ("the file system is read-only", "move the run folder to a writable place"),
    errno.EIO: ("the disk reported an error", "check the disk"),
}
NAME_LIMIT = 255
"""Longest name of one file or folder, in bytes, on the usual file systems."""


@contextmanager
def disk_errors(what: str, path: Path, run: Path | None = None) -> Iterator[None]:
    """Turn an ``OSError`` of the block into a :class:`StoreError` that says what to do.

    ``what`` is the verb (``write``, ``read``), ``path`` the file, ``run`` the run folder to resume.
    """
    try:
        yield
    except OSError as error:
        found, cure = REASONS.get(
            error.errno or 0, (error.strerror or type(error).__name__, "check the path")
        )
        then = f"{cure} and try again"
        if run is not None:
            then = (
                f"everything recorded before it is kept; {cure}, then continue with: "
                f"daydream resume {run}"
            )
        raise StoreError(f"cannot {what} {path}: {found}; {then}") from error


def sync_folder(path: Path) -> None:
    """Make the names in folder ``path`` durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, data: bytes) -> None:
    """Create or replace ``path`` with ``data``, durably except for its name."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path`` in one step: a crash leaves the old file or the new one.

    There may be one writer of ``path`` at a time, as the run's lock guarantees. Raises ``OSError``,
    and then the old file is untouched.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write_whole(temporary, data)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_tree(path: Path) -> None:
    """Remove folder ``path`` with everything in it, where it exists."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def path_problem(name: str) -> str | None:
    """Return why ``name`` cannot be a file of an artifact, or None when it can.

    A good name is a normalised relative POSIX path of printable parts, so that it means one file
    inside the folder it is written to and one line of a listing.
    """
    path = PurePosixPath(name)
    if not name or path.is_absolute() or str(path) != name or name == "." or ".." in path.parts:
        return "is no normalised relative path"
    if "\\" in name or not name.isprintable():
        return "holds a backslash or a character that cannot be printed"
    if any(len(part.encode("utf-8", "replace")) > NAME_LIMIT for part in path.parts):
        return f"has a part of more than {NAME_LIMIT} bytes"
    return None


def check_names(names: Mapping[str, object]) -> None:
    """Raise :class:`StoreError` for an unsafe name, or a file where another needs a folder."""
    for name in names:
        problem = path_problem(name)
        if problem is None:
            above = next((str(p) for p in PurePosixPath(name).parents if str(p) in names), None)
            problem = None if above is None else f"lies below {above!r}, which is a file"
        if problem is not None:
            raise StoreError(
                f"artifact file {name!r} {problem} (expected a plain relative path); "
                "have the agent name its files inside the workspace"
            )
