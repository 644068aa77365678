"""A server on this machine for as long as a test needs it."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Server(ThreadingHTTPServer):
    """One whose clients may be killed."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Tell of faults of ours alone: a client that was killed leaves a broken connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type] # passed on


def asked(handler: BaseHTTPRequestHandler) -> Any:
    """Return the JSON of a request; raises ``ConnectionError`` where the client ended meanwhile."""
    size = handler.headers["content-length"]
    data = handler.rfile.read(int(size or 0))
    if size is None or len(data) < int(size):
        raise ConnectionError("the client ended while it asked")
    return json.loads(data)


class LoopbackServer:
    """Listens on a free port of 127.0.0.1. A context manager; subclasses say what they answer.

    A request that is to hang waits for ``release``, which is set at the end at the latest.
    """

    def __init__(self) -> None:
        self.release = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.look(self)

            def do_POST(self) -> None:
                outer.handle(self)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def host(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def local(self) -> str:
        """The model string under which this server is asked."""
        return f"local/tiny@http://{self.host}/v1"

    def look(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a GET; there is nothing to be seen unless a subclass shows it."""
        handler.send_error(404)

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a POST."""
        raise NotImplementedError
