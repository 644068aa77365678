"""Best-against-calls curves of both arms of a task, in one pair or over several seeds.

A point that no axis can hold, as the measure of a degenerate score may be, is left out.
"""

from collections.abc import Callable, Sequence
from statistics import median
from typing import TypeAlias

from daydream.cli.charts.canvas import (
    Markup,
    Panel,
    header,
    join,
    label,
    tag,
    text_width,
)
from daydream.cli.charts.plot import (
    FOOT,
    Curve,
    Frame,
    better,
    described,
    make_frame,
    marker,
    path,
    points,
)
from daydream.cli.charts.scales import drawable, spread, told_apart
from daydream.compare import Arm, Pair, TaskComparison

ToMeasure: TypeAlias = Callable[[str, float], float]
"""(task, stored score) -> the number that people call the task's measure."""

ARMS = ("fixed", "dream")

_WIDTH = 400.0
_PLOT = 190.0


def pick_arm(pair: Pair, name: str) -> Arm:
    """Return the arm of ``pair`` that :data:`ARMS` calls ``name``."""
    return pair.fixed if name == "fixed" else pair.dream


def as_score(task: str, score: float) -> float:
    """Return ``score`` itself: the measure of a task whose measure is its score."""
    del task
    return score


def measured_curve(task: str, arm: Arm, to_measure: ToMeasure) -> Curve:
    """Return the curve of ``arm`` in the measure of ``task``."""
    points = ((calls, to_measure(task, score)) for calls, score in arm.curve)
    kept = tuple((calls, value) for calls, value in points if drawable(value))
    return Curve(kept, max(arm.calls, kept[-1][0] if kept else 0))


def middle_curve(curves: Sequence[Curve], goal: str) -> Curve:
    """Return the median best over ``curves`` at every number of calls.

    A curve that has ended holds its last value; one without a value yet counts as worse than any,
    so the median starts where more than half of the curves have one.
    """
    points: list[tuple[int, float]] = []
    for calls in sorted({at for curve in curves for at, _ in curve.points}):
        found = [value for curve in curves if (value := curve.after(calls)) is not None]
        if 2 * len(found) <= len(curves):
            continue
        worst = float("inf") if goal == "min" else float("-inf")
        value = median(found + [worst] * (len(curves) - len(found)))
        if drawable(value) and (not points or points[-1][1] != value):
            points.append((calls, value))
    return Curve(tuple(points), max((curve.end for curve in curves), default=0))


def direction(task: TaskComparison, to_measure: ToMeasure) -> str:
    """Return what the curve of ``task`` shows and which way it improves."""
    if task.goal == "min" and to_measure is as_score:
        return "stored score, higher is better"
    return better(task.measure, task.goal, _WIDTH)


def comparison_curves(task: TaskComparison, to_measure: ToMeasure) -> dict[str, list[Curve]]:
    """Return the curves of every pair by arm name, in the order of the pairs."""
    return {
        arm: [measured_curve(task.task, pick_arm(pair, arm), to_measure) for pair in task.pairs]
        for arm in ARMS
    }


def curves_panel(
    task: TaskComparison, to_measure: ToMeasure, *, heading: str | None = None
) -> Panel:
    """Return both arms of ``task``: one pair as it is, several as thin lines with a bold median.

    ``heading`` stands over the chart, by default the task's name.
    """
    goal = "max" if to_measure is as_score else task.goal
    curves = comparison_curves(task, to_measure)
    middles = {arm: middle_curve(curves[arm], goal) for arm in ARMS}
    several = len(task.pairs) > 1
    subtitle = direction(task, to_measure)
    ends = {arm: middles[arm].points[-1][1] for arm in ARMS if middles[arm].points}
    absent = "valid in too few seeds for a median" if several else "no valid attempt"
    notes = [f"thin: {len(task.pairs)} seeds, bold: median"] if several else []
    notes += [f"{arm}: {absent}" for arm in ARMS if arm not in ends] if ends else [absent]
    head, top = header(heading or task.task, subtitle, _WIDTH, legend="; ".join(notes))
    top += 8
    shown = [curve for arm in ARMS for curve in curves[arm]]
    values = [value for curve in shown for _, value in curve.points]
    texts = dict(zip(ends, told_apart(list(ends.values())), strict=True))
    gutter = max(map(text_width, texts.values()), default=0.0) + 22
    calls = max((curve.end for curve in shown), default=0)
    frame = make_frame(values, calls, top=top, size=(_WIDTH, _PLOT), gutter=gutter)
    parts = [head, frame.axes, _round_two(task, frame)]
    if several:
        parts += _thin(curves, frame)
    parts += _bold(middles, frame, several)
    parts += _ends(ends, texts, frame)
    text = ". ".join([subtitle, *(described(arm, middles[arm], absent) for arm in ARMS)])
    title = f"{task.task}: best against calls"
    return Panel(_WIDTH, top + _PLOT + FOOT, title, f"{text}.", join(parts))


def _thin(curves: dict[str, list[Curve]], frame: Frame) -> list[Markup]:
    """Return a thin line a pair and arm, fainter the more there are."""
    faint = max(0.12, min(0.5, 4 / len(curves[ARMS[0]])))
    return [
        path(curve, frame, f"s-{arm} thin", opacity=faint)
        for arm in ARMS
        for curve in curves[arm]
        if curve.points
    ]


def _bold(middles: dict[str, Curve], frame: Frame, several: bool) -> list[Markup]:
    """Return the main line of each arm; fixed lies wide under dream, so equal parts show both."""
    parts: list[Markup] = []
    for arm, classes in zip(ARMS, ("s-fixed wide", "s-dream bold"), strict=True):
        curve = middles[arm]
        if curve.points:
            parts.append(path(curve, frame, classes))
            end = frame.x.at(curve.end)
            # At the right edge the marker of the final value stands right beside it.
            if end < frame.x.end - 6:
                parts.append(marker(end, frame.y.at(curve.points[-1][1]), arm))
    for arm in ARMS:
        parts.append(points(middles[arm], frame, f"{arm}, median" if several else arm))
    return parts


def _ends(ends: dict[str, float], texts: dict[str, str], frame: Frame) -> list[Markup]:
    """Return the final values at the right edge, kept apart, each behind its arm's marker."""
    wanted = [frame.y.at(value) for value in ends.values()]
    placed = spread(wanted, 15, frame.y.end, frame.y.start)
    parts: list[Markup] = []
    for (arm, text), y in zip(texts.items(), placed, strict=True):
        parts.append(marker(frame.x.end + 12, y, arm))
        parts.append(label(frame.x.end + 20, y + 4.3, text))
    return parts


def _round_two(task: TaskComparison, frame: Frame) -> Markup:
    """Return a mark where round 2 starts, when it starts at the same call in every arm."""
    arms = [arm for pair in task.pairs for arm in (pair.fixed, pair.dream)]
    starts = {arm.rounds[0].cum for arm in arms if len(arm.rounds) > 1}
    if len(starts) != 1 or any(len(arm.rounds) < 2 for arm in arms):
        return join(())
    at = frame.x.at(starts.pop())
    edge = frame.y.end - 8
    return join(
        [
            tag("line", x1=at, y1=edge, x2=at, y2=frame.y.start, class_="s-soft dash"),
            label(at + 4, edge + 8, "round 2", role="soft", kind="small"),
        ]
    )
