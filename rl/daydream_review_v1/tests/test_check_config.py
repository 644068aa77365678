"""Training configurations: the one that ships, and every way in which one trains nothing."""

import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daydream_review_v1.__main__ import main
from daydream_review_v1.building import PROJECT
from daydream_review_v1.check_config import check

SHIPPED = PROJECT.parent / "train" / "rl.toml"
FIXTURES = PROJECT / "tests" / "fixtures"


def _filled(text: str) -> str:
    return (
        text.replace("/path/to/daydream-corpus-train", str(FIXTURES / "corpus-mini"))
        .replace("/path/to/daydream-corpus-eval", str(FIXTURES / "corpus-reference"))
        .replace("/path/to/daydream/rl/daydream_review_v1", str(PROJECT))
    )


@pytest.fixture
def config() -> dict[str, Any]:
    """Return the shipped configuration with paths that exist."""
    return tomllib.loads(_filled(SHIPPED.read_text()))


def test_the_shipped_values_are_those_of_the_table(config: dict[str, Any]) -> None:
    orchestrator, trainer = config["orchestrator"], config["trainer"]
    env = orchestrator["train"]["env"][0]
    assert (config["max_steps"], config["seq_len"], config["ckpt"]["interval"]) == (500, 32768, 50)
    assert trainer["model"]["optimization_dtype"] == trainer["model"]["reduce_dtype"] == "bfloat16"
    assert trainer["model"]["lora"] == {"rank": 16, "alpha": 32.0}
    assert trainer["optim"]["lr"] == 1e-5
    assert (orchestrator["batch_size"], orchestrator["group_size"]) == (128, 16)
    assert orchestrator["train"]["sampling"]["max_completion_tokens"] == 8192
    assert env["pool"]["max_workers"] == 8
    assert env["harness"]["fanout_concurrency"] == 4
    assert env["harness"]["runtime"]["type"] == "docker"


def test_with_its_paths_filled_in_the_shipped_configuration_is_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rl.toml"
    path.write_text(_filled(SHIPPED.read_text()))
    assert main(["check-config", str(path)]) == 0
    assert "fit to train" in capsys.readouterr().out


def test_as_shipped_only_the_placeholders_are_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-config", str(SHIPPED)]) == 1
    wrong = [line for line in capsys.readouterr().err.splitlines() if line.startswith("WRONG")]
    assert len(wrong) == 4
    assert all("/path/to/" in line for line in wrong)


def _env(config: dict[str, Any], kind: str = "train") -> dict[str, Any]:
    found: dict[str, Any] = config["orchestrator"][kind]["env"][0]
    return found


BREAKS: tuple[tuple[Callable[[dict[str, Any]], object], str], ...] = (
    (lambda c: c["orchestrator"].update(batch_size=100), "no multiple of group_size"),
    (lambda c: c["orchestrator"].update(batch_size=8, group_size=1), "no advantage"),
    (lambda c: c["orchestrator"].pop("group_size"), "have to be given"),
    (lambda c: c["inference"]["model"].update(max_model_len=4096), "max_model_len is 4096"),
    (
        lambda c: c["orchestrator"]["train"]["sampling"].update(max_completion_tokens=32768),
        "max_completion_tokens is 32768",
    ),
    (lambda c: c["orchestrator"]["train"]["sampling"].update(temperature=0.0), "temperature"),
    (lambda c: c["trainer"]["model"].pop("lora"), "save_adapter_separately"),
    (lambda c: c["orchestrator"].update(renderer={"name": "default"}), "no tool_parser"),
    (lambda c: c["model"].update(name="nobody/knows"), "knows no renderer"),
    (lambda c: _env(c)["harness"].update(backend="codex"), "speaks OpenAI Responses"),
    (lambda c: _env(c)["harness"].update(backend="claude"), "speaks Anthropic Messages"),
    (lambda c: _env(c)["harness"].update(backend="pi"), "refuses to stream"),
    (lambda c: _env(c)["harness"].pop("backend"), "'claude' speaks Anthropic"),
    (lambda c: _env(c)["harness"].update(runtime={"type": "subprocess"}), "no images"),
    (lambda c: _env(c)["harness"].update(fanout_concurrency=0), "fanout_concurrency"),
    (lambda c: _env(c)["timeout"].update(rollout=0), "timeout.rollout"),
    (lambda c: _env(c)["taskset"].update(corpus_dir="nowhere"), "corpus_dir"),
    (lambda c: _env(c)["taskset"].update(manifest_path="nowhere"), "manifest_path"),
    (
        lambda c: _env(c, "eval")["taskset"].update(corpus_dir=str(FIXTURES / "corpus-mini")),
        "share 2 tasks",
    ),
    (lambda c: _env(c, "eval").update(name="daydream-review"), "environment name"),
    (lambda c: _env(c).update(name="agg"), "environment name 'agg'"),
    (lambda c: c["orchestrator"]["train"].pop("env"), "train.env]] is missing"),
)


@pytest.mark.parametrize(("change", "words"), BREAKS, ids=[words for _, words in BREAKS])
def test_a_configuration_that_trains_nothing_is_named(
    config: dict[str, Any], change: Callable[[dict[str, Any]], object], words: str
) -> None:
    assert check(config) == []
    change(config)
    assert words in " | ".join(check(config))


def test_a_corpus_with_the_same_commits_under_other_numbers_is_shared(
    config: dict[str, Any], tmp_path: Path
) -> None:
    shutil.copytree(FIXTURES / "corpus-mini", tmp_path / "copy")
    index = tmp_path / "copy" / "index.json"
    index.write_text(index.read_text().replace('"pr_number":1', '"pr_number":11'))
    _env(config, "eval")["taskset"]["corpus_dir"] = str(tmp_path / "copy")
    assert "share 2 tasks" in " ".join(check(config))


def test_what_cannot_be_read_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text("= 1")
    assert main(["check-config", str(tmp_path / "odd.toml")]) == 2
    assert main(["check-config", str(tmp_path / "none.toml")]) == 2


FAKE_RL = """\
import sys
def main():
    words = sys.argv[1:]
    assert words[0] == "@" and "--dry-run" in words, words
    if "--fail" in open(words[1]).read():
        sys.exit("validation error: no such key")
    print("Dry run complete")
"""


def test_the_dry_run_of_a_checkout_decides_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = tmp_path / "prime-rl" / "src" / "prime_rl" / "entrypoints"
    entry.mkdir(parents=True)
    (entry / "rl.py").write_text(FAKE_RL)
    path = tmp_path / "rl.toml"
    path.write_text(_filled(SHIPPED.read_text()))
    words = ["check-config", str(path), "--prime-rl", str(tmp_path / "prime-rl")]
    assert main(words) == 0
    assert "dry run: complete" in capsys.readouterr().out
    path.write_text(_filled(SHIPPED.read_text()) + "# --fail\n")
    assert main(words) == 1
    assert "no such key" in capsys.readouterr().err
    assert main([*words[:-1], str(tmp_path)]) == 1
    assert "no checkout of prime-rl" in capsys.readouterr().err
