"""OpenAI Chat Completions, as spoken by OpenAI, Gemini, OpenRouter, Ollama, vLLM and llama.cpp."""

from collections.abc import Sequence

import msgspec

from daydream.canonical import JsonObject, JsonValue, dumps
from daydream.llm.base import (
    Message,
    Post,
    Reply,
    Request,
    RequestFailed,
    Tool,
    ToolCall,
    at,
    joined_text,
    whole_at,
)
from daydream.store.events import Usage


class OpenAiCompatible(msgspec.Struct, frozen=True):
    """One model of one server."""

    name: str
    model: str
    """The server's name for it."""
    base_url: str
    secret: str = ""
    wire: str = "openai-chat"
    limit_name: str = "max_tokens"
    """What the server calls the limit on the answer."""
    stream: bool = False
    """Have the answer sent as it is made."""

    def __repr__(self) -> str:
        """Name the model without its key."""
        return f"OpenAiCompatible({self.name!r})"

    def answer(self, request: Request, post: Post) -> Reply:
        """Make one request; raises :class:`RequestFailed`."""
        headers = {"Authorization": f"Bearer {self.secret}"} if self.secret else {}
        return decode(post(f"{self.base_url}/chat/completions", headers, self.body(request)))

    def body(self, request: Request) -> JsonObject:
        """Return what is sent: the model, the messages and the parameters that the user set."""
        parameters = {
            self.limit_name if name == "max_tokens" else name: value
            for name, value in request.parameters.items()
        }
        # Calls of tools come in pieces too, which nothing here puts together.
        stream = self.stream and not request.tools
        return {
            "model": self.model,
            "messages": [_turn(one) for one in request.messages],
            **({"tools": [_tool(one) for one in request.tools]} if request.tools else {}),
            **parameters,
            **({"stream": True, "stream_options": {"include_usage": True}} if stream else {}),
        }


def _turn(message: Message) -> JsonObject:
    turn: JsonObject = {"role": message.role, "content": message.text}
    if message.calls:
        calls: list[JsonValue] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
        return {**turn, "content": message.text or None, "tool_calls": calls}
    return {**turn, "tool_call_id": message.call_id} if message.role == "tool" else turn


def _tool(tool: Tool) -> JsonObject:
    fields: dict[str, JsonValue] = {
        name: {"type": "string", "description": what} for name, what in tool.parameters.items()
    }
    schema: JsonObject = {
        "type": "object",
        "properties": fields,
        "required": list(tool.required),
    }
    function: JsonObject = {
        "name": tool.name,
        "description": tool.description,
        "parameters": schema,
    }
    return {"type": "function", "function": function}


def _calls(message: JsonValue) -> tuple[ToolCall, ...]:
    listed = at(message, "tool_calls")
    found: list[ToolCall] = []
    for number, one in enumerate(listed if isinstance(listed, list) else ()):
        name, arguments = at(one, "function", "name"), at(one, "function", "arguments")
        identity = at(one, "id")
        if isinstance(name, str):
            told = arguments if isinstance(arguments, str) else dumps(arguments or {}).decode()
            known = identity if isinstance(identity, str) and identity else f"call-{number}"
            found.append(ToolCall(known, name, told))
    return tuple(found)


def folded(events: Sequence[JsonValue]) -> JsonValue:
    """Return the answer that a stream of events amounts to, in the form of one that came whole.

    Raises :class:`RequestFailed` for a stream that ended before the answer did.
    """
    failure = next((one for one in events if at(one, "error") is not None), None)
    if failure is not None:
        return failure
    choices = [at(one, "choices", 0) for one in events if at(one, "choices", 0) is not None]
    ends = [end for one in choices if isinstance(end := at(one, "finish_reason"), str)]
    if choices and not ends:
        raise RequestFailed("the stream broke off before the answer ended", retry=True)
    pieces = [joined_text(at(one, "delta", "content")) for one in choices]
    usages = [found for one in events if (found := at(one, "usage")) is not None]
    message: JsonObject = {"content": "".join(pieces)}
    whole: JsonObject = {"message": message, "finish_reason": ends[-1] if ends else ""}
    return {
        "choices": [whole] if choices else [],
        "usage": usages[-1] if usages else None,
        "model": at(events[0], "model") if events else None,
    }


def decode(answer: JsonValue) -> Reply:
    """Return the reply in a server's answer; raises :class:`RequestFailed` where there is none."""
    if isinstance(answer, list):
        answer = folded(answer)
    choice = at(answer, "choices", 0)
    if choice is None:
        told = at(answer, "error", "message")
        found = told if isinstance(told, str) else "no choices"
        raise RequestFailed(f"the answer has {found!r} (expected choices)", retry=True)
    sent = whole_at(answer, "usage", "prompt_tokens")
    made = whole_at(answer, "usage", "completion_tokens")
    cost = at(answer, "usage", "cost")
    model, finish = at(answer, "model"), at(choice, "finish_reason")
    return Reply(
        text=joined_text(at(choice, "message", "content")),
        usage=Usage(
            1, sent or 0, made or 0, float(cost) if isinstance(cost, int | float) else None
        ),
        model=model if isinstance(model, str) else "",
        finish=finish if isinstance(finish, str) else "",
        counted=sent is not None and made is not None,
        calls=_calls(at(choice, "message")),
    )
