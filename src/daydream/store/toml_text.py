"""TOML for ``run.toml``: tables of plain values, written so that ``tomllib`` reads the same."""

import math
import re
from collections.abc import Mapping, Sequence

from daydream.canonical import JsonObject, JsonValue
from daydream.errors import StoreError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {
    "\\": "\\\\",
    '"': '\\"',
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


def toml_text(values: JsonObject) -> str:
    """Return ``values`` as TOML: plain values first, then a table for each mapping, keys sorted.

    A None is left out, for TOML has none; mappings inside lists become inline tables. Raises
    :class:`StoreError` for a NaN, an infinity or a lone surrogate.
    """
    return "\n".join(_table(values, ())).strip("\n") + "\n"


def _table(values: JsonObject, path: tuple[str, ...]) -> list[str]:
    plain: list[str] = []
    tables: list[str] = []
    for key in sorted(values):
        value = values[key]
        if isinstance(value, Mapping):
            tables.extend(_table(value, (*path, key)))
        elif value is not None:
            plain.append(f"{_key(key)} = {_value(value)}")
    head = ["", f"[{'.'.join(map(_key, path))}]"] if path and (plain or not tables) else []
    return [*head, *plain, *tables]


def _value(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise StoreError(f"configuration holds {value!r} (expected a finite number)")
        return repr(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)} = {_value(value[key])}" for key in sorted(value))
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    raise StoreError("configuration holds a null inside a list (expected values); leave it out")


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise StoreError(f"configuration holds {text!r} (expected text that UTF-8 has)") from None
    return '"' + "".join(map(_character, text)) + '"'


def _character(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if ord(char) < 0x20 or ord(char) == 0x7F:
        return f"\\u{ord(char):04X}"
    return char
