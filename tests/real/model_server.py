"""A model server on this machine that speaks both protocols, fails on demand, and keeps count.

It answers as the mock does, so a run against it goes on. Nothing here sleeps: a request that is to
hang waits for the server to be closed, or for the test to let it go.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal, NamedTuple, cast

from daydream.canonical import JsonValue
from daydream.llm.base import Message, Request
from daydream.llm.fake import FakeModel
from tests.real.loopback import LoopbackServer, asked

Fault = Literal[
    "ok", "429", "500", "silent", "cut", "broken", "empty", "slow", "hold", "useless", "quota"
]
EVENTS = "text/event-stream; charset=utf-8"
KEY = "sk-planted-0123456789abcdef"


class Seen(NamedTuple):
    """One request, as the server saw it."""

    path: str
    key: str
    body: Mapping[str, Any]
    fault: Fault
    tokens: tuple[int, int]
    """Counted for an answer that was sent in full, else zeros."""


class ModelServer(LoopbackServer):
    """Listens on a free port of 127.0.0.1. A context manager.

    ``plan`` names the fault of each request by its number from 0; requests beyond it are answered.
    ``refuses`` is a parameter that it rejects. ``answers`` are given in order, before the mock's.
    """

    def __init__(
        self,
        plan: Sequence[Fault] | Callable[[int], Fault] = (),
        *,
        refuses: str = "",
        answers: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._plan = plan
        self._answers = list(answers)
        self.refuses = refuses
        self.seen: list[Seen] = []
        self.held = threading.Event()
        self._guard = threading.Lock()
        self._count = 0

    def look(self, handler: BaseHTTPRequestHandler) -> None:
        """List the one model."""
        listed = {"data": [{"id": "tiny"}]}
        _send(handler, 200, json.dumps(listed).encode())

    @property
    def requests(self) -> int:
        """Requests that arrived."""
        return len(self.seen)

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens in and out of all answers that were sent in full."""
        return sum(one.tokens[0] for one in self.seen), sum(one.tokens[1] for one in self.seen)

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        """Take one request."""
        body = asked(handler)
        with self._guard:
            number, self._count = self._count, self._count + 1
        plan = self._plan
        fault: Fault = (
            plan(number) if callable(plan) else plan[number] if number < len(plan) else "ok"
        )
        key = handler.headers.get("authorization") or handler.headers.get("x-api-key") or ""
        if fault == "ok" and self._answers:
            text = self._answers.pop(0)
        else:
            text = "" if fault == "empty" else self._answer(body, fault)
        counts = (len(json.dumps(body)) // 4, max(1, len(text) // 4))
        refused = bool(self.refuses) and self.refuses in body
        whole = fault in {"ok", "empty", "useless"} and not refused
        self.seen.append(Seen(handler.path, key, body, fault, counts if whole else (0, 0)))
        stream = bool(body.get("stream"))
        answer = (_events if stream else _whole)(handler.path, text, counts)
        kind = {"content-type": EVENTS} if stream else {}
        if refused:
            message = f"Unsupported parameter: '{self.refuses}' (key {key})"
            error = {"error": {"message": message, "param": self.refuses}}
            _send(handler, 400, json.dumps(error).encode())
        elif fault == "429":
            _send(handler, 429, b'{"error": {"message": "slow down"}}', {"retry-after": "0"})
        elif fault == "quota":
            error = {"error": {"message": f"no money for {key}", "code": "insufficient_quota"}}
            _send(handler, 429, json.dumps(error).encode())
        elif fault == "500":
            _send(handler, 500, f"internal error with {key}".encode())
        elif fault == "silent":
            self.release.wait()
        elif fault == "hold":
            self.held.set()
            self.release.wait()
        elif fault in {"cut", "slow"}:
            self._half(handler, answer, kind, wait=fault == "slow")
        elif fault == "broken":
            _send(handler, 200, answer[: len(answer) // 2], kind)
        else:
            _send(handler, 200, answer, kind)

    def _half(
        self,
        handler: BaseHTTPRequestHandler,
        answer: bytes,
        headers: Mapping[str, str],
        *,
        wait: bool,
    ) -> None:
        handler.send_response(200)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer[: len(answer) // 2])
        handler.wfile.flush()
        if wait:
            self.release.wait()
        handler.close_connection = True

    def _answer(self, body: Mapping[str, Any], fault: Fault) -> str:
        if fault == "useless":
            return "I would rather not."
        turns = [*body["messages"]]
        messages = tuple(
            Message(cast("Any", turn["role"]), turn["content"])
            for turn in turns
            if turn["role"] != "system"
        )
        with self._guard:
            sample = self._count

        def nobody(url: str, headers: Mapping[str, str], body: object) -> JsonValue:
            raise AssertionError("the mock asks nobody")

        return FakeModel().answer(Request(messages, {}, sample), nobody).text


def _whole(path: str, text: str, counts: tuple[int, int]) -> bytes:
    return json.dumps(_reply(path, text, counts)).encode()


def _events(path: str, text: str, counts: tuple[int, int]) -> bytes:
    """Return the answer as both vendors stream it: the text in pieces, the counts apart."""
    pieces = [text[at : at + 40] for at in range(0, len(text), 40)]
    events: list[dict[str, object]]
    if path.endswith("/messages"):
        start = {"model": "tiny", "usage": {"input_tokens": counts[0], "output_tokens": 1}}
        events = [{"type": "message_start", "message": start}, {"type": "ping"}]
        events += [
            {"type": "content_block_delta", "index": 0, "delta": {"type": kind, key: piece}}
            for piece in pieces
            for kind, key in (("thinking_delta", "thinking"), ("text_delta", "text"))
        ]
        end = {"stop_reason": "end_turn"}
        events.append(
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": counts[1]}}
        )
        events.append({"type": "message_stop"})
    else:
        deltas: list[dict[str, object]] = [{"role": "assistant"}]
        deltas += [{"content": piece} for piece in pieces]
        events = [{"model": "tiny", "choices": [{"delta": one}]} for one in deltas]
        events.append({"model": "tiny", "choices": [{"delta": {}, "finish_reason": "stop"}]})
        usage = {"prompt_tokens": counts[0], "completion_tokens": counts[1]}
        events.append({"model": "tiny", "choices": [], "usage": usage})
    lines = [f"event: x\ndata: {json.dumps(one)}\n\n" for one in events]
    return "".join([": hello\n\n", *lines, "data: [DONE]\n\n"]).encode()


def _reply(path: str, text: str, counts: tuple[int, int]) -> dict[str, object]:
    if path.endswith("/messages"):
        return {
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}],
            "model": "tiny",
            "stop_reason": "end_turn",
            "usage": {"input_tokens": counts[0], "output_tokens": counts[1]},
        }
    return {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "model": "tiny",
        "usage": {"prompt_tokens": counts[0], "completion_tokens": counts[1]},
    }


def _send(
    handler: BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    headers: Mapping[str, str] | None = None,
) -> None:
    handler.send_response(status)
    for name, value in (headers or {}).items():
        handler.send_header(name, value)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
