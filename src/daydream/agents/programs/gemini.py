"""Gemini CLI: ``gemini --output-format stream-json``, whose last record has the token counts."""

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
        said: list[str] = []
        answers = 0
        before = ""
        for event in events:
            kind = text_at(event, "type")
            if kind == "message" and at(event, "role") == "assistant":
                # An answer comes in pieces, one event each, with nothing else between them.
                if before != "assistant":
                    said.append("")
                    answers += 1
                said[-1] += text_at(event, "content")
                before = "assistant"
            else:
                before = kind
        result = next((one for one in reversed(events) if at(one, "type") == "result"), None)
        stats = at(result, "stats")
        error = ""
        if result is None:
            error = "its output broke off without a result"
        elif at(result, "status") != "success":
            error = text_at(result, "error", "message") or "it ended without success"
        start = next((one for one in events if at(one, "type") == "init"), None)
        return Told(
            text=said[-1] if said else "",
            error=error,
            usage=Usage(answers, sum_at(stats, "input_tokens"), sum_at(stats, "output_tokens")),
            counted=at(stats, "input_tokens") is not None,
            model=text_at(start, "model"),
        )
