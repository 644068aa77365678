"""The vector machine of the kernel-layernorm task: registers, costs, inputs, the reference.

Owns instances (row length, costs, inputs), the instructions with their costs, and an exact
LayerNorm to compare with. A program sees no input before it is run. Refuses (:class:`ProgramError`)
unknown instructions, registers read before they are written, and programs that store nothing.

Formula: LayerNorm, Ba, Kiros and Hinton, arXiv 1607.06450, section 3, with the biased variance and
the offset epsilon inside the root. That the sum of squares minus the squared mean loses all digits
on rows far from zero is why the inputs hold such rows: Chan, Golub and LeVeque, Am. Stat. 37(3),
1983.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from daydream.canonical import JsonValue, seed_of
from daydream.tasks.program import Instruction, Program, ProgramError

Array: TypeAlias = NDArray[np.float64]

EPSILON = 1e-5
ROWS = 4
"""Rows of each kind of input."""
KINDS = ("normal", "skewed", "far from zero", "almost constant", "one outlier")
MAX_INSTRUCTIONS = 200
MAX_REGISTERS = 64
FAST_BITS = 12
"""Bits of the mantissa that ``rsqrt_fast`` gets right."""
_REGISTER = re.compile(r"[vs][0-9]{1,2}")


@dataclass(frozen=True, slots=True)
class Prices:
    """Units charged; the first group for each element of a row, the second once a row."""

    memory: int
    """load and store of a row that streams through memory"""
    cached: int
    """load of gamma or beta, which all rows share"""
    simple: int
    """add, sub, mul, fma, sum, dot"""
    divide: int
    """div"""
    fused: int
    """sums, center, scale"""
    reduce: int
    """sum, dot, sums, center: folding the lanes"""
    root: int
    """sqrt and rsqrt"""
    fast_root: int
    """rsqrt_fast"""
    scalar_divide: int
    """div of two scalars"""


@dataclass(frozen=True, slots=True)
class Instance:
    """One machine, one row length, and inputs to check a program on."""

    number: int
    length: int
    """D: elements of a row."""
    prices: Prices
    rows: Array
    """(20, D): ROWS rows of each of KINDS."""
    gamma: Array
    """(D,)"""
    beta: Array
    """(D,)"""


def make_instance(number: int) -> Instance:
    """Return instance ``number``. D is 65 to 127 and no power of two."""
    rng = np.random.default_rng(seed_of("kernel-layernorm", number))
    length = int(rng.integers(65, 128))
    prices = Prices(
        memory=int(rng.integers(5, 9)),
        cached=2,
        simple=2,
        divide=int(rng.integers(6, 11)),
        fused=3,
        reduce=int(rng.integers(12, 21)),
        root=int(rng.integers(20, 41)),
        fast_root=4,
        scalar_divide=10,
    )
    shape = (ROWS, length)
    outlier = rng.normal(0.0, 1e-2, shape)
    outlier[:, int(rng.integers(length))] = 40.0
    kinds = (
        rng.normal(0.3, 1.7, shape),
        rng.exponential(2.0, shape) ** 2,
        rng.uniform(1e6, 4e6, (ROWS, 1)) + rng.normal(0.0, 1.0, shape),
        rng.normal(0.0, 1.0, (ROWS, 1)) + rng.normal(0.0, 2e-3, shape),
        outlier,
    )
    return Instance(
        number=number,
        length=length,
        prices=prices,
        rows=np.vstack(kinds),
        gamma=rng.uniform(0.5, 1.5, length) * rng.choice([-1.0, 1.0], length),
        beta=rng.normal(0.0, 0.7, length),
    )


def reference(rows: Array, gamma: Array, beta: Array) -> Array:
    """Return LayerNorm of each row, shape as ``rows``; sums are exact (``math.fsum``)."""
    out = np.empty_like(rows)
    for i, row in enumerate(rows.tolist()):
        mean = math.fsum(row) / len(row)
        centred = [value - mean for value in row]
        variance = math.fsum(value * value for value in centred) / len(row)
        spread = math.sqrt(variance + EPSILON)
        out[i] = np.array(centred) / spread * gamma + beta
    return out


@dataclass(frozen=True, slots=True)
class Run:
    """What a program did."""

    output: Array
    """Shape of the rows that it ran on."""
    units: int
    """Cost of one row."""
    by_instruction: dict[str, int]


class Machine:
    """Runs one program on rows. Use a new one for each run."""

    def __init__(self, instance: Instance, rows: Array) -> None:
        self._length = rows.shape[1]
        self._prices = instance.prices
        self._memory = {
            "x": rows,
            "gamma": np.broadcast_to(instance.gamma, rows.shape),
            "beta": np.broadcast_to(instance.beta, rows.shape),
        }
        self._registers: dict[str, Array] = {}
        self._output: Array | None = None
        self._units = 0
        self._by: dict[str, int] = {}
        self._name = "start"

    def run(self, program: Program) -> Run:
        """Run ``program`` to its end; a non-finite intermediate value is allowed.

        Raises :class:`ProgramError` naming the instruction, what it found and what was expected.
        """
        for number, instruction in enumerate(program):
            name = instruction[0]
            handler = _HANDLERS.get(name) if isinstance(name, str) else None
            try:
                if not isinstance(name, str) or handler is None:
                    known = ", ".join(_HANDLERS)
                    raise ProgramError(
                        "instruction", f"{name!r:.40} is unknown (expected one of {known})"
                    )
                self._name = name
                with np.errstate(all="ignore"):
                    handler(self, instruction[1:])
            except ProgramError as error:
                raise ProgramError(error.kind, f"instruction {number}: {error}") from None
        if self._output is None:
            raise ProgramError("unfinished", "program stores nothing (expected one 'store')")
        return Run(self._output, self._units, self._by)

    def _charge(self, *, element: int = 0, row: int = 0) -> None:
        units = element * self._length + row
        self._units += units
        self._by[self._name] = self._by.get(self._name, 0) + units

    def _count(self, arguments: Instruction, expected: int) -> None:
        if len(arguments) != expected:
            raise ProgramError(
                "instruction", f"{self._name} has {len(arguments)} arguments (expected {expected})"
            )

    def _read(self, name: JsonValue, kind: str = "vs") -> Array:
        found = self._registers.get(_register(self._name, name, kind))
        if found is None:
            raise ProgramError("order", f"{self._name} reads {name!r} before it is written")
        return found

    def _write(self, name: JsonValue, value: Array, kind: str) -> None:
        self._registers[_register(self._name, name, kind)] = value

    def _load(self, arguments: Instruction) -> None:
        self._count(arguments, 2)
        source = arguments[1]
        if not isinstance(source, str) or source not in self._memory:
            raise ProgramError(
                "instruction", f"load has source {source!r:.40} (expected x, gamma or beta)"
            )
        self._charge(element=self._prices.memory if source == "x" else self._prices.cached)
        self._write(arguments[0], self._memory[source], "v")

    def _store(self, arguments: Instruction) -> None:
        self._count(arguments, 1)
        self._charge(element=self._prices.memory)
        self._output = self._read(arguments[0], "v")

    def _const(self, arguments: Instruction) -> None:
        self._count(arguments, 2)
        value = arguments[1]
        if not (type(value) in (int, float) and _is_finite(value)):
            raise ProgramError("instruction", f"const has {value!r:.40} (expected a finite number)")
        rows = self._memory["x"].shape[0]
        self._write(arguments[0], np.full((rows, 1), float(str(value))), "s")

    def _pick(self, arguments: Instruction) -> None:
        self._count(arguments, 3)
        place = arguments[2]
        if type(place) is not int or not 0 <= place < self._length:
            raise ProgramError(
                "instruction", f"pick has {place!r:.40} (expected 0 to {self._length - 1})"
            )
        self._charge(row=1)
        self._write(arguments[0], self._read(arguments[1], "v")[:, place : place + 1], "s")

    def _arithmetic(self, arguments: Instruction) -> None:
        operation = _ARITHMETIC[self._name]
        expected = 3 if self._name == "fma" else 2
        self._count(arguments, expected + 1)
        target = arguments[0]
        values = [self._read(name) for name in arguments[1:]]
        prices = self._prices
        if isinstance(target, str) and target.startswith("s"):
            for name in arguments[1:]:
                _register(self._name, name, "s")
            self._charge(row=prices.scalar_divide if self._name == "div" else 1)
            self._write(target, operation(*values), "s")
            return
        self._charge(element=prices.divide if self._name == "div" else prices.simple)
        shape = self._memory["x"].shape
        self._write(target, np.broadcast_to(operation(*values), shape), "v")

    def _sum(self, arguments: Instruction) -> None:
        self._count(arguments, 2)
        self._charge(element=self._prices.simple, row=self._prices.reduce)
        self._write(arguments[0], _fold(self._read(arguments[1], "v")), "s")

    def _dot(self, arguments: Instruction) -> None:
        self._count(arguments, 3)
        self._charge(element=self._prices.simple, row=self._prices.reduce)
        left, right = (self._read(name, "v") for name in arguments[1:])
        self._write(arguments[0], _fold(left * right), "s")

    def _sums(self, arguments: Instruction) -> None:
        self._count(arguments, 3)
        self._charge(element=self._prices.fused, row=self._prices.reduce)
        value = self._read(arguments[2], "v")
        self._write(arguments[0], _fold(value), "s")
        self._write(arguments[1], _fold(value * value), "s")

    def _center(self, arguments: Instruction) -> None:
        self._count(arguments, 4)
        self._charge(element=self._prices.fused, row=self._prices.reduce)
        moved = self._read(arguments[2], "v") - self._read(arguments[3], "s")
        self._write(arguments[0], moved, "v")
        self._write(arguments[1], _fold(moved * moved), "s")

    def _scale(self, arguments: Instruction) -> None:
        self._count(arguments, 5)
        self._charge(element=self._prices.fused)
        value, factor = self._read(arguments[1], "v"), self._read(arguments[2], "s")
        gain, offset = self._read(arguments[3], "v"), self._read(arguments[4], "v")
        self._write(arguments[0], value * factor * gain + offset, "v")

    def _root(self, arguments: Instruction) -> None:
        self._count(arguments, 2)
        value = np.sqrt(self._read(arguments[1], "s"))
        if self._name == "rsqrt_fast":
            self._charge(row=self._prices.fast_root)
            value = _rounded(1.0 / value)
        else:
            self._charge(row=self._prices.root)
            value = 1.0 / value if self._name == "rsqrt" else value
        self._write(arguments[0], value, "s")


_HANDLERS: Mapping[str, Callable[[Machine, Instruction], None]] = {
    "load": Machine._load,
    "store": Machine._store,
    "const": Machine._const,
    "pick": Machine._pick,
    "add": Machine._arithmetic,
    "sub": Machine._arithmetic,
    "mul": Machine._arithmetic,
    "div": Machine._arithmetic,
    "fma": Machine._arithmetic,
    "sum": Machine._sum,
    "dot": Machine._dot,
    "sums": Machine._sums,
    "center": Machine._center,
    "scale": Machine._scale,
    "sqrt": Machine._root,
    "rsqrt": Machine._root,
    "rsqrt_fast": Machine._root,
}

_ARITHMETIC: Mapping[str, Callable[..., Array]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}


def _register(instruction: str, name: JsonValue, kind: str) -> str:
    good = isinstance(name, str) and _REGISTER.fullmatch(name) is not None
    if not isinstance(name, str) or not good or name[0] not in kind:
        wanted = " or ".join(
            {"v": "a vector v0 to v63", "s": "a scalar s0 to s63"}[letter] for letter in kind
        )
        raise ProgramError("instruction", f"{instruction} has {name!r:.40} (expected {wanted})")
    if int(name[1:]) >= MAX_REGISTERS:
        raise ProgramError("instruction", f"there is no register {name} (expected up to 63)")
    return name[0] + str(int(name[1:]))


def _fold(value: Array) -> Array:
    total: Array = np.sum(value, axis=1, keepdims=True)
    return total


def _rounded(value: Array) -> Array:
    """Keep FAST_BITS bits of the mantissa, to the nearest."""
    mantissa, exponent = np.frexp(value)
    kept: Array = np.ldexp(np.round(mantissa * 2.0**FAST_BITS), exponent - FAST_BITS)
    return kept


def _is_finite(value: JsonValue) -> bool:
    if isinstance(value, int):
        return abs(value) < 1 << 63
    return isinstance(value, float) and math.isfinite(value)
