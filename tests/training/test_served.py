"""An adapter that learnt from runs of the policy line is the discovery agent of the next run."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.real.commands import call as daydream
from tests.training.words import make_word_model
from tools.serve_model import ModelServer, loaded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
RECIPE = """\
[train]
max_length = 2048
save_every = 1000
rank = 32
alpha = 64
sft = { steps = 40, batch = 2, learning_rate = 5e-3 }
"""


@contextmanager
def _served(base: Path, adapter: Path) -> Iterator[ModelServer]:
    models = {base.name: loaded(base, 1), adapter.name: loaded(base, 1, adapter)}
    server = ModelServer(models, 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _run(model: str, folder: str) -> dict[str, Any]:
    found: dict[str, Any] = daydream(
        "run", "branch-world", "--rounds", "1", "--policy", "parallel_refine-w2-d1",
        "--agent", f"chat:edit=whole,max_tokens=40,temperature=0:{model}",
        "--max-failures", "0", "--workers", "1", "--out", folder, "--json",
    ).json  # fmt: skip
    return found


def test_an_adapter_trained_on_a_run_is_served_and_solves_what_its_base_cannot_answer() -> None:
    wide = ("--rounds", "1", "--policy", "parallel_refine-w8-d1")
    daydream("run", "branch-world", *wide, "--out", "run")
    daydream("bank", "import", "run")
    assert daydream("build", "--source", "run", "--per-task", "1", "--json").json["sft"] == 1
    lines = Path("weights/corpora/001/sft.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    texts = [turn["content"] for row in rows for turn in (*row["prompt"], *row["completion"])]
    base = make_word_model(Path("base"), texts, seed=0)
    Path("short.toml").write_text(RECIPE.replace("2048", "64"))
    short = ("--config", "short.toml", "--out", "short")
    told = daydream("train", "--base", "base", "--sft", *short, code=2)
    assert "no answer of 1 row for sft lies within train.max_length = 64" in " ".join(
        told.err.split()
    )
    Path("recipe.toml").write_text(RECIPE)
    daydream("train", "--base", "base", "--sft", "--config", "recipe.toml")
    with _served(base, Path("weights/adapters/001")) as server:
        plain, adapter = server.locals
        assert adapter.startswith("local/001@")
        before, after = _run(plain, "before"), _run(adapter, "after")
        assert server.answered >= before["calls"] + after["calls"]
        wrong = adapter.replace("local/001", "local/002")
        told = daydream("run", "branch-world", "-m", wrong, "--out", "wrong", code=1)
    assert before["best"] in (None, 0.0)
    assert after["best"] > 0
    assert "no model 002" in " ".join(told.err.split())
