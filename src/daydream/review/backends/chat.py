"""The ``chat`` backend: Chat Completions without streaming, with our own tools.

Every body carries a nonce in its system message: servers that merge equal requests would else hand
one answer to several reviewers. Nothing is streamed, so a training server can capture the turns.
"""

import json
from collections.abc import Mapping
from typing import Final

from daydream.canonical import JsonValue, clean_text, hash_of
from daydream.errors import ModelError
from daydream.llm.base import ChatModel, Message, Request, ToolCall
from daydream.llm.client import Client, Line, Terms
from daydream.review.backends.base import Ask
from daydream.review.tools import ToolFailed, Tools
from daydream.review.trajectory import Call, Fork, Result

TURNS: Final = 40
"""Model calls of one conversation."""
CONTEXT: Final = 400_000
"""Characters of one conversation; beyond it no tool is offered, so that it comes to an end."""


class ChatBackend:
    """Asks one model over one line."""

    name = "chat"

    def __init__(
        self,
        chat: ChatModel,
        parameters: Mapping[str, float | int],
        terms: Terms,
        client: Client,
        session: str,
    ) -> None:
        self._chat = chat
        self._parameters = dict(parameters)
        self._terms = terms
        self._client = client
        self._session = session

    @property
    def model(self) -> str:
        """The model string."""
        return self._chat.name

    def converse(self, ask: Ask, tools: Tools, fork: Fork) -> str:
        """Return the last words; tools are called by the host between the turns."""
        fork.add("system", ask.system)
        fork.add("user", ask.user, extra={"shown_files": list(ask.shown_files)})
        # What is spent stands in the fork, requests that brought no answer included.
        line = self._client.line(lambda usage: None)
        try:
            return self._held(ask, tools, fork, line)
        finally:
            fork.usage = line.usage

    def _held(self, ask: Ask, tools: Tools, fork: Fork, line: Line) -> str:
        messages = [Message("system", ask.system), Message("user", ask.user)]
        for turn in range(TURNS):
            room = sum(len(one.text) for one in messages) < CONTEXT and turn < TURNS - 1
            request = self._request(ask, messages, turn, tools if room else None)
            reply = line.ask(self._chat, request, self._terms, fresh=True)
            calls = tuple(
                Call(call.id, call.name, dict(_arguments(call) or {})) for call in reply.calls
            )
            fork.add(
                "agent",
                reply.text,
                model=reply.model or self.model,
                calls=calls,
                usage=reply.usage,
            )
            if not reply.calls or not room:
                return reply.text
            messages.append(Message("assistant", reply.text, reply.calls))
            results = [Result(call.id, _called(call, tools)) for call in reply.calls]
            fork.observe(tuple(results))
            messages += [
                Message("tool", one.content, call_id=one.source_call_id) for one in results
            ]
        raise ModelError(f"{self.model} did not come to an end within {TURNS} turns")

    def _request(
        self, ask: Ask, messages: list[Message], turn: int, tools: Tools | None
    ) -> Request:
        # The same in every turn, so that the turns of a conversation share their beginning.
        nonce = hash_of([self._session, ask.phase])[:16]
        first = Message("system", f"{messages[0].text}\nnonce: {nonce}")
        return Request(
            (first, *messages[1:]),
            self._parameters,
            turn,
            () if tools is None else tools.offered,
        )


def _arguments(call: ToolCall) -> Mapping[str, JsonValue] | None:
    try:
        value: JsonValue = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None


def _called(call: ToolCall, tools: Tools) -> str:
    arguments = _arguments(call)
    if arguments is None:
        return f"error: the arguments of {clean_text(call.name, 60)} are no JSON object"
    try:
        return tools.call(call.name, arguments)
    except ToolFailed as error:
        return f"error: {error}"
    except OSError as error:
        return f"error: {error.strerror or type(error).__name__}"
