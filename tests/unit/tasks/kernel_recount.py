"""A second interpreter of kernel programs: one row of plain Python floats, costs by their text."""

import math
from collections.abc import Sequence
from typing import TypeAlias

from daydream.tasks.kernel_machine import EPSILON, Instance

Row: TypeAlias = list[float]


def units_of(instance: Instance, program: Sequence[Sequence[object]]) -> int:
    """Return the cost of a row of a program that runs, read off the names of its instructions."""
    price, length = instance.prices, instance.length
    total = 0
    for name, *arguments in program:
        scalar = str(arguments[0]).startswith("s")
        if name == "load":
            total += length * (price.memory if arguments[1] == "x" else price.cached)
        elif name == "store":
            total += length * price.memory
        elif name in ("add", "sub", "mul", "fma"):
            total += 1 if scalar else length * price.simple
        elif name == "div":
            total += price.scalar_divide if scalar else length * price.divide
        elif name in ("sum", "dot"):
            total += length * price.simple + price.reduce
        elif name in ("sums", "center"):
            total += length * price.fused + price.reduce
        elif name == "scale":
            total += length * price.fused
        elif name in ("sqrt", "rsqrt"):
            total += price.root
        elif name == "rsqrt_fast":
            total += price.fast_root
        elif name == "pick":
            total += 1
    return total


def run_row(instance: Instance, program: Sequence[Sequence[object]], x: Row) -> Row:
    """Return what a program that runs stores for the row ``x``."""
    memory = {"x": x, "gamma": instance.gamma.tolist(), "beta": instance.beta.tolist()}
    held: dict[str, Row] = {}
    out: Row = []

    def row(name: object) -> Row:
        value = held[str(name)]
        return value * len(x) if len(value) == 1 else value

    for name, target, *rest in program:
        key = str(target)
        if name == "store":
            out = row(target)
        elif name == "load":
            held[key] = memory[str(rest[0])]
        elif name == "const":
            held[key] = [float(str(rest[0]))]
        elif name == "pick":
            held[key] = [row(rest[0])[int(str(rest[1]))]]
        elif name in ("add", "sub", "mul", "div", "fma"):
            value = [_calculate(str(name), three) for three in zip(*map(row, rest), strict=True)]
            held[key] = value[:1] if key.startswith("s") else value
        elif name in ("sum", "dot"):
            factors = row(rest[1]) if name == "dot" else [1.0] * len(x)
            held[key] = [math.fsum(a * b for a, b in zip(row(rest[0]), factors, strict=True))]
        elif name == "sums":
            held[key] = [math.fsum(row(rest[1]))]
            held[str(rest[0])] = [math.fsum(v * v for v in row(rest[1]))]
        elif name == "center":
            held[key] = [v - held[str(rest[2])][0] for v in row(rest[1])]
            held[str(rest[0])] = [math.fsum(v * v for v in held[key])]
        elif name == "scale":
            parts = zip(*map(row, rest), strict=True)
            held[key] = [v * s * a + b for v, s, a, b in parts]
        else:
            held[key] = [_root(str(name), held[str(rest[0])][0])]
    return out


def _calculate(name: str, values: tuple[float, ...]) -> float:
    a, b, *c = values
    if name == "div":
        return a / b if b else math.nan
    return {"add": a + b, "sub": a - b, "mul": a * b}.get(name, a * b + (c or [0.0])[0])


def _root(name: str, value: float) -> float:
    if not value > 0:
        return math.nan
    if name == "sqrt":
        return math.sqrt(value)
    if name == "rsqrt":
        return 1 / math.sqrt(value)
    mantissa, exponent = math.frexp(1 / math.sqrt(value))
    return math.ldexp(round(mantissa * 4096) / 4096, exponent)


def layer_norm(instance: Instance, x: Row) -> Row:
    """Return LayerNorm of ``x`` from its definition."""
    mean = math.fsum(x) / len(x)
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in x) / len(x) + EPSILON)
    affine = zip(x, instance.gamma.tolist(), instance.beta.tolist(), strict=True)
    return [(v - mean) / spread * a + b for v, a, b in affine]
