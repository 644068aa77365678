"""From what a person named to a backend that answers within its budget."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from daydream.errors import Stopped, UsageError
from daydream.llm.base import ChatModel, Post, Reply, Request
from daydream.llm.budget import Purse, parse_budget
from daydream.llm.client import Around, Client, Terms
from daydream.llm.fake import FakeModel
from daydream.llm.models import load_model
from daydream.review.backends.base import Backend
from daydream.review.backends.chat import ChatBackend
from daydream.review.backends.command import PROGRAMS, CommandBackend
from daydream.review.backends.offline import OfflineReviewer
from daydream.store.events import Usage


class Asking(msgspec.Struct, frozen=True):
    """Who is asked, and within which bounds."""

    backend: str
    model: str
    budget: str
    max_requests: int | None
    session: str
    interrupted: threading.Event


@contextmanager
def open_backend(asking: Asking) -> Iterator[Backend]:
    """Yield the backend; connections are closed at the end.

    Raises :class:`UsageError` for a missing or unknown model, :class:`EnvironmentMissing` for a
    missing key or program.
    """
    parse_budget(asking.budget)
    if asking.backend != "chat":
        if asking.model == "mock:":
            raise UsageError(f"mock: is no model of {asking.backend} (expected --backend chat)")
        yield CommandBackend(PROGRAMS[asking.backend], asking.model)
        return
    if not asking.model:
        raise UsageError(
            "no model to review with (expected -m such as openai/gpt-5-mini; `daydream models` "
            "lists some); -m mock: needs no key"
        )
    loaded = load_model(asking.model)
    chat: ChatModel = OfflineReviewer() if isinstance(loaded, FakeModel) else loaded
    if asking.max_requests is not None:
        chat = _Counted(chat, asking.max_requests)
    client = Client(
        Purse(parse_budget(asking.budget), {}, Usage()),
        Around(time.monotonic, asking.interrupted.wait, random.Random(0)),
        cache=None,
    )
    try:
        yield ChatBackend(chat, {}, Terms(), client, asking.session)
    finally:
        client.close()


class _Counted:
    """A model that may be asked so many times. Several threads share it."""

    def __init__(self, chat: ChatModel, most: int) -> None:
        self._chat = chat
        self._most = most
        self._asked = 0
        self._guard = threading.Lock()

    @property
    def name(self) -> str:
        return self._chat.name

    @property
    def wire(self) -> str:
        return self._chat.wire

    @property
    def secret(self) -> str:
        return self._chat.secret

    def answer(self, request: Request, post: Post) -> Reply:
        with self._guard:
            if self._asked >= self._most:
                raise Stopped(f"spent --max-requests {self._most}")
            self._asked += 1
        return self._chat.answer(request, post)
