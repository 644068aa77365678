"""Reading single files that a job left, below one open folder, without trust.

The folder is held by a descriptor, so nothing that happens to its name matters. No link is followed
at any level, no other file system is entered, and nothing that could block is waited for. Expects
that every process of the job has ended.
"""

import os
import stat
from collections.abc import Iterable
from typing import Final

from daydream.sandbox.base import Job
from daydream.sandbox.workspace import MAX_BYTES, MAX_FILES, SKIPPED

FILE_BYTES: Final = 8 << 20
"""Largest file that is read back."""
MAX_REASONS: Final = 20
"""So many files that cannot be taken end the reading of a whole folder."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


class NotTaken(ValueError):  # noqa: N818 - a fact about one file
    """A file is not read; the message says why."""


def open_folder(path: str) -> int | None:
    """Return a descriptor of the folder ``path``, whose own path is trusted; None without one."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None


def read_files(folder: int | None, names: Iterable[str]) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the content of what can be taken of ``names`` below ``folder``, and why not the rest.

    None stands for a folder that cannot be opened.
    """
    files: dict[str, bytes] = {}
    not_taken: dict[str, str] = {}
    for name in names:
        try:
            if folder is None:
                raise NotTaken("the working folder cannot be opened")
            files[name] = read_file(folder, name)
        except NotTaken as error:
            not_taken[name] = str(error)
    return files, not_taken


def taken(folder: int | None, job: Job) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return what ``job`` asked to have read back, and why not the rest of it."""
    files, not_taken = read_files(folder, job.collect)
    if job.whole:
        every, refused = read_all(folder)
        return {**every, **files}, {**refused, **not_taken}
    return files, not_taken


def read_all(folder: int | None) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return every file below ``folder`` by relative path, and why some entries are not taken.

    Entries that are never part of an artifact are passed over (:data:`workspace.SKIPPED`). Reading
    ends at the limits of an artifact, with the reason under the name that was over them.
    """
    files: dict[str, bytes] = {}
    not_taken: dict[str, str] = {}
    if folder is None:
        return files, {".": "the working folder cannot be opened"}
    room = MAX_BYTES
    waiting = [""]
    while waiting:
        place = waiting.pop()
        try:
            entries = _entries(folder, place)
        except NotTaken as error:
            not_taken[place] = str(error)
            continue
        for name, is_folder in entries:
            if is_folder:
                waiting.append(name)
                continue
            try:
                if len(files) >= MAX_FILES:
                    raise NotTaken(f"more than {MAX_FILES} files (expected at most that many)")
                files[name] = read_file(folder, name, min(room, FILE_BYTES))
            except NotTaken as error:
                not_taken[name] = str(error)
                if len(not_taken) >= MAX_REASONS:
                    return files, not_taken
            else:
                room -= len(files[name])
    return files, not_taken


def _entries(folder: int, place: str) -> list[tuple[str, bool]]:
    """Return the entries of ``place`` in order, each with whether it is a folder."""
    here = _open(place or ".", _FOLDER, folder, place)
    try:
        with os.scandir(here) as found:
            listed = sorted((one.name, one.is_dir(follow_symlinks=False)) for one in found)
    finally:
        os.close(here)
    inside = f"{place}/" if place else ""
    return [
        (inside + name, is_folder)
        for name, is_folder in listed
        if name not in SKIPPED and not name.endswith(".pyc")
    ]


def read_file(folder: int, name: str, limit: int = FILE_BYTES) -> bytes:
    """Return the content of the regular file ``name``, a relative path below ``folder``.

    Raises :class:`NotTaken` for a path that leaves the folder, a link at any level, anything that
    is no regular file, a second name of the same file, another file system, more than ``limit``
    bytes, and a file that is not there.
    """
    parts = name.split("/")
    if not all(part not in ("", ".", "..") for part in parts):
        raise NotTaken(f"{name!a} is no plain path below the folder")
    home = os.fstat(folder).st_dev
    here = os.dup(folder)
    try:
        for part in parts[:-1]:
            inner = _open(part, _FOLDER, here, name)
            os.close(here)
            here = inner
        file = _open(parts[-1], _FILE, here, name)
    finally:
        os.close(here)
    try:
        return _read(file, name, home, limit)
    finally:
        os.close(file)


def _open(part: str, flags: int, folder: int, name: str) -> int:
    try:
        return os.open(part, flags, dir_fd=folder)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise NotTaken(f"{name!a} cannot be opened: {reason}") from None


def _read(file: int, name: str, home: int, limit: int) -> bytes:
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        raise NotTaken(f"{name!a} is no regular file")
    if found.st_nlink != 1:
        raise NotTaken(f"{name!a} has {found.st_nlink} names (expected one)")
    if found.st_dev != home:
        raise NotTaken(f"{name!a} is on another file system")
    if found.st_size > limit:
        raise NotTaken(f"{name!a} has {found.st_size} bytes (expected at most {limit})")
    data = bytearray()
    while len(data) <= limit:
        piece = os.read(file, min(1 << 20, limit + 1 - len(data)))
        if not piece:
            return bytes(data)
        data += piece
    raise NotTaken(f"{name!a} grew over {limit} bytes while it was read")
