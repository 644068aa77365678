"""Pictures of circle packings: a self-contained SVG, and a sketch in braille characters.

Draws any readable packing, feasible or not; never scores one. Both functions raise
:class:`ValueError` with a readable reason for an artifact that holds no list of finite triples.
"""

import math
from collections.abc import Sequence
from typing import Final

from daydream.tasks.base import Artifact
from daydream.tasks.circle_packing import Circle, read_packing

SIDE: Final = 600
"""Side of the drawn square, in SVG units."""
MARGIN: Final = 20
CAPTION: Final = 30
CONTACT: Final = 1e-7
"""Gaps up to this are drawn as contacts: invisible in a picture, larger than a solver leaves."""
LARGE: Final = (0, 114, 178)
SMALL: Final = (170, 214, 240)
"""Fill of the largest and the smallest circle, on one scale that stays ordered without colour."""
STYLE: Final = (
    ".paper{fill:#fff}.ink{fill:#1b1f24}.line{stroke:#1b1f24}"
    "@media(prefers-color-scheme:dark){.paper{fill:#15181c}.ink{fill:#e8eaed}.line{stroke:#e8eaed}}"
)
DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille character, by row and column of its dots."""
BLANK: Final = 0x2800
FEWEST_COLUMNS: Final = 8


def picture(artifact: Artifact) -> str:
    """Return an SVG document: circles shaded by size, contacts as lines, the sum as caption."""
    circles = read_packing(artifact)
    total = math.fsum(radius for _, _, radius in circles)
    caption = f"{len(circles)} circles, sum of radii {total:.10f}"
    width, height = SIDE + 2 * MARGIN, SIDE + 2 * MARGIN + CAPTION
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" font-family="system-ui, sans-serif">',
            f"<title>{caption}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="paper" width="{width}" height="{height}"/>',
            *_discs(circles),
            *_contacts(circles),
            f'<rect class="line" x="{MARGIN}" y="{MARGIN}" width="{SIDE}" height="{SIDE}" '
            'fill="none" stroke-width="2"/>',
            f'<text class="ink" x="{MARGIN}" y="{SIDE + MARGIN + CAPTION}" font-size="18">'
            f"{caption}</text>",
            "</svg>",
            "",
        ]
    )


def _discs(circles: Sequence[Circle]) -> list[str]:
    radii = [radius for _, _, radius in circles]
    low = min(radii, default=0.0)
    span = max(radii, default=0.0) - low
    return [
        f'<circle class="line" cx="{_x(x)}" cy="{_y(y)}" r="{_number(radius * SIDE)}" '
        f'fill="{_shade((radius - low) / span if span > 0 else 1.0)}" stroke-width="1"/>'
        for x, y, radius in circles
        if radius >= 0
    ]


def _contacts(circles: Sequence[Circle]) -> list[str]:
    lines = []
    for i, (x, y, radius) in enumerate(circles):
        ends = [
            (u, v)
            for u, v, other in circles[:i]
            if abs(math.hypot(x - u, y - v) - radius - other) <= CONTACT
        ]
        ends += [
            (u, v)
            for u, v, room in ((0, y, x), (1, y, 1 - x), (x, 0, y), (x, 1, 1 - y))
            if abs(room - radius) <= CONTACT
        ]
        lines += [
            f'<line class="line" x1="{_x(x)}" y1="{_y(y)}" x2="{_x(u)}" y2="{_y(v)}" '
            'stroke-width="1" stroke-opacity="0.55"/>'
            for u, v in ends
        ]
    return lines


def _shade(share: float) -> str:
    parts = (
        round(small + (large - small) * share) for small, large in zip(SMALL, LARGE, strict=True)
    )
    return "#" + "".join(f"{part:02x}" for part in parts)


def _x(x: float) -> str:
    return _number(MARGIN + x * SIDE)


def _y(y: float) -> str:
    return _number(MARGIN + (1 - y) * SIDE)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def sketch(artifact: Artifact, columns: int) -> str:
    """Return the outlines of a packing in braille, ``columns`` (8 at least) wide, half as tall.

    The frame is the unit square; what lies outside of it is not drawn.
    """
    circles = read_packing(artifact)
    width = max(FEWEST_COLUMNS, columns)
    height = (width + 1) // 2
    cells = [[0] * width for _ in range(height)]
    across, down = 2 * width - 1, 4 * height - 1

    def dot(x: float, y: float) -> None:
        if 0 <= x <= 1 and 0 <= y <= 1:
            column, row = round(x * across), round((1 - y) * down)
            cells[row // 4][column // 2] |= DOTS[row % 4][column % 2]

    for step in range(down + 1):
        at = step / down
        for x, y in ((at, 0.0), (at, 1.0), (0.0, at), (1.0, at)):
            dot(x, y)
    for x, y, radius in circles:
        points = 8 * max(1, math.ceil(min(radius, 1.0) * down))
        for step in range(points):
            angle = 2 * math.pi * step / points
            dot(x + radius * math.cos(angle), y + radius * math.sin(angle))
    return "\n".join("".join(chr(BLANK + cell) for cell in row) for row in cells)
