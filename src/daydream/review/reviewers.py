"""From what a person named to a backend that answers within its budget."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from daydream.errors import UsageError
from daydream.llm.base import ChatModel
from daydream.llm.budget import Prices, check_price
from daydream.llm.client import Around, Client, Terms
from daydream.llm.fake import FakeModel
from daydream.llm.models import load_model
from daydream.review.backends.base import Backend
from daydream.review.backends.chat import ChatBackend
from daydream.review.backends.command import REVIEWERS, CommandBackend
from daydream.review.backends.offline import OfflineReviewer
from daydream.review.bounds import BoundedBackend, BoundedPurse, bounds_of


class Asking(msgspec.Struct, frozen=True):
    """Who is asked, and within which bounds."""

    backend: str
    model: str
    budget: str
    max_requests: int | None
    max_time: float | None
    """Seconds after which no further question is asked."""
    prices: Prices
    session: str
    interrupted: threading.Event


@contextmanager
def open_backend(asking: Asking) -> Iterator[Backend]:
    """Yield the backend; connections are closed at the end.

    Raises :class:`UsageError` for a missing or unknown model, :class:`EnvironmentMissing` for a
    missing key or program.
    """
    timer = time.monotonic
    bounds = bounds_of(
        asking.budget, requests=asking.max_requests, seconds=asking.max_time, now=timer()
    )
    if asking.backend != "chat":
        if asking.model == "mock:":
            raise UsageError(f"mock: is no model of {asking.backend} (expected --backend chat)")
        program = CommandBackend(REVIEWERS[asking.backend], asking.model, asking.interrupted.is_set)
        yield BoundedBackend(program, bounds, timer)
        return
    if not asking.model:
        raise UsageError(
            "no model to review with (expected -m such as openai/gpt-5-mini; `daydream models` "
            "lists some); -m mock: needs no key"
        )
    loaded = load_model(asking.model)
    chat: ChatModel = OfflineReviewer() if isinstance(loaded, FakeModel) else loaded
    check_price(bounds.allowance, chat.name, asking.prices, where="./daydream.toml")
    client = Client(
        BoundedPurse(bounds, asking.prices, timer),
        Around(timer, asking.interrupted.wait, random.Random(0)),
        cache=None,
    )
    try:
        yield ChatBackend(chat, {}, Terms(), client, asking.session)
    finally:
        client.close()
