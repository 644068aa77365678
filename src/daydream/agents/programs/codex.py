"""Codex: ``codex exec --json``, which counts tokens a turn and states no cost.

A turn asks the model again after every result of a tool. Those requests are not numbered in its
output; they are counted by what the model said and started between two results.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from daydream.agents.programs.base import Facts, Told, sum_at, text_at
from daydream.canonical import JsonValue
from daydream.llm.base import at
from daydream.store.events import Usage

_WORDS: Final = frozenset({"agent_message", "reasoning", "web_search"})
_TOOLS: Final = frozenset({"command_execution", "file_change", "mcp_tool_call", "collab_tool_call"})


class Codex(msgspec.Struct, frozen=True):
    """The program ``codex``."""

    facts: Facts = Facts(
        name="codex",
        title="Codex",
        install="npm install -g @openai/codex",
        login="run codex login, or set CODEX_API_KEY",
        keys=("CODEX_API_KEY", "OPENAI_API_KEY"),
        variables=("OPENAI_BASE_URL",),
        secrets=(".codex/auth.json",),
        settings=(".codex/config.toml",),
        refused=r"401 Unauthorized|not logged in|please run .?codex login|invalid_api_key"
        r"|incorrect api key|refresh token",
    )

    def arguments(self, model: str, *, shell: bool) -> tuple[str, ...]:
        """Return its arguments; around our sandbox its own would fail, and is switched off."""
        guard = (
            ("--dangerously-bypass-approvals-and-sandbox",) if shell else ("-s", "workspace-write")
        )
        named = ("-m", model) if model else ()
        return ("exec", "--json", "--skip-git-repo-check", *guard, *named, "-")

    def read(self, events: Sequence[JsonValue]) -> Told:
        """Return what its events amount to."""
        turns = [event for event in events if at(event, "type") == "turn.completed"]
        failures = [event for event in events if at(event, "type") == "turn.failed"]
        notes = [event for event in events if at(event, "type") == "error"]
        said = [
            text_at(event, "item", "text")
            for event in events
            if at(event, "type") == "item.completed"
            and at(event, "item", "type") == "agent_message"
        ]
        error = ""
        if failures:
            error = text_at(failures[-1], "error", "message") or "its turn failed"
        elif not turns:
            last = text_at(notes[-1], "message") if notes else ""
            error = last or "its output broke off before the end of a turn"
        usages = [at(event, "usage") for event in turns]
        return Told(
            text=said[-1] if said else "",
            error=error,
            usage=Usage(
                _requests(events),
                sum(sum_at(usage, "input_tokens") for usage in usages),
                sum(sum_at(usage, "output_tokens") for usage in usages),
            ),
            counted=any(usage is not None for usage in usages),
        )


def _requests(events: Sequence[JsonValue]) -> int:
    """Return how many requests to the model the events tell of, those that failed included."""
    count = 0
    waiting = False
    started: set[str] = set()
    for event in events:
        kind, item = text_at(event, "type"), text_at(event, "item", "type")
        retried = kind == "error" and text_at(event, "message").startswith("Reconnecting")
        called, returned = item in _WORDS, False
        if item == "todo_list":
            # The plan is a tool that returns at once; its item ends with the turn.
            called = returned = kind != "item.completed"
        elif item in _TOOLS:
            called = text_at(event, "item", "id") not in started
            started.add(text_at(event, "item", "id"))
            returned = kind == "item.completed"
        if waiting and (called or retried or kind in {"turn.completed", "turn.failed"}):
            count += 1
            waiting = False
        waiting = waiting or returned or retried or kind == "turn.started"
    return count
