"""A model server on this machine that reviews: Chat Completions with tools, and faults on demand.

It answers as ``mock:`` reviews do, from nothing but the body it was sent, and keeps count. Nothing
here sleeps: a request that is to hang waits until the server is closed.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal, NamedTuple

from daydream.canonical import JsonValue
from daydream.llm.base import Message, Request, ToolCall
from daydream.review.backends.offline import OfflineReviewer
from tests.real.loopback import LoopbackServer, asked

Fault = Literal["ok", "hold", "500", "useless", "broken", "refused"]
Said = tuple[str, Sequence[tuple[str, Mapping[str, str]]]]
"""A text, and the tools called with their arguments."""
Script = Callable[[Sequence[Mapping[str, Any]]], Said]
"""What a phase answers to the messages of a body."""
PHASE = re.compile(r"^daydream-phase: (\S+)\n")


class Seen(NamedTuple):
    """One request, as the server saw it."""

    phase: str
    body: Mapping[str, Any]
    fault: Fault
    tokens: tuple[int, int]
    """Counted for an answer that was sent in full, else zeros."""


class ReviewServer(LoopbackServer):
    """Listens on a free port of 127.0.0.1. A context manager.

    ``plan`` names the fault of a request from its phase and its number in that phase, from 0.
    ``scripts`` answer instead of the offline reviewer, in phases whose name begins so.
    """

    def __init__(
        self,
        plan: Callable[[str, int], Fault] = lambda phase, number: "ok",
        *,
        scripts: Mapping[str, Script] | None = None,
    ) -> None:
        super().__init__()
        self._plan = plan
        self._scripts = dict(scripts or {})
        self.seen: list[Seen] = []
        self.held = threading.Event()
        self._guard = threading.Lock()
        self._numbers: dict[str, int] = {}

    @property
    def model(self) -> str:
        """The model string under which a review asks this server."""
        return self.local

    @property
    def phases(self) -> set[str]:
        """The phases that asked."""
        return {one.phase for one in self.seen}

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens in and out of all answers that were sent in full."""
        return sum(one.tokens[0] for one in self.seen), sum(one.tokens[1] for one in self.seen)

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        """Take one request."""
        body = asked(handler)
        found = PHASE.match(body["messages"][0]["content"])
        phase = found[1] if found else ""
        with self._guard:
            number = self._numbers.get(phase, 0)
            self._numbers[phase] = number + 1
        fault = self._plan(phase, number)
        text, calls = ("I would rather not.", ()) if fault == "useless" else self._said(phase, body)
        counts = (len(json.dumps(body)) // 4, max(1, len(text) // 4))
        whole = fault in {"ok", "useless"}
        self.seen.append(Seen(phase, body, fault, counts if whole else (0, 0)))
        answer = json.dumps(_reply(text, calls, counts)).encode()
        if fault == "hold":
            self.held.set()
            self.release.wait()
        elif fault == "500":
            _send(handler, 500, b"internal error")
        elif fault == "refused":
            _send(handler, 400, b'{"error": {"message": "this model takes no tools"}}')
        else:
            _send(handler, 200, answer[: len(answer) // 2] if fault == "broken" else answer)

    def _said(self, phase: str, body: Mapping[str, Any]) -> Said:
        for beginning, script in self._scripts.items():
            if phase.startswith(beginning):
                return script(body["messages"])

        def nobody(url: str, headers: Mapping[str, str], body: object) -> JsonValue:
            raise AssertionError("the offline reviewer asks nobody")

        request = Request(tuple(_message(turn) for turn in body["messages"]))
        reply = OfflineReviewer().answer(request, nobody)
        return reply.text, [(one.name, json.loads(one.arguments)) for one in reply.calls]


def _message(turn: Mapping[str, Any]) -> Message:
    calls = tuple(
        ToolCall(one["id"], one["function"]["name"], one["function"]["arguments"])
        for one in turn.get("tool_calls", ())
    )
    return Message(turn["role"], turn["content"] or "", calls, turn.get("tool_call_id", ""))


def _reply(
    text: str, calls: Sequence[tuple[str, Mapping[str, str]]], counts: tuple[int, int]
) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call-{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for number, (name, arguments) in enumerate(calls)
        ]
    return {
        "choices": [{"message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "model": "tiny",
        "usage": {"prompt_tokens": counts[0], "completion_tokens": counts[1]},
    }


def _send(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    handler.send_response(status)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
