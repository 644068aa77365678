"""What a review may spend: requests, money, tokens and time, whoever answers.

A chat model is held to them before each request. A program asks its model itself, so it is held to
them before each conversation, by what the ones before it cost.
"""

import threading
from collections.abc import Callable

import msgspec

from daydream.errors import Stopped
from daydream.llm.base import Request
from daydream.llm.budget import Allowance, Prices, Purse, parse_budget
from daydream.review.backends.base import Ask, Backend
from daydream.review.tools import Tools
from daydream.review.trajectory import Fork
from daydream.store.events import Usage


class Bounds(msgspec.Struct, frozen=True):
    """How far a review may go; None leaves a side open."""

    allowance: Allowance
    requests: int | None
    until: float | None
    """On the clock that :class:`BoundedPurse` and :class:`BoundedBackend` are given."""

    def passed(self, requests: int, now: float) -> str | None:
        """Return the bound that allows no further request, or None."""
        if self.requests is not None and requests >= self.requests:
            return f"spent {self.requests} requests"
        if self.until is not None and not now < self.until:
            return "the time is up"
        return None


def bounds_of(budget: str, *, requests: int | None, seconds: float | None, now: float) -> Bounds:
    """Return the bounds that flags state; ``1h`` and ``200calls`` of a budget count as well.

    Raises :class:`ConfigError` for a budget that cannot be read.
    """
    allowance = parse_budget(budget)
    times = [one for one in (seconds, allowance.seconds) if one is not None]
    counts = [one for one in (requests, allowance.calls) if one is not None]
    return Bounds(allowance, min(counts, default=None), now + min(times) if times else None)


class BoundedPurse(Purse):
    """A purse that lets so many requests through, and for so long."""

    def __init__(self, bounds: Bounds, prices: Prices, timer: Callable[[], float]) -> None:
        super().__init__(bounds.allowance, prices, Usage())
        self._bounds = bounds
        self._timer = timer
        self._asked = 0
        self._turn = threading.Lock()

    def reserve(self, model: str, request: Request) -> int:
        """Hold what ``request`` may cost; raises :class:`Stopped` when the bounds allow none."""
        with self._turn:
            passed = self._bounds.passed(self._asked, self._timer())
            if passed is not None:
                raise Stopped(passed)
            self._asked += 1
        return super().reserve(model, request)


class BoundedBackend:
    """A backend that asks its model itself. Several threads share it."""

    def __init__(self, backend: Backend, bounds: Bounds, timer: Callable[[], float]) -> None:
        self._backend = backend
        self._bounds = bounds
        self._timer = timer
        self._spent = Usage()
        self._guard = threading.Lock()

    @property
    def name(self) -> str:
        """The backend's name."""
        return self._backend.name

    @property
    def model(self) -> str:
        """The model that it was given."""
        return self._backend.model

    def converse(self, ask: Ask, tools: Tools, fork: Fork) -> str:
        """Hold one conversation; raises :class:`Stopped` when what was spent allows none."""
        with self._guard:
            spent = self._bounds.allowance.spent_by(self._spent)
            passed = self._bounds.passed(self._spent.requests, self._timer())
        if spent is not None or passed is not None:
            raise Stopped(passed or f"the budget of {spent} is spent")
        try:
            return self._backend.converse(ask, tools, fork)
        finally:
            with self._guard:
                self._spent += fork.usage
