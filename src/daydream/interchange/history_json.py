"""Trees as JSON files, one a round: ``history/001.json`` and on, as the first Daydream keeps them.

Its files are known from its description only, so the reader is tolerant: a list of nodes, an object
with ``nodes``, id -> node, or a list of such trees. The writer's files are those of our own runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from daydream.errors import StoreError
from daydream.interchange.base import Imported, Names, is_tree, parse, read_text, read_tree_value
from daydream.store.files import disk_errors, replace_file
from daydream.store.run_folder import tree_bytes
from daydream.tree import Tree


def read_history(path: Path, names: Names | None = None) -> Imported:
    """Return the trees of ``path``: one file, a folder of files, or a run folder with ``history/``.

    Rounds that the files do not name count on from 1 in order of the file names. Raises
    :class:`StoreError` for a path without such files, for what is no tree, and for two trees of
    one round.
    """
    files = _files(path)
    given = names or Names()
    known = msgspec.structs.replace(given, unnamed_task=_summary_task(path) or given.unnamed_task)
    trees: list[Tree] = []
    notes: list[str] = []
    for file in files:
        value = parse(read_text(file), str(file))
        several = isinstance(value, list) and bool(value) and all(map(is_tree, value))
        for position, item in enumerate(value if several and isinstance(value, list) else [value]):
            where = f"{file}, tree {position + 1}" if several else str(file)
            tree, found = read_tree_value(item, where=where, number=len(trees) + 1, names=known)
            trees.append(tree)
            notes.extend(found)
    refuse_same_round(trees, str(path))
    return Imported(tuple(trees), tuple(notes))


def write_history(trees: Iterable[Tree], folder: Path) -> tuple[Path, ...]:
    """Write each tree to ``folder/NNN.json`` by its round and return the files.

    Raises :class:`StoreError` when two trees have one round or the folder cannot be written.
    """
    known = tuple(trees)
    refuse_same_round(known, str(folder))
    written: list[Path] = []
    with disk_errors("write", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for tree in known:
            file = folder / f"{tree.round:03d}.json"
            replace_file(file, tree_bytes(tree))
            written.append(file)
    return tuple(written)


def refuse_same_round(trees: Sequence[Tree], where: str) -> None:
    """Raise :class:`StoreError` when two of ``trees`` have the same round."""
    rounds = [tree.round for tree in trees]
    twice = sorted({number for number in rounds if rounds.count(number) > 1})
    if twice:
        raise StoreError(
            f"{where}: two trees have round {twice[0]} (expected each round once); import one run "
            "at a time"
        )


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    folder = path / "history" if (path / "history").is_dir() else path
    with disk_errors("read", path):
        files = sorted(
            file for file in folder.iterdir() if file.suffix == ".json" and file.name[0] != "."
        )
    files = [file for file in files if file.name != "summary.json"]
    if not files:
        raise StoreError(
            f"{folder} holds no .json file (expected trees such as 001.json); name the folder "
            "'history' of a run, or one file"
        )
    return sorted(files, key=lambda file: (_number(file), file.name))


def _number(file: Path) -> int:
    digits = "".join(char for char in file.stem if char in "0123456789")
    return int(digits[:18]) if digits else 0


def _summary_task(path: Path) -> str | None:
    """Return the task that the ``summary.json`` of the run names, where there is one to read."""
    folder = path if path.is_dir() else path.parent
    run = folder.parent if folder.name == "history" else folder
    summary = run / "summary.json"
    try:
        value = parse(read_text(summary), str(summary)) if summary.is_file() else None
    except StoreError:
        return None
    task = value.get("task") if isinstance(value, Mapping) else None
    return task if isinstance(task, str) else None
