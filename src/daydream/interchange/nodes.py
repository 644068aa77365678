"""One node of another tool's record, read tolerantly.

A node needs an id and a parent, and a score or a status. Common other spellings are understood,
what is not understood is ignored, and an assumption about a node is kept with it as a note.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from daydream.canonical import JsonObject, JsonValue, clean_text
from daydream.errors import StoreError
from daydream.tree import Status

ID = ("id", "node_id", "nodeId", "key")
PARENT = ("parent", "parent_id", "parentId", "parent_node", "parent_ids")
SCORE = ("score", "value", "combined_score", "reward")
STATUS = ("status", "state", "outcome")
VERDICT = ("ok", "valid", "success", "correct", "passed")
REASON = ("error_class", "fail_class", "error_type", "error", "message")
NO_PARENT = frozenset({"", "-1", "none", "null"})

STATUSES: Final[Mapping[str, Status]] = {
    **dict.fromkeys(("ok", "success", "succeeded", "valid", "passed", "done"), Status.OK),
    **dict.fromkeys(("completed", "complete", "evaluated", "solved"), Status.OK),
    **dict.fromkeys(("invalid", "incorrect", "rejected"), Status.INVALID),
    **dict.fromkeys(("error", "failed", "fail", "failure", "crash", "exception"), Status.ERROR),
    **dict.fromkeys(("timeout", "timed_out", "timedout"), Status.TIMEOUT),
}


class RawNode(msgspec.Struct, frozen=True):
    """One node as it was read; ids are text, whatever they were in the file."""

    key: str
    parent: str | None
    status: Status | None
    """None when nothing says how it ended, which only a root may leave open."""
    score: float
    """0 unless the status is ``ok``."""
    error_class: str | None
    depth: int | None
    """As the file claims it; used to tell a root from a first attempt."""
    batch: int | None
    slot: int | None
    artifact: str | None
    note: str | None
    """What had to be assumed, as the end of a sentence about the node."""


def looks_like_node(value: JsonValue) -> bool:
    """Return whether ``value`` can be one node: an object with a parent, a score or a status."""
    return isinstance(value, Mapping) and any(name in value for name in (*PARENT, *SCORE, *STATUS))


def text_id(value: JsonValue) -> str | None:
    """Return an id as text, 3 and 3.0 and "3" alike; None for what is no id."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    return str(value) if isinstance(value, (int, str)) else None


def read_node(value: JsonObject, where: str, position: int) -> RawNode:
    """Return the node in ``value``, which stands at ``position`` in its list.

    A node without an id gets its position. Raises :class:`StoreError` when an id or a parent is no
    id, or when the node has no parent, no score and no status.
    """
    if not looks_like_node(value):
        raise StoreError(
            f"{where}: node {position} has the keys {sorted(value)[:8]} (expected id, parent, and "
            "score or status); export the nodes of a tree"
        )
    given = _first(value, ID)
    key = str(position) if given is None else text_id(given)
    if key is None:
        raise _no_id(where, position, "id", given)
    score = number_of(_first(value, SCORE))
    status, note = _status(value, score)
    fine = status is Status.OK
    return RawNode(
        key=key,
        parent=_parent(value, where, position),
        status=status,
        score=score if fine and score is not None else 0.0,
        error_class=None if fine or status is None else _reason(value),
        depth=whole_of(value.get("depth")),
        batch=whole_of(value.get("batch")),
        slot=whole_of(value.get("slot")),
        artifact=_hash(value.get("artifact")),
        note=note,
    )


def _first(value: JsonObject, names: Sequence[str]) -> JsonValue:
    return next((value[name] for name in names if value.get(name) is not None), None)


def _no_id(where: str, position: int, what: str, found: JsonValue) -> StoreError:
    return StoreError(
        f"{where}: node {position} has {what} {clean_text(repr(found), 60)} (expected a number or "
        "a text); name every node"
    )


def _parent(value: JsonObject, where: str, position: int) -> str | None:
    given = _first(value, PARENT)
    if isinstance(given, Sequence) and not isinstance(given, str):
        given = given[0] if given else None
    if given is None:
        return None
    parent = text_id(given)
    if parent is None:
        raise _no_id(where, position, "parent", given)
    return None if parent.lower() in NO_PARENT else parent


def number_of(value: JsonValue) -> float | None:
    """Return a finite number; None for anything else, a bool or a number in quotes included."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _status(value: JsonObject, score: float | None) -> tuple[Status | None, str | None]:
    """Return how the node ended, and what had to be assumed for it."""
    claimed = _first(value, STATUS)
    if isinstance(claimed, str):
        status = STATUSES.get(claimed.strip().lower())
        if status is None:
            return Status.ERROR, f"unknown status {claimed[:40]!r} is read as error"
    else:
        status = _verdict(value)
    has_score = _first(value, SCORE) is not None
    if status is None and not has_score:
        return None, None
    if status is None and any(name in value and value[name] is None for name in STATUS):
        # An explicit null, as in our own files, is a root that was not evaluated.
        return None, None
    if status in {None, Status.OK} and score is None:
        return Status.ERROR, "a score that is no finite number is read as error"
    return status or Status.OK, None


def _verdict(value: JsonObject) -> Status | None:
    for name in VERDICT:
        flag = value.get(name)
        if isinstance(flag, bool):
            return Status.OK if flag else _failure(value)
    reason = _first(value, ("error_class", "fail_class", "error"))
    if value.get("failed") is True or (reason is not None and reason not in ("", "ok")):
        return _failure(value)
    return None


def _failure(value: JsonObject) -> Status:
    reason = (_reason(value) or "").lower()
    if "timeout" in reason or "timed out" in reason:
        return Status.TIMEOUT
    known = STATUSES.get(reason, Status.ERROR)
    return Status.ERROR if known is Status.OK else known


def _reason(value: JsonObject) -> str | None:
    """Return the first line of the reason that the node gives for its failure."""
    reason = _first(value, REASON)
    text = reason if isinstance(reason, str) else ""
    return clean_text(text.strip().partition("\n")[0], 200) or None


def whole_of(value: JsonValue, *, low: int = 0) -> int | None:
    """Return a whole number of at least ``low``; None for anything else."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if isinstance(value, int) and whole and value >= low else None


def _hash(value: JsonValue) -> str | None:
    is_hash = isinstance(value, str) and len(value) == 64 and not value.strip("0123456789abcdef")
    return value if isinstance(value, str) and is_hash else None
