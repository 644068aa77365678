"""Asking GitHub, politely: pages, rate limits as the server states them, and again where it helps.

Requests go through :class:`daydream.llm.http.Transport`, which alone opens connections and keeps
the token out of every text. A limit is waited for as long as ``patience_s`` allows; a longer wait
ends the harvest, which continues where it was when it is run again.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from daydream.canonical import JsonValue, clean_text
from daydream.errors import CorpusError, UsageError
from daydream.llm.base import RequestFailed, at
from daydream.llm.http import Answer, Transport, is_local, place_of, refused, wait_of

API: Final = "https://api.github.com"
PER_PAGE: Final = 100
TRIES: Final = 5
Kind = TypeVar("Kind")


class Manners(msgspec.Struct, frozen=True):
    """What a client gets from outside, and how patient it is."""

    pause: Callable[[float], None]
    """Waits so many seconds."""
    now: Callable[[], float]
    """Seconds since 1970, to compare with the time at which a limit ends."""
    timeout_s: float = 60.0
    """Longest wait for one answer."""
    patience_s: float = 900.0
    """Longest wait for a rate limit."""


class GitHub:
    """The API of one server under one token."""

    def __init__(self, transport: Transport, api: str, token: str, manners: Manners) -> None:
        scheme, _, host = place_of(api).partition("://")
        if scheme not in {"http", "https"} or not host:
            raise UsageError(f"--api is {api!r} (expected an address such as {API})")
        if scheme == "http" and not is_local(api):
            raise UsageError(f"--api {api!r} would send the token in clear (expected https)")
        self._transport = transport
        self._api = api.rstrip("/")
        self._token = token
        self._manners = manners
        self._wait_s = 0.0
        self.waited_s = 0.0
        """Seconds spent on rate limits so far."""
        self.requests = 0

    def pages(self, path: str, kind: type[Kind], **query: str) -> Iterator[Kind]:
        """Yield the items at ``path`` page by page; raises :class:`CorpusError`.

        The values of ``query`` are plain words, as nothing escapes them.
        """
        number = 0
        more = True
        while more:
            number += 1
            chosen = "".join(f"{name}={value}&" for name, value in query.items())
            place = f"{self._api}{path}?{chosen}per_page={PER_PAGE}&page={number}"
            answer = self._ask(place, None)
            yield from self._decode(answer, path, list[kind])  # type: ignore[valid-type]
            more = 'rel="next"' in answer.headers.get("link", "")

    def graphql(self, query: str, variables: Mapping[str, JsonValue]) -> JsonValue:
        """Return ``data`` of a GraphQL answer; raises :class:`CorpusError` when it has errors."""
        base = self._api.removesuffix("/v3")
        body: dict[str, JsonValue] = {"query": query, "variables": variables}
        answer = self._ask(f"{base}/graphql", body)
        value = self._decode(answer, "/graphql", dict[str, object])
        if value.get("errors"):
            told = clean_text(json.dumps(value["errors"]), 300)
            raise CorpusError(f"GitHub refused a GraphQL query: {told}")
        found: JsonValue = value.get("data")  # type: ignore[assignment]
        return found

    def _decode(self, answer: Answer, path: str, kind: type[Kind]) -> Kind:
        try:
            return msgspec.json.decode(answer.text, type=kind)
        except msgspec.DecodeError as error:
            raise CorpusError(
                f"GitHub answered {path} with something else than expected: {error}"
            ) from None

    def _ask(self, url: str, body: dict[str, JsonValue] | None) -> Answer:
        headers = {
            "accept": "application/vnd.github+json",
            "authorization": f"Bearer {self._token}",
            "user-agent": "daydream-corpus",
            "x-github-api-version": "2022-11-28",
        }
        failures = 0
        while True:
            self._rest(self._wait_s)
            self._wait_s = 0.0
            try:
                answer = self._once(url, headers, body)
            except RequestFailed as failure:
                failures += 1
                if not failure.retry or failures >= TRIES:
                    raise CorpusError(
                        f"GitHub did not answer after {failures} requests: {failure}; run the "
                        "same command again to continue"
                    ) from None
                self._manners.pause(failure.after_s or min(60.0, 2.0**failures))
                continue
            limit = self._limit(answer)
            limited = answer.status in {403, 429} and limit is not None
            if not limited and not _graphql_limited(answer):
                # The answer is good, and the next request has to wait.
                self._wait_s = limit or 0.0
                return answer
            failures += 1
            if failures >= TRIES:
                raise CorpusError(
                    f"GitHub still limits the rate after {failures} requests; run the same "
                    "command again later to continue"
                )
            self._rest(60.0 if limit is None else limit)

    def _once(self, url: str, headers: Mapping[str, str], body: JsonValue) -> Answer:
        self.requests += 1
        answer = self._transport.exchange(
            url,
            headers,
            body if isinstance(body, dict) else None,
            timeout_s=self._manners.timeout_s,
            secret=self._token,
        )
        if answer.status == 200 or (
            answer.status in {403, 429} and self._limit(answer) is not None
        ):
            return answer
        if 300 <= answer.status < 400:
            raise CorpusError(
                f"GitHub answered {answer.status}: the repository moved; give its present name"
            )
        if answer.status in {401, 404}:
            raise CorpusError(
                f"GitHub answered {answer.status} for {url.removeprefix(self._api).split('?')[0]}: "
                "check the name of the repository, and that the token may read it"
            )
        raise refused("GitHub", answer.status, answer.headers, answer.text)

    def _limit(self, answer: Answer) -> float | None:
        """Return the seconds to wait that an answer asks for, or None."""
        asked = wait_of(answer.headers)
        if asked is not None:
            return asked
        if answer.headers.get("x-ratelimit-remaining") != "0":
            return None
        try:
            reset = float(answer.headers.get("x-ratelimit-reset", ""))
        except ValueError:
            return 60.0
        # One second more than the difference: the header counts whole seconds.
        return max(0.0, reset - self._manners.now() + 1.0)

    def _rest(self, seconds: float) -> None:
        if seconds <= 0:
            return
        if not seconds <= self._manners.patience_s:
            raise CorpusError(
                f"the rate limit of GitHub ends in {seconds:.0f} s (at most "
                f"{self._manners.patience_s:.0f} s are waited for); run the same command again "
                "then, it continues where it was"
            )
        self.waited_s += seconds
        self._manners.pause(seconds)


def _graphql_limited(answer: Answer) -> bool:
    if "RATE_LIMITED" not in answer.text[:2_000]:
        return False
    try:
        parsed: JsonValue = json.loads(answer.text)
    except ValueError:
        return False
    return at(parsed, "errors", 0, "type") == "RATE_LIMITED"
