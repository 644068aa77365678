"""Archived reviews become episodes with the strict score of their run."""

import json
from pathlib import Path

import pytest

from daydream.errors import StoreError
from daydream.weights.corpus_selection import BuildSettings, select
from daydream.weights.import_reviews import harvest_review, is_review


def _archive(folder: Path, *, verdict: str = "consistent", ended: bool = True) -> Path:
    """Write a review as ``daydream review`` archives it: one finding, one verdict."""
    (folder / "deep").mkdir(parents=True)
    (folder / "trajectories").mkdir()
    agent = {"name": "daydream", "version": "1", "model_name": "mock:"}
    read = {"tool_call_id": "c1", "function_name": "read", "arguments": {"path": "a.py"}}
    steps = [
        {"step_id": 1, "source": "system", "message": "Review."},
        {"step_id": 2, "source": "user", "message": "The diff."},
        {
            "step_id": 3,
            "source": "agent",
            "message": "",
            "tool_calls": [read],
            "observation": {"results": [{"source_call_id": "c1", "content": "x = 1"}]},
        },
        {
            "step_id": 4,
            "source": "agent",
            "message": "One finding.",
            "model_name": "mock:",
            "metrics": {"prompt_tokens": 10, "completion_tokens": 3},
        },
    ]
    copied = [*steps[:3], {**steps[3], "is_copied_context": True}]
    record = {"id": 1, "description": "d", "file": "a.py", "line": 1, "rationale": "see a.py"}
    files: dict[str, object] = {
        "manifest.json": {"schema_version": "1.0", "status": "complete"},
        "trajectory.json": {
            "session_id": "s1",
            "agent": agent,
            "steps": [{**one, "extra": {"daydream_phase": "review-python"}} for one in steps],
            "final_metrics": {"total_steps": 4} if ended else None,
        },
        "trajectories/review-python.json": {"session_id": "s1", "agent": agent, "steps": steps},
        "trajectories/verify.json": {"session_id": "s1", "agent": agent, "steps": copied},
        "deep/stack-python-records.json": [record],
        "deep/merged-items.json": {"items": [record]},
        "deep/recommendation-verdicts.json": {"verdicts": [{"issue_id": 1, "verdict": verdict}]},
    }
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value))
    (folder / "diff.patch").write_text("--- a.py\n+++ a.py\n")
    (folder / "review-output.md").write_text("One finding.")
    return folder


def test_each_conversation_is_an_episode_with_the_strict_score(tmp_path: Path) -> None:
    run = _archive(tmp_path / "one")
    assert is_review(run)
    [review, verify] = harvest_review(run).episodes
    assert (review.source, review.answer, review.model) == ("review", "One finding.", "mock:")
    assert [(one.role, one.text) for one in review.prompt] == [
        ("system", "Review."),
        ("user", "The diff."),
        ("user", "x = 1"),
    ]
    assert review.usage.output_tokens == 3
    assert review.solved is (review.score >= 0.8)
    assert review.score > 0.5
    assert (review.copied, verify.copied) == (False, True)


def test_a_step_with_copied_context_enters_no_corpus(tmp_path: Path) -> None:
    episodes = harvest_review(_archive(tmp_path / "one")).episodes
    corpus = select(episodes, BuildSettings(), None)
    assert corpus.left_out == {"copied context": 1}
    assert [one.provenance["fork"] for one in corpus.sft] == ["review-python"]


def test_two_reviews_of_one_diff_are_a_contrast(tmp_path: Path) -> None:
    good = harvest_review(_archive(tmp_path / "good")).episodes[0]
    bad = harvest_review(_archive(tmp_path / "bad", verdict="contradicts")).episodes[0]
    assert good.task == bad.task
    assert good.score > bad.score
    assert not bad.solved


def test_a_review_that_crashed_is_left_out_and_a_broken_trajectory_is_named(tmp_path: Path) -> None:
    crashed = harvest_review(_archive(tmp_path / "crashed", ended=False))
    assert crashed.episodes == ()
    assert crashed.left_out == {"crashed review": 2}
    broken = _archive(tmp_path / "broken")
    (broken / "trajectories" / "verify.json").write_text("{")
    with pytest.raises(StoreError, match=r"verify\.json is no trajectory"):
        harvest_review(broken)
