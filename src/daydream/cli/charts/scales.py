"""Numbers for charts: domains, linear scales, round ticks, readable numbers, sparklines.

Values that no axis can hold (NaN, infinities, beyond 1e300) are refused by :func:`drawable`;
callers leave such points out. Everything else, flat or huge, gets a scale of finite width.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_GREATEST = 1e300
_MINUS = "\N{MINUS SIGN}"
_LEVELS = "▁▂▃▄▅▆▇█"


class Scale(NamedTuple):
    """A linear map from [low, high] to [start, end]; a domain without width goes to ``start``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the position of ``value``; values outside the domain continue the line."""
        # Halves, because high - low may overflow where both ends are huge.
        span = self.high / 2 - self.low / 2
        share = (value / 2 - self.low / 2) / span if span > 0 else 0.0
        return self.start + share * (self.end - self.start)


def drawable(value: float) -> bool:
    """Return whether an axis can hold ``value``: a number of at most 1e300 either way."""
    return -_GREATEST <= value <= _GREATEST


def domain(values: Iterable[float], *, pad: float = 0.05) -> tuple[float, float]:
    """Return (low, high) around the drawable ``values``, with ``pad`` of the span on both sides.

    A flat set gets 5 % of its size on both sides, or 1 around zero; no values give (0, 1).
    """
    kept = [value for value in values if drawable(value)]
    if not kept:
        return 0.0, 1.0
    low, high = min(kept), max(kept)
    size = max(abs(low), abs(high))
    margin = (high / 2 - low / 2) * 2 * pad
    if not high / 2 - low / 2 > max(size * 1e-9, 1e-290):
        margin = size * 0.05 if size > 1e-280 else 1.0
    return low - margin, high + margin


def ticks(low: float, high: float, most: int, *, whole: bool = False) -> tuple[float, ...]:
    """Return multiples of 1, 2 or 5 times a power of ten in [low, high], about ``most`` at most.

    ``whole`` keeps the step at 1 or above. ``low`` < ``high``.
    """
    step = _step(low, high, most)
    if whole:
        step = max(1.0, step)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    slack = (high / 2 - low / 2) * 1e-6
    marks = (k * step for k in range(first, last + 1))
    return tuple(mark for mark in marks if low - slack <= mark <= high + slack)


def _step(low: float, high: float, most: int) -> float:
    rough = (high / 2 - low / 2) / most * 2
    power = 10.0 ** math.floor(math.log10(rough))
    return next((m * power for m in (1, 2, 5) if m * power >= rough * (1 - 1e-9)), 10 * power)


def tick_labels(marks: Sequence[float]) -> list[str]:
    """Return one text a tick, all with the digits that tell neighbours apart."""
    if len(marks) < 2:
        return [number(mark) for mark in marks]
    step = marks[1] - marks[0]
    size = max(abs(mark) for mark in marks)
    fine = math.floor(math.log10(step) + 1e-9)
    if size >= 1e7 or (size < 1e-3 and step < 1e-4):
        digits = max(1, math.floor(math.log10(size)) - fine + 1)
        return [number(mark, digits) for mark in marks]
    texts = [f"{mark:,.{max(0, -fine)}f}" for mark in marks]
    return [_signed(text) if text.strip("-0.,") else text.lstrip("-") for text in texts]


def number(value: float, digits: int = 6) -> str:
    """Return ``value`` with at most ``digits`` significant digits, whole parts kept below 1e7."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return _signed(str(value))
    size = abs(value)
    if 1e-4 <= size < 1e7:
        decimals = max(0, digits - 1 - math.floor(math.log10(size)))
        text = f"{value:,.{decimals}f}"
        return _signed(text.rstrip("0").rstrip(".") if "." in text else text)
    mantissa, exponent = f"{value:.{max(0, digits - 1)}e}".split("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return _signed(f"{mantissa}e{int(exponent)}")


def told_apart(values: Sequence[float]) -> list[str]:
    """Return ``values`` as texts that differ where the values do, in as few digits as that takes.

    Six significant digits at least, nine at most: beyond that they are equal to a reader.
    """
    for digits in (6, 7, 8):
        texts = [number(value, digits) for value in values]
        if len(set(texts)) == len(set(values)):
            return texts
    return [number(value, 9) for value in values]


def count(value: float) -> str:
    """Return a number of calls: whole where it is whole, else (a mean) with one decimal."""
    return _signed(f"{value:,.0f}" if value == round(value) else f"{value:,.1f}")


def _signed(text: str) -> str:
    return text.replace("-", _MINUS)


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions near ``wanted``, in its order, at least ``gap`` apart and within the ends.

    Where [low, high] is too short for all of them the gap holds and the low end gives way.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed = list(wanted)
    edge = low
    for index in order:
        placed[index] = max(placed[index], edge)
        edge = placed[index] + gap
    edge = high
    for index in reversed(order):
        placed[index] = min(placed[index], edge)
        edge = placed[index] - gap
    return placed


def spark(values: Sequence[float]) -> str:
    """Return ``values`` as one character each, ``▁`` for the least and ``█`` for the greatest.

    Equal values give ``▁``; a value that is no finite number gives a space.
    """
    kept = [value for value in values if drawable(value)]
    if not kept:
        return " " * len(values)
    scale = Scale(min(kept), max(kept), 0, len(_LEVELS) - 1)
    return "".join(_LEVELS[round(scale.at(v))] if drawable(v) else " " for v in values)
