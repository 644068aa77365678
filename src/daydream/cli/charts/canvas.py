"""Markup that cannot be malformed: escaped words, tags, the palette, and panels of a chart.

Only :func:`words` turns text into :data:`Markup`, so a name can never become a tag. Colours are the
Okabe-Ito set, which people with any colour vision can tell apart; arms differ in shape as well.
Rules name colours directly, never by variable, because many SVG viewers know no CSS variables.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple, NewType

from daydream.cli.charts.scales import Scale, tick_labels, ticks

Markup = NewType("Markup", str)

SVG_NAMESPACE = "http://www.w3.org/2000/svg"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"

PALETTE = {
    "paper": ("#ffffff", "#15181c"),
    "ink": ("#1b1f24", "#e8eaed"),
    "soft": ("#5b6470", "#a3acb8"),
    "grid": ("#dfe3e8", "#333a43"),
    "fixed": ("#d55e00", "#e69f00"),
    "dream": ("#0072b2", "#56b4e9"),
    "record": ("#009e73", "#009e73"),
    "failed": ("#d55e00", "#e69f00"),
    "refused": ("#cc79a7", "#cc79a7"),
}
"""Role -> (on a light page, on a dark page). A role gives the classes f-ROLE and s-ROLE."""

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})
_NARROW = frozenset("fijlrtI.,:;'|!()[]{}/\\ ")
_WIDE = frozenset("mwMW@%…")


def words(text: str) -> Markup:
    """Return ``text`` escaped for content and attributes; characters XML forbids become U+FFFD."""
    return Markup(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text).translate(_ESCAPES))


def join(parts: Iterable[Markup], between: str = "") -> Markup:
    """Return ``parts`` as one piece of markup."""
    return Markup(between.join(parts))


def tag(name: str, /, *children: Markup, **attributes: str | float | None) -> Markup:
    """Return an element; ``class_`` is class, ``_`` is ``-``, None leaves an attribute out.

    Numbers are written with at most two decimals, so equal charts have equal bytes.
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(
        f"<{name}{pairs}>{''.join(children)}</{name}>" if children else f"<{name}{pairs}/>"
    )


def _attribute(value: str | float) -> str:
    return words(value) if isinstance(value, str) else pixels(value)


