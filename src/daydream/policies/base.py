"""What a policy spec is: frozen data with a name, a JSON form, and a way to build a policy."""

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import ClassVar, Protocol, runtime_checkable

import msgspec

from daydream.canonical import JsonValue
from daydream.errors import UsageError
from daydream.search import Policy


@runtime_checkable
class PolicySpec(Protocol):
    """A description that rebuilds a policy. Equal specs behave alike."""

    @property
    def name(self) -> str:
        """The spec in one word, such as ``adaptive-w4-d4-p3-g0.02``."""
        ...

    def build(self, scale: float) -> Policy:
        """Return a fresh policy for one rollout on a task with score scale ``scale``."""
        ...

    def to_json(self) -> Mapping[str, JsonValue]:
        """Return the spec as JSON; ``kind`` names its family."""
        ...


class BuiltinSpec(msgspec.Struct, frozen=True):
    """Shared behaviour of the built-in families: numbers behind one-letter keys."""

    KIND: ClassVar[str]
    LETTERS: ClassVar[dict[str, str]]
    """Letter in the name -> field."""

    def __post_init__(self) -> None:
        for letter, field in self.LETTERS.items():
            value = getattr(self, field)
            whole = type(value) is int and value >= 1
            real = type(value) is float and math.isfinite(value) and value >= 0
            wants_float = self.__annotations__[field] is float
            if not (real if wants_float else whole):
                raise UsageError(
                    f"policy {self.KIND}: {field} ({letter}) is {value!r} (expected a "
                    f"{'finite number of at least 0' if wants_float else 'whole number from 1'}); "
                    f"for example {self.example()}"
                )

    @classmethod
    def example(cls) -> str:
        """Return a name of this family to show in messages."""
        values = {"width": "4", "depth": "4", "patience": "3", "min_gain": "0.02", "k": "4"}
        return "-".join([cls.KIND, *(k + values[field] for k, field in cls.LETTERS.items())])

    def build(self, scale: float) -> Policy:
        """Return a fresh policy; every family says how."""
        raise UsageError(
            f"policy family {self.KIND} cannot be built (expected its own build method)"
        )

    @property
    def name(self) -> str:
        """The spec in one word."""
        return "-".join(
            [self.KIND, *(k + _number(getattr(self, field)) for k, field in self.LETTERS.items())]
        )

    def to_json(self) -> Mapping[str, JsonValue]:
        """Return ``{"kind": ..., field: value ...}``."""
        values: dict[str, JsonValue] = {"kind": self.KIND}
        for field in self.LETTERS.values():
            values[field] = getattr(self, field)
        return values


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else format(Decimal(repr(value)).normalize(), "f")
