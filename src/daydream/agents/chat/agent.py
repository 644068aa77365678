"""A language model as a discovery agent: ``chat:MODEL`` or ``chat:KEY=VALUE,...:MODEL``.

Each attempt asks one question about the parent's files and takes the answer apart. An answer that
cannot be used gets one repair call with the reason; a second one makes a failed node that keeps
both reasons. Nothing that a model wrote is executed here.

Keys: ``edit`` (auto, whole, blocks, diff, evolve), ``stream`` (on, off); ``temperature``,
``top_p``, ``max_tokens``, ``seed``, all sent only when given; ``timeout``, ``deadline`` and
``backoff`` in seconds, ``tries``, ``parallel``.
"""

import re
from typing import Final, Literal

import msgspec

from daydream.agents.base import AttemptContext, Proposal
from daydream.agents.chat.answers import EditFailed, Parsed, parse
from daydream.agents.chat.edits import apply
from daydream.agents.chat.prompt import (
    FORMS,
    described_form,
    first_messages,
    form_for,
    repair_messages,
)
from daydream.canonical import JsonObject, JsonValue, clean_text
from daydream.errors import AgentError, UsageError
from daydream.llm.anthropic import Anthropic
from daydream.llm.base import ChatModel, Message, Reply, Request
from daydream.llm.client import Line, Terms
from daydream.llm.models import load_model
from daydream.llm.openai_compatible import OpenAiCompatible
from daydream.prompting import prompt
from daydream.tasks.base import Artifact, TaskInfo

_PARAMETERS: Final = {"temperature": float, "top_p": float, "max_tokens": int, "seed": int}
_TERMS: Final = {
    "timeout": "timeout_s",
    "deadline": "deadline_s",
    "backoff": "backoff_s",
    "tries": "tries",
    "parallel": "parallel",
}
KEYS: Final = ("edit", "stream", *_PARAMETERS, *_TERMS)
_OPTION: Final = rf"(?:{'|'.join(KEYS)})=[^,:\s]+"
_OPTIONS: Final = re.compile(rf"({_OPTION}(?:,{_OPTION})*):(.*)", re.DOTALL)
_LIKE_OPTIONS: Final = re.compile(r"([a-z_]+)=[^:/]*:")


class UnusableAnswer(AgentError):  # noqa: N818 - the error class that its node shows
    """A model answered twice and neither answer could be made into files."""


class ChatAgent(msgspec.Struct, frozen=True):
    """Asks one model for every attempt; serves several threads."""

    name: str
    chat: ChatModel
    edit: str = "auto"
    parameters: dict[str, float | int] = {}
    terms: Terms = Terms()
    where: Literal["inline", "process"] = "inline"
    deterministic: bool = False
    states_cost: bool = False

    @property
    def model(self) -> str:
        """The model string."""
        return self.chat.name

    def propose(self, context: AttemptContext) -> Proposal:
        """Refuse: a model is asked over a run's line, which keeps to its budget."""
        raise AgentError(f"agent {self.name} needs a run (expected to be asked over its line)")

    def preflight(self, line: Line) -> None:
        """Ask one tiny question; raises :class:`daydream.errors.ModelError` without an answer."""
        request = Request((Message("user", prompt("preflight")),), self.parameters)
        line.ask(self.chat, request, self.terms, fresh=True)

    def propose_over(self, context: AttemptContext, line: Line) -> Proposal:
        """Return one child of ``context.parent``.

        Raises :class:`daydream.errors.ModelError` when the model brings no answer,
        :class:`UnusableAnswer` when its answers cannot be used.
        """
        form = form_for(context.parent, self.edit)
        messages = first_messages(context, form)
        reply = self._ask(messages, context, line)
        notes: dict[str, JsonValue] = {"model": reply.model or self.model, "form": form}
        try:
            return self._proposal(reply, context, form, notes)
        except EditFailed as error:
            reason = str(error)
        notes["first_answer"] = clean_text(reason, 2_000)
        again = repair_messages(
            messages, reply.text, reason + _cut(reply), described_form(context.parent, form)
        )
        repaired = self._ask(again, context, line)
        try:
            return self._proposal(repaired, context, form, notes)
        except EditFailed as error:
            raise UnusableAnswer(
                f"the answer of {self.model} could not be used: {reason}{_cut(reply)}; the answer "
                f"to the repair call neither: {error}{_cut(repaired)}"
            ) from None

    def request_of(self, context: AttemptContext) -> Request:
        """Return the first question of an attempt, as an estimate needs it."""
        form = form_for(context.parent, self.edit)
        return Request(first_messages(context, form), self.parameters, context.attempt_seed)

    def _ask(self, messages: tuple[Message, ...], context: AttemptContext, line: Line) -> Reply:
        request = Request(messages, self.parameters, context.attempt_seed)
        return line.ask(self.chat, request, self.terms)

    def _proposal(
        self, reply: Reply, context: AttemptContext, form: str, notes: JsonObject
    ) -> Proposal:
        parsed: Parsed = parse(reply.text)
        files = apply(parsed, context.parent.files, evolve_only=form == "evolve")
        return Proposal(
            artifact=Artifact(files),
            rationale=clean_text(parsed.prose, 2_000),
            notes={**notes, "cached": reply.cached, "finish": reply.finish},
        )


