"""Claude Code: ``claude -p --output-format stream-json``, whose last record says what it cost."""

from collections.abc import Sequence

import msgspec

from daydream.agents.programs.base import Facts, Told, cost_at, sum_at, text_at
from daydream.canonical import JsonValue
from daydream.llm.base import at, joined_text
from daydream.store.events import Usage

_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class Claude(msgspec.Struct, frozen=True):
    """The program ``claude``."""

    facts: Facts = Facts(
        name="claude",
        title="Claude Code",
        install="npm install -g @anthropic-ai/claude-code",
        login="start claude once and log in, or set ANTHROPIC_API_KEY",
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        variables=("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"),
        secrets=(".claude/.credentials.json",),
        settings=(".claude/settings.json",),
        quiet={"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        states_cost=True,
        refused=r"not logged in|please run /login|invalid api key|authentication_failed"
        r"|OAuth token has expired|authentication_error",
    )

    def arguments(self, model: str, *, shell: bool) -> tuple[str, ...]:
        """Return its arguments."""
        mode = "bypassPermissions" if shell else "acceptEdits"
        named = ("--model", model) if model else ()
        return ("-p", "--output-format", "stream-json", "--verbose", "--permission-mode", mode,
                *named)  # fmt: skip

    def read(self, events: Sequence[JsonValue]) -> Told:
        """Return what its events amount to; of a broken off stream, what its messages add up to."""
        said = [event for event in events if at(event, "type") == "assistant"]
        messages = {text_at(event, "message", "id"): at(event, "message") for event in said}
        real = [one for one in messages.values() if at(one, "model") != "<synthetic>"]
        texts = [joined_text(at(event, "message", "content")) for event in said]
        model = next((text_at(one, "model") for one in real), "")
        result = next((one for one in reversed(events) if at(one, "type") == "result"), None)
        if result is None:
            usages = [at(one, "usage") for one in real]
            sent = sum(sum_at(usage, *_INPUT) for usage in usages)
            made = sum(sum_at(usage, "output_tokens") for usage in usages)
            return Told(
                text=next((text for text in reversed(texts) if text), ""),
                error="its output broke off without a result",
                usage=Usage(len(real), sent, made),
                counted=bool(real),
                model=model,
            )
        sent = sum_at(at(result, "usage"), *_INPUT)
        made = sum_at(at(result, "usage"), "output_tokens")
        text, kind = text_at(result, "result"), text_at(result, "subtype")
        failed = at(result, "is_error") is not False or kind != "success"
        why = next((text_at(one, "error") for one in reversed(said) if at(one, "error")), "")
        return Told(
            text="" if failed else text,
            error=": ".join(filter(None, (why, text or kind))) if failed else "",
            usage=Usage(len(real), sent, made, cost_at(result, "total_cost_usd", tokens=sent)),
            counted=at(result, "usage") is not None,
            model=model,
        )
