"""Files that survive a crash: atomic writes, and what to say when the disk refuses.

A file written here is either the old one or the new one after a crash at any instant. Every
``OSError`` of the store leaves through :func:`disk_errors` as a :class:`StoreError`.
"""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from daydream.canonical import names_problem
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


def check_names(names: Mapping[str, object]) -> None:
    """Raise :class:`StoreError` for an unsafe name, or a file where another needs a folder."""
    problem = names_problem(names)
    if problem is not None:
        raise StoreError(problem)
