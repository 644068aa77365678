"""A night that is killed in each of its stages ends as one that nobody disturbed."""

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tiny_model import make_base
from daydream.weights.adapters import read_adapter
from daydream.weights.bank import Bank
from daydream.weights.gate import Gate
from daydream.weights.training import read_losses
from tests.real.commands import call as daydream
from tests.real.commands import start
from tests.real.killed_at import killed_at
from tests.unit.weights.samples import episode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
STEPS, SAVED, KILLED = 40, 10, 15
RECIPE = f"""\
[train]
max_length = 64
save_every = {SAVED}
sft = {{ steps = {STEPS}, batch = 8, learning_rate = 1e-3 }}
dpo = {{ steps = {STEPS}, batch = 8, learning_rate = 1e-4 }}
"""
NIGHT = ("night", "--base", "base", "--config", "recipe.toml", "--home")


def _home(name: str) -> Path:
    """Return a home with a frozen gate and a bank, the same for every name."""
    home = Path(name)
    probes = ("--tasks", "formula:split=probe,instance=0-39", "--max-tokens", "12")
    daydream("gate", "init", *probes, "-m", "local:base", "--home", name)
    with Bank(home / "bank") as bank:
        for number, (a, b) in enumerate((a, b) for a in "uvwxyz" for b in "23456789"):
            task, asked = f"formula:instance={number}", f"{a}+{b}="
            for answer, solved in ((f"{a}{b}+", True), (f"{a}{b}-", False)):
                made = episode(task, answer, solved=solved, prompt=asked, number=number)
                bank.append([made])
    return home


def _losses(home: Path, stage: str) -> list[float]:
    curve = read_losses(home / "adapters" / "night-001" / stage / "losses.jsonl")
    assert [one.step for one in curve] == list(range(1, len(curve) + 1))
    return [one.loss for one in curve]


def _killed_when(reached: Callable[[], bool], *arguments: str) -> None:
    process = start(*arguments)
    while not reached():
        with contextlib.suppress(Exception):
            code = process.wait(0.05)
            raise AssertionError(f"the night ended with {code} before it was killed")
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def _kept(home: Path) -> dict[str, Any]:
    """Return what must be the same of two nights, but for the losses."""
    corpus = home / "corpora" / "night-001"
    gate = Gate(home / "gate", now=lambda: 0.0)
    return {
        "corpus": {path.name: path.read_bytes() for path in sorted(corpus.iterdir())},
        "checks": [(one.kind, one.verdict, one.tokens, one.cost_usd) for one in gate.history()],
        "deployed": gate.deployed().adapter,
        "bank": (home / "bank" / "episodes.jsonl").read_bytes(),
        "gate answers": len(list((home / "gate" / "answers").iterdir())),
    }


def test_a_night_killed_in_every_stage_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    make_base(tmp_path / "base", steps=3, seed=0)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    whole, cut = _home("whole"), _home("cut")
    daydream(*NIGHT, "whole")
    adapter = cut / "adapters" / "night-001"
    # Built: two of the four files of the corpus are there.
    killed_at("night-001/lineage.jsonl", *NIGHT, "cut")
    assert not (cut / "corpora" / "night-001" / "manifest.json").exists()
    # SFT: behind a checkpoint, before the next one.
    _killed_when(lambda: len(_losses(cut, "sft")) >= KILLED, *NIGHT, "cut")
    assert KILLED <= len(_losses(cut, "sft")) < STEPS
    assert (adapter / "sft" / "checkpoints" / f"checkpoint-{SAVED}").is_dir()
    # DPO: SFT is finished, and is not trained again.
    _killed_when(lambda: len(_losses(cut, "dpo")) >= KILLED, *NIGHT, "cut")
    trained = (adapter / "sft" / "result.json").read_bytes()
    assert len(_losses(cut, "dpo")) < STEPS
    assert not (adapter / "adapter.json").exists()
    # Gate: the incumbent has answered, the candidate too, and nothing is decided.
    killed_at("gate/history.jsonl", *NIGHT, "cut")
    finished = (adapter / "adapter.json").read_bytes()
    assert not (cut / "nights" / "001" / "result.json").exists()
    # The decision is made, and the night does not know yet.
    killed_at("nights/001/result.json", *NIGHT, "cut")
    daydream(*NIGHT, "cut")
    assert (adapter / "sft" / "result.json").read_bytes() == trained
    assert (adapter / "adapter.json").read_bytes() == finished
    for stage in ("sft", "dpo"):
        one, two = _losses(whole, stage), _losses(cut, stage)
        assert len(one) == STEPS
        assert two == pytest.approx(one, abs=1e-4)
        assert one[-1] < one[0]
    assert _kept(cut) == _kept(whole)
    assert len(_kept(cut)["checks"]) == 1
    assert read_adapter(adapter).corpus == read_adapter(whole / "adapters" / "night-001").corpus
    assert [one.number for one in _nights(cut)] == ["001"]
    # Finished, a training is not made again; with another recipe it is another one.
    again = (
        "train", "--base", "base", "--sft", "--dpo", "--corpus", "cut/corpora/night-001",
        "--out", str(adapter), "--config", "recipe.toml",
    )  # fmt: skip
    assert daydream(*again, "--json").json["id"] == read_adapter(adapter).id
    recipe.write_text(RECIPE.replace("1e-3", "2e-3"))
    refused = daydream(*again, code=2)
    assert "belongs to another training" in " ".join(refused.err.split())


def test_a_card_that_is_not_there_is_missed_before_anything_is_trained(tmp_path: Path) -> None:
    make_base(tmp_path / "base", steps=1, seed=0)
    home = _home("weights")
    (tmp_path / "card.toml").write_text('[train]\ndevice = "cuda"\n')
    (tmp_path / "recipe.toml").write_text(RECIPE)
    night = ("night", "--base", "base", "--config", "card.toml")
    told = daydream(*night, code=3, env={"CUDA_VISIBLE_DEVICES": ""}).err
    for part in ('train.device = "cuda"', "finds no graphics card", 'set device = "auto"'):
        assert part in " ".join(told.split())
    assert not list(home.glob("adapters/*/sft/losses.jsonl"))
    # Other settings are another night: the one that was begun is finished, or dropped.
    told = daydream("night", "--base", "base", "--config", "recipe.toml", code=2).err
    assert "drop what it has with --anew" in " ".join(told.split())


def _nights(home: Path) -> list[Any]:
    from daydream.weights.home import Home
    from daydream.weights.night import nights_of

    return nights_of(Home(home))
