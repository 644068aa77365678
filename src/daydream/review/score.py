"""The trajectory score: one function for the online reward and for annotating a corpus.

Two versions, stamped into every result. The first reads what the run archived about itself:

    credit    = mean over the axes present of correctness (0.6) and grounding (0.4), renormalised
    composite = clip(credit - 0.2 * clip((length - 2000) / 8000, 0, 1), 0, 1), rounded to 4 places

Correctness is the mean over verdicts of consistent 1, uncertain 0.5, anything else 0; grounding the
share of findings whose files were read. An axis that is not there stays missing; with none there is
no composite. A file that is no JSON where JSON has to be makes it 0 (the format gate).

The strict version trusts the run with less: verdicts count for the items that they name, once each,
and an item without one counts 0, also where the file of verdicts is missing; grounding is
recomputed from the tool calls in the trajectory; a review that found nothing is told apart from a
run that crashed.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from daydream.canonical import JsonValue
from daydream.objective import mean
from daydream.review.grounding import grounding_of

REWARD_VERSION: Final = "daydream-2026.12-1"
STRICT_VERSION: Final = "daydream-2026.12-2-strict"
WEIGHTS: Final = {"correctness": 0.6, "grounding": 0.4}
WORTH: Final = {"consistent": 1.0, "uncertain": 0.5, "contradicts": 0.0}
LENGTH_FREE: Final = 2_000
LENGTH_SPAN: Final = 8_000
LENGTH_WEIGHT: Final = 0.2
VERDICTS: Final = "deep/recommendation-verdicts.json"
ITEMS: Final = "deep/merged-items.json"
MAX_BYTES: Final = 64 << 20
"""Largest file of an archive that is read."""

State = Literal["scored", "empty", "crashed"]


class Signals(msgspec.Struct, frozen=True):
    """What the score of a run is made of."""

    verdicts: Sequence[JsonValue] | None = None
    """The list of the verdicts file; None without one."""
    grounding_rate: float | None = None
    """In [0, 1]; None where there is nothing to ground."""
    format_valid: bool = True
    length: int | None = None
    """Characters of the review; None without one."""


class Score(msgspec.Struct, frozen=True):
    """A composite with everything that it came from."""

    composite: float | None
    """In [0, 1]; None without a credit axis."""
    correctness: float | None
    grounding: float | None
    format_valid: bool
    length_penalty: float | None
    reward_version: str
    state: State = "scored"
    """``empty``: the review ended and found nothing. ``crashed``: it did not end."""


def score(signals: Signals, *, version: str = REWARD_VERSION) -> Score:
    """Return the score of ``signals``."""
    right = None if not signals.verdicts else mean([_worth(one) for one in signals.verdicts])
    grounded = _share(signals.grounding_rate)
    length = None if signals.length is None else _ramp(signals.length)
    axes = {"correctness": right, "grounding": grounded}
    present = {name: value for name, value in axes.items() if value is not None}
    composite: float | None = None
    if not signals.format_valid:
        composite = 0.0
    elif present:
        total = sum(WEIGHTS[name] for name in present)
        credit = sum(WEIGHTS[name] * value for name, value in present.items()) / total
        composite = round(min(1.0, max(0.0, credit - LENGTH_WEIGHT * (length or 0.0))), 4)
    return Score(
        composite=composite,
        correctness=right,
        grounding=grounded,
        format_valid=signals.format_valid,
        length_penalty=None if length is None else LENGTH_WEIGHT * length,
        reward_version=version,
    )


def _worth(verdict: JsonValue) -> float:
    word = verdict.get("verdict") if isinstance(verdict, Mapping) else None
    return WORTH.get(word, 0.0) if isinstance(word, str) else 0.0


def _share(value: float | None) -> float | None:
    if value is None or not 0.0 <= value <= 1.0:
        return None
    return float(value)


def _ramp(length: int) -> float:
    return min(1.0, max(0.0, (length - LENGTH_FREE) / LENGTH_SPAN))


def breakdown(found: Score) -> dict[str, JsonValue]:
    """Return a score as the reward's record shows it."""
    return {
        "correctness_per_finding": found.correctness,
        "grounding": found.grounding,
        "format_valid": found.format_valid,
        "length_penalty": found.length_penalty,
        "composite": found.composite,
        "axes_present": {
            "correctness": found.correctness is not None,
            "grounding": found.grounding is not None,
            "length": found.length_penalty is not None,
        },
        "reward_version": found.reward_version,
        "state": found.state,
    }


def read_signals(run: Path) -> Signals:
    """Return the signals of the archived run in folder ``run``; what is missing stays missing."""
    manifest = _read(run / "manifest.json")
    metrics = manifest.get("metrics") if isinstance(manifest, Mapping) else None
    rate = metrics.get("grounding_rate") if isinstance(metrics, Mapping) else None
    verdicts = _read(run / VERDICTS)
    rows = verdicts.get("verdicts") if isinstance(verdicts, Mapping) else None
    return Signals(
        verdicts=rows if isinstance(rows, list) else None,
        grounding_rate=float(rate) if type(rate) in (int, float) else None,  # type: ignore[arg-type]
        format_valid=_format_valid(run),
        length=_length(run),
    )


def score_strict(run: Path) -> Score:
    """Return the strict score of the archived run in folder ``run``.

    A run whose trajectory has no final metrics did not end: it is ``crashed`` and scores 0. A run
    that ended without items is ``empty`` and has no composite.
    """
    given = read_signals(run)
    ended = _ended(run)
    items = _rows(_read(run / ITEMS), "items")
    if not ended or items is None:
        return msgspec.structs.replace(
            score(Signals(length=given.length), version=STRICT_VERSION),
            composite=0.0,
            state="crashed",
        )
    known = [item["id"] for item in items if type(item.get("id")) is int]
    if not known:
        found = score(
            Signals(format_valid=given.format_valid, length=given.length), version=STRICT_VERSION
        )
        return msgspec.structs.replace(found, state="empty")
    first: dict[int, JsonValue] = {}
    for verdict in given.verdicts or ():
        number = verdict.get("issue_id") if isinstance(verdict, Mapping) else None
        if type(number) is int:
            first.setdefault(number, verdict)
    joined: list[JsonValue] = [first.get(number) for number in known if type(number) is int]
    return score(
        Signals(
            verdicts=joined,
            grounding_rate=grounding_of(run),
            format_valid=given.format_valid and len(set(known)) == len(known),
            length=given.length,
        ),
        version=STRICT_VERSION,
    )


def _rows(value: JsonValue, key: str) -> list[Mapping[str, JsonValue]] | None:
    rows = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(rows, list):
        return None
    return [row for row in rows if isinstance(row, Mapping)]


def _ended(run: Path) -> bool:
    trajectory = _read(run / "trajectory.json")
    return isinstance(trajectory, Mapping) and bool(trajectory.get("final_metrics"))


def _length(run: Path) -> int | None:
    for name in ("review-output.md", "deep/review-output.md"):
        text = _text(run / name)
        if text is not None:
            return len(text)
    return None


def _format_valid(run: Path) -> bool:
    files = [run / VERDICTS, *sorted((run / "deep").glob("stack-*-records.json"))]
    return all(_read(path) is not None for path in files if path.is_file())


def _text(path: Path) -> str | None:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None


def _read(path: Path) -> JsonValue:
    text = _text(path)
    if text is None:
        return None
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value
