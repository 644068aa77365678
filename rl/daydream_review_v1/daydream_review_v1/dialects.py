"""Three wire formats of model servers, as a server speaks them: requests in, answers out.

Chat Completions, Responses and Anthropic Messages, each as one JSON object or as a stream of
server-sent events.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

Role = Literal["system", "user", "assistant", "tool"]


class Said(NamedTuple):
    """One message of a conversation, whatever its format."""

    role: Role
    text: str


class ToolUse(NamedTuple):
    """One call of a tool that an answer asks for."""

    name: str
    arguments: dict[str, Any]


class Spoken(NamedTuple):
    """One answer: a text, or calls of tools."""

    text: str = ""
    calls: tuple[ToolUse, ...] = ()


class Counts(NamedTuple):
    """Tokens, roughly: a quarter of the characters."""

    given: int
    made: int


Event = tuple[str, Any]


def dialect_of(path: str) -> str:
    """Return the format that a path means; everything unknown is Chat Completions."""
    plain = path.partition("?")[0].rstrip("/")
    return next((name for name in ("messages", "responses") if plain.endswith(name)), "chat")


def conversation(body: Mapping[str, Any]) -> list[Said]:
    """Return the messages of a request in any of the formats."""
    found = [
        Said("system", _plain(body[key])) for key in ("system", "instructions") if body.get(key)
    ]
    given = body.get("messages") or body.get("input") or []
    if isinstance(given, str):
        return [*found, Said("user", given)]
    for item in given:
        found += _said(item)
    return found


def _said(item: Mapping[str, Any]) -> Iterator[Said]:
    kind, role = item.get("type"), item.get("role")
    if kind == "function_call_output" or role == "tool":
        yield Said("tool", _plain(item.get("output", item.get("content"))))
    elif kind == "function_call":
        yield Said("assistant", "")
    elif role in {"system", "developer"}:
        yield Said("system", _plain(item.get("content")))
    else:
        content = item.get("content")
        blocks = content if isinstance(content, list) else []
        results = [block for block in blocks if block.get("type") == "tool_result"]
        for block in results:
            yield Said("tool", _plain(block.get("content")))
        if not results:
            yield Said("assistant" if role == "assistant" else "user", _plain(content))


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return "\n".join(
            str(block.get("text", "")) for block in value if isinstance(block, Mapping)
        )
    return ""


def encode(dialect: str, model: str, spoken: Spoken, counts: Counts) -> dict[str, Any]:
    """Return an answer as one JSON object."""
    makers = {"messages": _message, "responses": _response, "chat": _completion}
    return makers[dialect](model, spoken, counts)


def stream(dialect: str, model: str, spoken: Spoken, counts: Counts) -> Iterator[bytes]:
    """Yield an answer as server-sent events."""
    makers = {"messages": _message_events, "responses": _response_events, "chat": _chunks}
    for name, data in makers[dialect](model, spoken, counts):
        text = data if isinstance(data, str) else json.dumps(data)
        head = f"event: {name}\n" if name else ""
        yield f"{head}data: {text}\n\n".encode()


def _completion(model: str, spoken: Spoken, counts: Counts) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": spoken.text or None}
    if spoken.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for number, call in enumerate(spoken.calls)
        ]
    else:
        message["content"] = spoken.text
    return {
        "id": "chatcmpl-stub",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(spoken)}],
        "usage": _chat_usage(counts),
    }


def _finish(spoken: Spoken) -> str:
    return "tool_calls" if spoken.calls else "stop"


def _chat_usage(counts: Counts) -> dict[str, int]:
    return {
        "prompt_tokens": counts.given,
        "completion_tokens": counts.made,
        "total_tokens": counts.given + counts.made,
    }


def _chunks(model: str, spoken: Spoken, counts: Counts) -> Iterator[Event]:
    whole = _completion(model, spoken, counts)
    message = whole["choices"][0]["message"]
    head = {key: whole[key] for key in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"

    def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return "", {**head, "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    if spoken.text:
        yield chunk({"content": spoken.text})
    for number, call in enumerate(message.get("tool_calls", ())):
        yield chunk({"tool_calls": [{"index": number, **call}]})
    yield chunk({}, _finish(spoken))
    yield "", {**head, "choices": [], "usage": whole["usage"]}
    yield "", "[DONE]"


def _message(model: str, spoken: Spoken, counts: Counts) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if spoken.text or not spoken.calls:
        content.append({"type": "text", "text": spoken.text})
    content += [
        {"type": "tool_use", "id": f"toolu_{number}", "name": call.name, "input": call.arguments}
        for number, call in enumerate(spoken.calls)
    ]
    return {
        "id": "msg_stub",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if spoken.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": counts.given, "output_tokens": counts.made},
    }


def _message_events(model: str, spoken: Spoken, counts: Counts) -> Iterator[Event]:
    whole = _message(model, spoken, counts)
    begun = {**whole, "content": [], "stop_reason": None}
    yield "message_start", {"type": "message_start", "message": begun}
    for number, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        place = {"index": number}
        yield (
            "content_block_start",
            {"type": "content_block_start", **place, "content_block": empty},
        )
        yield "content_block_delta", {"type": "content_block_delta", **place, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", **place}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    used = {"output_tokens": counts.made}
    yield "message_delta", {"type": "message_delta", "delta": ended, "usage": used}
    yield "message_stop", {"type": "message_stop"}


def _items(spoken: Spoken) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if spoken.text or not spoken.calls:
        part = {"type": "output_text", "text": spoken.text, "annotations": []}
        items.append(
            {
                "type": "message",
                "id": "msg_stub",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    items += [
        {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": call.name,
            "arguments": json.dumps(call.arguments),
            "status": "completed",
        }
        for number, call in enumerate(spoken.calls)
    ]
    return items


USAGE_DETAILS: Final = {
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


def _response(model: str, spoken: Spoken, counts: Counts) -> dict[str, Any]:
    return {
        "id": "resp_stub",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": model,
        "output": _items(spoken),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": counts.given,
            "output_tokens": counts.made,
            "total_tokens": counts.given + counts.made,
            **USAGE_DETAILS,
        },
    }


def _response_events(model: str, spoken: Spoken, counts: Counts) -> Iterator[Event]:
    whole = _response(model, spoken, counts)
    numbers = iter(range(10_000))

    def event(kind: str, **values: Any) -> Event:
        return kind, {"type": kind, "sequence_number": next(numbers), **values}

    yield event("response.created", response={**whole, "status": "in_progress", "output": []})
    for place, item in enumerate(whole["output"]):
        where = {"output_index": place, "item_id": item["id"]}
        if item["type"] == "message":
            part = item["content"][0]
            begun = {**item, "status": "in_progress", "content": []}
            yield event("response.output_item.added", output_index=place, item=begun)
            at = {**where, "content_index": 0}
            yield event("response.content_part.added", **at, part={**part, "text": ""})
            yield event("response.output_text.delta", **at, delta=part["text"], logprobs=[])
            yield event("response.output_text.done", **at, text=part["text"], logprobs=[])
            yield event("response.content_part.done", **at, part=part)
        else:
            begun = {**item, "status": "in_progress", "arguments": ""}
            yield event("response.output_item.added", output_index=place, item=begun)
            told = item["arguments"]
            yield event("response.function_call_arguments.delta", **where, delta=told)
            yield event(
                "response.function_call_arguments.done", **where, name=item["name"], arguments=told
            )
        yield event("response.output_item.done", output_index=place, item=item)
    yield event("response.completed", response=whole)
