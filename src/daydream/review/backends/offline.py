"""``mock:`` for reviews: a model without a model, that reads the difference it is sent.

It knows a handful of slips that show in one added line of Python, and how to mend each. Weak on
purpose, and honest: it reports nothing that it does not see, reads a file before it edits it, and
says in a second look whether the line is still there. Equal questions get equal answers.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from daydream.canonical import JsonValue
from daydream.llm.base import MOCK, Message, Post, Reply, Request, ToolCall
from daydream.store.events import Usage

_PHASE: Final = re.compile(r"^daydream-phase: (\S+)", re.MULTILINE)
_HUNK: Final = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)")
_ITEM: Final = re.compile(r"^(\d+)\. (\S+):(\d+) \((?:high|medium|low)\)\n(.*?)\nWhy: ", re.M)
_NUMBERED: Final = re.compile(r"^ *\d+ ", re.MULTILINE)


class Slip(NamedTuple):
    """One slip: how it looks, what it does, how it is mended."""

    pattern: re.Pattern[str]
    what: str
    severity: str
    mend: Callable[[str], str]


SLIPS: Final = (
    Slip(
        re.compile(r"[=!]= None\b"),
        "compares with None by equality, which a class can answer as it likes",
        "low",
        lambda line: line.replace("== None", "is None").replace("!= None", "is not None"),
    ),
    Slip(
        re.compile(r"^\s*except\s*:"),
        "catches everything, exits and interrupts included",
        "medium",
        lambda line: re.sub(r"except\s*:", "except Exception:", line),
    ),
    Slip(
        re.compile(r"^\s*assert \(.+,\s*[\"'].*[\"']\s*\)\s*$"),
        "asserts a pair, which is always true, so it checks nothing",
        "high",
        lambda line: re.sub(r"assert \((.+),(\s*[\"'].*[\"'])\s*\)\s*$", r"assert \1,\2", line),
    ),
    Slip(
        re.compile(r"\bis (not )?([\"'][^\"']*[\"']|-?\d+)"),
        "compares the identity of a value, which depends on the interpreter",
        "medium",
        lambda line: re.sub(
            r"\bis (not )?([\"'][^\"']*[\"']|-?\d+)",
            lambda m: f"{'!=' if m[1] else '=='} {m[2]}",
            line,
        ),
    ),
    Slip(
        re.compile(r"return sum\((\w+)\) / len\(\1\)\s*$"),
        "divides by the length of what may be empty",
        "high",
        lambda line: re.sub(
            r"return sum\((\w+)\) / len\(\1\)\s*$", r"return sum(\1) / len(\1) if \1 else 0.0", line
        ),
    ),
    Slip(
        re.compile(r"^\s*def \w+\(.*=\s*(\[\]|\{\})\s*[,)]"),
        "shares one mutable default between all calls",
        "medium",
        lambda line: line,
    ),
)


class OfflineReviewer(msgspec.Struct, frozen=True):
    """Answers from the question alone."""

    name: str = MOCK
    wire: str = "mock"
    secret: str = ""

    def answer(self, request: Request, post: Post) -> Reply:
        """Return the answer of the phase that the system message names."""
        del post
        system = request.messages[0].text
        found = _PHASE.search(system)
        phase = found[1] if found else ""
        text, calls = _answer(phase, request.messages)
        usage = Usage(1, request.characters // 4, max(1, len(text) // 4))
        return Reply(text=text, usage=usage, model=MOCK, finish="stop", calls=calls)


def _answer(phase: str, messages: tuple[Message, ...]) -> tuple[str, tuple[ToolCall, ...]]:
    user = messages[1].text
    last = messages[-1]
    if phase == "intent":
        count = user.count("diff --git ")
        return f"The change touches {count} files. Callers have to keep working.", ()
    if phase.startswith(("review-", "sweep-")):
        return _fenced({"findings": list(_findings(user))}), ()
    if phase == "structure":
        return _fenced({"findings": []}), ()
    if phase.startswith("verify"):
        return _verify(user, messages)
    if phase.startswith("fix"):
        return _fix(user, messages, last)
    return "There is nothing that I can mend here.", ()


def _findings(user: str) -> Iterator[JsonValue]:
    file, number = "", 0
    for line in user.splitlines():
        hunk = _HUNK.match(line)
        if line.startswith("+++ b/"):
            file = line[6:].strip()
        elif hunk is not None:
            number = int(hunk[1]) - 1
        elif line.startswith("+") and file.endswith(".py"):
            number += 1
            for slip in SLIPS:
                if slip.pattern.search(line[1:]):
                    yield {
                        "description": f"This line {slip.what}.",
                        "file": file,
                        "line": number,
                        "confidence": "HIGH",
                        "severity": slip.severity,
                        "rationale": f"{file} has it in an added line.",
                        "evidence": f"{file}:{number} {line[1:].strip()}",
                    }
        elif not line.startswith("-"):
            number += 1


def _verify(user: str, messages: tuple[Message, ...]) -> tuple[str, tuple[ToolCall, ...]]:
    items = [(int(m[1]), m[2], int(m[3])) for m in _ITEM.finditer(user)]
    seen = [one for one in messages if one.role == "tool"]
    if not seen and items:
        calls = tuple(
            _call(f"look-{number}", "read", path=file, start=str(line), end=str(line))
            for number, file, line in items
        )
        return "", calls
    verdicts: list[JsonValue] = []
    for (number, file, line), answer in zip(items, seen, strict=False):
        holds = any(slip.pattern.search(_NUMBERED.sub("", answer.text, count=1)) for slip in SLIPS)
        verdicts.append(
            {
                "issue_id": number,
                "verdict": "consistent" if holds else "contradicts",
                "evidence": f"{file}:{line}",
                "unverified_assumptions": [],
            }
        )
    return _fenced({"verdicts": verdicts}), ()


def _fix(
    user: str, messages: tuple[Message, ...], last: Message
) -> tuple[str, tuple[ToolCall, ...]]:
    items = [(m[2], int(m[3])) for m in _ITEM.finditer(user)]
    if not items or last.text.startswith("wrote "):
        return "I changed the lines that were named.", ()
    path = items[0][0]
    if last.role != "tool":
        return "", (_call("read-1", "read", path=path),)
    shown = [_NUMBERED.sub("", line, count=1) for line in last.text.splitlines()]
    if last.text.startswith("error:") or any(line > len(shown) for _, line in items):
        return "I could not read the file, and leave it as it is.", ()
    changed = list(shown)
    for _, line in items:
        for slip in SLIPS:
            if slip.pattern.search(changed[line - 1]):
                changed[line - 1] = slip.mend(changed[line - 1])
    if changed == shown:
        return "I know no safe way to mend this.", ()
    return "", (_call("write-1", "write", path=path, content="\n".join(changed) + "\n"),)


def _call(identity: str, name: str, **arguments: str) -> ToolCall:
    return ToolCall(identity, name, json.dumps(arguments))


def _fenced(value: JsonValue) -> str:
    return f"```json\n{json.dumps(value, indent=1)}\n```"
