"""Gemini CLI: ``gemini --output-format stream-json``, whose last record has the token counts.

Its output numbers no requests. Those of the conversation are counted by what the model said and
called between two results of tools; each further model that the last record names was asked once,
to choose the first.
"""

from collections.abc import Sequence

import msgspec

from daydream.agents.programs.base import Facts, Told, sum_at, text_at
from daydream.canonical import JsonValue
from daydream.llm.base import at
from daydream.store.events import Usage


class Gemini(msgspec.Struct, frozen=True):
    """The program ``gemini``."""

    facts: Facts = Facts(
        name="gemini",
        title="Gemini CLI",
        install="npm install -g @google/gemini-cli",
        login="start gemini once and log in, or set GEMINI_API_KEY",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        variables=(
            "GOOGLE_CLOUD_LOCATION",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_GEMINI_BASE_URL",
            "GOOGLE_GENAI_USE_GCA",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ),
        secrets=(".gemini/oauth_creds.json",),
        settings=(".gemini/settings.json", ".gemini/google_accounts.json"),
        refused=r"please set an auth method|api key not valid|API_KEY_INVALID|UNAUTHENTICATED",
        unauthorised=(41,),
        meanings={
            42: "it could not use its input",
            44: "its own sandbox could not start",
            52: "its settings are wrong",
            53: "it reached its limit of turns",
        },
    )

    def arguments(self, model: str, *, shell: bool) -> tuple[str, ...]:
        """Return its arguments; without a terminal it takes the prompt from standard input."""
        mode = "yolo" if shell else "auto_edit"
        named = ("-m", model) if model else ()
        return ("--output-format", "stream-json", "--skip-trust", "--approval-mode", mode, *named)

    def read(self, events: Sequence[JsonValue]) -> Told:
        """Return what its events amount to."""
        said, answers, waiting = _conversation(events)
        result = next((one for one in reversed(events) if at(one, "type") == "result"), None)
        stats = at(result, "stats")
        # What it calls output leaves out what the model thought, which is paid for alike.
        sent, total = sum_at(stats, "input_tokens"), sum_at(stats, "total_tokens")
        made = max(sum_at(stats, "output_tokens"), total - sent)
        models = at(stats, "models")
        answers += max(0, len(models) - 1) if isinstance(models, dict) else 0
        error = ""
        if result is None:
            error = "its output broke off without a result"
        elif at(result, "status") != "success":
            error = text_at(result, "error", "message") or "it ended without success"
        own = text_at(result, "error", "type").startswith("Fatal")
        if result is not None and waiting and not own:
            answers += 1
        start = next((one for one in events if at(one, "type") == "init"), None)
        return Told(
            text=said[-1] if said else "",
            error=error,
            usage=Usage(answers, sent, made),
            counted=at(stats, "input_tokens") is not None,
            model=text_at(start, "model"),
        )


def _conversation(events: Sequence[JsonValue]) -> tuple[list[str], int, bool]:
    """Return the texts of the answers, how many there were, and whether one was still to come."""
    said: list[str] = []
    answers = 0
    waiting, speaking = True, False
    for event in events:
        kind = text_at(event, "type")
        speaks = kind == "message" and at(event, "role") == "assistant"
        if waiting and (speaks or kind == "tool_use"):
            answers += 1
            waiting = False
        if speaks:
            # A text comes in pieces, one event each, with nothing else between them.
            if not speaking:
                said.append("")
            said[-1] += text_at(event, "content")
        speaking = speaks
        waiting = waiting or kind == "tool_result"
    return said, answers, waiting
