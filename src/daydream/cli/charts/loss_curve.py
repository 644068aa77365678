"""Loss against optimiser steps, one curve a stage, one stage after the other."""

from collections.abc import Mapping, Sequence

from daydream.cli.charts.canvas import (
    Markup,
    Panel,
    axis_marks,
    header,
    join,
    label,
    line,
    pixels,
    standalone,
    tag,
)
from daydream.cli.charts.plot import FOOT
from daydream.cli.charts.scales import Scale, domain, drawable, number, tick_labels, ticks
from daydream.wording import counted

_WIDTH = 720.0
_PLOT = 260.0
_LEFT = 56.0
_ROLES = ("dream", "fixed")


def loss_svg(title: str, curves: Mapping[str, Sequence[float]]) -> str:
    """Return the losses of each stage, a value a step, as an SVG file."""
    kept = {name: [v for v in values if drawable(v)] for name, values in curves.items()}
    steps = max(1, sum(map(len, kept.values())))
    every = [value for values in kept.values() for value in values]
    head, top = header(title, "loss, lower is better", _WIDTH)
    top += 8
    x = Scale(0.0, float(steps), _LEFT, _WIDTH - 16)
    low, high = domain([*every, 0.0])
    y = Scale(low, high, top + _PLOT, top)
    parts: list[Markup] = [head]
    marks = ticks(low, high, 6)
    for mark, text in zip(marks, tick_labels(marks), strict=True):
        parts.append(line(_LEFT, y.at(mark), x.end, y.at(mark), "grid"))
        parts.append(
            label(_LEFT - 6, y.at(mark) + 4, text, role="soft", anchor="end", kind="small")
        )
    bottom = top + _PLOT
    for at, text in axis_marks(x, 8, whole=True):
        parts.append(line(at, bottom, at, bottom + 4, "soft"))
        parts.append(label(at, bottom + 16, text, role="soft", anchor="middle", kind="small"))
    parts.append(label(_LEFT, bottom + 32, "optimiser steps", role="soft", kind="small"))
    told: list[str] = []
    start = 0
    for place, (name, values) in enumerate(kept.items()):
        if values:
            role = _ROLES[place % len(_ROLES)]
            spots = [
                f"{pixels(x.at(start + n + 1))} {pixels(y.at(value))}"
                for n, value in enumerate(values)
            ]
            parts.append(tag("path", d="M" + "L".join(spots), class_=f"s-{role} bold"))
            parts.append(label(x.at(start + 1) + 4, top + 14, name, kind="small"))
            told.append(f"{name} from {number(values[0])} to {number(values[-1])}")
        start += len(values)
    text = f"Loss in {counted(steps, 'step')}: {'; '.join(told) or 'nothing recorded'}."
    return standalone(Panel(_WIDTH, bottom + FOOT, title, text, join(parts)))