def _cut(reply: Reply) -> str:
    return " (the answer ended at its limit)" if reply.finish in {"length", "max_tokens"} else ""


def build(options: str, task: TaskInfo) -> ChatAgent:
    """Return the agent ``chat:OPTIONS``, which serves every task; raises as :func:`chat` does."""
    del task
    return chat(options)


def chat(options: str) -> ChatAgent:
    """Return the agent ``chat:OPTIONS``.

    Raises :class:`UsageError` for an unknown key, a value out of range or an unknown model, and
    :class:`EnvironmentMissing` when the model's key is not set.
    """
    match = _OPTIONS.fullmatch(options)
    settings, model = (match[1], match[2]) if match else ("", options)
    odd = _LIKE_OPTIONS.match(options)
    if match is None and odd is not None:
        raise UsageError(
            f"agent chat: cannot read {options!r} (expected KEY=VALUE,...:MODEL with the keys "
            f"{', '.join(KEYS)})"
        )
    if not model:
        raise UsageError("agent chat has no model (expected such as chat:openai/gpt-5-mini)")
    values = dict(part.split("=", 1) for part in settings.split(",") if part)
    edit = values.get("edit", "auto")
    if edit not in {"auto", *FORMS}:
        raise UsageError(f"agent chat: edit={edit} (expected auto, {', '.join(FORMS)})")
    parameters = {
        key: _number(key, values[key], kind) for key, kind in _PARAMETERS.items() if key in values
    }
    terms = {
        field: _number(key, values[key], int if key in {"tries", "parallel"} else float)
        for key, field in _TERMS.items()
        if key in values
    }
    try:
        patience = msgspec.convert(terms, Terms)
    except msgspec.ValidationError as error:
        raise UsageError(f"agent chat: {settings!r}: {error}; correct it") from None
    stream = values.get("stream", "off")
    if stream not in {"on", "off"}:
        raise UsageError(f"agent chat: stream={stream} (expected on or off)")
    asked = load_model(model)
    if stream == "on" and isinstance(asked, OpenAiCompatible | Anthropic):
        asked = msgspec.structs.replace(asked, stream=True)
    return ChatAgent(f"chat:{options}", asked, edit, parameters, patience)


def _number(key: str, text: str, kind: type[int] | type[float]) -> float | int:
    try:
        value = kind(text)
    except ValueError:
        value = -1
    least = 0.0 if key in _PARAMETERS or key == "backoff" else 1e-9
    if not least <= value < 1e12:
        what = "whole number" if kind is int else "number"
        bound = "from 0 up" if least == 0.0 else "from 1 up" if kind is int else "above 0"
        raise UsageError(f"agent chat: {key}={text!r} (expected a {what} {bound})")
    return value
