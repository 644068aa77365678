"""The one place that opens outgoing connections: a JSON request, a bounded answer, clear failures.

A request has two limits: one of silence and one of the whole exchange, so that a server which sends
a byte now and then cannot hold an attempt for ever. Keys never leave this module in a text: every
byte that a server sent is searched for the key before it is read any further.
"""

import json
import math
import threading
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from daydream.canonical import JsonObject, JsonValue, clean_text, dumps
from daydream.llm.base import Post, RequestFailed, at

if TYPE_CHECKING:
    import httpx2

MAX_ANSWER_BYTES: Final = 32 << 20
CONNECT_S: Final = 15.0
RETRIED: Final = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which asking again can help."""
EXHAUSTED: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
HIDDEN: Final = "[key]"
EVENTS: Final = "text/event-stream"
DONE: Final = "[DONE]"
"""What stands in the last event of a stream of Chat Completions."""


class Answer(NamedTuple):
    """What a server sent back, whatever its status."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    text: str
    """The body, without the key."""


class Transport:
    """Connections to servers, shared by threads. Close it, or use it in a ``with``."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self._timer = timer
        self._clients: dict[bool, httpx2.Client] = {}
        self._guard = threading.Lock()

    def __enter__(self) -> "Transport":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def poster(self, *, timeout_s: float, secret: str) -> Post:
        """Return a function that sends one request, each of at most ``timeout_s`` seconds."""

        def post(url: str, headers: Mapping[str, str], body: JsonObject) -> JsonValue:
            return self._send(url, headers, body, timeout_s, secret)

        return post

    def get(self, url: str, *, timeout_s: float) -> JsonValue:
        """Return the JSON at ``url``; raises :class:`RequestFailed`."""
        return self._send(url, {}, None, timeout_s, "")

    def _client(self, url: str) -> "httpx2.Client":
        import httpx2

        local = is_local(url)
        with self._guard:
            if local not in self._clients:
                # A proxy cannot reach this machine's own servers.
                self._clients[local] = httpx2.Client(trust_env=not local)
            return self._clients[local]

    def _send(
        self,
        url: str,
        headers: Mapping[str, str],
        body: JsonObject | None,
        timeout_s: float,
        secret: str,
    ) -> JsonValue:
        status, told, text = self.exchange(url, headers, body, timeout_s=timeout_s, secret=secret)
        place = place_of(url)
        if status != 200:
            raise refused(place, status, told, text)
        if told.get("content-type", "").startswith(EVENTS):
            return events_in(text, place)
        try:
            parsed = parsed_json(text)
        except (ValueError, RecursionError):
            raise RequestFailed(
                f"{place} sent {len(text)} characters that are no JSON (expected one JSON value)",
                retry=True,
            ) from None
        return parsed

    def exchange(
        self,
        url: str,
        headers: Mapping[str, str],
        body: JsonObject | None,
        *,
        timeout_s: float,
        secret: str,
    ) -> Answer:
        """Send one request (GET without a body) and return the answer, a refusal included.

        Raises :class:`RequestFailed` when no whole answer came.
        """
        import httpx2

        place = place_of(url)
        end = self._timer() + timeout_s
        try:
            with self._client(url).stream(
                "GET" if body is None else "POST",
                url,
                headers={**headers, "content-type": "application/json"},
                content=None if body is None else dumps(body),
                timeout=httpx2.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
            ) as answer:
                data = self._read(answer, end, place)
                status, told = answer.status_code, dict(answer.headers)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise RequestFailed(
                f"{place} cannot be reached: {hide(str(error), secret) or type(error).__name__} "
                "(expected a server that listens)",
                retry=True,
                sent=False,
            ) from None
        except httpx2.TimeoutException:
            raise RequestFailed(
                f"{place} did not answer within {timeout_s:g} s; allow more with timeout=SECONDS",
                retry=True,
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise RequestFailed(
                f"{place} broke off: {hide(str(error), secret) or type(error).__name__}",
                retry=isinstance(error, httpx2.TransportError),
            ) from None
        return Answer(status, told, hide(data.decode("utf-8", "replace"), secret))

    def _read(self, answer: "httpx2.Response", end: float, place: str) -> bytes:
        data = bytearray()
        for chunk in answer.iter_bytes():
            data += chunk
            if not len(data) <= MAX_ANSWER_BYTES:
                raise RequestFailed(f"{place} sent over {MAX_ANSWER_BYTES} bytes")
            if not self._timer() <= end:
                raise RequestFailed(
                    f"{place} was still sending when its time was over; allow more with "
                    "timeout=SECONDS",
                    retry=True,
                )
        return bytes(data)


def events_in(text: str, place: str) -> JsonValue:
    """Return the JSON values of a stream of server-sent events, in order.

    Raises :class:`RequestFailed` for an event that is no JSON, as the last one of a stream that was
    cut off is.
    """
    found: list[JsonValue] = []
    # Only these end a line of a stream; JSON may hold other separators as they are.
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        name, _, value = line.partition(":")
        if name != "data" or value.strip() in {"", DONE}:
            continue
        try:
            found.append(parsed_json(value))
        except (ValueError, RecursionError):
            raise RequestFailed(
                f"{place} broke off in a stream of {len(text)} characters (expected JSON in each "
                "event)",
                retry=True,
            ) from None
    return found


def parsed_json(text: str) -> JsonValue:
    """Return the JSON value of ``text`` with half surrogate pairs, which nothing stores, as ``?``.

    Raises ``ValueError`` or ``RecursionError`` for what is none.
    """
    found: JsonValue = json.loads(text)
    if "\\ud" in text or "\\uD" in text:
        whole = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
        found = json.loads(whole)
    return found


def refused(place: str, status: int, headers: Mapping[str, str], text: str) -> RequestFailed:
    """Return the failure that a status other than 200 means."""
    try:
        answer: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        answer = None
    error = at(answer, "error") if at(answer, "error") is not None else at(answer, 0, "error")
    told = error if isinstance(error, str) else at(error, "message")
    words = clean_text(told if isinstance(told, str) else text, 500)
    exhausted = at(error, "code") in EXHAUSTED or at(error, "type") in EXHAUSTED
    named = at(error, "param")
    return RequestFailed(
        f"{place} answered {status}: {words}",
        retry=not exhausted and (status in RETRIED or status >= 500),
        after_s=wait_of(headers),
        parameter=_rejected(named, words) if status in {400, 422} else None,
    )


def _rejected(named: JsonValue, words: str) -> str | None:
    """Return the parameter that the server will not take, in its name or in its words."""
    if isinstance(named, str) and named:
        return named
    known = ("temperature", "top_p", "max_completion_tokens", "max_tokens", "seed")
    return next((name for name in known if name in words), None)


def wait_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait; a date counts from the server's own clock."""
    fine = _number(headers.get("retry-after-ms"))
    if fine is not None:
        return fine / 1000
    text = headers.get("retry-after", "")
    plain = _number(text)
    if plain is not None:
        return plain
    try:
        until, now = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("date", ""))
        return max(0.0, (until - now).total_seconds())
    except (TypeError, ValueError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def hide(text: str, secret: str) -> str:
    """Return ``text`` without the key."""
    return text.replace(secret, HIDDEN) if secret else text


def place_of(url: str) -> str:
    """Return scheme, host and port of ``url``, for messages."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}" + (f":{parts.port}" if parts.port else "")


def is_local(url: str) -> bool:
    """Return whether ``url`` names this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
