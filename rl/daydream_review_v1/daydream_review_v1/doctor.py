"""Try the server of a policy before rollouts are spent on it.

    python -m daydream_review_v1 doctor --base-url URL -m MODEL [--backend chat] [--key-var NAME]

Asks for a few words, then with a tool, then as a stream, in the wire format of the backend.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from daydream_review_v1.backends import DIALECTS, Backend

ASK: Final = "Answer with one word."
PATHS: Final = {"/messages": "/v1/messages"}
NEEDS_STREAM: Final = frozenset({"claude", "codex", "pi"})


class Probe(NamedTuple):
    """One thing that was tried."""

    name: str
    good: bool
    found: str


def probes(base_url: str, model: str, backend: Backend, key: str) -> list[Probe]:
    """Return what was found, up to the first thing that everything else needs."""
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return [Probe("address", False, f"{base_url!r} (expected http:// or https://)")]
    dialect = DIALECTS[backend]
    root = base_url.rstrip("/")
    url = root.removesuffix("/v1") + PATHS[dialect] if dialect in PATHS else root + dialect
    found = [Probe("address", True, url)]
    if not root.endswith("/v1"):
        found.append(Probe("suffix", False, "the base address does not end in /v1 (keep it)"))
    status, text = _ask(url, _body(dialect, model), key)
    reachable = status != 0
    found.append(Probe("server", reachable, "answers" if reachable else text))
    if not reachable:
        return found
    if status in {401, 403}:
        return [*found, Probe("key", False, f"status {status}: {text[:200]}")]
    found.append(Probe("key", True, "taken"))
    told = _said(dialect, text) if status == 200 else None
    found.append(Probe("format", told is not None, told or f"status {status}: {text[:200]}"))
    if told is None:
        return found
    status, text = _ask(url, _body(dialect, model, tools=True), key)
    good = status == 200 and _said(dialect, text) is not None
    found.append(Probe("tools", good, "taken" if good else f"status {status}: {text[:200]}"))
    status, text = _ask(url, _body(dialect, model, stream=True), key)
    streams = status == 200 and text.lstrip().startswith(("data:", "event:"))
    said = "works" if streams else f"status {status}, no events: {text[:100]}"
    needed = backend in NEEDS_STREAM
    found.append(
        Probe("streaming", streams or not needed, said + ("" if needed else " (not used)"))
    )
    return found


def _body(dialect: str, model: str, *, tools: bool = False, stream: bool = False) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tool: dict[str, Any] = {"name": "read", "description": "Read a file."}
    body: dict[str, Any] = {"model": model}
    if dialect == "/responses":
        body |= {"input": [{"role": "user", "content": ASK}], "max_output_tokens": 64}
        tool |= {"type": "function", "parameters": schema}
    else:
        body |= {"messages": [{"role": "user", "content": ASK}], "max_tokens": 64}
        if dialect == "/messages":
            tool["input_schema"] = schema
        else:
            tool = {"type": "function", "function": {**tool, "parameters": schema}}
    if tools:
        body["tools"] = [tool]
    if stream:
        body["stream"] = True
    return body


def _ask(url: str, body: dict[str, Any], key: str) -> tuple[int, str]:
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    if key:
        headers |= {"authorization": f"Bearer {key}", "x-api-key": key}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return answer.status, answer.read(1 << 20).decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        told = error.read(1 << 16).decode("utf-8", "replace")
        return error.code, told.replace(key, "[key]") if key else told
    except (OSError, ValueError) as error:
        return 0, str(error)


def _said(dialect: str, text: str) -> str | None:
    """Return what an answer is, or None when it has not the form of the dialect."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    wanted = {"/messages": "content", "/responses": "output"}.get(dialect, "choices")
    rows = value.get(wanted) if isinstance(value, dict) else None
    return f"{wanted} with {len(rows)} parts" if isinstance(rows, list) and rows else None


def main(base_url: str, model: str, backend: Backend, key_var: str) -> int:
    """Print what was found; 0 when rollouts can start, 1 when not."""
    found = probes(base_url, model, backend, os.environ.get(key_var, ""))
    for probe in found:
        print(f"{'ok  ' if probe.good else 'BAD '} {probe.name}: {probe.found}")
    if not all(probe.good for probe in found):
        print("doctor: rollouts would fail; mend what is BAD first", file=sys.stderr)
        return 1
    return 0
