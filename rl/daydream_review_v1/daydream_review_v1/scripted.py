"""A reviewer without a model: it reads the diff that it is sent, and knows three mistakes.

A division by the length of what may be empty, a default that all calls share, and a loop that
leaves out the last item. It knows nothing of any repository: findings come from added lines of a
diff, repairs from the file as a tool showed it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from daydream_review_v1.dialects import Said, Spoken, ToolUse

PHASE: Final = re.compile(r"^daydream-phase: ([\w.-]+)", re.MULTILINE)
TARGET: Final = re.compile(r"^\+\+\+ b/(.+?)\s*$")
HUNK: Final = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")
NUMBERED: Final = re.compile(r"^ *(\d+) (.*)$")
PLACE: Final = re.compile(r"([\w./-]+\.\w+):(\d+)")
ID: Final = re.compile(r'"(?:id|issue_id)":\s*(\d+)')
FILE: Final = re.compile(r'"file":\s*"([^"]+)"')
DIVISION: Final = re.compile(r"^(\s*)return (.+ / len\((\w+)\))\s*$")
SHARED: Final = re.compile(r"^(\s*)def \w+\(.*\b(\w+)=(\[\]|\{\}).*\):\s*$")
SHORT: Final = re.compile(r"\brange\(len\((\w+)\) - 1\)")


class Mistake(NamedTuple):
    """One thing that a line does wrong."""

    file: str
    line: int
    what: str
    evidence: str


def answer(said: Sequence[Said]) -> Spoken:
    """Return the next turn of a conversation."""
    system = "\n".join(one.text for one in said if one.role == "system")
    found = PHASE.search(system)
    phase = found[1] if found else ""
    asked = "\n".join(one.text for one in said if one.role == "user")
    shown = [one.text for one in said if one.role == "tool"]
    if phase.startswith("fix") or phase == "heal":
        return _mend(asked, shown)
    if phase.startswith("verify"):
        return _verify(asked, shown)
    if phase == "intent":
        return Spoken("The change adds a function and its test.")
    return _review(asked, shown)


def mistakes(diff: str) -> Iterator[Mistake]:
    """Yield the mistakes on added lines of a diff."""
    file, number = "", 0
    for line in diff.splitlines():
        target, hunk = TARGET.match(line), HUNK.match(line)
        if target:
            file = target[1]
        elif hunk:
            number = int(hunk[1])
        elif line.startswith("+"):
            what = wrong(line[1:])
            if what and file:
                yield Mistake(file, number, what, line[1:].strip())
            number += 1
        elif line.startswith(" ") or not line:
            number += 1


def wrong(line: str) -> str:
    """Return what is wrong with a line; empty when nothing is known to be."""
    division, shared, short = DIVISION.match(line), SHARED.match(line), SHORT.search(line)
    if division:
        return f"Division by the length of {division[3]}, which is zero when it is empty"
    if shared:
        return f"The default of {shared[2]} is made once and shared by all calls"
    if short:
        return f"The loop leaves out the last item of {short[1]}"
    return ""


def mended(lines: Sequence[str], index: int) -> tuple[str, str] | None:
    """Return a text of ``lines`` at ``index`` and what to put there, or None."""
    line = lines[index]
    division, shared, short = DIVISION.match(line), SHARED.match(line), SHORT.search(line)
    if division:
        return line, f"{division[1]}return {division[2]} if {division[3]} else 0.0"
    if short:
        return line, line.replace(short[0], f"range(len({short[1]}))")
    if shared:
        indent, name, empty = shared.groups()
        old = [line]
        if index + 1 < len(lines) and lines[index + 1].count('"""') == 2:
            old.append(lines[index + 1])
        new = [line.replace(f"{name}={empty}", f"{name}=None"), *old[1:]]
        new.append(f"{indent}    {name} = {empty} if {name} is None else {name}")
        return "\n".join(old), "\n".join(new)
    return None


def _fenced(value: object) -> Spoken:
    return Spoken(f"```json\n{json.dumps(value, indent=1)}\n```")


def _reads(files: Sequence[str]) -> Spoken:
    return Spoken("", tuple(ToolUse("read", {"path": file}) for file in dict.fromkeys(files)))


def _review(asked: str, shown: Sequence[str]) -> Spoken:
    found = list(mistakes(asked))
    if found and not shown:
        return _reads([one.file for one in found])
    rows = [
        {
            "description": f"{one.what}.",
            "file": one.file,
            "line": one.line,
            "confidence": "HIGH",
            "rationale": f"Line {one.line} has no guard.",
            "evidence": f"{one.file}:{one.line}: {one.evidence}",
            "severity": "high",
        }
        for one in found
    ]
    return _fenced({"findings": rows})


def _verify(asked: str, shown: Sequence[str]) -> Spoken:
    files = FILE.findall(asked) or [place for place, _ in PLACE.findall(asked)]
    if files and not shown:
        return _reads(files)
    rows = [
        {
            "issue_id": number,
            "verdict": "consistent",
            "evidence": "The line is as described.",
            "unverified_assumptions": [],
        }
        for number in sorted({int(found) for found in ID.findall(asked)})
    ]
    return _fenced({"verdicts": rows})


def _mend(asked: str, shown: Sequence[str]) -> Spoken:
    files = list(dict.fromkeys(FILE.findall(asked) or [place for place, _ in PLACE.findall(asked)]))
    if not shown:
        return _reads(files) if files else Spoken("There is nothing to be mended.")
    if len(shown) > len(files):
        return Spoken("Mended.")
    edits = []
    for file, text in zip(files, shown, strict=False):
        rows = [NUMBERED.match(line) for line in text.splitlines()]
        lines = [row[2] for row in rows if row]
        for index, line in enumerate(lines):
            change = mended(lines, index) if wrong(line) else None
            if change:
                edits.append(ToolUse("edit", {"path": file, "old": change[0], "new": change[1]}))
    return Spoken("", tuple(edits)) if edits else Spoken("There is nothing to be mended.")
