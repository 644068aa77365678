"""The plot under every best-against-calls curve: axes, steps, points, markers.

Curves hold what people speak of (the measure), whichever way it improves.
"""

from collections.abc import Sequence
from typing import NamedTuple

from daydream.cli.charts.canvas import (
    Markup,
    axis_marks,
    fit,
    hover,
    join,
    label,
    line,
    pixels,
    tag,
    text_width,
)
from daydream.cli.charts.scales import Scale, domain, number, tick_labels, ticks
from daydream.wording import counted

FOOT = 36.0
"""Height of the labels below a plot."""


class Curve(NamedTuple):
    """Best so far: (calls, value) at each improvement; the last value holds until ``end``."""

    points: tuple[tuple[int, float], ...]
    end: int

    def after(self, calls: int) -> float | None:
        """Return the best value within the first ``calls``, or None before the first."""
        return next((value for at, value in reversed(self.points) if at <= calls), None)


class Frame(NamedTuple):
    """The scales of a plot and its drawn axes."""

    x: Scale
    y: Scale
    axes: Markup


def better(measure: str, goal: str, width: float) -> str:
    """Return what a curve shows and which way it improves, in at most ``width`` pixels."""
    way = f", {'lower' if goal == 'min' else 'higher'} is better"
    return fit(measure, width - text_width(way)) + way


def make_frame(
    values: Sequence[float], calls: int, *, top: float, size: tuple[float, float], gutter: float
) -> Frame:
    """Return the scales and drawn axes of a plot ``size`` = (whole width, plot height)."""
    width, height = size
    low, high = domain(values)
    marks = ticks(low, high, 6) if values else ()
    texts = tick_labels(marks)
    left = max((text_width(text, 11) for text in texts), default=0.0) + 6
    x = Scale(0.0, max(1.0, float(calls)), left, width - gutter)
    y = Scale(low, high, top + height, top)
    parts: list[Markup] = []
    for mark, text in zip(marks, texts, strict=True):
        at = y.at(mark)
        parts.append(line(left, at, x.end, at, "grid"))
        parts.append(label(left - 6, at + 4, text, role="soft", anchor="end", kind="small"))
    bottom = top + height
    parts.append(line(left, bottom, x.end, bottom, "soft"))
    for at, text in axis_marks(x, 8 if width > 500 else 5, whole=True):
        parts.append(line(at, bottom, at, bottom + 4, "soft"))
        parts.append(label(at, bottom + 16, text, role="soft", anchor="middle", kind="small"))
    parts.append(label(left, bottom + 32, "discovery-agent calls", role="soft", kind="small"))
    return Frame(x, y, join(parts))


def _steps(curve: Curve, frame: Frame) -> str:
    """Return the path of ``curve``: right along the best so far, then straight to the next."""
    (first, value), *rest = curve.points
    moves = [f"M{pixels(frame.x.at(first))} {pixels(frame.y.at(value))}"]
    moves += [f"H{pixels(frame.x.at(at))}V{pixels(frame.y.at(best))}" for at, best in rest]
    return "".join([*moves, f"H{pixels(frame.x.at(curve.end))}"])


def path(curve: Curve, frame: Frame, classes: str, *, opacity: float | None = None) -> Markup:
    """Return the drawn steps of ``curve``, which is not empty."""
    return tag("path", d=_steps(curve, frame), class_=classes, stroke_opacity=opacity)


def points(curve: Curve, frame: Frame, name: str) -> Markup:
    """Return invisible discs at the improvements that show their numbers when pointed at."""
    return join(
        tag(
            "circle",
            hover(f"{name}: {number(value, 9)} after {counted(at, 'call')}"),
            cx=frame.x.at(at), cy=frame.y.at(value), r=7, fill_opacity=0,
        )
        for at, value in curve.points
    )  # fmt: skip


def marker(x: float, y: float, arm: str) -> Markup:
    """Return the end of a curve: a square for fixed, a disc for dream."""
    if arm == "fixed":
        return tag("rect", x=x - 4.5, y=y - 4.5, width=9, height=9, class_=f"f-{arm}")
    return tag("circle", cx=x, cy=y, r=3.5, class_=f"f-{arm}")


def described(name: str, curve: Curve, absent: str) -> str:
    """Return ``curve`` in words; ``absent`` is what an empty one says."""
    if not curve.points:
        return f"{name}: {absent}"
    at, value = curve.points[-1]
    reached = f"{at:,} of {counted(curve.end, 'call')}"
    return f"{name} ends at {number(value, 9)}, first reached after {reached}"
