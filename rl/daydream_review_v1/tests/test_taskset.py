"""Loading a corpus as tasks, and everything that is refused."""

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import verifiers.v1 as vf
from verifiers.v1.loaders import harness_class, taskset_class, taskset_config_type

from daydream_review_v1 import ReviewHarness, ReviewTaskset
from daydream_review_v1.building import IMAGES, PROJECT
from daydream_review_v1.fixture import BASE_SHA, FIRST_SHA, SECOND_SHA
from daydream_review_v1.task import ReviewTask
from daydream_review_v1.taskset import ReviewTasksetConfig

MINI = PROJECT / "tests" / "fixtures" / "corpus-mini"


def load(corpus: Path, **more: Any) -> list[ReviewTask]:
    """Return the tasks of a corpus."""
    settings = {"corpus_dir": str(corpus), "manifest_path": str(IMAGES / "manifest.toml"), **more}
    return list(ReviewTaskset(ReviewTasksetConfig(id="daydream-review-v1", **settings)).load())


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Return a copy of the small corpus."""
    return Path(shutil.copytree(MINI, tmp_path / "corpus"))


def change(corpus: Path, edit: Any) -> None:
    """Change the index of a corpus."""
    path = corpus / "index.json"
    index = json.loads(path.read_text())
    edit(index)
    path.write_text(json.dumps(index))


def test_verifiers_finds_the_environment_by_its_name() -> None:
    assert taskset_class("daydream-review-v1") is ReviewTaskset
    assert harness_class("daydream-review-v1") is ReviewHarness
    assert taskset_config_type("daydream-review-v1") is ReviewTasksetConfig


def test_each_reviewed_pull_request_is_a_task() -> None:
    tasks = [task.data for task in load(MINI)]
    assert [(one.name, one.base_sha, one.head_sha) for one in tasks] == [
        ("daydream/review-fixture#1", BASE_SHA, FIRST_SHA),
        ("daydream/review-fixture#2", FIRST_SHA, SECOND_SHA),
    ]
    assert tasks[0].image == f"daydream-rl/review-fixture:{FIRST_SHA[:12]}"
    assert tasks[0].prompt
    assert tasks[0].test_command == "python -m unittest discover -q"
    assert tasks[0].protected_test_paths == ["tests"]
    assert [one["path"] for one in tasks[0].golden_comments] == ["parcels/rates.py"]
    fields = vf.TaskTimeout.model_fields
    stage = "harness" if "harness" in fields else "agent"
    assert getattr(tasks[0].timeout, stage) == 5400.0


def test_without_images_a_task_names_none(caplog: pytest.LogCaptureFixture) -> None:
    assert load(MINI, use_images=False)[0].data.image is None
    assert "use_images is false" in caplog.text


@pytest.mark.parametrize("slug", ["grafana/grafana", "GetSentry/Sentry", "calcom/cal.com"])
def test_a_held_out_repository_is_refused(slug: str, corpus: Path) -> None:
    change(corpus, lambda index: index.update(repo=slug))
    with pytest.raises(ValueError, match="held-out"):
        load(corpus)
    names = set(ReviewTasksetConfig.model_fields)
    assert not [name for name in names if "excl" in name or "allow" in name or "skip" in name]


def test_a_pull_request_without_a_snapshot_is_warned_about(
    corpus: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change(corpus, lambda index: index["prs"][0].update(review_commit_id=None))
    (corpus / "harvest" / "pr-2.json").unlink()
    with caplog.at_level(logging.WARNING):
        assert len(load(corpus)) == 1
    assert "1 of 2 pull requests" in caplog.text


REFUSED = (
    (lambda i: i["prs"][0].update(base_sha=None), "no base commit: daydream/review-fixture#2"),
    (lambda i: i["prs"][0].update(base_sha="abc"), "base_sha is 'abc'"),
    (lambda i: i["prs"].append(i["prs"][0]), "listed 2 times"),
    (lambda i: i["prs"][0].update(base_ref=None), "base_ref is missing"),
)


@pytest.mark.parametrize(("edit", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_a_wrong_corpus_is_refused(corpus: Path, edit: Any, words: str) -> None:
    change(corpus, edit)
    with pytest.raises(ValueError, match=words):
        load(corpus)


def test_what_is_missing_is_named(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no corpus directory"):
        list(ReviewTaskset(ReviewTasksetConfig()).load())
    with pytest.raises(ValueError, match="no image manifest"):
        load(corpus, manifest_path="")
    with pytest.raises(ValueError, match=r"index\.json is not there"):
        load(tmp_path / "nowhere")
    (tmp_path / "other.toml").write_text(
        '[repos."a/b"]\nclone_url = "x"\nimage = "i"\ntest_command = "true"\n'
    )
    with pytest.raises(ValueError, match="no entry for daydream/review-fixture"):
        load(corpus, manifest_path=str(tmp_path / "other.toml"))
    (corpus / "results" / "benchmark_data.json").unlink()
    with pytest.raises(ValueError, match=r"benchmark_data\.json is not there"):
        load(corpus)


def test_a_reference_comment_with_an_unknown_key_is_refused(corpus: Path) -> None:
    path = corpus / "results" / "benchmark_data.json"
    path.write_text(path.read_text().replace('"comment":', '"extra": 1, "comment":', 1))
    with pytest.raises(ValueError, match="extra"):
        load(corpus)
