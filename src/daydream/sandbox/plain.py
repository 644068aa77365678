"""Plain data between a program that a model wrote and us: exact types, nothing with methods.

Runs on both sides. What a program answers is turned into data in its own process and refused there
when it is not plain: a subclass of a number, an object that equals everything and an array that
computes when it is read do not get out. The other side believes none of that: it reads JSON and
builds new values, so nothing that arrives can have a method of the sender's.

Lists, numbers, texts, truth values and None are themselves in JSON; every other kind is an object
with one key that names it. A number that is not finite is refused on both sides.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

Data: TypeAlias = object
"""None, bool, int, float, str, bytes, complex, list, tuple, set, frozenset or dict, all the way."""

DEPTH: Final = 40
"""Levels of containers that a value may have."""
_TUPLE, _SET, _FROZEN, _DICT, _BYTES, _COMPLEX = "tuple", "set", "frozenset", "dict", "bytes", "c"


class NotPlain(ValueError):  # noqa: N818 - a fact about a value
    """A value is no plain data, or a text is no encoding of such a value."""


def encode(value: Data) -> bytes:
    """Return ``value`` as JSON; raises :class:`NotPlain` for the first part that is not plain."""
    return json.dumps(_out(value, DEPTH), allow_nan=False).encode()


def decode(data: bytes) -> Data:
    """Return the value that :func:`encode` made ``data`` of; raises :class:`NotPlain`."""
    try:
        parsed: object = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise NotPlain(f"no JSON: {error}") from None
    return _in(parsed, DEPTH)


def as_json(value: Data) -> bytes:
    """Return ``value`` as ordinary JSON, with arrays of numpy and tuples as lists.

    Raises :class:`NotPlain` for anything that JSON has no word for.
    """
    return json.dumps(_lists(value, DEPTH), allow_nan=False).encode()


def _refuse(token: str) -> float:
    raise NotPlain(f"{token} is no finite number")


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise NotPlain(f"{value!r} is no finite number")
    return value


def _named(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"[:120]


def _inner(depth: int) -> int:
    if depth == 0:
        raise NotPlain(f"more than {DEPTH} levels of containers")
    return depth - 1


def _out(value: Data, depth: int) -> object:
    kind = type(value)
    if value is None or kind is bool or kind is int or kind is str:
        return value
    if isinstance(value, float) and kind is float:
        return _finite(value)
    if isinstance(value, complex) and kind is complex:
        return {_COMPLEX: [_finite(value.real), _finite(value.imag)]}
    if isinstance(value, bytes) and kind is bytes:
        return {_BYTES: value.hex()}
    if isinstance(value, dict) and kind is dict:
        below = _inner(depth)
        return {_DICT: [[_out(key, below), _out(item, below)] for key, item in value.items()]}
    if isinstance(value, (list, tuple, set, frozenset)) and kind in _KINDS:
        below = _inner(depth)
        items = [_out(item, below) for item in value]
        return items if kind is list else {_KINDS[kind]: items}
    raise NotPlain(f"a value of type {_named(value)} is no plain data")


_KINDS: Final[Mapping[type, str]] = {
    list: "list", tuple: _TUPLE, set: _SET, frozenset: _FROZEN,
}  # fmt: skip


def _in(parsed: object, depth: int) -> Data:
    if parsed is None or isinstance(parsed, (bool, int, str)):
        return parsed
    if isinstance(parsed, float):
        return _finite(parsed)
    below = _inner(depth)
    if isinstance(parsed, list):
        return [_in(item, below) for item in parsed]
    if isinstance(parsed, dict) and len(parsed) == 1:
        (name, items), *_ = parsed.items()
        builder = _BUILDERS.get(name)
        if builder is not None:
            try:
                return builder(items, below)
            except (TypeError, ValueError) as error:
                raise NotPlain(f"no {name}: {error}") from None
    raise NotPlain("an object that names no kind of value")


def _items(items: object, depth: int) -> list[Data]:
    if not isinstance(items, list):
        raise NotPlain("the items of a container are no list")
    return [_in(item, depth) for item in items]


def _pairs(items: object, depth: int) -> Data:
    made: dict[Data, Data] = {}
    for pair in _items(items, depth):
        if not isinstance(pair, list) or len(pair) != 2:
            raise NotPlain("an entry of a dict is no pair")
        made[pair[0]] = pair[1]
    return made


def _bytes(items: object, _: int) -> Data:
    if not isinstance(items, str):
        raise NotPlain("bytes are no text of digits")
    return bytes.fromhex(items)


def _complex(items: object, depth: int) -> Data:
    found = _items(items, depth)
    if len(found) != 2 or not all(type(part) is float for part in found):
        raise NotPlain("a complex number has no two parts")
    real, imaginary = (part for part in found if isinstance(part, float))
    return complex(real, imaginary)


_BUILDERS: Final[Mapping[str, Callable[[object, int], Data]]] = {
    _TUPLE: lambda items, depth: tuple(_items(items, depth)),
    _SET: lambda items, depth: set(_items(items, depth)),
    _FROZEN: lambda items, depth: frozenset(_items(items, depth)),
    _DICT: _pairs,
    _BYTES: _bytes,
    _COMPLEX: _complex,
}


def _lists(value: Data, depth: int) -> object:
    kind = type(value)
    if value is None or kind is bool or kind is int or kind is str:
        return value
    if isinstance(value, float) and kind is float:
        return _finite(value)
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return _lists(value.tolist(), _inner(depth))
    below = _inner(depth)
    if isinstance(value, (list, tuple)) and kind in (list, tuple):
        return [_lists(item, below) for item in value]
    if isinstance(value, dict) and kind is dict:
        if not all(type(key) is str for key in value):
            raise NotPlain("a key of a dict is no text")
        return {key: _lists(item, below) for key, item in value.items()}
    raise NotPlain(f"a value of type {_named(value)} is no plain data")
