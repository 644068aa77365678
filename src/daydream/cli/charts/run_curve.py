"""Best against calls of one run, beside the records known for its task."""

from collections.abc import Sequence
from typing import TypeAlias

from daydream.cli.charts.canvas import (
    Markup,
    Panel,
    fit,
    header,
    hover,
    join,
    label,
    pixels,
    standalone,
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
from daydream.cli.charts.scales import drawable, number, spread

Records: TypeAlias = Sequence[tuple[str, float]]
"""(who, value) in the unit of the measure."""

_WIDTH = 720.0
_PLOT = 300.0
_REACH = 1.5


def curve_svg(
    title: str,
    curve: Sequence[tuple[int, float]],
    measure: str,
    goal: str,
    *,
    records: Records = (),
    calls: int | None = None,
) -> str:
    """Return one run's best against calls as an SVG file, with a line a record.

    ``curve`` holds (calls, best measure so far) at each improvement, ``records`` (who, value) in
    the same measure; ``calls`` is what the run spent in all. Records more than one and a half
    spans away from the curve are named at the edge instead, so they cannot flatten it.
    """
    kept = tuple((at, value) for at, value in curve if drawable(value))
    end = max(calls or 0, kept[-1][0] if kept else 0)
    run = Curve(kept, end)
    absent = "no valid attempt"
    subtitle = better(measure, goal, _WIDTH)
    head, top = header(title, subtitle, _WIDTH)
    top += 8
    near, far = _sorted_records([value for _, value in kept], records)
    values = [value for _, value in kept] + [value for _, value in near]
    notes = [(value, f"{number(value, 9)} {who}", "record") for who, value in near]
    notes += [(value, f"{number(value, 9)} best", "dream") for _, value in kept[-1:]]
    gutter = min(270.0, max((text_width(text, 11) for _, text, _ in notes), default=0.0) + 24)
    frame = make_frame(values, end, top=top, size=(_WIDTH, _PLOT), gutter=gutter)
    parts = [head, frame.axes]
    if kept:
        parts += [path(run, frame, "s-dream bold"), points(run, frame, title)]
        parts.append(marker(frame.x.at(end), frame.y.at(kept[-1][1]), "dream"))
    else:
        parts.append(label(frame.x.start + 12, top + _PLOT / 2, absent))
    parts += _notes(notes, frame, gutter)
    height = top + _PLOT + FOOT
    for who, value in far:
        height += 16
        note = fit(f"Off the chart: {number(value, 9)} {who}", _WIDTH, 11)
        parts.append(label(0, height, note, role="soft", kind="small"))
    text = f"{subtitle}. {described('the run', run, absent)}." + "".join(
        f" Record {number(value, 9)}: {who}." for who, value in records
    )
    panel = Panel(_WIDTH, height, f"{title}: best against calls", text, join(parts))
    return standalone(panel)


def _sorted_records(values: Sequence[float], records: Records) -> tuple[Records, Records]:
    """Return the records near enough to share an axis with ``values``, and the others."""
    if not values:
        return [record for record in records if drawable(record[1])], []
    low, high = min(values), max(values)
    room = (high / 2 - low / 2) * 2 * _REACH or max(abs(high), 1e-290)
    near = [r for r in records if drawable(r[1]) and low - room <= r[1] <= high + room]
    return near, [record for record in records if record not in near]


def _notes(notes: Sequence[tuple[float, str, str]], frame: Frame, gutter: float) -> list[Markup]:
    """Return the record lines and, in the gutter, the texts of all (value, text, role)."""
    placed = spread([frame.y.at(note[0]) for note in notes], 15, frame.y.end, frame.y.start)
    parts: list[Markup] = []
    for (value, text, role), y in zip(notes, placed, strict=True):
        at = frame.y.at(value)
        if role == "record":
            row = tag(
                "line", x1=frame.x.start, y1=at, x2=frame.x.end, y2=at, class_="s-record dash"
            )
            parts.append(row)
        leader = f"M{pixels(frame.x.end + 2)} {pixels(at)}L{pixels(frame.x.end + 14)} {pixels(y)}"
        parts.append(tag("path", d=leader, class_=f"s-{role}"))
        parts.append(
            tag(
                "g",
                hover(text),
                label(frame.x.end + 18, y + 4, fit(text, gutter - 20, 11), kind="small"),
            )
        )
    return parts
