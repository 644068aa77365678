"""What is counted of the output of an agent program: the requests that its model server saw."""

import json
from collections.abc import Sequence

import pytest

from daydream.agents.programs.agent import PROGRAMS
from daydream.agents.programs.base import Told, events_of
from daydream.canonical import JsonValue


def _told(name: str, *records: dict[str, JsonValue]) -> Told:
    lines = "\n".join(json.dumps(record) for record in records)
    return PROGRAMS[name].read(list(events_of(lines.encode())))


def _item(kind: str, number: int, *states: str) -> list[dict[str, JsonValue]]:
    return [
        {"type": f"item.{state}", "item": {"id": f"item_{number}", "type": kind, "text": "t"}}
        for state in states
    ]


_TURN: dict[str, JsonValue] = {"type": "turn.started"}
_DONE: dict[str, JsonValue] = {
    "type": "turn.completed",
    "usage": {"input_tokens": 900, "cached_input_tokens": 500, "output_tokens": 70},
}
_AGAIN: dict[str, JsonValue] = {"type": "error", "message": "Reconnecting... 1/5 (stream closed)"}
_FAILED: dict[str, JsonValue] = {"type": "turn.failed", "error": {"message": "no luck"}}
_RUN = ("started", "completed")


@pytest.mark.parametrize(
    ("records", "requests"),
    [
        ([*_item("reasoning", 0, "completed"), *_item("agent_message", 1, "completed")], 1),
        ([*_item("command_execution", 0, *_RUN), *_item("agent_message", 1, "completed")], 2),
        (
            [
                *_item("reasoning", 0, "completed"),
                *_item("agent_message", 1, "completed"),
                *_item("command_execution", 2, *_RUN),
                *_item("file_change", 3, *_RUN),
                *_item("agent_message", 4, "completed"),
            ],
            3,
        ),
        (
            [
                *_item("command_execution", 0, "started"),
                *_item("command_execution", 1, *_RUN),
                *_item("command_execution", 0, "completed"),
                *_item("agent_message", 2, "completed"),
            ],
            2,
        ),
        (
            [
                *_item("todo_list", 0, "started"),
                *_item("command_execution", 1, *_RUN),
                *_item("todo_list", 0, "updated"),
                *_item("agent_message", 2, "completed"),
                *_item("todo_list", 0, "completed"),
            ],
            4,
        ),
        ([*_item("mcp_tool_call", 0, *_RUN)], 2),
        ([_AGAIN, _AGAIN, *_item("agent_message", 0, "completed")], 3),
        ([*_item("agent_message", 0, "completed"), _AGAIN, *_item("reasoning", 1, "completed")], 2),
    ],
)
def test_codex_asks_again_after_each_result_of_a_tool(
    records: Sequence[dict[str, JsonValue]], requests: int
) -> None:
    told = _told("codex", {"type": "thread.started"}, _TURN, *records, _DONE)
    assert told.error == ""
    assert (told.usage.requests, told.usage.input_tokens, told.usage.output_tokens) == (
        requests, 900, 70,
    )  # fmt: skip


def test_requests_of_codex_that_failed_count_and_so_do_those_before_a_kill() -> None:
    assert _told("codex", _TURN, *[_AGAIN] * 5, _FAILED).usage.requests == 6
    assert _told("codex", _TURN, *_item("command_execution", 0, *_RUN)).usage.requests == 1
    assert _told("codex").usage.requests == 0


def _say(text: str) -> dict[str, JsonValue]:
    return {"type": "message", "role": "assistant", "content": text, "delta": True}


def _use(number: int) -> dict[str, JsonValue]:
    return {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": f"t{number}"}


def _back(number: int) -> dict[str, JsonValue]:
    return {"type": "tool_result", "tool_id": f"t{number}", "status": "success", "output": "x"}


def _result(*models: str, status: str = "success", error: str = "") -> dict[str, JsonValue]:
    stats: dict[str, JsonValue] = {
        "total_tokens": 23632, "input_tokens": 22915, "output_tokens": 74, "cached": 8115,
        "models": {model: {"total_tokens": 1} for model in models},
    }  # fmt: skip
    more: dict[str, JsonValue] = {"error": {"type": error, "message": "no luck"}} if error else {}
    return {"type": "result", "status": status, "stats": stats, **more}


@pytest.mark.parametrize(
    ("records", "models", "requests"),
    [
        ([_say("a"), _say("b")], ("m",), 1),
        ([_use(0), _back(0), _say("done")], ("m",), 2),
        ([_say("I look"), _use(0), _use(1), _back(0), _back(1), _say("done")], ("m",), 2),
        ([_use(0), _back(0), _use(1), _back(1), _use(2), _back(2), _say("d")], ("m",), 4),
        ([_use(0), _back(0)], ("m",), 2),
        ([_use(0), _back(0), _say("done")], ("lite", "m"), 3),
        ([], ("m",), 1),
    ],
)
def test_gemini_asks_again_after_the_results_of_its_tools_and_once_to_choose_a_model(
    records: Sequence[dict[str, JsonValue]], models: Sequence[str], requests: int
) -> None:
    user: dict[str, JsonValue] = {"type": "message", "role": "user", "content": "do it"}
    start: dict[str, JsonValue] = {"type": "init", "model": "auto"}
    told = _told("gemini", start, user, *records, _result(*models))
    assert (told.error, told.model) == ("", "auto")
    # What the model thought is paid for and stands in the total alone: 23632 - 22915.
    assert (told.usage.requests, told.usage.input_tokens, told.usage.output_tokens) == (
        requests, 22915, 717,
    )  # fmt: skip


def test_a_request_of_gemini_that_failed_counts_and_one_that_it_never_made_does_not() -> None:
    tools = [_use(0), _back(0)]
    failed = _result("m", status="error", error="Error")
    assert _told("gemini", *tools, failed).usage.requests == 2
    turns = _result("m", status="error", error="FatalTurnLimitedError")
    assert _told("gemini", *tools, turns).usage.requests == 1
    assert _told("gemini", *tools).usage.requests == 1
