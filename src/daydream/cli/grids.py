"""``daydream check-grid``: how much a step function owes to its number of steps."""

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daydream.canonical import JsonValue
from daydream.cli import output
from daydream.errors import StoreError, UsageError
from daydream.store.run_folder import RunFolder
from daydream.tasks.autocorrelation_grid import (
    DEFAULT,
    LEAST_STEPS,
    MOST_STEPS,
    OnGrid,
    heights_of,
    sensitivity,
)
from daydream.tasks.base import ARTIFACT_FILE

RATIOS = ("first", "second", "third_weak", "third_strict")


def check_grid(
    source: Path,
    *,
    steps: str = ",".join(map(str, DEFAULT)),
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Compute the ratios of a step function on other grids. Reads only.

    Parameters
    ----------
    source
        A run of autocorrelation, whose best artifact is taken, or a JSON file with heights.
    steps
        Numbers of steps, separated by commas.
    json
        Print JSON and nothing else on standard output.
    """
    grids = _grids(steps)
    try:
        heights = _heights(source)
        rows = sensitivity(heights, grids)
    except ValueError as error:
        raise UsageError(
            f"{source} holds {error} (expected the heights of a step function); name a run of "
            "autocorrelation or a file with its artifact"
        ) from None
    signed = min(heights) < 0
    if json:
        output.emit({"source": str(source), "signed": signed, "grids": [_row(one) for one in rows]})
        return 0
    _show(rows, signed=signed)
    return 0


def _grids(text: str) -> list[int]:
    found = []
    for part in text.split(","):
        number = part.strip()
        good = number.isascii() and number.isdigit() and len(number) < 9
        if not good or not LEAST_STEPS <= int(number) <= MOST_STEPS:
            raise UsageError(
                f"--steps {text}: {part!r} is no number of steps (expected whole numbers from "
                f"{LEAST_STEPS} to {MOST_STEPS}, separated by commas)"
            )
        found.append(int(number))
    return list(dict.fromkeys(found))


def _heights(source: Path) -> list[float]:
    if source.is_dir():
        return _best_of(source)
    try:
        text = source.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot read {source}: {error.strerror} (expected a run folder or a JSON file)"
        ) from None
    return heights_of(_parsed(text))


def _best_of(run: Path) -> list[float]:
    with RunFolder.open(run) as folder:
        best = folder.state().best
        if best is None or best.artifact is None:
            raise StoreError(
                "no attempt of this run succeeded (expected one ok node); look at the failures "
                "with: daydream show RUN tree"
            )
        files = folder.get_artifact(best.artifact)
        if ARTIFACT_FILE in files:
            return heights_of(_parsed(files[ARTIFACT_FILE].decode("utf-8", "replace")))
        # A program's construction is kept with its node, where it is not too long.
        return heights_of(best.diagnostics.get("construction"))


def _parsed(text: str) -> JsonValue:
    try:
        value: JsonValue = json_module.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON ({error})") from None
    return value


def _row(one: OnGrid) -> JsonValue:
    return {"steps": one.steps, **{name: getattr(one.constants, name) for name in RATIOS}}


def _show(rows: list[OnGrid], *, signed: bool) -> None:
    shown = RATIOS[2:] if signed else RATIOS
    cells = []
    for number, one in enumerate(rows):
        values = [getattr(one.constants, name) for name in shown]
        first = [getattr(rows[0].constants, name) for name in shown]
        changes = [f"{new - old:+.2g}" for new, old in zip(values, first, strict=True)]
        label = f"{one.steps}, as it is" if number == 0 else str(one.steps)
        pairs = zip(values, changes, strict=True)
        cells.append(
            (label, *(f"{value:.9f}{f' ({change})' if number else ''}" for value, change in pairs))
        )
    columns = (">steps", *(f">{name.replace('_', ' ')}" for name in shown))
    output.out().print(output.table("Ratios on other grids", columns, cells))
    output.next_step("daydream show RUN best", "daydream tasks autocorrelation")
