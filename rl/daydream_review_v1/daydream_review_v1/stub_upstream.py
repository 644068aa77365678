"""A model server for trying an environment without a model, on 127.0.0.1.

    python -m daydream_review_v1.stub_upstream [--port 8399] [--mode canned|scripted]

It speaks Chat Completions, Responses and Anthropic Messages, with and without streaming, to any
number of clients at a time. ``canned`` finds nothing, so a rollout is worth 0. ``scripted`` looks
for a few kinds of mistake in the diff that it is sent, and mends them when asked to. Neither
measures the quality of a review.
"""

import argparse
import json
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from daydream_review_v1.dialects import (
    Counts,
    Said,
    Spoken,
    conversation,
    dialect_of,
    encode,
    stream,
)
from daydream_review_v1.scripted import answer as scripted

PORT: Final = 8399
NOTHING: Final = 'No findings.\n\n```json\n{"findings": [], "verdicts": []}\n```'
Mind = Callable[[list[Said]], Spoken]


def canned(_: list[Said]) -> Spoken:
    """Find nothing, in the form that reviewers are asked for."""
    return Spoken(NOTHING)


MODES: Final[dict[str, Mind]] = {"canned": canned, "scripted": scripted}


class Stub:
    """The server. A context manager; ``requests`` holds what was asked, as it came."""

    def __init__(self, mind: Mind, port: int = 0) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                outer._handle(self, mind)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Base address for clients of Chat Completions."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> "Stub":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def serve(self) -> None:
        """Serve until interrupted."""
        self._server.serve_forever()

    def _handle(self, handler: BaseHTTPRequestHandler, mind: Mind) -> None:
        raw = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            return _send(handler, 400, {"error": {"message": "the body is no JSON"}})
        if not isinstance(body, dict):
            return _send(handler, 400, {"error": {"message": "the body is no JSON object"}})
        self.requests.append((handler.path, body))
        if handler.path.partition("?")[0].endswith("/count_tokens"):
            return _send(handler, 200, {"input_tokens": len(raw) // 4})
        dialect, model = dialect_of(handler.path), str(body.get("model", "stub"))
        spoken = mind(conversation(body))
        made = len(spoken.text) + sum(len(json.dumps(call)) for call in spoken.calls)
        counts = Counts(max(1, len(raw) // 4), max(1, made // 4))
        if not body.get("stream"):
            return _send(handler, 200, encode(dialect, model, spoken, counts))
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("connection", "close")
        handler.end_headers()
        handler.close_connection = True
        for event in stream(dialect, model, spoken, counts):
            handler.wfile.write(event)
            handler.wfile.flush()
        return None


def _send(handler: BaseHTTPRequestHandler, status: int, body: dict[str, Any]) -> None:
    data = json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def main(arguments: list[str] | None = None) -> int:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m daydream_review_v1.stub_upstream")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--mode", choices=sorted(MODES), default="canned")
    options = parser.parse_args(arguments)
    try:
        stub = Stub(MODES[options.mode], options.port)
    except OSError as error:
        parser.error(f"port {options.port} cannot be used: {error.strerror}")
    print(f"{options.mode} model server at {stub.url}", flush=True)
    try:
        stub.serve()
    except KeyboardInterrupt:
        print("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
