"""The one serialiser: canonical JSON, content hashes, and text that is safe to store.

Canonical JSON has sorted keys, no spaces, the shortest float that reads back equal, and never NaN
or infinity. Equal values give equal bytes in every process, so hashes of them are identities.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TypeAlias

import msgspec

JsonValue: TypeAlias = (
    "None | bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue]"
)
JsonObject: TypeAlias = Mapping[str, JsonValue]
NAME_LIMIT = 255
"""Longest name of one file or folder, in bytes, on the usual file systems."""


def dumps(value: object) -> bytes:
    """Return ``value`` (JSON types, msgspec structs, dataclasses) as canonical JSON in UTF-8.

    Raises ``ValueError`` for NaN, an infinity or a type that JSON does not have.
    """
    plain = msgspec.to_builtins(value, str_keys=True)
    text = json.dumps(
        plain, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )
    return text.encode("utf-8")


def content_hash(data: bytes) -> str:
    """Return the SHA-256 of ``data`` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def hash_of(value: object) -> str:
    """Return the content hash of the canonical JSON of ``value``."""
    return content_hash(dumps(value))


def listing_hash(digests: Mapping[str, str]) -> str:
    """Return the identity of a set of files: the hash of their content hashes by name."""
    lines = "".join(f"{digest} {name}\n" for name, digest in sorted(digests.items()))
    return content_hash(lines.encode("utf-8"))


def names_problem(names: Mapping[str, object]) -> str | None:
    """Return why ``names`` cannot be the files of an artifact, or None when they can.

    A good name is a normalised relative POSIX path of printable parts, so that it means one file
    inside the folder it is written to and one line of a listing; no file lies below another.
    """
    for name in names:
        problem = _name_problem(name)
        if problem is None:
            above = next((str(p) for p in PurePosixPath(name).parents if str(p) in names), None)
            problem = None if above is None else f"lies below {above!r}, which is a file"
        if problem is not None:
            return (
                f"artifact file {name!r} {problem} (expected a plain relative path); name files "
                "inside the workspace"
            )
    return None


def _name_problem(name: str) -> str | None:
    path = PurePosixPath(name)
    if not name or path.is_absolute() or str(path) != name or name == "." or ".." in path.parts:
        return "is no normalised relative path"
    if "\\" in name or not name.isprintable():
        return "holds a backslash or a character that cannot be printed"
    if any(len(part.encode("utf-8", "replace")) > NAME_LIMIT for part in path.parts):
        return f"has a part of more than {NAME_LIMIT} bytes"
    return None


def seed_of(*parts: int | str) -> int:
    """Return a 63-bit seed: a function of ``parts`` alone (SHA-256 of their canonical JSON)."""
    digest = hashlib.sha256(dumps(list(parts))).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def clean_text(text: str, limit: int) -> str:
    """Return ``text`` without lone surrogates, cut to ``limit`` characters with a mark."""
    safe = text.encode("utf-8", "replace").decode("utf-8")
    if len(safe) <= limit:
        return safe
    return f"{safe[:limit]}… [cut: {len(safe)} characters]"


def clean_json(value: object, *, text_limit: int = 4_000, items: int = 1_000) -> JsonValue:
    """Return ``value`` as plain JSON that :func:`dumps` accepts, whatever an evaluator handed over.

    Numbers that JSON cannot hold become their text, unknown types their ``repr``, long texts and
    long containers are cut, and nesting ends at depth 8.
    """
    return _clean(value, text_limit, items, 8)


def _clean(value: object, text_limit: int, items: int, depth: int) -> JsonValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < 1 << 63 else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if isinstance(value, str):
        return clean_text(value, text_limit)
    if depth == 0:
        return clean_text(repr(value), text_limit)
    if isinstance(value, Mapping):
        pairs = list(value.items())[:items]
        return {
            clean_text(str(key), 200): _clean(item, text_limit, items, depth - 1)
            for key, item in pairs
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_clean(item, text_limit, items, depth - 1) for item in list(value)[:items]]
    scalar: Callable[[], object] | None = getattr(value, "item", None)
    if callable(scalar) and getattr(value, "ndim", None) == 0:
        return _clean(scalar(), text_limit, items, depth - 1)
    return clean_text(repr(value), text_limit)
