"""The whole weights line on a model that is made on the spot: it improves, or is not promoted.

Runs with ``make test-weights``: it needs the extra ``weights``.
"""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.weights_line import SHUFFLED, Here, shuffled, train_here
from daydream.weights.adapters import MANIFEST, read_adapter
from daydream.weights.answerers import Contender
from daydream.weights.gate import Gate
from daydream.weights.paired_test import compare
from daydream.weights.probes import Answered, answer_probes, need_probes
from tests.real.commands import call as daydream
from tests.training.lab import Lab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SEEDS = range(5)
CACHED: dict[str, Answered] = {}
"""What was answered here, by the folder of the adapter."""


@pytest.fixture(scope="module", name="lab")
def _lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    lab = Lab(tmp_path_factory.mktemp("lab"))
    lab.prepare()
    # As it was before anything was promoted, for the tests that compare with the base.
    shutil.copytree(lab.home, lab.folder / "before")
    return lab


@pytest.fixture(scope="module", name="night")
def _night(lab: Lab) -> dict[str, object]:
    found: dict[str, object] = daydream(
        "night", "--base", str(lab.base), "--config", str(lab.recipe),
        "--home", str(lab.home), "--json",
    ).json  # fmt: skip
    return found


def _rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _answers(lab: Lab, adapter: Path | None) -> Answered:
    contender = Contender(lab.model, "" if adapter is None else str(adapter))
    if contender.adapter not in CACHED:
        probes = need_probes(lab.home / "gate")
        CACHED[contender.adapter] = answer_probes(probes, contender, Here(contender))
    return CACHED[contender.adapter]


def _unpromoted(lab: Lab, name: str) -> Path:
    """Return a home as it was before the night; the base need not answer again there."""
    home = lab.folder / name
    shutil.copytree(lab.folder / "before", home)
    shutil.copytree(lab.home / "gate" / "answers", home / "gate" / "answers")
    return home


def test_the_base_solves_some_of_the_held_out_problems_and_sft_sees_its_own_answers_alone(
    lab: Lab,
) -> None:
    answered = _answers(lab, None)
    rate = sum(answered.scores) / len(answered.scores)
    assert len(answered.scores) >= 200
    assert 0.1 <= rate <= 0.6, rate
    bank = _rows(lab.home / "bank" / "episodes.jsonl")
    own = {one["answer"] for one in bank if one["solved"] and one["model"] == lab.model}
    rows = _rows(lab.corpus / "sft.jsonl")
    assert len(rows) > 100
    assert {row["completion"] for row in rows} <= own


def test_a_night_trains_an_adapter_that_is_better_and_the_gate_promotes_it(
    lab: Lab, night: dict[str, object]
) -> None:
    verdict = night["check"]["verdict"]  # type: ignore[index]
    assert verdict["decision"] == "promoted"
    assert verdict["trial"]["low"] > 0
    folder = lab.home / "adapters" / "night-001"
    adapter = read_adapter(folder)
    assert adapter.stages["sft"].last_loss < adapter.stages["sft"].first_loss
    assert adapter.stages["dpo"].last_loss < adapter.stages["dpo"].first_loss
    assert (folder / "losses.svg").read_text().endswith("</svg>\n")
    base, sft, dpo = (_answers(lab, one) for one in (None, folder / "sft" / "adapter", folder))
    assert compare(sft.scores, base.scores).better
    assert not compare(dpo.scores, sft.scores).worse
    # What the commands measured in their own processes is what is measured here.
    assert sum(dpo.scores) / len(dpo.scores) == verdict["trial"]["candidate"]
    # Killed after the check, a night goes on: nothing is trained or judged a second time.
    (lab.home / "nights" / "001" / "result.json").unlink()
    resumed = daydream(
        "night", "--base", str(lab.base), "--config", str(lab.recipe),
        "--home", str(lab.home), "--json",
    ).json  # fmt: skip
    assert resumed == night
    again = daydream("cycles", "--home", str(lab.home), "--json").json["cycles"]
    assert [(one["decision"], one["attempts"]) for one in again] == [("promoted", 1_600)]
    assert again[0]["candidate"] > again[0]["incumbent"]


def test_a_damaged_adapter_is_refused_and_rejected_when_it_hides_the_damage(
    lab: Lab, night: dict[str, object]
) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    damaged = lab.folder / "damaged"
    shutil.copytree(lab.home / "adapters" / "night-001", damaged)
    weights = damaged / "adapter_model.safetensors"
    generator = torch.Generator().manual_seed(0)
    noisy = {
        name: value + torch.randn(value.shape, generator=generator) * 0.5
        for name, value in load_file(weights).items()
    }
    save_file(noisy, weights)
    before = _unpromoted(lab, "damage")
    home = ("--home", str(before))
    refused = daydream("gate", "check", str(damaged), *home, code=1)
    assert "was changed since it was trained" in " ".join(refused.err.split())
    manifest = json.loads((damaged / MANIFEST).read_text())
    from daydream.weights.adapters import files_of

    manifest["id"], manifest["files"] = files_of(damaged)
    (damaged / MANIFEST).write_text(json.dumps(manifest))
    checked = daydream("gate", "check", str(damaged), *home, "--json").json
    assert checked["verdict"]["decision"] == "rejected"
    assert not (before / "gate" / "deployed").exists()


def test_a_corpus_with_a_fifth_of_its_labels_shuffled_is_promoted_on_no_seed(
    lab: Lab, night: dict[str, object]
) -> None:
    assert night
    # None is promoted, so all of them meet the same incumbent, the base.
    gate = Gate(_unpromoted(lab, "shuffled") / "gate", now=lambda: 0.0)
    decisions = {}
    for seed in SEEDS:
        rows = lab.folder / f"shuffled-{seed}" / "sft.jsonl"
        assert shuffled(lab.corpus / "sft.jsonl", rows, share=SHUFFLED, seed=seed) > 20
        adapter = train_here(lab.base, lab.corpus, rows, rows.parent / "sft")
        entry = gate.check(Contender(lab.model, str(adapter)), Here)
        assert entry.verdict is not None
        decisions[seed] = entry.verdict.decision
    assert set(decisions) == set(SEEDS)
    assert "promoted" not in decisions.values(), decisions
