"""Grouped bars of discovery-agent calls: one group a task, fixed exploration above dreaming."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from daydream.cli.charts.canvas import (
    Markup,
    Panel,
    axis_marks,
    bar,
    fit,
    header,
    hover,
    join,
    label,
    line,
    tag,
    text_width,
)
from daydream.cli.charts.scales import Scale, count
from daydream.compare import Arm, TaskComparison
from daydream.intervals import Interval, interval

WIDTH = 400.0

_NAME = 20.0
_BAR = 13.0
_PITCH = 62.0


class Group(NamedTuple):
    """The calls of one task in both arms; an interval over several pairs draws a whisker."""

    name: str
    fixed: Interval
    dream: Interval


def all_calls(arm: Arm) -> int:
    """Return the calls of ``arm`` in all rounds."""
    return arm.calls


def last_calls(arm: Arm) -> int:
    """Return the calls of the last round of ``arm``, 0 without rounds."""
    return arm.rounds[-1].calls if arm.rounds else 0


def groups(tasks: Sequence[TaskComparison], calls: Callable[[Arm], int]) -> list[Group]:
    """Return a group a task with the mean of ``calls`` over its pairs."""
    return [
        Group(
            task.task,
            interval([calls(pair.fixed) for pair in task.pairs]),
            interval([calls(pair.dream) for pair in task.pairs]),
        )
        for task in tasks
    ]


def call_bars(tasks: Sequence[TaskComparison]) -> tuple[Panel, Panel]:
    """Return the two bar charts: calls in all rounds, and in the last round alone."""
    numbers = {len(arm.rounds) for task in tasks for p in task.pairs for arm in (p.fixed, p.dream)}
    last = f"round {numbers.pop()}" if len(numbers) == 1 else "the last round"
    return (
        bars_panel("Discovery-agent calls, all rounds", groups(tasks, all_calls)),
        bars_panel(f"Discovery-agent calls, {last} only", groups(tasks, last_calls)),
    )


def bars_panel(title: str, rows: Sequence[Group]) -> Panel:
    """Return the chart of ``rows`` on one axis that starts at zero."""
    seeds = max((row.fixed.n for row in rows), default=1)
    note = f"mean of {seeds} seeds, 95 % interval" if seeds > 1 else ""
    head, top = header(title, "fewer is cheaper", WIDTH, legend=note)
    longest = max((_reach(arm) for row in rows for arm in (row.fixed, row.dream)), default=0.0)
    gutter = max((text_width(_text(arm)) for row in rows for arm in row[1:]), default=0.0) + 8
    scale = Scale(0.0, max(1.0, longest), 0.0, WIDTH - gutter)
    marks = axis_marks(scale, 5, whole=True)
    parts = [head]
    parts += [_group(row, top + index * _PITCH, scale, marks) for index, row in enumerate(rows)]
    bottom = top + len(rows) * _PITCH
    if rows:
        parts += [
            label(at, bottom, text, role="soft", anchor="middle" if at else None, kind="small")
            for at, text in marks
        ]
    else:
        parts.append(label(0, bottom + 20, "No task was compared.", role="soft"))
    described = "; ".join(
        f"{row.name}: fixed {_text(row.fixed)}, dream {_text(row.dream)}" for row in rows
    )
    return Panel(WIDTH, bottom + (4 if rows else 28), title, described or "no tasks", join(parts))


def _reach(arm: Interval) -> float:
    return max(arm.mean, arm.high)


def _text(arm: Interval) -> str:
    return count(arm.mean)


def _group(row: Group, y: float, scale: Scale, marks: Sequence[tuple[float, str]]) -> Markup:
    low, high = y + _NAME, y + _NAME + 2 * _BAR + 2
    parts = [tag("g", hover(row.name), label(0, y + 14, fit(row.name, WIDTH)))]
    parts += [line(at, low - 2, at, high + 2, "grid") for at, _ in marks]
    parts.append(_arm(row.name, "fixed", row.fixed, low, scale))
    parts.append(_arm(row.name, "dream", row.dream, low + _BAR + 2, scale))
    return join(parts)


def _arm(task: str, name: str, arm: Interval, y: float, scale: Scale) -> Markup:
    middle = y + _BAR / 2
    title = f"{task}, {name}: {_text(arm)} calls"
    parts: list[Markup] = []
    if arm.high > arm.low:
        low, high = max(0.0, arm.low), arm.high
        title += f" (95 % interval {count(round(low, 1))} to {count(round(high, 1))}, n = {arm.n})"
        left, right = scale.at(low), scale.at(high)
        parts += [
            line(left, middle, right, middle, "ink"),
            line(left, middle - 3, left, middle + 3, "ink"),
            line(right, middle - 3, right, middle + 3, "ink"),
        ]
    length = max(1.0, scale.at(arm.mean)) if arm.mean > 0 else 0.0
    parts.insert(0, bar(0, y, length, _BAR, name, title))
    parts.append(label(scale.at(_reach(arm)) + 6, middle + 4.3, _text(arm)))
    return join(parts)
