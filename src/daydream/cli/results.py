"""The tables that end a command: rounds, what a selection learned, records, the best artifact."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from daydream.canonical import JsonValue
from daydream.cli import output
from daydream.store.events import Usage
from daydream.store.run_folder import RunFolder
from daydream.summaries import RoundSummary, RunResult
from daydream.tasks.base import Artifact, TaskInfo, to_measure
from daydream.tasks.pictures import picture_of, sketch_of
from daydream.wording import counted

SKETCH_COLUMNS = 44
PICTURE = "picture.svg"


def print_run(result: RunResult, info: TaskInfo, *, explored: bool = False) -> None:
    """Print the rounds of a run, what it learned, its best artifact, and what to do next."""
    console = output.out()
    console.print(rounds_table(f"{info.name}", result.rounds, info))
    print_learned(console, result.rounds)
    print_best(console, result, info)
    spent = usage_text([one.usage for one in result.rounds])
    if spent:
        console.print(f"Models: {spent}", markup=False)
    where = output.shown(result.path)
    console.print(f"Saved in {where}", markup=False)
    if result.stopped is not None:
        console.print(f"Stopped: {result.stopped}", style="yellow", markup=False)
        output.next_step(f"daydream resume {where}", f"daydream show {where}")
    elif explored:
        output.next_step(f"daydream dream {where}", f"daydream show {where} tree")
    else:
        output.next_step(f"daydream show {where} tree", f"daydream resume {where} --rounds N")


def usage_text(parts: Sequence[Usage]) -> str:
    """Return what requests to models cost, as words; empty where there were none."""
    total = sum(parts, start=Usage())
    if total == Usage():
        return ""
    cost = "cost unknown" if total.cost_usd is None else f"{total.cost_usd:.4f} usd"
    tokens = f"{counted(total.input_tokens, 'token')} in, {total.output_tokens:,} out"
    return f"{counted(total.requests, 'request')}, {tokens}, {cost}"


def rounds_table(title: str, rounds: Sequence[RoundSummary], info: TaskInfo) -> object:
    """Return the table of rounds, in the measure that people speak of."""
    rows = [
        (
            str(one.round),
            str(one.calls),
            str(one.cum),
            value(info, one.best),
            value(info, one.round_best),
            str(one.failures),
            "-" if one.off_record is None else str(one.off_record),
            one.policy + ("" if one.finished else "  (unfinished)"),
        )
        for one in rounds
    ]
    columns = (
        ">round",
        ">calls",
        ">cum",
        ">best",
        ">round best",
        ">failed",
        ">off record",
        "policy",
    )
    label = "" if info.measure == "score" else f" ({info.measure}, {info.goal})"
    return output.table(title + label, columns, rows)


def value(info: TaskInfo, score: float | None) -> str:
    """Return a stored score as the measure that people speak of."""
    return output.number(None if score is None else to_measure(info, score), 10)


def print_learned(console: Console, rounds: Sequence[RoundSummary]) -> None:
    """Say what each selection chose and why."""
    for one in rounds:
        if one.selection is not None:
            console.print(f"after round {one.round}: {learned(one.selection)}", markup=False)
            if one.selection.get("held_out"):
                console.print(f"  {held_out(one.selection)}", markup=False)


def learned(selection: Mapping[str, JsonValue]) -> str:
    """Return one selection as a sentence."""
    incumbent, chosen = _part(selection, "incumbent"), _part(selection, "chosen")
    candidates = counted(int(str(selection.get("candidates", 0))), "candidate")
    plain = selection.get("plain")
    other = f"; without the guard {plain} would win" if plain != selection.get("guarded") else ""
    replaced = selection.get("replaced")
    fell = (
        f"the deployed policy is disqualified ({replaced.get('reason')}); "
        if isinstance(replaced, Mapping)
        else ""
    )
    held = _part(selection, "held_out")
    if held.get("refused"):
        return f"{fell}{held.get('choice')} has the better replay score{other}"
    if not selection.get("changed"):
        return (
            f"{fell}{incumbent.get('policy')} stays at replay score {_mean(incumbent)}; no "
            f"better one among {candidates}{other}"
        )
    return (
        f"{fell}{chosen.get('policy')} replays at {_mean(chosen)}, above {_mean(incumbent)} of "
        f"{incumbent.get('policy')}: {_cost(chosen)} instead of {_cost(incumbent)}, "
        f"{_quality(chosen, incumbent)} ({candidates}){_padding(chosen, incumbent)}{other}"
    )


def held_out(selection: Mapping[str, JsonValue]) -> str:
    """Return what the worlds that took no part in a choice say of it, as a sentence."""
    held = _part(selection, "held_out")
    worlds = held.get("worlds")
    listed = ", ".join(map(str, worlds)) if isinstance(worlds, Sequence) else ""
    where = f"held-out world{'s' if ',' in listed else ''} {listed}"
    gain = _part(held, "gain")
    words = "cannot be compared there"
    if gain:
        numbers = [gain.get(key) for key in ("mean", "low", "high")]
        mean, low, high = (output.number(n) if isinstance(n, float) else "-" for n in numbers)
        words = f"it gains {mean} there"
        words += f" ({low} to {high}, 95 %)" if gain.get("n") != 1 else " (one world: no interval)"
    refused = held.get("refused")
    after = f"; the incumbent stays: {refused}" if refused else ""
    return f"{where} took no part in the choice; {words}{after}"


def _padding(chosen: Mapping[str, JsonValue], incumbent: Mapping[str, JsonValue]) -> str:
    """Say so when a choice won by spending more, which equation 1 rewards in one or two batches."""
    mine, theirs = chosen.get("attempts"), incumbent.get("attempts")
    if not (isinstance(mine, int) and isinstance(theirs, int) and mine > theirs):
        return ""
    if _quality(chosen, incumbent) != "the same quality":
        return ""
    return "; it spends more: the objective pays for attempts in parallel while batches are few"


def _part(selection: Mapping[str, JsonValue], key: str) -> Mapping[str, JsonValue]:
    part = selection.get(key)
    return part if isinstance(part, Mapping) else {}


def _mean(scored: Mapping[str, JsonValue]) -> str:
    mean = scored.get("mean")
    return output.number(mean) if isinstance(mean, float) else "-"


def _worlds(scored: Mapping[str, JsonValue]) -> list[Mapping[str, JsonValue]]:
    worlds = scored.get("worlds")
    found = worlds if isinstance(worlds, Sequence) and not isinstance(worlds, str) else []
    return [world for world in found if isinstance(world, Mapping)]


def _cost(scored: Mapping[str, JsonValue]) -> str:
    batches = sum(int(str(world.get("batches", 0))) for world in _worlds(scored))
    attempts = counted(int(str(scored.get("attempts", 0))), "attempt")
    return f"{attempts} in {counted(batches, 'batch', 'batches')}"


def _quality(chosen: Mapping[str, JsonValue], incumbent: Mapping[str, JsonValue]) -> str:
    mine = [world.get("quality") for world in _worlds(chosen)]
    theirs = [world.get("quality") for world in _worlds(incumbent)]
    return "the same quality" if mine == theirs else "another quality in some world"


def print_best(
    console: Console, result: RunResult, info: TaskInfo, *, keep_picture: bool = True
) -> None:
    """Show the best artifact, beside the known records, and keep its picture where there is one."""
    if result.best is None:
        console.print("No attempt succeeded yet.", style="yellow")
        return
    best = best_artifact(result.path)
    if best is not None:
        svg = picture_of(info.name, best)
        if svg is not None and keep_picture:
            target = result.path / PICTURE
            target.write_text(svg, encoding="utf-8")
            console.print(f"Picture of the best: {output.shown(target)}", markup=False)
        sketch = sketch_of(info.name, best, SKETCH_COLUMNS)
        if sketch is not None and console.is_terminal:
            console.print(sketch, markup=False)
    console.print(f"Best {info.measure}: {value(info, result.best)}", style="bold", markup=False)
    for record in info.records[:6]:
        note = {True: "", False: ", fails this check", None: ""}[record.exact]
        console.print(
            f"  known: {output.number(record.value, 10)}  {record.source}{note}",
            style="dim",
            markup=False,
        )


def best_artifact(path: Path) -> Artifact | None:
    """Return the best artifact of the run in ``path``, or None."""
    with RunFolder.open(path) as folder:
        best = folder.state().best
        if best is None or best.artifact is None:
            return None
        return Artifact(folder.get_artifact(best.artifact))
