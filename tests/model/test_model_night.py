"""A real small model learns from its own attempts at easy problems and meets the gate.

Opt-in, ``make test-model``. What has to hold is that every step works with a real model and that
nothing is claimed that was not verified. Whether it gets better is measured at a larger size, by
``python -m benchmarks.model_line``, and stands in the README.
"""

import json
from pathlib import Path

import pytest

from benchmarks.model_line import SMALL, measure
from daydream.tasks.load import load_task
from daydream.weights.adapters import check_adapter
from daydream.weights.questions import Questioner
from tests.conftest import ROOT
from tests.real.commands import call
from tools.serve_model import packaged, unpacked

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]


def test_a_real_model_learns_from_its_attempts_and_meets_the_gate(tmp_path: Path) -> None:
    base = unpacked(packaged(), ROOT / ".cache" / "models")
    print("\nOne small night with SmolLM2-135M-Instruct:")
    found = measure(tmp_path, base, SMALL, lambda text: print(f"  {text}", flush=True))
    home = tmp_path / "weights"

    # Every attempt is in the bank, and its verdict is what the verifier says now.
    lines = (home / "bank" / "episodes.jsonl").read_text(encoding="utf-8").splitlines()
    episodes = [json.loads(line) for line in lines]
    assert len(episodes) == found.attempts == SMALL.tasks * SMALL.samples
    for one in episodes:
        judged = Questioner(load_task(one["task"]), "chat").judge(one["answer"])
        assert (judged.solved, judged.evaluation.score) == (one["solved"], one["score"])
    assert sum(one["solved"] for one in episodes) == found.solved > 0
    probes = json.loads((home / "gate" / "probes.json").read_text(encoding="utf-8"))["probe_set"]
    asked = {probe["task"] for probe in probes["probes"]}
    assert len(asked) >= SMALL.probes - 2
    assert not asked & {one["task"] for one in episodes}

    # It is trained on its own right answers alone, and the manifest says with what.
    right = {one["answer"] for one in episodes if one["solved"]}
    corpus = (home / "corpora" / "night-001" / "sft.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in corpus.splitlines()]
    assert {row["completion"][0]["content"] for row in rows} <= right
    folder = home / "adapters" / "night-001"
    adapter = check_adapter(folder, base)
    steps = {name: stage.steps for name, stage in adapter.stages.items()}
    assert steps == {"sft": SMALL.sft_steps, "dpo": SMALL.dpo_steps}
    assert "not installed" not in adapter.versions.values()
    assert (folder / "losses.svg").is_file()

    # The gate decides one way or another, with an interval and a reason, and deploys accordingly.
    verdict = found.verdict
    assert verdict.decision in {"promoted", "rejected", "undecided"}
    assert verdict.trial.low <= verdict.trial.candidate - verdict.trial.incumbent
    assert verdict.trial.candidate - verdict.trial.incumbent <= verdict.trial.high
    assert f"{verdict.trial.wins} probes won" in verdict.reason
    history = call("gate", "history", "--home", str(home), "--json").json
    deployed = history["deployed"].get("adapter", "")
    assert bool(deployed) is (verdict.decision == "promoted")
    [cycle] = call("cycles", "--home", str(home), "--json").json["cycles"]
    assert (cycle["attempts"], cycle["solved"]) == (found.attempts, found.solved)
    assert cycle["decision"] == verdict.decision
    print(call("cycles", "--home", str(home)).out)
