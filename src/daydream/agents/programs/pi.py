"""pi: ``pi --mode json``, which tells of each answer of its model what it counted and cost."""

from collections.abc import Sequence

import msgspec

from daydream.agents.programs.base import Facts, Told, cost_at, sum_at, text_at
from daydream.canonical import JsonValue
from daydream.llm.base import at, joined_text
from daydream.store.events import Usage


class Pi(msgspec.Struct, frozen=True):
    """The program ``pi``."""

    facts: Facts = Facts(
        name="pi",
        title="pi",
        install="npm install -g @earendil-works/pi-coding-agent",
        login="start pi once and use /login, or set the key of your provider",
        keys=(
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_OAUTH_TOKEN",
            "DEEPSEEK_API_KEY",
            "GEMINI_API_KEY",
            "GROQ_API_KEY",
            "MISTRAL_API_KEY",
            "OPENAI_API_KEY",
            "OPENROUTER_API_KEY",
            "XAI_API_KEY",
        ),
        secrets=(".pi/agent/auth.json", ".pi/agent/models.json"),
        settings=(".pi/agent/settings.json",),
        quiet={"PI_TELEMETRY": "0", "PI_OFFLINE": "1"},
        states_cost=True,
        refused=r"no api key found|use /login|401|invalid.{0,20}api.key|unauthorized",
    )

    def arguments(self, model: str, *, shell: bool) -> tuple[str, ...]:
        """Return its arguments; it asks nobody for leave, so without a sandbox it has no shell."""
        tools = () if shell else ("--tools", "read,edit,write,grep,find,ls")
        named = ("--model", model) if model else ()
        return ("--mode", "json", "-p", "--no-session", *tools, *named)

    def read(self, events: Sequence[JsonValue]) -> Told:
        """Return what its events amount to."""
        answers = [
            at(event, "message")
            for event in events
            if at(event, "type") == "message_end" and at(event, "message", "role") == "assistant"
        ]
        total = Usage()
        for answer in answers:
            usage = at(answer, "usage")
            sent = sum_at(usage, "input", "cacheRead", "cacheWrite")
            made = sum_at(usage, "output")
            total += Usage(1, sent, made, cost_at(usage, "cost", "total", tokens=sent + made))
        last = answers[-1] if answers else None
        error = ""
        if at(last, "stopReason") in {"error", "aborted"}:
            error = text_at(last, "errorMessage") or "its model brought no answer"
        elif not any(at(event, "type") == "agent_end" for event in events):
            error = "its output broke off before the end"
        return Told(
            text=joined_text(at(last, "content")),
            error=error,
            usage=total,
            counted=any(at(answer, "usage") is not None for answer in answers),
            model=text_at(last, "model"),
        )
