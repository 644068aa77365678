"""What a request to a model is: messages and parameters in, text and what it cost out.

Owns the records that every module here shares. Nothing in this file opens a connection.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from daydream.canonical import JsonObject, JsonValue, hash_of
from daydream.errors import ModelError
from daydream.store.events import Usage

Parameters: TypeAlias = Mapping[str, float | int]
"""``temperature``, ``top_p``, ``max_tokens``, ``seed``; only what the user set."""

MOCK: Final = "mock:"
"""The name of the model that is none."""


class ToolCall(msgspec.Struct, frozen=True):
    """What a model wants done. Its arguments are untrusted text: JSON when all is well."""

    id: str
    name: str
    arguments: str


class Tool(msgspec.Struct, frozen=True):
    """What a model may call."""

    name: str
    description: str
    parameters: dict[str, str]
    """Name of each argument, all of them texts, and what it means."""
    required: tuple[str, ...] = ()


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    calls: tuple[ToolCall, ...] = ()
    """What an assistant's turn called."""
    call_id: str = ""
    """Which call a tool's turn answers."""


class Request(msgspec.Struct, frozen=True):
    """One question. Equal requests may be answered from the cache."""

    messages: tuple[Message, ...]
    parameters: dict[str, float | int] = {}
    sample: int = 0
    """Number of the sample: equal questions with different samples are asked anew."""
    tools: tuple[Tool, ...] = ()

    def key(self, wire: str, model: str) -> str:
        """Return the identity of this question put to ``model`` in the format ``wire``."""
        messages: list[JsonValue] = [
            [one.role, one.text]
            if not one.calls and not one.call_id
            else [one.role, one.text, one.call_id, msgspec.to_builtins(one.calls)]
            for one in self.messages
        ]
        tools: list[JsonValue] = [tool.name for tool in self.tools]
        told: list[JsonValue] = [wire, model, self.parameters, messages, self.sample]
        return hash_of([*told, tools] if tools else told)

    @property
    def characters(self) -> int:
        """Length of all messages."""
        return sum(len(message.text) for message in self.messages)


class Reply(msgspec.Struct, frozen=True):
    """One answer. Its text is untrusted: parse it, limit it, never execute it here."""

    text: str
    usage: Usage = Usage(requests=1)
    """Cost as far as the server stated it."""
    model: str = ""
    """The model that the server says answered."""
    finish: str = ""
    """Why the answer ended, in the server's word."""
    counted: bool = True
    """Whether the server said how many tokens there were."""
    cached: bool = False
    calls: tuple[ToolCall, ...] = ()
    """Tools that the model wants called."""


class RequestFailed(ModelError):  # noqa: N818 - a fact about one request
    """One request brought no answer; says whether asking again can help."""

    def __init__(
        self,
        message: str,
        *,
        retry: bool = False,
        after_s: float | None = None,
        parameter: str | None = None,
        sent: bool = True,
    ) -> None:
        super().__init__(message)
        self.retry = retry
        self.after_s = after_s
        """What the server asked to wait, in seconds."""
        self.parameter = parameter
        """The parameter that the server rejected."""
        self.sent = sent
        """Whether the request can have reached the server."""


class Post(Protocol):
    """Sends one JSON request and returns the JSON answer; raises :class:`RequestFailed`."""

    def __call__(self, url: str, headers: Mapping[str, str], body: JsonObject) -> JsonValue:
        """Send ``body`` to ``url``."""
        ...


class ChatModel(Protocol):
    """One model behind one wire format."""

    @property
    def name(self) -> str:
        """The model string: ``openai/gpt-5-mini``, ``mock:``."""
        ...

    @property
    def wire(self) -> str:
        """Name of the format, part of the cache key."""
        ...

    @property
    def secret(self) -> str:
        """The key, to be kept out of every text; empty without one."""
        ...

    def answer(self, request: Request, post: Post) -> Reply:
        """Make one request. Raises :class:`RequestFailed`."""
        ...


Answer: TypeAlias = Callable[[Request], Reply]


def at(value: JsonValue, *keys: str | int) -> JsonValue:
    """Return what stands at the path ``keys`` in a JSON value, or None."""
    for key in keys:
        if isinstance(key, str) and isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(key, int) and isinstance(value, Sequence) and not isinstance(value, str):
            value = value[key] if -len(value) <= key < len(value) else None
        else:
            return None
    return value


def whole_at(value: JsonValue, *keys: str | int) -> int | None:
    """Return the whole number at the path ``keys``, or None where there is none."""
    found = at(value, *keys)
    return found if type(found) is int and found >= 0 else None


def joined_text(value: JsonValue) -> str:
    """Return a message's text: plain, or in blocks, of which only those of text count."""
    if isinstance(value, str):
        return value
    parts: list[str] = []
    if isinstance(value, Sequence):
        for block in value:
            text = at(block, "text")
            if at(block, "type") in ("text", "output_text") and isinstance(text, str):
                parts.append(text)
    return "".join(parts)
