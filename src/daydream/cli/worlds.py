"""Opening what a person names as worlds: a run folder, a tree file, a trees.jsonl."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from daydream.config import BUDGETS, Layer, RunSettings, resolve
from daydream.errors import StoreError
from daydream.interchange.history_json import read_history
from daydream.interchange.trees_jsonl import read_trees
from daydream.store.run_folder import JOURNAL, RunFolder
from daydream.tree import Pool, make_pool


class Worlds(msgspec.Struct, frozen=True):
    """A pool to replay in, and the settings that its rollouts had."""

    pool: Pool
    settings: RunSettings = RunSettings()
    """Those of the run; the defaults for trees from elsewhere. A budget is no part of them."""


def open_worlds(path: Path, *, folder: RunFolder | None = None) -> Worlds:
    """Return the worlds in ``path``; of a run, the finished trees of its newest evaluator.

    Raises :class:`StoreError` for a path without trees, :class:`TreeError` for trees that do not
    belong together.
    """
    if folder is not None:
        return _of_run(folder)
    if (path / JOURNAL).is_file():
        with RunFolder.open(path) as opened:
            return _of_run(opened)
    found = read_trees(path) if path.suffix == ".jsonl" else read_history(path)
    return Worlds(make_pool(found.trees))


def _of_run(folder: RunFolder) -> Worlds:
    trees = folder.trees()
    if not trees:
        raise StoreError(
            f"{folder.path} has no finished round (expected at least one tree in history/); finish "
            f"one with: daydream resume {folder.path}"
        )
    config = folder.config()
    floor = config.get("floor")
    stored = config.get("settings")
    own = stored if isinstance(stored, Mapping) else {}
    kept = {key: value for key, value in own.items() if key not in BUDGETS}
    last = trees[-1].evaluator
    return Worlds(
        make_pool(
            [tree for tree in trees if tree.evaluator == last],
            floor=float(floor) if isinstance(floor, (int, float)) else None,
        ),
        resolve([Layer(str(folder.path), kept)]),
    )