def pixels(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def label(
    x: float,
    y: float,
    text: str,
    *,
    role: str = "ink",
    anchor: str | None = None,
    kind: str | None = None,
) -> Markup:
    """Return text with its baseline at ``y``; ``kind`` is ``head`` (14 px, bold) or ``small``."""
    classes = f"f-{role}" if kind is None else f"f-{role} {kind}"
    return tag("text", words(text), x=x, y=y, class_=classes, text_anchor=anchor)


def hover(text: str) -> Markup:
    """Return the title that browsers show over the parent element."""
    return tag("title", words(text))


def line(x1: float, y1: float, x2: float, y2: float, role: str) -> Markup:
    """Return a hairline."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=f"s-{role}")


def text_width(text: str, size: float = 12) -> float:
    """Return an upper estimate in pixels, from the widths of DejaVu Sans, the widest in use."""
    return size * sum(map(_em, text))


def _em(char: str) -> float:
    if char in _NARROW:
        return 0.41
    if char in _WIDE:
        return 1.0
    if unicodedata.east_asian_width(char) in "WF":
        return 1.05
    return 0.72 if char.isupper() else 0.64


def axis_marks(scale: Scale, most: int, *, whole: bool = False) -> list[tuple[float, str]]:
    """Return (position, text) of at most about ``most`` ticks, few enough to stand side by side."""
    while True:
        marks = ticks(scale.low, scale.high, most, whole=whole)
        texts = tick_labels(marks)
        wide = max((text_width(text, 11) for text in texts), default=0.0) + 12
        if most <= 2 or wide * (len(texts) - 1) <= abs(scale.end - scale.start):
            return [(scale.at(mark), text) for mark, text in zip(marks, texts, strict=True)]
        most -= 1


def fit(text: str, width: float, size: float = 12) -> str:
    """Return ``text``, its middle cut out where it is too wide: both ends tell names apart."""
    text = " ".join(text.split())
    if text_width(text, size) <= width:
        return text
    keep = len(text) - 1
    while keep > 1 and text_width(_cut(text, keep), size) > width:
        keep -= 1
    return _cut(text, keep)


def _cut(text: str, keep: int) -> str:
    tail = keep // 2
    return f"{text[: keep - tail]}…{text[len(text) - tail :]}"


class Panel(NamedTuple):
    """One drawn chart: ``body`` fills width x height; the texts are for screen readers."""

    width: float
    height: float
    title: str
    description: str
    body: Markup


def header(
    title: str, subtitle: str, width: float, *, legend: str | None = None
) -> tuple[Markup, float]:
    """Return the head of a panel and the height it takes.

    With ``legend`` it names the two arms, and then says what the legend adds (it may be empty).
    """
    parts = [
        tag(
            "g",
            hover(title),
            label(0, 14, fit(title, width, 15.5), kind="head"),
        ),
        label(0, 31, fit(subtitle, width), role="soft"),
    ]
    if legend is None:
        return join(parts), 40
    after = 18 + text_width("fixed") + 18
    parts += [swatch(0, 41, "fixed"), label(18, 51, "fixed")]
    parts += [swatch(after, 41, "dream"), label(after + 18, 51, "dream")]
    start = after + 18 + text_width("dream") + 18
    parts.append(label(start, 51, fit(legend, width - start), role="soft"))
    return join(parts), 60


def swatch(x: float, y: float, arm: str) -> Markup:
    """Return the legend square of an arm."""
    return bar(x, y, 12, 12, arm)


def bar(x: float, y: float, width: float, height: float, arm: str, title: str = "") -> Markup:
    """Return a bar: outlined and pale for ``fixed``, solid for ``dream``."""
    inside = (hover(title),) if title else ()
    return tag(
        "rect",
        *inside,
        x=x,
        y=y,
        width=width,
        height=height,
        rx=1.5,
        class_=f"f-{arm} pale" if arm == "fixed" else f"f-{arm}",
    )


def stylesheet() -> str:
    """Return the CSS of every chart, light and dark; print is always light."""
    light = "".join(_colours(0))
    dark = "".join(_colours(1))
    return (
        f".dd text{{font:12px {FONT};font-variant-numeric:tabular-nums}}"
        ".dd .head{font-size:14px;font-weight:600}.dd .small{font-size:11px}"
        ".dd .wide{stroke-width:5;stroke-opacity:.45}.dd .bold{stroke-width:2.2}"
        ".dd .thin{stroke-width:1}.dd .lineage{stroke-width:4}.dd .mark{stroke-width:1.6}"
        ".dd .peak{stroke-width:2}.dd .dash{stroke-dasharray:5 4}.dd .pale{fill-opacity:.35}"
        f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}"
    )


def _colours(mode: int) -> Iterable[str]:
    for role, colours in PALETTE.items():
        yield f".dd .f-{role}{{fill:{colours[mode]}}}"
        yield f".dd .s-{role}{{stroke:{colours[mode]};fill:none}}"
    yield f".dd .pale{{stroke:{PALETTE['fixed'][mode]}}}"
    yield f".dd .ok{{stroke:{PALETTE['dream'][mode]}}}"


def inline(panel: Panel, key: str) -> Markup:
    """Return ``panel`` as an SVG element for an HTML page; ``key`` makes its ids unique there."""
    return tag(
        "svg",
        tag("title", words(panel.title), id=f"{key}-title"),
        tag("desc", words(panel.description), id=f"{key}-desc"),
        panel.body,
        class_="dd",
        role="img",
        aria_labelledby=f"{key}-title",
        aria_describedby=f"{key}-desc",
        viewBox=f"0 0 {pixels(panel.width)} {pixels(panel.height)}",
    )


def standalone(panel: Panel, *, margin: float = 16) -> str:
    """Return ``panel`` as a whole SVG file on its own paper."""
    width, height = panel.width + 2 * margin, panel.height + 2 * margin
    document = tag(
        "svg",
        tag("title", words(panel.title), id="chart-title"),
        tag("desc", words(panel.description), id="chart-desc"),
        tag("style", words(stylesheet())),
        tag("rect", width=width, height=height, class_="f-paper"),
        moved(panel.body, margin, margin),
        xmlns=SVG_NAMESPACE,
        class_="dd",
        role="img",
        aria_labelledby="chart-title",
        aria_describedby="chart-desc",
        width=width,
        height=height,
        viewBox=f"0 0 {pixels(width)} {pixels(height)}",
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{document}\n'


def moved(body: Markup, x: float, y: float) -> Markup:
    """Return ``body`` moved by (x, y)."""
    return tag("g", body, transform=f"translate({pixels(x)} {pixels(y)})")


def rows_of(panels: Sequence[Panel], columns: int, gap: float) -> tuple[Markup, float]:
    """Return panels of equal width laid out in rows of ``columns``, and the height they take."""
    parts: list[Markup] = []
    y = 0.0
    for first in range(0, len(panels), columns):
        row = panels[first : first + columns]
        for place, panel in enumerate(row):
            parts.append(moved(panel.body, place * (panel.width + gap), y))
        y += max(panel.height for panel in row) + gap
    return join(parts), max(0.0, y - gap)
