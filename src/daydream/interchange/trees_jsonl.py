"""Trees as JSON lines: ``trees.jsonl``, one tree a line, as dream-loop keeps its worlds.

Its file is known from its description only, so the reader is as tolerant as that of
:mod:`daydream.interchange.history_json`. A last line that was cut off is left out, with a note.
"""

from collections.abc import Iterable
from pathlib import Path

from daydream.errors import StoreError
from daydream.interchange.base import Imported, Names, parse, read_text, read_tree_value
from daydream.store.files import disk_errors, replace_file
from daydream.store.run_folder import tree_bytes
from daydream.tree import Tree


def read_trees(path: Path, names: Names | None = None) -> Imported:
    """Return the trees of the file ``path``, in order; a tree that names no round gets its number.

    Trees of one file may be of several tasks; a pool takes those of one. Raises
    :class:`StoreError` naming file and line for what is no tree, and for a file without any.
    """
    text = read_text(path)
    lines = text.split("\n")
    trees: list[Tree] = []
    notes: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = parse(line, where)
        except StoreError:
            if number < len(lines) or not trees:
                raise
            notes.append(f"{where}: is cut off and was left out")
            break
        tree, found = read_tree_value(
            value, where=where, number=len(trees) + 1, names=names or Names()
        )
        trees.append(tree)
        notes.extend(found)
    if not trees:
        raise StoreError(
            f"{path} holds no tree (expected one JSON object a line, with 'nodes'); export it again"
        )
    return Imported(tuple(trees), tuple(notes))


def write_trees(trees: Iterable[Tree], path: Path) -> None:
    """Write ``trees`` to the file ``path``, one a line, replacing it.

    Raises :class:`StoreError` when it cannot be written.
    """
    data = b"".join(tree_bytes(tree) for tree in trees)
    with disk_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
