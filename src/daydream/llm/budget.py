"""What may be spent: ``5usd``, ``2Mtok``, ``1h``, ``200calls``, and the purse that keeps to it.

A request is held against the budget before it is sent and settled by what it cost. Requests in
flight count with what they may cost at most by our estimate, so a budget is overrun by at most the
part of one answer per request in flight that nobody could foresee.
"""

import re
import threading
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from daydream.config import Price
from daydream.errors import ConfigError, Stopped
from daydream.llm.base import MOCK, Request
from daydream.store.events import Usage
from daydream.wording import counted

CHARACTERS_A_TOKEN: Final = 3
"""Fewer than any usual tokenizer's mean, so that estimates err upwards."""
FIRST_ANSWER: Final = 4_096
"""Tokens expected of an answer before any was seen, where the user set no limit."""
_PART: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z$]+)\s*")
_TIMES: Final = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_TOKENS: Final = {"tok": 1, "ktok": 1_000, "mtok": 1_000_000, "gtok": 1_000_000_000}
EXAMPLE: Final = "such as 5usd, 2Mtok, 1h, 200calls, or several: 5usd,1h"

Prices = Mapping[str, Price]
"""Model string -> price. A model that is not named has an unknown price, not none."""


class Allowance(msgspec.Struct, frozen=True):
    """A budget; None leaves a side open."""

    usd: float | None = None
    """Over the whole run."""
    tokens: int | None = None
    """Input and output tokens over the whole run."""
    seconds: float | None = None
    """Wall time of one command."""
    calls: int | None = None
    """Attempts over the whole run."""

    def spent_by(self, usage: Usage) -> str | None:
        """Return the side that ``usage`` has used up, in the person's words, or None."""
        if self.tokens is not None and usage.input_tokens + usage.output_tokens >= self.tokens:
            return counted(self.tokens, "token")
        if self.usd is not None and (usage.cost_usd or 0.0) >= self.usd:
            return f"{self.usd:g} usd"
        return None


def parse_budget(text: str) -> Allowance:
    """Return the budget that ``text`` states; empty text states none.

    Raises :class:`ConfigError` for a part that cannot be read, is zero, or is given twice.
    """
    found: dict[str, float] = {}
    for part in text.lower().split(",") if text.strip() else []:
        match = _PART.fullmatch(part)
        side, value = _side(match[2], float(match[1])) if match else ("", 0.0)
        if side in found:
            raise ConfigError(f"budget {text!r} states its {side} twice (expected once)")
        if not side or not value > 0:
            raise ConfigError(f"budget {text!r}: cannot use {part.strip()!r} (expected {EXAMPLE})")
        found[side] = value
    whole = {side: int(found[side]) for side in ("tokens", "calls") if side in found}
    return Allowance(
        usd=found.get("usd"),
        tokens=whole.get("tokens"),
        seconds=found.get("seconds"),
        calls=whole.get("calls"),
    )


def price_of(model: str, prices: Prices) -> Price | None:
    """Return what ``model`` costs: the mock nothing, an unknown one None."""
    return prices.get(model, Price(0.0, 0.0) if model == MOCK else None)


def check_price(
    allowance: Allowance, model: str, prices: Prices, *, where: str = "a settings file"
) -> None:
    """Raise :class:`ConfigError` for a budget of money that nothing can be held to."""
    if allowance.usd is not None and price_of(model, prices) is None:
        raise ConfigError(
            f"a budget of {allowance.usd:g} usd needs the price of {model} (expected under "
            f'[run.prices] in {where}: "{model}" = {{ input = 0.25, output = 2.0 }}, usd for a '
            "million tokens); or state the budget in tokens or calls"
        )


def _side(unit: str, value: float) -> tuple[str, float]:
    if unit in {"usd", "$"}:
        return "usd", value
    singular = unit.removesuffix("s") if len(unit) > 1 else unit
    singular = {"token": "tok", "hour": "h", "day": "d", "m": "min"}.get(singular, singular)
    if singular in _TOKENS:
        return "tokens", float(int(value * _TOKENS[singular]))
    if singular == "call":
        return "calls", float(int(value))
    if singular in _TIMES:
        return "seconds", value * _TIMES[singular]
    return "", 0.0


class Hold(msgspec.Struct, frozen=True):
    """What a request in flight may cost at most, by our estimate."""

    tokens: int
    usd: float


class Purse:
    """The money and tokens of one run, shared by threads."""

    def __init__(self, allowance: Allowance, prices: Prices, spent: Usage) -> None:
        self._allowance = allowance
        self._prices = prices
        self._spent = spent
        self._held: dict[int, Hold] = {}
        self._next = 0
        self._longest = 0
        self._costliest = Hold(0, 0.0)
        self._changed = threading.Condition()

    def price(self, model: str) -> Price | None:
        """Return the price of ``model`` where it is known."""
        return price_of(model, self._prices)

    def reserve(self, model: str, request: Request) -> int:
        """Hold what ``request`` may cost and return the number to settle it with.

        Waits while requests in flight might leave enough. Raises :class:`Stopped` when what is left
        is not enough for this request, and :class:`ConfigError` for money and no price.
        """
        check_price(self._allowance, model, self._prices)
        return self._hold(lambda: self._estimate(model, request))

    def reserve_program(self) -> int:
        """Hold what the costliest program of the run took, for one more; nothing for the first.

        Waits and raises as :meth:`reserve` does.
        """
        return self._hold(lambda: self._costliest)

    def _hold(self, needed: Callable[[], Hold]) -> int:
        with self._changed:
            while True:
                hold = needed()
                short = self._short(hold)
                if short is None:
                    self._next += 1
                    self._held[self._next] = hold
                    return self._next
                if not self._held:
                    raise Stopped(f"the budget of {short} is spent")
                self._changed.wait()

    def settle_program(self, number: int, usage: Usage) -> None:
        """Replace what was held for a program by what it cost."""
        with self._changed:
            del self._held[number]
            self._spent += usage
            tokens = usage.input_tokens + usage.output_tokens
            self._costliest = Hold(
                max(self._costliest.tokens, tokens),
                max(self._costliest.usd, usage.cost_usd or 0.0),
            )
            self._changed.notify_all()

    def settle(self, number: int, usage: Usage) -> None:
        """Replace what was held by what the request cost."""
        with self._changed:
            del self._held[number]
            self._spent += usage
            self._longest = max(self._longest, usage.output_tokens)
            self._changed.notify_all()

    def estimate(self, model: str, request: Request) -> Hold:
        """Return what ``request`` may cost at most, by our estimate."""
        with self._changed:
            return self._estimate(model, request)

    def _estimate(self, model: str, request: Request) -> Hold:
        asked = 1 + request.characters // CHARACTERS_A_TOKEN
        answer = int(request.parameters.get("max_tokens", self._longest or FIRST_ANSWER))
        price = self.price(model)
        return Hold(asked + answer, 0.0 if price is None else price.of(asked, answer))

    def _short(self, hold: Hold) -> str | None:
        """Return the side of the budget that has no room for ``hold``."""
        allowance, spent = self._allowance, self._spent
        if allowance.tokens is not None:
            held = sum(one.tokens for one in self._held.values()) + hold.tokens
            if not spent.input_tokens + spent.output_tokens + held <= allowance.tokens:
                return counted(allowance.tokens, "token")
        if allowance.usd is not None:
            money = sum(one.usd for one in self._held.values()) + hold.usd
            if not (spent.cost_usd or 0.0) + money <= allowance.usd:
                return f"{allowance.usd:g} usd"
        return None
