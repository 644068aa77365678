"""A review for its readers: text, SARIF 2.1.0, and the form of a GitHub review."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from daydream.canonical import JsonValue
from daydream.review.diff import FileDiff
from daydream.review.records import Item, Verdict

LEVELS: Final = {"high": "error", "medium": "warning", "low": "note"}
SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
TITLES: Final = {
    "per-stack": "Issues",
    "cross-stack": "Cross-stack issues",
    "structural": "Structural review",
}
_UNSAFE: Final = re.compile(rb"[^A-Za-z0-9._~/-]")
GITHUB_LINES: Final = 65_000
"""Characters of one body."""


def as_text(items: Sequence[Item], verdicts: Sequence[Verdict]) -> str:
    """Return the report: findings under their lens, worst first, with the second look."""
    if not items:
        return "No findings.\n"
    opinions = {one.issue_id: one for one in verdicts}
    lines: list[str] = []
    for lens, title in TITLES.items():
        chosen = [item for item in items if item.lens == lens]
        if chosen:
            lines += [f"## {title}", ""]
        for item in chosen:
            lines.append(f"{item.id}. [{item.file}:{item.line}] {item.description}")
            lines.append(f"   {item.severity} severity, {item.confidence} confidence")
            if item.rationale:
                lines.append(f"   Why: {item.rationale}")
            lines.append(f"   Evidence: {item.evidence}")
            seen = opinions.get(item.id)
            if seen is not None:
                lines.append(f"   Second look: {seen.verdict}. {seen.evidence}")
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def as_sarif(items: Sequence[Item], verdicts: Sequence[Verdict], version: str) -> JsonValue:
    """Return the findings as a SARIF 2.1.0 log with one run."""
    opinions = {one.issue_id: one.verdict for one in verdicts}
    rules: list[JsonValue] = [
        {"id": f"daydream/{lens}", "shortDescription": {"text": title}}
        for lens, title in TITLES.items()
    ]
    results: list[JsonValue] = [
        {
            "ruleId": f"daydream/{item.lens}",
            "level": LEVELS[item.severity],
            "message": {"text": f"{item.description}\n\n{item.rationale}".strip()},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": _address(item.file)},
                        "region": {"startLine": max(1, item.line)},
                    }
                }
            ],
            "properties": {
                "confidence": item.confidence,
                "evidence": item.evidence,
                "verdict": opinions.get(item.id),
            },
        }
        for item in items
    ]
    driver: JsonValue = {"name": "daydream", "version": version, "rules": rules}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _address(path: str) -> str:
    """Return a path as a relative reference of RFC 3986."""
    data = path.encode("utf-8", "replace")
    return _UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], data).decode("ascii")


def as_github(
    items: Sequence[Item], verdicts: Sequence[Verdict], files: Sequence[FileDiff], head: str
) -> JsonValue:
    """Return the body of a request that creates a review: comments on lines that the diff shows.

    What lies outside of the difference cannot be commented on and stands in the body.
    """
    spans = {one.path: one.lines for one in files}
    opinions = {one.issue_id: one for one in verdicts}
    comments: list[JsonValue] = []
    rest: list[str] = []
    for item in items:
        text = _comment(item, opinions)
        inside = any(low <= item.line <= high for low, high in spans.get(item.file, ()))
        if inside:
            comments.append({"path": item.file, "line": item.line, "side": "RIGHT", "body": text})
        else:
            rest.append(f"**{item.file}:{item.line}** {text}")
    body = "\n\n".join(rest) or ("See the comments." if comments else "No findings.")
    return {
        "commit_id": head,
        "event": "COMMENT",
        "body": body[:GITHUB_LINES],
        "comments": comments,
    }


def _comment(item: Item, opinions: Mapping[int, Verdict]) -> str:
    seen = opinions.get(item.id)
    second = f"\n\nSecond look: {seen.verdict}." if seen is not None else ""
    why = f"\n\n{item.rationale}" if item.rationale else ""
    return f"{item.description}{why}\n\n`{item.severity}` severity.{second}"[:GITHUB_LINES]
