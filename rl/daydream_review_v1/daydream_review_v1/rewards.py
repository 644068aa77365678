"""The rewards as functions of a kept run. The trajectory score is the product's own."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from daydream.review.score import WEIGHTS, breakdown, read_signals, score, score_strict
from daydream_review_v1.archive import Run

ITEMS: Final = "deep/merged-items.json"
WORD: Final = re.compile(r"[A-Za-z]{4,}")
SHARE_SAID: Final = 0.8
"""Words of a finding that the policy has to have said for the finding to be its own."""


class Intrinsic(msgspec.Struct, frozen=True):
    """The value of the trajectory reward before its weight, and what it came from."""

    value: float
    breakdown: dict[str, Any]


def intrinsic(run: Run, said: Sequence[str], *, strict: bool) -> Intrinsic:
    """Return the trajectory reward of ``run``, given what the policy was captured saying.

    A guard can only lower it: with ``strict`` the lower of both versions counts, and a run with a
    finding that no captured answer holds is worth 0.
    """
    if run.problem:
        return Intrinsic(0.0, {"error": run.problem})
    seed = score(read_signals(run.folder))
    found = score_strict(run.folder)
    own = captured_share(run, said)
    value = seed.composite or 0.0
    if strict:
        value = min(value, found.composite or 0.0)
        if found.state == "scored" and found.correctness is None:
            # Findings that were never verified: the axis is there and worth nothing.
            value = min(value, WEIGHTS["grounding"] * (found.grounding or 0.0))
    if own < 1.0:
        value = 0.0
    told = {**breakdown(seed), "strict": breakdown(found), "findings_captured": own}
    return Intrinsic(value, {**told, "value": value})


def captured_share(run: Run, said: Sequence[str]) -> float:
    """Return the share of findings whose words the policy said; 1 without findings."""
    rows = run.rows(ITEMS, "items")
    if not rows:
        return 1.0
    known = {word.casefold() for text in said for word in WORD.findall(_plain(text))}
    own = 0
    for row in rows:
        words = {word.casefold() for word in WORD.findall(str(row.get("description", "")))}
        own += bool(words) and len(words & known) >= SHARE_SAID * len(words)
    return own / len(rows)


def _plain(text: str) -> str:
    """Return ``text`` with the escapes of JSON taken back, beside itself."""
    try:
        return f"{text} {json.loads(chr(34) + text.replace(chr(34), ' ') + chr(34), strict=False)}"
    except ValueError:
        return text.replace("\\n", " ").replace("\\t", " ")


def claimed(run: Run) -> bool | None:
    """Return whether the run says that the tests passed; None when it says nothing."""
    value = run.json("deep/test-verdict.json") if not run.problem else None
    passed = value.get("passed") if isinstance(value, dict) else None
    return passed if isinstance(passed, bool) else None


def shape(run: Run, golden: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return how many findings there are, and the share of reference comments on their files."""
    rows = [] if run.problem else run.rows(ITEMS, "items")
    files = {row.get("file") for row in rows}
    placed = [comment["path"] for comment in golden if comment.get("path")]
    met = sum(path in files for path in placed)
    return {
        "n_findings": float(len(rows)),
        "n_golden_comments": float(len(placed)),
        "golden_overlap": met / len(placed) if placed else 0.0,
    }
