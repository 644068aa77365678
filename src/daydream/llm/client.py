"""Asking a model: from the cache, else within the budget, and again where that can help.

A :class:`Client` serves one run. A :class:`Line` is what one attempt, or one other purpose, asks
over; each request is journaled before it is sent and again when its cost is known, so a killed
process leaves no request uncounted.
"""

import random
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, TypeAlias, TypeVar

import msgspec

from daydream.errors import ModelError, Stopped
from daydream.llm.base import ChatModel, Reply, Request, RequestFailed
from daydream.llm.budget import Purse
from daydream.llm.cache import ReplyCache
from daydream.llm.http import Transport
from daydream.store.events import Usage

Journal: TypeAlias = Callable[[Usage], None]
"""Keeps what was spent; durable when it returns."""
Found = TypeVar("Found")
CacheUse: TypeAlias = Literal["on", "off", "only"]


class Terms(msgspec.Struct, frozen=True):
    """How patient a question is."""

    timeout_s: float = 600.0
    """Longest wait for one request."""
    deadline_s: float = 1_800.0
    """Longest wait for an answer, all requests and pauses included."""
    tries: int = 6
    """Requests before giving up."""
    backoff_s: float = 1.0
    """Pause after the first failure; it doubles, up to a minute, give or take half."""
    parallel: int = 16
    """Requests to one model at a time."""


class Around(msgspec.Struct, frozen=True):
    """What a client gets from outside."""

    timer: Callable[[], float]
    """Seconds from any start."""
    pause: Callable[[float], bool]
    """Waits so many seconds; true when somebody asked to stop meanwhile."""
    random: random.Random


class Client:
    """Everything that questions of one run share. Close it when the run ends."""

    def __init__(
        self, purse: Purse, around: Around, *, cache: ReplyCache | None, use: CacheUse = "on"
    ) -> None:
        self.purse = purse
        self._around = around
        self._cache = cache
        self._use = use
        self._transport = Transport(around.timer)
        self._gates: dict[str, threading.BoundedSemaphore] = {}
        self._rejected: dict[str, set[str]] = {}
        self._guard = threading.Lock()

    def close(self) -> None:
        """Close connections and the cache."""
        self._transport.close()
        if self._cache is not None:
            self._cache.close()

    def line(self, journal: Journal) -> "Line":
        """Return a line whose spending goes to ``journal``."""
        return Line(self, journal)

    def stored(self, key: str) -> Reply | None:
        """Return the answer in the cache, if it may be used."""
        return None if self._cache is None or self._use == "off" else self._cache.get(key)

    def store(self, key: str, model: str, reply: Reply) -> None:
        """Keep an answer."""
        if self._cache is not None and self._use != "off":
            self._cache.put(key, model, reply)

    @property
    def offline(self) -> bool:
        """Whether only stored answers may be given."""
        return self._use == "only"

    def gate(self, model: str, parallel: int) -> AbstractContextManager[object]:
        """Return what lets ``parallel`` requests to ``model`` through at a time."""
        if model == "mock:":
            return nullcontext()
        with self._guard:
            return self._gates.setdefault(model, threading.BoundedSemaphore(parallel))

    def accepted(self, model: str, request: Request) -> Request:
        """Return ``request`` without the parameters that ``model`` rejected before."""
        with self._guard:
            known = self._rejected.get(model, set())
            kept = {k: v for k, v in request.parameters.items() if k not in known}
        return msgspec.structs.replace(request, parameters=kept)

    def reject(self, model: str, request: Request, parameter: str | None) -> str | None:
        """Remember a rejected parameter; return its name when ``request`` can do without it."""
        ours = "max_tokens" if parameter == "max_completion_tokens" else parameter
        if ours is None or ours not in request.parameters:
            return None
        with self._guard:
            self._rejected.setdefault(model, set()).add(ours)
        return ours

    def send(self, model: ChatModel, request: Request, timeout_s: float) -> Reply:
        """Make one request."""
        return model.answer(
            request, self._transport.poster(timeout_s=timeout_s, secret=model.secret)
        )

    def now(self) -> float:
        """Return the seconds on the clock."""
        return self._around.timer()

    def interrupted(self) -> bool:
        """Return whether somebody asked to stop."""
        return self._around.pause(0.0)

    def rest(self, seconds: float) -> None:
        """Wait; raises :class:`Stopped` when somebody asks to stop meanwhile."""
        if self._around.pause(seconds):
            raise Stopped("interrupted", exit_code=130)

    def wait_for(self, failure: RequestFailed, failures: int, terms: Terms) -> float:
        """Return the pause after so many failures: what the server asked for, else doubling."""
        with self._guard:
            chance = self._around.random.random()
        if failure.after_s is not None:
            return failure.after_s * (1.0 + 0.1 * chance)
        return float(min(60.0, terms.backoff_s * 2.0 ** (failures - 1))) * (0.5 + chance)


