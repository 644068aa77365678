"""A discovery tree as a picture: branches are rows, depth runs to the right.

The first child of a node stays on its row and every later child opens a new one, so the trees whose
branches are chains have one row a branch, and trees that branch anywhere are drawn the same way.
"""

from collections.abc import Sequence
from typing import NamedTuple

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
from daydream.cli.charts.scales import Scale, number
from daydream.errors import TreeError
from daydream.tree import ROOT, Node, Status, Tree
from daydream.wording import counted

MAX_ROWS = 120
"""More rows than anybody reads; others are counted in a line of text, the best always drawn."""

_ROW = 22.0
_LEAST_STEP = 9.0
_STEP = 30.0
_SPAN = 900.0
_LEAST_WIDTH = 540.0
_RADIUS = 6.5


class _Layout(NamedTuple):
    rows: Sequence[int | None]
    """Row of each node; None for a node that is not drawn."""
    used: int
    step: float

    def x(self, node: Node) -> float:
        return 10 + node.depth * self.step

    def y(self, node: Node) -> float:
        return 18 + (self.rows[node.id] or 0) * _ROW


def tree_svg(tree: Tree, best: int | None) -> str:
    """Return ``tree`` as an SVG file with the path to node ``best`` in bold, a ring around it.

    Valid nodes are discs, stronger in colour for a better score; a cross is an error, an open
    diamond a refused artifact, an open square a timeout.

    Raises :class:`TreeError` when ``best`` is no node.
    """
    if best is not None and not 0 <= best < len(tree.nodes):
        raise TreeError(
            f"tree has no node {best} (expected 0 to {len(tree.nodes) - 1}); name one it has"
        )
    path = _lineage(tree, best)
    layout, hidden = _layout(tree, path)
    deepest = max(node.depth for node in tree.nodes)
    width = max(_LEAST_WIDTH, 10 + deepest * layout.step + _RADIUS + 190)
    title = f"{tree.task}, round {tree.round}: {tree.policy}"
    subtitle = f"{counted(tree.attempts, 'attempt')}, limit {tree.limit}, seed {tree.seed}"
    head, top = header(title, subtitle, width)
    keys, legend_height = _legend(tree, width)
    body = join([_edges(tree, layout, path), _nodes(tree, layout, best), _row_notes(tree, layout)])
    parts = [head, tag("g", keys, transform=f"translate(0 {pixels(top)})")]
    top += legend_height
    parts.append(tag("g", body, transform=f"translate(0 {pixels(top)})"))
    height = top + 18 + layout.used * _ROW
    if hidden:
        parts.append(
            label(0, height + 6, f"{counted(hidden, 'more node')} not drawn.", role="soft")
        )
        height += 14
    return standalone(Panel(width, height, title, _description(tree, best), join(parts)))


def _lineage(tree: Tree, best: int | None) -> frozenset[int]:
    found: list[int] = []
    while best is not None:
        found.append(best)
        best = tree.nodes[best].parent
    return frozenset(found)


def _layout(tree: Tree, path: frozenset[int]) -> tuple[_Layout, int]:
    """Return where nodes go, and how many are left out."""
    children: list[list[int]] = [[] for _ in tree.nodes]
    for node in tree.nodes[1:]:
        if node.parent is not None:
            children[node.parent].append(node.id)
    rows: list[int | None] = [None] * len(tree.nodes)
    used = 0
    # Depth first, so a subtree fills neighbouring rows; a node starts a chain of first children.
    waiting = [ROOT]
    while waiting:
        start = waiting.pop()
        chain = [start]
        while children[chain[-1]]:
            chain.append(children[chain[-1]][0])
        if used < MAX_ROWS or any(number in path for number in chain):
            for number in chain:
                rows[number] = used
            used += 1
        # Deeper openings come first on the way back up, which keeps vertical edges free of nodes.
        waiting += [child for number in chain for child in reversed(children[number][1:])]
    deepest = max(node.depth for node in tree.nodes)
    step = max(_LEAST_STEP, min(_STEP, _SPAN / max(1, deepest)))
    return _Layout(rows, used, step), rows.count(None)


def _edges(tree: Tree, layout: _Layout, path: frozenset[int]) -> Markup:
    plain: list[str] = []
    bold: list[str] = []
    for node in tree.nodes[1:]:
        if layout.rows[node.id] is None or node.parent is None:
            continue
        parent = tree.nodes[node.parent]
        start = f"M{pixels(layout.x(parent))} {pixels(layout.y(parent))}"
        bend = f"V{pixels(layout.y(node))}" if layout.y(node) != layout.y(parent) else ""
        step = f"{start}{bend}H{pixels(layout.x(node))}"
        (bold if node.id in path else plain).append(step)
    parts = [tag("path", d="".join(plain), class_="s-soft thin")] if plain else []
    if bold:
        parts.append(tag("path", d="".join(bold), class_="s-dream lineage"))
    return join(parts)


