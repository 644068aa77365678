"""``daydream tasks`` and ``daydream init``: what is searched."""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from daydream import registry
from daydream.cli import flags as shared
from daydream.cli import output
from daydream.config import RunSettings
from daydream.tasks.base import TaskInfo
from daydream.tasks.load import load_task

FULL_SIZE = (
    "autocorrelation:variant=first,bins=800",
    "autocorrelation:variant=third-strict,bins=800",
    "circle-packing:n=26",
    "circle-packing:n=32",
    "circle-packing:n=26,artifact=program",
    "lasso:variant=path17",
    "sum-diff:cap=512",
)
"""Sizes that the literature reports, listed beside the defaults."""


def tasks(task: str | None = None, *, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """List the tasks that come with Daydream, or show one in full.

    Parameters
    ----------
    task
        A task name or a problem folder to show in full.
    json
        Print JSON and nothing else on standard output.
    """
    if task is not None:
        settings = shared.settings(shared.RunFlags(), task, [])
        info = load_task(task, settings.sandbox).info
        if json:
            output.emit(msgspec.to_builtins(info))
        else:
            _show(info, settings)
        return 0
    # For the facts alone: nothing is evaluated, so nothing has to isolate it.
    infos = [load_task(name, "process").info for name in (*registry.names("task"), *FULL_SIZE)]
    if json:
        output.emit({"tasks": [msgspec.to_builtins(info) for info in infos]})
        return 0
    rows = [(info.name, info.title, info.policy, info.agent, info.measure) for info in infos]
    output.out().print(
        output.table("Tasks", ("task", "what it is", "starting policy", "agent", "measure"), rows)
    )
    output.next_step(
        "daydream run branch-world", "daydream tasks circle-packing:n=26", "daydream init my-task"
    )
    return 0


def _show(info: TaskInfo, settings: RunSettings) -> None:
    console = output.out()
    console.print(f"{info.name}: {info.title}", style="bold", markup=False)
    console.print(info.statement, markup=False)
    rows = [
        ("starting policy", settings.policy or info.policy),
        ("agent", settings.agent or info.agent or "none: give --agent"),
        ("measure", f"{info.measure}, {'lower' if info.goal == 'min' else 'higher'} is better"),
        ("score scale", "from the first tree" if info.scale is None else f"{info.scale:g}"),
        ("one attempt", info.attempt_cost or "-"),
        ("evaluator", info.evaluator[:12]),
    ]
    console.print(output.table("", ("", ""), rows))
    if info.records:
        exact = {True: "yes", False: "no", None: "not published"}
        console.print(
            output.table(
                "Known records",
                (">value", "source", "passes this check"),
                [(output.number(r.value, 13), r.source, exact[r.exact]) for r in info.records],
            )
        )
    output.next_step(f"daydream run {info.name}")


def init(folder: Path) -> int:
    """Write a problem folder that runs as it is: a program, an evaluator, settings, a proposer.

    Parameters
    ----------
    folder
        The folder to make.
    """
    from daydream.tasks.scaffold import write_problem

    written = write_problem(folder)
    console = output.out()
    for path in written:
        console.print(output.shown(path), markup=False)
    output.next_step(f"daydream run {output.shown(folder)}")
    return 0
