"""A server on this machine that speaks the part of GitHub's API that a harvest uses.

It pages, limits the rate, fails and hides conversations on demand, and counts requests by kind.
"""

import json
import re
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.real.loopback import Server, asked

TOKEN = "ghp_planted_0123456789"
BOT = "helper[bot]"


def sha(number: int) -> str:
    """Return a full commit id that is easy to recognise."""
    return f"{number:040x}"


def pull(number: int, **changes: Any) -> dict[str, Any]:
    """Return a pull request as the API lists it."""
    return {
        "number": number,
        "title": f"Change {number}",
        "state": "closed",
        "base": {"ref": "main", "sha": sha(number)},
        "head": {"ref": f"topic-{number}", "sha": sha(1000 + number)},
        "created_at": f"2026-01-{number:02d}T00:00:00Z",
        "updated_at": f"2026-02-{number:02d}T00:00:00Z",
        "merged_at": f"2026-02-{number:02d}T00:00:00Z",
        **changes,
    }


def review(number: int, *, commit: int, body: str = "Looks odd.", who: str = BOT) -> dict[str, Any]:
    """Return a submitted review."""
    return {
        "id": number,
        "user": {"login": who},
        "commit_id": sha(commit),
        "submitted_at": f"2026-01-01T00:{number % 60:02d}:00Z",
        "state": "COMMENTED",
        "body": body,
    }


def comment(number: int, *, commit: int, who: str = BOT, **changes: Any) -> dict[str, Any]:
    """Return an inline comment."""
    return {
        "id": number,
        "user": {"login": who},
        "path": "src/app.py",
        "line": 7,
        "original_line": 5,
        "commit_id": sha(commit + 5000),
        "original_commit_id": sha(commit),
        "created_at": f"2026-01-01T00:{number % 60:02d}:00Z",
        "body": f"Remark {number}.",
        **changes,
    }


def thread(first: int, *, logins: tuple[str, ...] = ("helper",), **changes: Any) -> dict[str, Any]:
    """Return a conversation that begins with comment ``first``."""
    nodes = [
        {"databaseId": first + index, "author": {"login": login}}
        for index, login in enumerate(logins)
    ]
    return {
        "isResolved": True,
        "isOutdated": True,
        "path": "src/app.py",
        "line": 7,
        "comments": {"totalCount": len(nodes), "nodes": nodes},
        **changes,
    }


class GitHubServer:
    """Listens on a free port of 127.0.0.1. A context manager. Fill the tables before use."""

    def __init__(self, page: int = 2) -> None:
        self.pulls: list[dict[str, Any]] = []
        self.reviews: dict[int, list[dict[str, Any]]] = {}
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.threads: dict[int, list[dict[str, Any]]] = {}
        self.no_graphql = False
        self.plan: dict[int, tuple[int, dict[str, str]]] = {}
        """Number of a request, from 0, to the status and headers that refuse it."""
        self.paths: list[str] = []
        self.tokens: set[str] = set()
        self._page = page
        self._guard = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer._handle(self, None)

            def do_POST(self) -> None:
                outer._handle(self, asked(self))

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> "GitHubServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Address of the API."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def count(self) -> Counter[str]:
        """Return how often each kind of request came."""
        return Counter(re.sub(r"\d+", "N", path) for path in self.paths)

    def _handle(self, handler: BaseHTTPRequestHandler, body: Any) -> None:
        parts = urlsplit(handler.path)
        with self._guard:
            number = len(self.paths)
            self.paths.append(parts.path)
        self.tokens.add(handler.headers.get("authorization", ""))
        status, headers = self.plan.get(number, (200, {}))
        if status != 200:
            return _send(handler, status, {"message": f"no, {TOKEN}"}, headers)
        if parts.path == "/graphql":
            return _send(handler, 200, self._graphql(body), headers)
        items = self._items(parts.path)
        if items is None:
            return _send(handler, 404, {"message": "Not Found"}, {})
        query = parse_qs(parts.query)
        page = int(query["page"][0])
        if query.get("state", ["all"])[0] != "all":
            items = [one for one in items if one["state"] == query["state"][0]]
        shown = items[(page - 1) * self._page : page * self._page]
        more = {"link": f'<{self.url}/next>; rel="next"'} if page * self._page < len(items) else {}
        return _send(handler, 200, shown, {**headers, **more})

    def _items(self, path: str) -> list[dict[str, Any]] | None:
        if path == "/repos/acme/widgets/pulls":
            return self.pulls
        found = re.fullmatch(r"/repos/acme/widgets/pulls/(\d+)/(reviews|comments)", path)
        if found is None:
            return None
        table = self.reviews if found[2] == "reviews" else self.comments
        return table.get(int(found[1]), [])

    def _graphql(self, body: Any) -> dict[str, Any]:
        if self.no_graphql:
            return {"data": None, "errors": [{"type": "FORBIDDEN", "message": "not yours"}]}
        asked = body["variables"]
        nodes = self.threads.get(asked["number"], [])
        start = int(asked["after"] or 0)
        end = start + self._page
        threads = {
            "pageInfo": {"hasNextPage": end < len(nodes), "endCursor": str(end)},
            "nodes": nodes[start:end],
        }
        return {"data": {"repository": {"pullRequest": {"reviewThreads": threads}}}}


def _send(handler: BaseHTTPRequestHandler, status: int, body: Any, headers: dict[str, str]) -> None:
    data = json.dumps(body).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)