def _shade(tree: Tree) -> Scale:
    """Return the opacity of a valid node by its score."""
    scores = [node.score for node in tree.nodes if node.status is Status.OK]
    low, high = min(scores, default=0.0), max(scores, default=1.0)
    return Scale(low, high, 0.12 if high > low else 1.0, 1.0)


def _nodes(tree: Tree, layout: _Layout, best: int | None) -> Markup:
    """Return every drawn node with its facts on hover, and a ring around ``best``."""
    shade = _shade(tree)
    radius = min(_RADIUS, layout.step * 0.36)
    parts = [
        tag(
            "g",
            hover(_title(node)),
            _shape(node.status, layout.x(node), layout.y(node), radius, shade.at(node.score)),
        )
        for node in tree.nodes
        if layout.rows[node.id] is not None
    ]
    if best is not None:
        x, y = layout.x(tree.nodes[best]), layout.y(tree.nodes[best])
        parts.append(tag("circle", cx=x, cy=y, r=radius + 3, class_="s-ink peak"))
    return join(parts)


def _shape(status: Status | None, x: float, y: float, r: float, opacity: float) -> Markup:
    """Return the mark of one node; its paper disc hides the edges beneath an open mark."""
    under = tag("circle", cx=x, cy=y, r=r, class_="f-paper")
    if status is Status.OK:
        disc = tag("circle", cx=x, cy=y, r=r, class_="f-dream ok", fill_opacity=opacity)
        return join([under, disc])
    left, right, above, below = (pixels(v) for v in (x - r, x + r, y - r, y + r))
    px, py = pixels(x), pixels(y)
    shapes = {
        Status.INVALID: (f"M{px} {above}L{right} {py}L{px} {below}L{left} {py}Z", "s-refused"),
        Status.ERROR: (
            f"M{left} {above}L{right} {below}M{right} {above}L{left} {below}",
            "s-failed",
        ),
        Status.TIMEOUT: (f"M{left} {above}H{right}V{below}H{left}Z", "s-failed"),
    }
    if status is None:
        return join([under, tag("circle", cx=x, cy=y, r=r, class_="s-soft")])
    path, classes = shapes[status]
    return join([under, tag("path", d=path, class_=f"{classes} mark")])


def _title(node: Node) -> str:
    if node.id == ROOT:
        where = "root"
    else:
        where = f"node {node.id}, branch {node.branch}, depth {node.depth}, batch {node.batch}"
    if node.status is None:
        return f"{where}: not evaluated"
    if node.status is Status.OK:
        return f"{where}: score {number(node.score, 9)}"
    return f"{where}: {node.status.value}" + (f", {node.error_class}" if node.error_class else "")


def _row_notes(tree: Tree, layout: _Layout) -> Markup:
    """Return, behind each row, the branch that starts on it and the best score on the row."""
    last: dict[int, Node] = {}
    best: dict[int, float] = {}
    opens: dict[int, int] = {}
    for node in tree.nodes[1:]:
        row = layout.rows[node.id]
        if row is None:
            continue
        last[row] = node if row not in last or node.depth > last[row].depth else last[row]
        if node.parent == ROOT:
            opens[row] = node.branch
        if node.status is Status.OK:
            best[row] = max(best.get(row, node.score), node.score)
    parts: list[Markup] = []
    for row, node in last.items():
        text = f"branch {opens[row]}: " if row in opens else ""
        text += f"best {number(best[row])}" if row in best else "none valid"
        x = layout.x(node) + _RADIUS + 8
        parts.append(label(x, layout.y(node) + 4, text, role="soft", kind="small"))
    return join(parts)


def _legend(tree: Tree, width: float) -> tuple[Markup, float]:
    """Return a key of the statuses that occur, wrapped at ``width``, and its height."""
    shade = _shade(tree)
    counts = dict.fromkeys(Status, 0)
    for node in tree.nodes[1:]:
        if node.status is not None:
            counts[node.status] += 1
    names = {"ok": "valid, stronger is better", "invalid": "refused", "error": "error"}
    parts: list[Markup] = []
    x, y = 0.0, 10.0
    for status, total in counts.items():
        if not total:
            continue
        text = fit(f"{names.get(status.value, status.value)}: {total:,}", width - 20)
        needed = 18 + text_width(text) + 16
        if x and x + needed > width:
            x, y = 0.0, y + 20
        parts.append(_shape(status, x + 7, y, 6, shade.end))
        parts.append(label(x + 18, y + 4.3, text))
        x += needed
    return join(parts), y + 14


def _description(tree: Tree, best: int | None) -> str:
    branches = sum(node.parent == ROOT for node in tree.nodes)
    valid = sum(node.status is Status.OK for node in tree.nodes[1:])
    attempts = counted(tree.attempts, "attempt")
    text = f"{counted(branches, 'branch', 'branches')}, {attempts}, {valid:,} valid."
    return text if best is None else f"{text} The bold path leads to {_title(tree.nodes[best])}."
