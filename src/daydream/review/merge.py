"""The host's own part between reviewers and report: sweep, merge, doubles, the evidence gate.

Nothing here asks a model. A finding is dropped only for a reason that is kept with it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from daydream.review.diff import FileDiff
from daydream.review.records import Item, Lens, Record

ALIKE: Final = 0.5
"""Share of common pairs of letters from which two findings of one place are one."""
NEAR: Final = 3
"""Lines between two findings of one place."""
RANK: Final = {"high": 2, "medium": 1, "low": 0, "HIGH": 2, "MEDIUM": 1, "LOW": 0}
EMPTY: Final = re.compile(r"\W*(n/?a|none|todo|tbd|unknown|see above|\.\.\.)?\W*", re.IGNORECASE)
PLACE: Final = re.compile(r"[\w./-]+:\d+")


class Dropped(msgspec.Struct, frozen=True):
    """A finding that is not reported, and why."""

    source: str
    record: Record
    reason: str


class Merged(msgspec.Struct, frozen=True):
    """The outcome of a merge."""

    items: tuple[Item, ...]
    dropped: tuple[Dropped, ...]


def merge(found: Mapping[str, Sequence[Record]], files: Sequence[FileDiff]) -> Merged:
    """Return the findings of all reviewers as one list; ``found`` maps a reviewer to its records.

    Worst first, then by file and line; numbered from 1. Doubles keep the surer one.
    """
    known = {one.path for one in files}
    kept: list[tuple[str, Record, set[str]]] = []
    dropped: list[Dropped] = []
    for source in sorted(found, key=lambda name: (name == "structure", name)):
        for record in found[source]:
            reason = _unfit(record, known)
            if reason:
                dropped.append(Dropped(source, record, reason))
                continue
            twin = next((n for n, (_, old, _) in enumerate(kept) if _same(old, record)), None)
            if twin is None:
                kept.append((source, record, {source}))
                continue
            first, old, sources = kept[twin]
            better = record if _sure(record) > _sure(old) else old
            kept[twin] = (first, better, sources | {source})
            dropped.append(Dropped(source, record, "the same as another finding"))
    ordered = sorted(kept, key=lambda one: (-RANK[one[1].severity], one[1].file, one[1].line))
    items = [
        _item(number, source, record, sources)
        for number, (source, record, sources) in enumerate(ordered, 1)
    ]
    return Merged(tuple(items), tuple(dropped))


def _item(number: int, source: str, record: Record, sources: set[str]) -> Item:
    lens: Lens = "per-stack"
    if source == "structure":
        lens = "structural"
    elif len({name.partition("-")[0] for name in sources - {"structure"}}) > 1:
        lens = "cross-stack"
    return Item(
        id=number,
        description=record.description,
        file=record.file,
        line=record.line,
        confidence=record.confidence,
        rationale=record.rationale,
        evidence=record.evidence,
        lens=lens,
        severity=record.severity,
    )


def _unfit(record: Record, known: set[str]) -> str:
    """The evidence gate: why a finding is not reported; empty where it is."""
    if record.confidence == "LOW":
        return "low confidence"
    if EMPTY.fullmatch(record.evidence):
        return "no evidence"
    if record.line < 1 and not PLACE.search(record.evidence):
        return "no line is cited"
    if record.file not in known and not any(path in record.evidence for path in known):
        return "neither the file nor the evidence is part of the change"
    return ""


def _sure(record: Record) -> tuple[int, int, int]:
    return RANK[record.confidence], RANK[record.severity], len(record.evidence)


def _same(one: Record, other: Record) -> bool:
    if one.file != other.file:
        return False
    near = abs(one.line - other.line) <= NEAR
    alike = _alike(one.description, other.description)
    return alike >= ALIKE if near else alike >= 0.9 and one.line == other.line


def _alike(one: str, other: str) -> float:
    """Jaccard index of the pairs of letters of two texts."""
    left, right = _pairs(one), _pairs(other)
    union = left | right
    return len(left & right) / len(union) if union else 1.0


def _pairs(text: str) -> set[str]:
    plain = re.sub(r"\W+", " ", text.lower()).strip()
    return {plain[n : n + 2] for n in range(len(plain) - 1)}
