"""The stub upstream, asked by the vendors' own clients, and the doctor that looks at servers."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from daydream_review_v1.__main__ import main
from daydream_review_v1.dialects import Said, Spoken, ToolUse
from daydream_review_v1.doctor import probes
from daydream_review_v1.fixture import SECOND_SHA, make_fixture
from daydream_review_v1.repository import text
from daydream_review_v1.scripted import answer, mistakes
from daydream_review_v1.stub_upstream import NOTHING, Stub, canned

CALL = ToolUse("read", {"path": "src/a.py"})


def speaking(_: list[Said]) -> Spoken:
    """Say a word and call a tool."""
    return Spoken("Reading.", (CALL,))


@pytest.fixture
def stub() -> Iterator[Stub]:
    """Return a server that says a word and calls a tool."""
    with Stub(speaking) as made:
        yield made


def _openai(stub: Stub) -> openai.OpenAI:
    return openai.OpenAI(base_url=stub.url, api_key="k", max_retries=0)


def test_chat_completions_with_and_without_streaming(stub: Stub) -> None:
    client = _openai(stub)
    asked: list[Any] = [{"role": "user", "content": "Hi"}]
    whole = client.chat.completions.create(model="m", messages=asked)
    message = whole.choices[0].message
    assert whole.choices[0].finish_reason == "tool_calls"
    assert message.tool_calls is not None
    assert json.loads(message.tool_calls[0].function.arguments) == CALL.arguments
    said, arguments = "", ""
    for chunk in client.chat.completions.create(model="m", messages=asked, stream=True):
        for choice in chunk.choices:
            said += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                arguments += (call.function and call.function.arguments) or ""
    assert (said, json.loads(arguments)) == ("Reading.", CALL.arguments)


def test_responses_with_and_without_streaming(stub: Stub) -> None:
    client = _openai(stub)
    whole = client.responses.create(model="m", input="Hi")
    assert whole.output_text == "Reading."
    assert whole.output[1].type == "function_call"
    with client.responses.stream(model="m", input="Hi") as events:
        final = events.get_final_response()
    assert final.output_text == "Reading."
    assert final.output[1].type == "function_call"
    assert json.loads(final.output[1].arguments) == CALL.arguments


def test_messages_with_and_without_streaming(stub: Stub) -> None:
    client = anthropic.Anthropic(base_url=stub.url.removesuffix("/v1"), api_key="k", max_retries=0)
    asked: list[Any] = [{"role": "user", "content": "Hi"}]
    whole = client.messages.create(model="m", max_tokens=9, messages=asked)
    assert [block.type for block in whole.content] == ["text", "tool_use"]
    assert whole.stop_reason == "tool_use"
    with client.messages.stream(model="m", max_tokens=9, messages=asked) as events:
        final = events.get_final_message()
    assert final.content[1].type == "tool_use"
    assert final.content[1].input == CALL.arguments
    counted = client.messages.count_tokens(model="m", messages=asked)
    assert counted.input_tokens > 0


def test_many_clients_are_served_at_a_time() -> None:
    together = threading.Barrier(4, timeout=300)

    def waiting(_: list[Said]) -> Spoken:
        together.wait()
        return Spoken("Met.")

    with Stub(waiting) as stub:
        client = _openai(stub)
        said: list[str | None] = []

        def ask(number: int) -> None:
            asked: list[Any] = [{"role": "user", "content": f"Hi {number}"}]
            whole = client.chat.completions.create(model="m", messages=asked)
            said.append(whole.choices[0].message.content)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert said == ["Met."] * 4


def test_the_canned_mind_finds_nothing_in_the_form_that_is_asked_for() -> None:
    assert canned([]).text == NOTHING
    assert '{"findings": [], "verdicts": []}' in NOTHING


def _diff(place: Path, base: str) -> str:
    return text("diff", base, SECOND_SHA, cwd=place)


def _turn(phase: str, asked: str, *shown: str) -> Spoken:
    talk = [Said("system", f"Review.\ndaydream-phase: {phase}"), Said("user", asked)]
    return answer([*talk, *(Said("tool", one) for one in shown)])


def test_the_scripted_mind_finds_mistakes_by_reading_the_diff(tmp_path: Path) -> None:
    made = make_fixture(tmp_path / "repo")
    diff = _diff(tmp_path / "repo", made.base)
    assert [(one.file, one.line) for one in mistakes(diff)] == [
        ("parcels/rates.py", 19),
        ("parcels/report.py", 6),
    ]
    first = _turn("review-python", diff)
    assert [call.arguments["path"] for call in first.calls] == [
        "parcels/rates.py",
        "parcels/report.py",
    ]
    assert '"parcels/report.py:6: def summary(' in _turn("review-python", diff, "  1 x").text


UNSEEN = """\
--- a/lib/queue.py
+++ b/lib/queue.py
@@ -10,2 +10,7 @@ class Queue:
 x = 1
+def load(jobs, seen={}):
+    for index in range(len(jobs) - 1):
+        seen[index] = jobs[index]
+    return len(seen) / len(jobs)
 y = 2
"""


def test_the_scripted_mind_knows_no_repository() -> None:
    assert [(one.file, one.line) for one in mistakes(UNSEEN)] == [
        ("lib/queue.py", 11),
        ("lib/queue.py", 12),
        ("lib/queue.py", 14),
    ]
    shown = "\n".join(
        f"{number:6} {line}"
        for number, line in enumerate(
            [
                line[1:]
                for line in UNSEEN.splitlines()
                if line.startswith("+") and "+++" not in line
            ],
            start=11,
        )
    )
    edits = _turn("fix-1", '{"file": "lib/queue.py", "line": 11}', shown).calls
    news = "\n".join(edit.arguments["new"] for edit in edits)
    assert "seen=None" in news
    assert "seen = {} if seen is None else seen" in news
    assert "range(len(jobs))" in news
    assert "len(seen) / len(jobs) if jobs else 0.0" in news
    assert _turn("fix-1", '{"file": "lib/queue.py"}', shown, "ok", "ok").text == "Mended."


def test_a_clean_diff_brings_no_finding() -> None:
    clean = UNSEEN.replace("+", " ")
    assert list(mistakes(clean)) == []
    assert '"findings": []' in _turn("review-python", clean).text


@pytest.mark.parametrize("backend", ["chat", "claude", "codex", "pi"])
def test_the_doctor_finds_a_good_server_good(backend: Any) -> None:
    with Stub(canned) as stub:
        found = probes(stub.url, "m", backend, "secret")
    assert [probe for probe in found if not probe.good] == []
    assert {"address", "server", "key", "format", "tools", "streaming"} == {p.name for p in found}


def test_the_doctor_names_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with Stub(canned) as stub:
        root = stub.url.removesuffix("/v1")
        assert main(["doctor", "--base-url", root, "-m", "m", "--backend", "chat"]) == 1
        assert "does not end in /v1" in capsys.readouterr().out
    gone = stub.url
    assert main(["doctor", "--base-url", gone, "-m", "m", "--backend", "chat"]) == 1
    assert "BAD  server" in capsys.readouterr().out
    assert main(["doctor", "--base-url", "nowhere", "-m", "m"]) == 1
