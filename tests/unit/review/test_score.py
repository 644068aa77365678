"""The trajectory score: golden vectors, the missing axis, and what the strict version closes."""

import json
from pathlib import Path

import pytest

from daydream.canonical import JsonValue
from daydream.review.score import (
    REWARD_VERSION,
    STRICT_VERSION,
    Signals,
    breakdown,
    read_signals,
    score,
    score_strict,
)

C, U, X = "consistent", "uncertain", "contradicts"
VECTORS: list[tuple[list[str] | None, float | None, bool, int | None, float | None]] = [
    ([C], 1.0, True, 66, 1.0),
    ([C], 1.0, True, 2_000, 1.0),
    ([C], 1.0, True, 6_000, 0.9),
    ([C], 1.0, True, 10_000, 0.8),
    ([C], 1.0, True, 99_999, 0.8),
    ([U], 0.5, True, None, 0.5),
    ([X], 0.0, True, 10_000, 0.0),
    ([C, U, X], 0.25, True, 1_234, 0.4),
    ([C, C, X], 0.6667, True, 4_000, 0.6167),
    ([], 0.5, True, 0, 0.5),
    (None, None, True, 0, None),
    ([C], None, True, 0, 1.0),
    ([C], 1.0, False, 0, 0.0),
    (["bogus"], 1.0, True, 0, 0.4),
]


@pytest.mark.parametrize(("verdicts", "grounding", "valid", "length", "composite"), VECTORS)
def test_the_score_is_what_it_was(
    verdicts: list[str] | None,
    grounding: float | None,
    valid: bool,
    length: int | None,
    composite: float | None,
) -> None:
    rows: list[JsonValue] | None = (
        None if verdicts is None else [{"issue_id": 1, "verdict": word} for word in verdicts]
    )
    found = score(Signals(rows, grounding, valid, length))
    assert found.composite == composite
    assert found.reward_version == REWARD_VERSION == "daydream-2026.12-1"
    assert breakdown(found)["axes_present"] == {
        "correctness": bool(verdicts),
        "grounding": grounding is not None,
        "length": length is not None,
    }


@pytest.mark.parametrize(
    "row", ["consistent", None, 3, ["consistent"], {"verdict": ["consistent"]}]
)
def test_a_verdict_that_is_no_verdict_counts_nothing(row: JsonValue) -> None:
    assert score(Signals([row], None, True, 0)).composite == 0.0


@pytest.mark.parametrize("rate", [float("nan"), -0.1, 1.1, float("inf")])
def test_a_grounding_out_of_range_is_missing(rate: float) -> None:
    assert score(Signals(None, rate, True, 0)).composite is None


def _archived(
    path: Path,
    items: list[dict[str, JsonValue]],
    verdicts: list[dict[str, JsonValue]],
    *,
    reads: tuple[str, ...] = ("a.py",),
    ended: bool = True,
) -> Path:
    def put(name: str, value: object) -> None:
        place = path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(value))

    put("manifest.json", {"metrics": {"grounding_rate": 1.0}})
    put("trajectory.json", {"final_metrics": {"total_steps": 1} if ended else None})
    put("deep/merged-items.json", {"items": items})
    put("deep/recommendation-verdicts.json", {"verdicts": verdicts})
    records = [{key: item[key] for key in ("file", "rationale")} for item in items]
    put("deep/stack-python-records.json", records)
    calls = [{"function_name": "read", "arguments": {"path": read}} for read in reads]
    put("trajectories/review-python.json", {"steps": [{"source": "agent", "tool_calls": calls}]})
    (path / "review-output.md").write_text("short\n")
    return path


def _item(number: int, file: str = "a.py", rationale: str = "") -> dict[str, JsonValue]:
    return {"id": number, "file": file, "rationale": rationale}


def _verdict(number: int, word: str = C) -> dict[str, JsonValue]:
    return {"issue_id": number, "verdict": word}


def test_one_good_verdict_does_not_carry_the_items_that_nobody_looked_at(tmp_path: Path) -> None:
    run = _archived(tmp_path, [_item(1), _item(2), _item(3)], [_verdict(1)])
    assert score(read_signals(run)).composite == 1.0
    strict = score_strict(run)
    assert strict.reward_version == STRICT_VERSION
    assert strict.correctness == pytest.approx(1 / 3)
    assert strict.composite == pytest.approx(0.6 / 3 + 0.4)


def test_items_without_any_verdicts_count_nothing(tmp_path: Path) -> None:
    run = _archived(tmp_path, [_item(1)], [])
    (run / "deep" / "recommendation-verdicts.json").unlink()
    assert score(read_signals(run)).composite == 1.0
    assert (score_strict(run).correctness, score_strict(run).composite) == (0.0, 0.4)


def test_doubled_and_foreign_verdicts_add_nothing(tmp_path: Path) -> None:
    run = _archived(tmp_path, [_item(1)], [_verdict(1, X), _verdict(1), _verdict(9), _verdict(8)])
    assert score(read_signals(run)).correctness == 0.75
    assert score_strict(run).correctness == 0.0


def test_grounding_is_recomputed_and_not_believed(tmp_path: Path) -> None:
    items = [_item(1), _item(2, "b.py"), _item(3, "a.py", "breaks c.py too")]
    run = _archived(tmp_path, items, [_verdict(1), _verdict(2), _verdict(3)])
    assert score(read_signals(run)).grounding == 1.0
    assert score_strict(run).grounding == 0.3333


def test_nothing_found_is_told_apart_from_a_crash(tmp_path: Path) -> None:
    empty = score_strict(_archived(tmp_path / "empty", [], []))
    crashed = score_strict(_archived(tmp_path / "crashed", [], [], ended=False))
    assert (empty.state, empty.composite) == ("empty", None)
    assert (crashed.state, crashed.composite) == ("crashed", 0.0)
    assert score_strict(tmp_path / "nothing").state == "crashed"


def test_files_that_are_no_json_close_the_format_gate(tmp_path: Path) -> None:
    run = _archived(tmp_path, [_item(1)], [_verdict(1)])
    (run / "deep" / "stack-web-records.json").write_text("[{")
    assert score(read_signals(run)).composite == 0.0
    assert score_strict(run).composite == 0.0


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path) -> None:
    run = _archived(tmp_path / "run", [_item(1)], [_verdict(1)])
    secret = tmp_path / "secret.json"
    secret.write_text('{"verdicts": [{"issue_id": 1, "verdict": "consistent"}]}')
    (run / "deep" / "recommendation-verdicts.json").unlink()
    (run / "deep" / "recommendation-verdicts.json").symlink_to(secret)
    assert read_signals(run).verdicts is None
