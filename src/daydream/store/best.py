"""The folder ``best/``: the best artifact's files and its diff against the root.

It is rewritten when the best changes, by building ``best.tmp`` and swapping. A crash between the
two renames leaves ``best.old``, which :func:`repair_best` puts back.
"""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path

from daydream.store.files import check_names, disk_errors, remove_tree, sync_folder, write_whole

DIFF = "diff.patch"
MAX_DIFF_LINES = 20_000
"""Longest text that is compared line by line; above it the diff says only that the file differs."""


def write_best(run: Path, files: Mapping[str, bytes], root: Mapping[str, bytes]) -> Path:
    """Make ``run/best`` hold ``files`` and their diff against ``root``; return the folder.

    The diff is ``diff.patch``, with ``_`` in front of it where the artifact uses that name itself.
    Raises :class:`daydream.errors.StoreError` for unsafe names or a disk that refuses.
    """
    check_names(files)
    target, fresh, old = run / "best", run / "best.tmp", run / "best.old"
    repair_best(run)
    with disk_errors("write", target, run):
        remove_tree(fresh)
        fresh.mkdir()
        for name, data in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, data)
        taken = {name.partition("/")[0] for name in files}
        diff = DIFF
        while diff in taken:
            diff = f"_{diff}"
        write_whole(fresh / diff, diff_text(root, files))
        if target.exists():
            target.rename(old)
        fresh.rename(target)
        remove_tree(old)
        sync_folder(run)
    return target


def repair_best(run: Path) -> None:
    """Finish or undo a swap that a crash cut off in ``run``."""
    with disk_errors("write", run / "best", run):
        old, target = run / "best.old", run / "best"
        if old.exists() and not target.exists():
            old.rename(target)
        remove_tree(old)
        remove_tree(run / "best.tmp")


def diff_text(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> bytes:
    """Return the unified diff (as ``git apply`` takes it) that turns ``before`` into ``after``.

    Files that are not UTF-8 text, or very long, are named as different without their lines.
    """
    lines: list[str] = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old != new:
            lines.extend(_file_diff(name, old, new))
    return "".join(lines).encode("utf-8")


def _file_diff(name: str, old: bytes | None, new: bytes | None) -> Iterator[str]:
    yield f"diff --git a/{name} b/{name}\n"
    if old is None:
        yield "new file mode 100644\n"
    if new is None:
        yield "deleted file mode 100644\n"
    source, target = _lines(old), _lines(new)
    before = "/dev/null" if old is None else f"a/{name}"
    after = "/dev/null" if new is None else f"b/{name}"
    if source is None or target is None:
        yield f"Binary files {before} and {after} differ\n"
        return
    for line in difflib.unified_diff(source, target, before, after):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(data: bytes | None) -> list[str] | None:
    """Return the lines with their ends, split at line feeds only, or None for what is not text."""
    if data is None:
        return []
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    lines = text.split("\n")
    if "\0" in text or len(lines) > MAX_DIFF_LINES:
        return None
    ended = [f"{line}\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended
