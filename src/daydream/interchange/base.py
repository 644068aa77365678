"""From the nodes of other tools to trees, with a note for every guess that changes a tree.

A tree keeps creation order: that of ``seq``, ``created_at`` or ``timestamp`` where every node has
it, else that of the file, and a parent always before its children. Replay needs no more. Nothing
that was read is executed.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from daydream.canonical import JsonObject, JsonValue, clean_text, dumps
from daydream.errors import StoreError, TreeError
from daydream.interchange.nodes import (
    RawNode,
    looks_like_node,
    number_of,
    read_node,
    text_id,
    whole_of,
)
from daydream.search import DEFAULT_LIMIT
from daydream.tree import ROOT, Eligibility, Node, Status, Tree, check_tree

UNKNOWN = "imported"
"""Task or evaluator version of a file that names none."""
ORDER = ("seq", "created_at", "timestamp")
SHOWN = 5
"""Ids listed in one note."""


class Imported(msgspec.Struct, frozen=True):
    """Trees that another tool recorded, and what had to be assumed to read them."""

    trees: tuple[Tree, ...]
    notes: tuple[str, ...]
    """Sentences for people; empty when nothing was assumed."""


class Names(msgspec.Struct, frozen=True):
    """What is known beside the file; None leaves it to the file."""

    task: str | None = None
    evaluator: str | None = None
    scale: float | None = None
    unnamed_task: str = UNKNOWN
    """Task of trees that name none."""


def parse(text: str, where: str) -> JsonValue:
    """Return the JSON in ``text``; NaN and infinities pass, for some tools write them.

    Raises :class:`StoreError` naming line and column.
    """
    try:
        value: JsonValue = json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text else ""
        raise StoreError(
            f"{where}: {error.msg} at {line}column {error.colno} (expected JSON); export it again"
        ) from None
    except (RecursionError, ValueError) as error:
        raise StoreError(f"{where}: {error} (expected plain JSON); export it again") from None
    return value


def read_text(path: Path) -> str:
    """Return the text of ``path``. Raises :class:`StoreError` when it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StoreError(
            f"{path}: byte {error.start} is no UTF-8 (expected JSON text); export it again"
        ) from None
    except OSError as error:
        raise StoreError(
            f"cannot read {path}: {error.strerror} (expected a file that another tool wrote); "
            "check the path"
        ) from error


def is_tree(value: JsonValue) -> bool:
    """Return whether ``value`` is an object that holds one tree, with or without facts about it."""
    return isinstance(value, Mapping) and (
        "nodes" in value or isinstance(value.get("tree"), Mapping)
    )


def read_tree_value(
    value: JsonValue, *, where: str, number: int, names: Names
) -> tuple[Tree, list[str]]:
    """Return the tree in ``value`` and the notes on it.

    ``value`` is a list of nodes, an object with ``nodes`` (a list, or id -> node) or such an object
    under ``tree``, or id -> node. ``where`` (file, line) starts every message; ``number`` is the
    round of a tree that names none. Raises :class:`StoreError` for anything else, for repeated ids
    and for a circle of parents.
    """
    facts: JsonObject = value if isinstance(value, Mapping) else {}
    inner = facts.get("tree")
    if isinstance(inner, Mapping) and "nodes" not in facts:
        facts = value = {**facts, **inner}
    raw = [
        read_node(item, where, position)
        for position, item in enumerate(_in_order(_objects(value, where)))
    ]
    _refuse_repeats(raw, where)
    notes = _node_notes(raw)
    root = _find_root(raw, facts)
    nodes = _grow(root, [node for node in raw if node is not root], facts, where, notes)
    tree = _tree(nodes, facts, number, names)
    for what in ("task", "evaluator"):
        if getattr(tree, what) == UNKNOWN:
            notes.append(f"no {what} is named; it is called {UNKNOWN!r}")
    try:
        return check_tree(tree), [f"{where}: {note}" for note in notes]
    except TreeError as error:
        raise StoreError(f"{where}: {error}") from None


def _objects(value: JsonValue, where: str) -> list[JsonObject]:
    """Return the node objects of a tree, in the order of the file."""
    found = value
    if isinstance(value, Mapping):
        found = value.get("nodes")
        if "nodes" not in value:
            found = {key: item for key, item in value.items() if looks_like_node(item)} or None
    if isinstance(found, Mapping):
        numbered = all(key.removeprefix("-").isdecimal() for key in found)
        keys = sorted(found, key=int) if numbered else list(found)
        found = [_with_id(key, found[key]) for key in keys]
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise StoreError(
            f"{where}: holds {_shown(value)} (expected a list of nodes, or an object with "
            "'nodes'); export the trees of a run"
        )
    if not found:
        raise StoreError(f"{where}: holds no nodes (expected at least one); export it again")
    objects: list[JsonObject] = []
    for position, item in enumerate(found):
        if not isinstance(item, Mapping):
            raise StoreError(
                f"{where}: node {position} is {_shown(item)} (expected an object with id, parent "
                "and score); export the nodes of a tree"
            )
        objects.append(item)
    return objects


def _with_id(key: str, item: JsonValue) -> JsonValue:
    return {**item, "id": key} if isinstance(item, Mapping) else item


def _shown(value: JsonValue) -> str:
    return clean_text(repr(value), 60)


def _in_order(objects: list[JsonObject]) -> list[JsonObject]:
    """Return ``objects`` in creation order, where every one of them states it."""
    for name in ORDER:
        stamps = [item.get(name) for item in objects]
        numbers = [s for s in stamps if isinstance(s, (int, float)) and not isinstance(s, bool)]
        texts = [s for s in stamps if isinstance(s, str)]
        for known in (numbers, texts):
            if known and len(known) == len(objects):
                order = sorted(range(len(known)), key=known.__getitem__)
                return [objects[position] for position in order]
    return objects


def _refuse_repeats(raw: Sequence[RawNode], where: str) -> None:
    seen: set[str] = set()
    for node in raw:
        if node.key in seen:
            raise StoreError(
                f"{where}: two nodes have the id {node.key!r} (expected each id once); if the file "
                "holds several trees, split it into one tree each"
            )
        seen.add(node.key)


def _node_notes(raw: Sequence[RawNode]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for node in raw:
        if node.note is not None:
            groups.setdefault(node.note, []).append(node.key)
    return [f"{note}: {_listed(keys)}" for note, keys in groups.items()]


def _listed(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return f"node{'s' if len(keys) > 1 else ''} {', '.join(keys[:SHOWN])}{more}"


def _root_name(facts: JsonObject) -> str | None:
    found = facts.get("root", facts.get("root_id"))
    return text_id(found.get("id") if isinstance(found, Mapping) else found)


def _find_root(raw: Sequence[RawNode], facts: JsonObject) -> RawNode | None:
    """Return the node that is the root, or None where the file leaves the root out.

    It is the one that the file names, else the only one without a parent, else the only one of
    these that claims depth 0. A first attempt that claims depth 1 is no root.
    """
    named = _root_name(facts) or "root"
    for node in raw:
        if node.key == named:
            return node
    tops = [node for node in raw if node.parent in {None, node.key} and node.depth in {None, 0}]
    if len(tops) > 1:
        tops = [node for node in tops if node.depth == 0]
    return tops[0] if len(tops) == 1 else None


def _grow(
    root: RawNode | None,
    attempts: Sequence[RawNode],
    facts: JsonObject,
    where: str,
    notes: list[str],
) -> list[Node]:
    """Return the nodes of the tree in creation order, ids, branches and depths made new."""
    parents = _parents(root, attempts, facts, notes)
    nodes = [_root_node(root, facts)]
    kept = all(node.batch is not None and node.slot is not None for node in attempts)
    number: dict[str | None, int] = {None: ROOT}
    waiting: dict[str | None, list[RawNode]] = {}
    branches = moved = 0
    for first in attempts:
        ready = [first]
        while ready:
            raw = ready.pop()
            parent = parents[raw.key]
            if parent not in number:
                waiting.setdefault(parent, []).append(raw)
                moved += 1
                continue
            above = nodes[number[parent]]
            number[raw.key] = len(nodes)
            nodes.append(
                Node(
                    id=len(nodes),
                    parent=above.id,
                    branch=branches if above.id == ROOT else above.branch,
                    depth=above.depth + 1,
                    batch=raw.batch if kept and raw.batch is not None else len(nodes),
                    slot=raw.slot if kept and raw.slot is not None else 0,
                    status=raw.status or Status.ERROR,
                    score=raw.score,
                    error_class=raw.error_class,
                    artifact=raw.artifact,
                )
            )
            branches += above.id == ROOT
            ready.extend(reversed(waiting.pop(raw.key, [])))
    if waiting:
        stuck = [node.key for group in waiting.values() for node in group]
        raise StoreError(
            f"{where}: {_listed(stuck)} can be reached from no root (expected parents that lead to "
            "one, not in a circle); repair the parents"
        )
    if moved:
        notes.append(f"{moved} nodes stood before their parents and were moved behind them")
    return nodes


def _parents(
    root: RawNode | None, attempts: Sequence[RawNode], facts: JsonObject, notes: list[str]
) -> dict[str, str | None]:
    """Return node key -> parent key, None for the root; orphans go to the root and are noted."""
    keys = {node.key for node in attempts}
    unknown = {node.parent for node in attempts} - keys - {None}
    roots = {root.key} if root is not None else {_root_name(facts), "root"}
    tops = any(node.parent in {None, node.key} for node in attempts)
    if root is None and not tops and len(unknown) == 1:
        # Everything hangs on one node that is not in the file: that is the root.
        roots |= unknown
    orphans = [node.key for node in attempts if node.parent in unknown - roots]
    if root is not None:
        orphans += [node.key for node in attempts if node.parent in {None, node.key}]
    if orphans:
        notes.append(f"{_listed(orphans)} had no known parent: attached to the root")
    if root is None:
        notes.append("no node is the root; an unevaluated one was put above the first attempts")
    return {
        node.key: node.parent if node.parent in keys and node.parent != node.key else None
        for node in attempts
    }


def _root_node(root: RawNode | None, facts: JsonObject) -> Node:
    status: Status | None = None
    score, error_class, artifact = 0.0, None, None
    if root is not None:
        status, score = root.status, root.score
        error_class, artifact = root.error_class, root.artifact
    elif (baseline := number_of(facts.get("baseline", facts.get("baseline_score")))) is not None:
        status, score = Status.OK, baseline
    return Node(ROOT, None, -1, 0, 0, 0, status, score, error_class, artifact)


def _tree(nodes: list[Node], facts: JsonObject, number: int, names: Names) -> Tree:
    children = [0] * len(nodes)
    for node in nodes[1:]:
        children[node.parent or ROOT] += 1
    branching = max(children[1:], default=0) > 1 or facts.get("eligibility") == "any"
    eligibility: Eligibility = "any" if branching else "chain"
    scale = number_of(_fact(facts, "scale", "score_scale")) if names.scale is None else names.scale
    return Tree(
        task=names.task
        or _text(_fact(facts, "task", "task_id", "task_name", "problem"), names.unnamed_task),
        evaluator=names.evaluator or _text(_fact(facts, "evaluator", "evaluator_hash")),
        round=whole_of(_fact(facts, "round", "cycle"), low=1) or number,
        policy=_text(_fact(facts, "policy", "policy_name", "spec")),
        limit=whole_of(_fact(facts, "limit", "max_parallelism"), low=1) or DEFAULT_LIMIT,
        scale=scale if scale is not None and scale > 0 else 1.0,
        seed=whole_of(facts.get("seed")) or 0,
        nodes=tuple(nodes),
        eligibility=eligibility,
    )


def _fact(facts: JsonObject, *names: str) -> JsonValue:
    return next((facts[name] for name in names if facts.get(name) is not None), None)


def _text(value: JsonValue, default: str = UNKNOWN) -> str:
    """Return a name: a text itself, the ``name`` or ``id`` of an object, else its JSON."""
    if isinstance(value, Mapping):
        value = _fact(value, "name", "id") or value
    if isinstance(value, str) and value:
        return clean_text(value, 4_000)
    return default if value in (None, "") else clean_text(dumps(value).decode("utf-8"), 4_000)
