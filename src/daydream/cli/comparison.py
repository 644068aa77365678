"""``daydream compare``."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from daydream import registry
from daydream.canonical import JsonValue
from daydream.cli import flags as shared
from daydream.cli import output
from daydream.cli.progress import Progress, interruptible
from daydream.compare import Arm, Comparing, Summary, TaskComparison, compare_task
from daydream.errors import Stopped, UsageError
from daydream.intervals import Interval
from daydream.launch import RUNS
from daydream.rounds import Surroundings
from daydream.sandbox.choose import weakness
from daydream.tasks.base import TaskInfo, to_measure
from daydream.tasks.load import load_task


def compare(
    task: str | None = None,
    *,
    all: Annotated[bool, Parameter(negative="")] = False,
    seeds: str | None = None,
    plot: Path | None = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    trust: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    config: shared.ConfigFiles = [],  # noqa: B006 - never changed
    flags: shared.RunFlags = shared.RunFlags(),  # noqa: B008 - frozen
) -> int:
    """Run fixed exploration and dreaming on the same task, agent, seeds and round-1 policy.

    Parameters
    ----------
    task
        Task name, or the path of your own problem folder.
    all
        Compare on every task that comes with Daydream, at its default size.
    seeds
        Pair both arms seed by seed, such as 0-9; adds means, intervals and wins.
    plot
        Write the charts to this .html or .svg file.
    out
        Folder of the runs; runs found there are continued. [default: runs/compare/TIME]
    trust
        Run a policy file of yours in this process, without isolation.
    json
        Print JSON and nothing else on standard output.
    config
        TOML files with settings; @FILE is short for it.
    """
    if (task is None) == (not all):
        raise UsageError("compare needs one task, or --all (expected exactly one of both)")
    if plot is not None and plot.suffix not in {".html", ".svg"}:
        raise UsageError(f"--plot {plot}: expected a name that ends in .html or .svg")
    names = [task] if task is not None else _with_agents()
    folder = out or RUNS / "compare" / datetime.fromtimestamp(_now(), UTC).strftime("%Y%m%dT%H%M%S")
    compared: list[TaskComparison] = []
    infos: dict[str, TaskInfo] = {}
    with interruptible() as interrupted:
        for name in names:
            settings = shared.settings(flags, name, config)
            info = load_task(name, settings.sandbox).info
            output.warn(weakness(info.isolation))
            chosen = _seeds(seeds) or [settings.seed]
            asked = Comparing(name, settings, chosen, folder / _slug(name), trust)
            try:
                compared.append(_one(asked, Surroundings(interrupted=interrupted), as_json=json))
                infos[compared[-1].task] = info
            except Stopped as stopped:
                again = f"daydream compare ... --out {output.shown(folder)}"
                output.err().print(f"Stopped: {stopped.reason}", style="yellow", markup=False)
                output.next_step(f"{again} continues it")
                return stopped.exit_code
    if plot is not None:
        _plot(plot, compared, infos)
    _show(compared, infos, as_json=json)
    if not json:
        output.out().print(f"Saved in {output.shown(folder)}", markup=False)
        if plot is None:
            output.next_step("daydream compare ... --plot compare.html", "--seeds 0-9", "--fresh")
        else:
            output.next_step(f"open {output.shown(plot)}")
    return 0


def _now() -> float:
    return Surroundings().now()


def _seeds(text: str | None) -> list[int] | None:
    try:
        return None if text is None else shared.seeds_of(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _with_agents() -> list[str]:
    """The tasks that need nobody to write programs."""
    known = registry.names("task")
    return [name for name in known if load_task(name, "process").info.agent]


def _slug(name: str) -> str:
    return "".join(char if char.isalnum() or char in "._-" else "-" for char in name).strip(".-")


def _one(asked: Comparing, surroundings: Surroundings, *, as_json: bool) -> TaskComparison:
    many = len(asked.seeds) > 1
    name = Path(asked.source).name
    with Progress(quiet=many or as_json, chatty=False) as progress:
        began = time.monotonic()

        def on_arm(seed: int, arm: str) -> None:
            progress.relabel(f"{name} {arm}")
            if many and not as_json and arm == "fixed":
                done = asked.seeds.index(seed)
                progress.note(f"{name} seed {seed}, {done} of {len(asked.seeds)} done", began, done)

        return compare_task(
            asked, msgspec.structs.replace(surroundings, notify=progress.notify), on_arm
        )


def _plot(path: Path, compared: Sequence[TaskComparison], infos: Mapping[str, TaskInfo]) -> None:
    from daydream.cli.charts.page import comparison_page, comparison_svg

    def measure(task: str, score: float) -> float:
        return to_measure(infos[task], score)

    draw = comparison_svg if path.suffix == ".svg" else comparison_page
    output.write_file(path, draw(compared, to_measure=measure), "--plot")


def _show(
    compared: Sequence[TaskComparison], infos: Mapping[str, TaskInfo], *, as_json: bool
) -> None:
    if as_json:
        output.emit(as_object(compared))
        return
    console = output.out()
    for one in compared:
        first = one.pairs[0]
        better = f"{one.measure}, {'lower' if one.goal == 'min' else 'higher'} is better"
        for name, arm in (("fixed exploration", first.fixed), ("dream-rsi", first.dream)):
            columns = (">round", ">calls", ">cum", ">best", ">round best", "policy")
            title = f"{one.task}: {name} ({better})"
            console.print(output.table(title, columns, _rows(arm, infos[one.task])))
        if one.summary is not None:
            console.print(_summary_table(one.summary))
    if len(compared) > 1:
        console.print(_overview(compared, infos))


def _measure(info: TaskInfo, score: float | None) -> str:
    return output.number(None if score is None else to_measure(info, score))


def _rows(arm: Arm, info: TaskInfo) -> list[tuple[str, ...]]:
    return [
        (
            str(one.round),
            str(one.calls),
            str(one.cum),
            _measure(info, one.best),
            _measure(info, one.round_best),
            one.policy,
        )
        for one in arm.rounds
    ]


def _overview(compared: Sequence[TaskComparison], infos: Mapping[str, TaskInfo]) -> object:
    rows: list[tuple[str, ...]] = []
    for one in compared:
        first, info = one.pairs[0], infos[one.task]
        last_fixed, last_dream = first.fixed.rounds[-1], first.dream.rounds[-1]
        rows.append(
            (
                one.task,
                str(first.fixed.calls),
                str(first.dream.calls),
                _measure(info, last_fixed.best),
                _measure(info, last_dream.best),
                _measure(info, last_dream.round_best),
                last_dream.policy,
            )
        )
    totals = [sum(int(row[column]) for row in rows) for column in (1, 2)]
    rows.append(("total", str(totals[0]), str(totals[1]), "", "", "", ""))
    columns = (
        "task", ">fixed calls", ">dream calls", ">fixed best", ">dream best",
        ">its last round", "deployed last",
    )  # fmt: skip
    return output.table("All tasks", columns, rows)


def _summary_table(summary: Summary) -> object:
    def row(name: str, found: Interval) -> tuple[str, ...]:
        low, high = output.number(found.low), output.number(found.high)
        return (name, output.number(found.mean), f"{low} to {high}", str(found.n))

    rows = [
        row("calls saved", summary.calls_saved),
        row("score lost, all rounds", summary.quality_lost),
        row("score lost, last round alone", summary.last_round_lost),
        row("calls to reach fixed's best, difference", summary.calls_to_fixed_best),
        row("best at equal calls, difference", summary.best_at_equal_calls),
        (
            "dream against fixed",
            f"{summary.wins} won",
            f"{summary.ties} tied, {summary.losses} lost",
            "",
        ),
    ]
    return output.table(
        "Paired over seeds (95 % intervals)", ("", ">mean", "interval", ">pairs"), rows
    )


def as_object(compared: Sequence[TaskComparison]) -> JsonValue:
    """Return the comparison as JSON; each task's first pair stands at the top."""
    tasks: list[JsonValue] = []
    for one in compared:
        first = one.pairs[0]
        entry: dict[str, JsonValue] = {
            "task": one.task,
            "measure": one.measure,
            "fixed": _arm(first.fixed),
            "dream": _arm(first.dream),
        }
        if one.summary is not None:
            entry["seeds"] = [
                {"seed": pair.seed, "fixed": _arm(pair.fixed), "dream": _arm(pair.dream)}
                for pair in one.pairs
            ]
            entry["summary"] = msgspec.to_builtins(one.summary)
        tasks.append(entry)
    return {
        "tasks": tasks,
        "total": {
            "fixed": sum(one.pairs[0].fixed.calls for one in compared),
            "dream": sum(one.pairs[0].dream.calls for one in compared),
        },
    }


def _arm(arm: Arm) -> JsonValue:
    rows: JsonValue = msgspec.to_builtins(arm.rounds)
    return rows