class Line:
    """What one purpose asks over. ``usage`` is what it has spent so far."""

    def __init__(self, client: Client, journal: Journal) -> None:
        self._client = client
        self._journal = journal
        self.usage = Usage()
        self.dropped: list[str] = []
        """Parameters that the model rejected and was then asked without."""

    def ask(
        self, model: ChatModel, request: Request, terms: Terms, *, fresh: bool = False
    ) -> Reply:
        """Return the answer to ``request``; ``fresh`` asks even where one is stored.

        Raises :class:`ModelError` when there is none to be had, :class:`Stopped` when the budget
        does not allow to ask or somebody asked to stop.
        """
        key = request.key(model.wire, model.name)
        stored = None if fresh else self._client.stored(key)
        if stored is not None:
            return msgspec.structs.replace(stored, cached=True)
        if self._client.offline:
            raise ModelError(
                f"{model.name} has no stored answer to this question, and --cache only forbids to "
                "ask; run with --cache on"
            )
        with self._client.gate(model.name, terms.parallel):
            reply = self._persist(model, request, terms)
        if not fresh:
            self._client.store(key, model.name, reply)
        self._book(reply.usage, requests=0)
        return reply

    def interrupted(self) -> bool:
        """Return whether somebody asked to stop."""
        return self._client.interrupted()

    def program(
        self,
        model: str,
        parallel: int,
        work: Callable[[Callable[[], bool]], tuple[Found, Usage, bool]],
    ) -> Found:
        """Return what ``work`` brings: a program that asks its model itself.

        At most ``parallel`` run at a time. ``work`` is given a function that says whether to stop;
        it returns what it found, what that cost, and whether its tokens were counted. The cost is
        journaled before this returns, of a program that failed or was stopped as well.

        Raises :class:`Stopped` when the budget has no room for one more such program, and
        :class:`ModelError` when only stored answers may be given.
        """
        if self._client.offline:
            raise ModelError(
                f"{model} has no stored answers, and --cache only forbids to ask; run with --cache "
                "on"
            )
        purse = self._client.purse
        with self._client.gate(model, parallel):
            hold = purse.reserve_program()
            cost = Usage()
            try:
                found, usage, counted = work(self.interrupted)
                price = purse.price(model)
                if usage.cost_usd is None and price is not None and counted:
                    usd = price.of(usage.input_tokens, usage.output_tokens)
                    usage = msgspec.structs.replace(usage, cost_usd=usd)
                cost = usage
            finally:
                purse.settle_program(hold, cost)
        self._book(cost, requests=cost.requests)
        return found

    def _persist(self, model: ChatModel, request: Request, terms: Terms) -> Reply:
        client = self._client
        end = client.now() + terms.deadline_s
        failures = 0
        while True:
            request = client.accepted(model.name, request)
            left = max(0.001, end - client.now())
            try:
                return self._once(model, request, min(terms.timeout_s, left))
            except RequestFailed as failure:
                dropped = client.reject(model.name, request, failure.parameter)
                if dropped is not None:
                    self.dropped.append(dropped)
                    continue
                failures += 1
                if not failure.retry:
                    raise ModelError(f"{model.name}: {failure}") from None
                pause = client.wait_for(failure, failures, terms)
                if failures >= terms.tries:
                    raise ModelError(
                        f"{model.name}: gave up after {failures} requests: {failure}"
                    ) from None
                if not client.now() + pause < end:
                    raise ModelError(
                        f"{model.name}: gave up after {failures} requests and before a wait of "
                        f"{pause:.0f} s, which ends after the deadline of {terms.deadline_s:g} s: "
                        f"{failure}"
                    ) from None
                client.rest(pause)

    def _once(self, model: ChatModel, request: Request, timeout_s: float) -> Reply:
        purse = self._client.purse
        hold = purse.reserve(model.name, request)
        cost = Usage()
        try:
            self._book(Usage(), requests=1)
            try:
                reply = self._client.send(model, request, timeout_s)
            except RequestFailed as failure:
                if not failure.sent:
                    self.usage = msgspec.structs.replace(
                        self.usage, requests=self.usage.requests - 1
                    )
                raise
            cost = self._priced(model, reply)
            return msgspec.structs.replace(reply, usage=cost)
        finally:
            purse.settle(hold, cost)

    def _priced(self, model: ChatModel, reply: Reply) -> Usage:
        usage, price = reply.usage, self._client.purse.price(model.name)
        if usage.cost_usd is None and price is not None and reply.counted:
            return msgspec.structs.replace(
                usage, cost_usd=price.of(usage.input_tokens, usage.output_tokens)
            )
        return usage

    def _book(self, usage: Usage, *, requests: int) -> None:
        spent = msgspec.structs.replace(usage, requests=requests)
        if spent != Usage():
            self.usage += spent
            self._journal(spent)
