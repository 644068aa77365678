"""``daydream export`` and ``daydream import``: trees to and from other formats."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from daydream.bookkeeping import Book
from daydream.canonical import JsonValue
from daydream.cli import output
from daydream.cli.worlds import open_worlds
from daydream.errors import TreeError, UsageError
from daydream.interchange.base import Imported, Names
from daydream.interchange.history_json import read_history, write_history
from daydream.interchange.trees_jsonl import read_trees, write_trees
from daydream.launch import default_folder
from daydream.rounds import Surroundings
from daydream.store import events as log
from daydream.store.run_folder import RunFolder
from daydream.tree import Tree, make_pool
from daydream.wording import counted

Format = Literal["history", "trees"]


def export(
    run: Path,
    target: Path,
    *,
    to: Format | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Write the finished trees of a run for other tools.

    Parameters
    ----------
    run
        A run folder, or anything that import reads.
    target
        A .jsonl file, or a folder for history JSON.
    to
        history: one JSON file a tree; trees: one JSON line a tree. [default: by the target's name]
    json
        Print JSON and nothing else on standard output.
    """
    trees = open_worlds(run).pool.trees
    form = to or ("trees" if target.suffix == ".jsonl" else "history")
    if form == "trees":
        write_trees(trees, target)
    else:
        write_history(trees, target)
    if json:
        output.emit({"format": form, "target": str(target), "trees": len(trees)})
    else:
        output.out().print(
            f"{counted(len(trees), 'tree')} written to {output.shown(target)}", markup=False
        )
        output.next_step(f"daydream import {output.shown(target)}")
    return 0


def import_(
    source: Path,
    *,
    task: str | None = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Make a run folder of trees that were recorded elsewhere, to replay and dream on.

    Parameters
    ----------
    source
        History JSON (a file, a folder or a run folder) or a trees.jsonl.
    task
        Name of the task, where the file names none.
    out
        The run folder to make. [default: runs/TASK/TIME-s0]
    json
        Print JSON and nothing else on standard output.
    """
    names = Names(task=task)
    found = read_trees(source, names) if source.suffix == ".jsonl" else read_history(source, names)
    pool = make_pool(found.trees)
    path = _write(found, out, source)
    notes: list[JsonValue] = list(found.notes)
    if json:
        output.emit({"run": str(path), "task": pool.task, "trees": len(pool.trees), "notes": notes})
        return 0
    console = output.out()
    for note in found.notes:
        console.print(f"note: {note}", style="dim", markup=False)
    attempts = sum(tree.attempts for tree in pool.trees)
    shown = output.shown(path)
    console.print(
        f"{counted(len(pool.trees), 'tree')} of {pool.task}, {counted(attempts, 'attempt')}, "
        f"{pool.eligibility} "
        f"eligibility: {shown}",
        markup=False,
    )
    output.next_step(f"daydream dream {shown} --dry-run", f"daydream replay {shown} --policy SPEC")
    return 0


def _write(found: Imported, out: Path | None, source: Path) -> Path:
    now = Surroundings().now
    first = found.trees[0]
    if len({tree.round for tree in found.trees}) < len(found.trees):
        raise TreeError(
            f"{source} holds two trees of one round (expected each once); split the file"
        )
    path = out or default_folder(first.task, first.seed, now())
    if path.resolve() == source.resolve():
        raise UsageError(f"--out {path} is the source itself (expected a new folder)")
    config: dict[str, JsonValue] = {
        "schema_version": 1,
        "task": first.task,
        "evaluator": first.evaluator,
        "imported": source.name,
        "scale": first.scale,
    }
    with RunFolder.create(path, config, clock=now) as folder:
        book = Book(folder)
        book.emit(
            log.RunStarted(
                task=first.task, evaluator=first.evaluator, seed=first.seed, config=config
            )
        )
        for tree in found.trees:
            _emit(book, tree)
        book.emit(log.RunFinished(), durable=True)
    return path


def _emit(book: Book, tree: Tree) -> None:
    book.emit(
        log.RoundStarted(
            round=tree.round,
            policy=tree.policy,
            spec={},
            limit=tree.limit,
            seed=tree.seed,
            evaluator=tree.evaluator,
            scale=tree.scale,
            eligibility=tree.eligibility,
        )
    )
    for node in tree.nodes[1:]:
        if node.parent is None or node.status is None:
            raise TreeError(f"node {node.id} lacks a parent or a status (expected a checked tree)")
        book.emit(
            log.AttemptFinished(
                round=tree.round,
                batch=node.batch,
                slot=node.slot,
                node=node.id,
                parent=node.parent,
                branch=node.branch,
                depth=node.depth,
                status=node.status,
                score=node.score,
                error_class=node.error_class,
                message=node.error_class or "",
            ),
            durable=False,
        )
    batches = len({node.batch for node in tree.nodes[1:]})
    digest = book.folder.write_tree(tree)
    best = tree.best
    book.emit(
        log.TreeFinished(
            round=tree.round,
            attempts=tree.attempts,
            batches=batches,
            off_record=0,
            best=None if best is None else best.score,
            tree=digest,
        ),
        durable=True,
    )
