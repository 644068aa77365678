"""Policies by name: ``adaptive-w4-d4-p3-g0.02``, the same as JSON, or a Python file."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from daydream import registry
from daydream.canonical import JsonValue
from daydream.errors import RegistryError, UsageError
from daydream.policies.base import BuiltinSpec, PolicySpec
from daydream.policies.python_file import PythonFileSpec, read_policy_file

_PART = re.compile(r"([a-z])(\d+(?:\.\d+)?)")


def families() -> dict[str, type[BuiltinSpec]]:
    """Return the spec families by kind.

    Raises :class:`RegistryError` when a plug-in is no spec family.
    """
    found: dict[str, type[BuiltinSpec]] = {}
    for kind in registry.names("policy"):
        family = registry.load("policy", kind)
        if not (isinstance(family, type) and issubclass(family, BuiltinSpec)):
            raise RegistryError(
                f"policy plug-in {kind!r} is {family!r} (expected a subclass of BuiltinSpec)"
            )
        found[kind] = family
    return found


def parse_spec(
    text: str, *, trust: bool = False, config: Mapping[str, JsonValue] | None = None
) -> PolicySpec:
    """Return the spec that ``text`` names: a spec name, its JSON, or the path of a ``.py`` file.

    ``trust`` lets a Python file run in this process, ``config`` is what it gets. Raises
    :class:`UsageError` with the nearest family and an example for anything else.
    """
    text = text.strip()
    if text.startswith("{"):
        try:
            value: object = json.loads(text)
        except ValueError as error:
            raise UsageError(f"policy JSON is malformed: {error}; expected an object") from None
        return spec_from_json(value, trust=trust)
    if text.endswith(".py"):
        return read_policy_file(Path(text), trust=trust, config=config)
    known = families()
    kind, _, rest = text.partition("-")
    family = known.get(kind)
    if family is None:
        raise registry.unknown("policy", kind, sorted(known))
    values: dict[str, float] = {}
    for part in rest.split("-") if rest else []:
        match = _PART.fullmatch(part)
        letter = match.group(1) if match else part[:1]
        field = family.LETTERS.get(letter)
        if match is None or field is None or field in values:
            raise UsageError(
                f"policy {text!r}: cannot read the part {part!r} (expected each of "
                f"{', '.join(family.LETTERS)} once); for example {family.example()}"
            )
        values[field] = float(match.group(2)) if _is_float(family, field) else _int(match.group(2))
    return _make(family, values, text)


def _file_spec(value: Mapping[str, object], *, trust: bool) -> PythonFileSpec:
    file, source, config = value.get("file"), value.get("source"), value.get("config", {})
    if not (isinstance(file, str) and isinstance(source, str) and isinstance(config, dict)):
        raise UsageError(
            "policy JSON of a Python file lacks file, source or config (expected two texts and an "
            "object); take it from a run folder, or name the .py file itself"
        )
    return PythonFileSpec(file, source, config, trust)


def _is_float(family: type[BuiltinSpec], field: str) -> bool:
    return family.__annotations__[field] is float


def _int(text: str) -> float:
    return int(text) if text.isdigit() else float(text)


def _make(family: type[BuiltinSpec], values: Mapping[str, object], shown: str) -> PolicySpec:
    missing = [k for k, field in family.LETTERS.items() if field not in values]
    if missing:
        raise UsageError(
            f"policy {shown!r} lacks {', '.join(missing)}; for example {family.example()}"
        )
    return family(**values)


def spec_from_json(value: object, *, trust: bool = False) -> PolicySpec:
    """Return the spec of a JSON object such as ``{"kind": "adaptive", "width": 4, ...}``.

    Raises :class:`UsageError` for a missing or unknown field, a wrong type or an unknown kind.
    """
    if not isinstance(value, dict):
        raise UsageError(f"policy JSON is {value!r} (expected an object with the key 'kind')")
    kind = value.get("kind")
    if kind == PythonFileSpec.KIND:
        return _file_spec(value, trust=trust)
    known = families()
    family = known.get(kind) if isinstance(kind, str) else None
    if family is None:
        raise registry.unknown("policy kind", str(kind), sorted(known))
    fields = set(family.LETTERS.values())
    extra = sorted(set(value) - fields - {"kind"})
    if extra:
        raise UsageError(
            f"policy {kind}: unknown field {extra[0]!r} (expected {', '.join(sorted(fields))})"
        )
    values = {
        k: float(v) if _is_float(family, k) and type(v) is int else v
        for k, v in value.items()
        if k != "kind"
    }
    return _make(family, values, json.dumps(value))
