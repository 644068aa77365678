"""A training that is killed goes on from its last checkpoint to the same loss curve."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.tiny_model import make_base
from daydream.weights.bank import Bank
from daydream.weights.training import read_losses
from tests.real.commands import call as daydream
from tests.unit.weights.samples import episode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
STEPS, SAVED, KILLED = 60, 20, 25
RECIPE = f"""\
[train]
max_length = 64
save_every = {SAVED}
sft = {{ steps = {STEPS}, batch = 8, learning_rate = 1e-3 }}
"""


def _corpus(folder: Path) -> None:
    with Bank(folder / "weights" / "bank") as bank:
        bank.append(
            episode(f"formula:instance={n}", f"{a}{b}+", prompt=f"{a}+{b}=", number=n)
            for n, (a, b) in enumerate((a, b) for a in "uvwxyz" for b in "23456789")
        )
    daydream("build", "--per-task", "1")


def test_kill_9_in_training_resumes_to_the_same_loss_curve(tmp_path: Path) -> None:
    make_base(tmp_path / "base", steps=3, seed=0)
    _corpus(tmp_path)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    command = ("train", "--base", "base", "--sft", "--config", "recipe.toml", "--out")
    whole = daydream(*command, "whole", "--json").json
    curve = tmp_path / "killed" / "sft" / "losses.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", "daydream", *command, "killed"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while len(read_losses(curve)) < KILLED:
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"training ended with {process.wait(0.05)} before it was killed")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert KILLED <= len(read_losses(curve)) < STEPS
    assert not (tmp_path / "killed" / "adapter.json").exists()
    resumed = daydream(*command, "killed", "--json").json
    one, two = (
        read_losses(tmp_path / name / "sft" / "losses.jsonl") for name in ("whole", "killed")
    )
    assert [loss.step for loss in two] == list(range(1, STEPS + 1))
    assert [loss.loss for loss in two] == pytest.approx([loss.loss for loss in one], abs=1e-4)
    assert one[-1].loss < one[0].loss
    assert resumed["corpus"] == whole["corpus"]
    # Finished, the same command trains nothing again; with another recipe it is refused.
    assert daydream(*command, "killed", "--json").json["id"] == resumed["id"]
    recipe.write_text(RECIPE.replace("1e-3", "2e-3"))
    refused = daydream(*command, "killed", code=2)
    assert "belongs to another training" in " ".join(refused.err.split())
