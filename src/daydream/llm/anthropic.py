"""Anthropic Messages."""

from collections.abc import Sequence
from typing import Final

import msgspec

from daydream.canonical import JsonObject, JsonValue
from daydream.llm.base import Post, Reply, Request, RequestFailed, at, joined_text, whole_at
from daydream.store.events import Usage

VERSION: Final = "2023-06-01"
MAX_TOKENS: Final = 16_384
"""The format demands a limit on the answer; this one is sent where the user set none."""
_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class Anthropic(msgspec.Struct, frozen=True):
    """One model of one server."""

    name: str
    model: str
    """The server's name for it."""
    base_url: str
    secret: str = ""
    wire: str = "anthropic-messages"
    stream: bool = False
    """Have the answer sent as it is made."""

    def __repr__(self) -> str:
        """Name the model without its key."""
        return f"Anthropic({self.name!r})"

    def answer(self, request: Request, post: Post) -> Reply:
        """Make one request; raises :class:`RequestFailed`, also for one with tools."""
        if request.tools:
            raise RequestFailed(
                "tools are asked for over Anthropic Messages (expected Chat Completions); name the "
                "model through a server that speaks it, or use a command-line agent"
            )
        headers = {"anthropic-version": VERSION}
        if self.secret:
            headers["x-api-key"] = self.secret
        return decode(post(f"{self.base_url}/v1/messages", headers, self.body(request)))

    def body(self, request: Request) -> JsonObject:
        """Return what is sent: system text apart, then the turns, then what the user set."""
        system = "\n\n".join(one.text for one in request.messages if one.role == "system")
        turns = [
            {"role": one.role, "content": one.text}
            for one in request.messages
            if one.role != "system"
        ]
        return {
            "model": self.model,
            "max_tokens": MAX_TOKENS,
            "messages": turns,
            **({"system": system} if system else {}),
            **({"stream": True} if self.stream else {}),
            **request.parameters,
        }


def folded(events: Sequence[JsonValue]) -> JsonValue:
    """Return the answer that a stream of events amounts to, in the form of one that came whole.

    Raises :class:`RequestFailed` for a stream that ended before the answer did.
    """
    kinds = [at(one, "type") for one in events]
    if "error" in kinds:
        return events[kinds.index("error")]
    if "message_stop" not in kinds:
        raise RequestFailed("the stream broke off before the answer ended", retry=True)
    start = next((at(one, "message") for one in events if at(one, "type") == "message_start"), None)
    usage: dict[str, JsonValue] = {}
    for found in (at(start, "usage"), *(at(one, "usage") for one in events)):
        usage |= found if isinstance(found, dict) else {}
    pieces = [
        text
        for one in events
        if at(one, "delta", "type") == "text_delta"
        and isinstance(text := at(one, "delta", "text"), str)
    ]
    stops = [end for one in events if isinstance(end := at(one, "delta", "stop_reason"), str)]
    return {
        "content": [{"type": "text", "text": "".join(pieces)}],
        "usage": usage,
        "model": at(start, "model"),
        "stop_reason": stops[-1] if stops else "",
    }


def decode(answer: JsonValue) -> Reply:
    """Return the reply in a server's answer; raises :class:`RequestFailed` where there is none."""
    if isinstance(answer, list):
        answer = folded(answer)
    content = at(answer, "content")
    if not isinstance(content, list):
        told = at(answer, "error", "message")
        found = told if isinstance(told, str) else "no content"
        raise RequestFailed(f"the answer has {found!r} (expected content)", retry=True)
    counts = [whole_at(answer, "usage", key) for key in _INPUT]
    made = whole_at(answer, "usage", "output_tokens")
    model, finish = at(answer, "model"), at(answer, "stop_reason")
    return Reply(
        text=joined_text(content),
        usage=Usage(1, sum(count or 0 for count in counts), made or 0),
        model=model if isinstance(model, str) else "",
        finish=finish if isinstance(finish, str) else "",
        counted=counts[0] is not None and made is not None,
    )
