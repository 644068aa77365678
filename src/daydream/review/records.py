"""What a review says, as records: read strictly from what models wrote, written as canonical JSON.

Owns the formats of the ``deep`` folder of an archive. Reading never trusts: a wrong type is an
error that names the field, a text is cut to its limit.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast

import msgspec

from daydream.canonical import JsonValue, clean_text

Confidence = Literal["HIGH", "MEDIUM", "LOW"]
Severity = Literal["high", "medium", "low"]
Lens = Literal["per-stack", "cross-stack", "structural"]
Opinion = Literal["consistent", "contradicts", "uncertain"]

TEXT: Final = 4_000
"""Characters of one text field."""
MOST: Final = 200
"""Records of one reviewer."""
_BLOCK: Final = re.compile(r"^```[a-z]*\s*\n(.*?)\n```", re.MULTILINE | re.DOTALL)


class Malformed(ValueError):  # noqa: N818 - goes back to the model as the reason
    """An answer holds no records of the form that was asked for."""


class Record(msgspec.Struct, frozen=True):
    """One finding of one reviewer."""

    description: str
    file: str
    line: int
    confidence: Confidence
    rationale: str
    evidence: str
    severity: Severity = "medium"


class Item(msgspec.Struct, frozen=True):
    """One finding of the merged review."""

    id: int
    """From 1."""
    description: str
    file: str
    line: int
    confidence: Confidence
    rationale: str
    evidence: str
    lens: Lens
    severity: Severity


class Verdict(msgspec.Struct, frozen=True):
    """What a second look says of one item."""

    issue_id: int
    verdict: Opinion
    evidence: str
    unverified_assumptions: tuple[str, ...] = ()


class TestVerdict(msgspec.Struct, frozen=True):
    """How the repository's own tests ended, by the exit status that the host saw."""

    passed: bool
    retries: int
    exit: int | None
    command: str
    tail: str = ""
    """The end of what they printed."""


def json_in(answer: str) -> JsonValue:
    """Return the JSON value in ``answer``: in its last fenced block, or the text itself.

    Raises :class:`Malformed` where there is none.
    """
    blocks = _BLOCK.findall(answer)
    for text in [*reversed(blocks), answer]:
        try:
            return cast("JsonValue", json.loads(text))
        except (ValueError, RecursionError):
            continue
    starts = [place for place in (answer.find("{"), answer.find("[")) if place >= 0]
    if starts:
        try:
            value, _ = json.JSONDecoder().raw_decode(answer[min(starts) :])
        except (ValueError, RecursionError):
            pass
        else:
            return cast("JsonValue", value)
    raise Malformed("the answer holds no JSON (expected one fenced block of it)")


def read_records(answer: str) -> list[Record]:
    """Return the findings in a reviewer's answer: ``{"findings": [...]}`` or the list itself."""
    value = json_in(answer)
    rows = value.get("findings") if isinstance(value, Mapping) else value
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise Malformed('the JSON has no list "findings" (expected {"findings": [...]})')
    return [_record(number, row) for number, row in enumerate(rows[:MOST], 1)]


def _record(number: int, row: JsonValue) -> Record:
    if not isinstance(row, Mapping):
        raise Malformed(f"finding {number} is {row!r:.80} (expected an object)")
    confidence = str(row.get("confidence", "MEDIUM")).upper()
    severity = str(row.get("severity", "medium")).lower()
    line = row.get("line", 0)
    if type(line) is not int or line < 0:
        raise Malformed(f"finding {number}: line is {line!r:.40} (expected a whole number)")
    if confidence not in ("HIGH", "MEDIUM", "LOW") or severity not in ("high", "medium", "low"):
        raise Malformed(
            f"finding {number}: confidence {confidence!r:.20}, severity {severity!r:.20} (expected "
            "HIGH, MEDIUM or LOW, and high, medium or low)"
        )
    texts = {key: row.get(key, "") for key in ("description", "file", "rationale", "evidence")}
    odd = [key for key, text in texts.items() if not isinstance(text, str)]
    if odd or not str(texts["description"]).strip() or not str(texts["file"]).strip():
        raise Malformed(
            f"finding {number}: {odd[0] if odd else 'description or file'} is missing or no text"
        )
    return Record(
        description=clean_text(str(texts["description"]), TEXT),
        file=plain_path(str(texts["file"])),
        line=line,
        confidence=cast("Confidence", confidence),
        rationale=clean_text(str(texts["rationale"]), TEXT),
        evidence=clean_text(str(texts["evidence"]), TEXT),
        severity=cast("Severity", severity),
    )


def plain_path(path: str) -> str:
    """Return a path as the diff names it: without ``./``, ``a/`` and a line number behind it."""
    found = re.sub(r":\d+(-\d+)?$", "", path.strip().strip("`"))
    return found.removeprefix("./")


def read_verdicts(answer: str, known: Sequence[int]) -> list[Verdict]:
    """Return the verdicts in an answer, at most one for each of ``known``; others are dropped."""
    value = json_in(answer)
    rows = value.get("verdicts") if isinstance(value, Mapping) else value
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise Malformed('the JSON has no list "verdicts" (expected {"verdicts": [...]})')
    found: dict[int, Verdict] = {}
    for row in rows:
        number = row.get("issue_id") if isinstance(row, Mapping) else None
        if not isinstance(row, Mapping) or type(number) is not int:
            raise Malformed(f"a verdict is {row!r:.80} (expected an object with issue_id)")
        opinion = row.get("verdict")
        if opinion not in ("consistent", "contradicts", "uncertain"):
            raise Malformed(
                f"the verdict of {number} is {opinion!r:.40} (expected consistent, contradicts or "
                "uncertain)"
            )
        assumed = row.get("unverified_assumptions", [])
        listed = assumed if isinstance(assumed, Sequence) and not isinstance(assumed, str) else []
        if number in known and number not in found:
            found[number] = Verdict(
                issue_id=number,
                verdict=opinion,
                evidence=clean_text(str(row.get("evidence", "")), TEXT),
                unverified_assumptions=tuple(clean_text(str(one), 500) for one in listed[:20]),
            )
    return [found[number] for number in sorted(found)]
