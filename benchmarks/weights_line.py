"""How much a tiny model improves from its own verified attempts, over several seeds.

    python -m benchmarks.weights_line --seeds 5 --out benchmarks/results/weights.json

Each seed makes a base of its own, wakes it on templates it may train on, builds a corpus, trains
SFT and DPO, and judges both on 400 problems of templates that no training ever held. Then the same
with a fifth of the labels of the corpus shuffled. Everything runs in this process, with the code
that the commands run in processes of their own.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.tiny_model import make_base
from daydream.canonical import JsonValue, dumps
from daydream.store.events import Usage
from daydream.weights import local_child, train_child
from daydream.weights.answerers import Answer, Contender, Prompt
from daydream.weights.bank import Bank
from daydream.weights.corpus_files import build_corpus
from daydream.weights.corpus_selection import BuildSettings
from daydream.weights.episodes import Form, Sampling
from daydream.weights.gate import Gate
from daydream.weights.home import Home
from daydream.weights.paired_test import compare
from daydream.weights.probes import Answered, answer_probes, freeze, need_probes, write_probes
from daydream.weights.train_settings import StageSettings, TrainSettings
from daydream.weights.training import plan_of
from daydream.weights.wake import Around, Plan, expand, wake

BASE_STEPS = 175
SHUFFLED = 0.2
SAMPLES = 4
PROBES = "formula:split=probe,instance=0-399"
TASKS = ("formula:split=practice,instance=0-199", "formula:instance=10000-10199")
SAMPLING = Sampling(temperature=1.0, max_tokens=16, seed=0)
SETTINGS = TrainSettings(
    max_length=64,
    save_every=50,
    sft=StageSettings(steps=150, batch=32, learning_rate=2e-3),
    dpo=StageSettings(steps=60, batch=16, learning_rate=2e-5),
)


class Here:
    """Generates in this process: the code of the child, without its start."""

    form: Form = "text"
    chunk = 64

    def __init__(self, contender: Contender) -> None:
        base = contender.model.removeprefix("local:")
        self._state = local_child.load(base, contender.adapter, 1)

    def answer(self, prompts: Sequence[Prompt], sampling: Sampling) -> Iterator[Answer]:
        """Yield an answer to each prompt."""
        asked = [[(one.role, one.text) for one in prompt.messages] for prompt in prompts]
        settings = (sampling.temperature, sampling.max_tokens, sampling.seed)
        samples = [prompt.sample for prompt in prompts]
        found = local_child.generate(self._state, (asked, samples, settings))
        for text, read, written, finish in found:
            yield Answer(text, Usage(1, read, written), finish)

    def close(self) -> None:
        """Hold nothing."""


def train_here(base: Path, corpus: Path, rows: Path, folder: Path, *, start: str = "") -> Path:
    """Train in this process with the code of the child; return the adapter.

    SFT on ``rows``, or DPO where there is an adapter to start from.
    """
    stage = "dpo" if start else "sft"
    plan = plan_of(base, corpus, ("sft",), SETTINGS)
    state = train_child.prepare(msgspec.to_builtins(plan))
    train_child.run_stage(state, (stage, str(rows), start, str(folder)))
    return folder / "adapter"


def shuffled(rows: Path, target: Path, *, share: float, seed: int) -> int:
    """Write ``rows`` with the completions of ``share`` of them dealt round; return how many."""
    found = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    rng = random.Random(seed)
    places = rng.sample(range(len(found)), round(share * len(found)))
    labels = [found[place]["completion"] for place in places]
    for place, label in zip(places, labels[1:] + labels[:1], strict=True):
        found[place]["completion"] = label
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
    return len(places)


def greedy_rate(folder: Path, contender: Contender) -> float:
    """Return the solve rate of the likeliest answers, which this gate does not ask for."""
    probes = need_probes(folder)
    likeliest = msgspec.structs.replace(probes.sampling, temperature=0.0)
    asked = msgspec.structs.replace(probes, sampling=likeliest)
    scores = answer_probes(asked, contender, Here(contender)).scores
    return sum(scores) / len(scores)


def cycle(seed: int, folder: Path) -> dict[str, JsonValue]:
    """Return what one seed came to."""
    began = time.process_time()
    base = make_base(folder / "base", steps=BASE_STEPS, seed=seed)
    model = f"local:{base}"
    home = Home(folder / "weights")
    contender = Contender(model)
    here = Here(contender)
    write_probes(home.gate, freeze(expand([PROBES]), contender, here, SAMPLING))
    probes = need_probes(home.gate)
    around = Around(lambda: 0.0, lambda: "")
    with Bank(home.bank) as bank:
        plan = Plan(expand(TASKS), SAMPLES, SAMPLING)
        woken = wake(plan, contender, here, bank, probes.guard(), around)
    corpus = home.corpora / "001"
    manifest = build_corpus(home, corpus, BuildSettings())
    sft = train_here(base, corpus, corpus / "sft.jsonl", folder / "sft")
    dpo = train_here(base, corpus, corpus / "dpo.jsonl", folder / "dpo", start=str(sft))
    shuffled(corpus / "sft.jsonl", folder / "rows.jsonl", share=SHUFFLED, seed=seed)
    noisy = train_here(base, corpus, folder / "rows.jsonl", folder / "noisy")
    decisions: dict[str, JsonValue] = {}
    for name, adapter in (("shuffled", noisy), ("sft", sft), ("dpo", dpo)):
        gate = folder / f"gate-{name}"
        shutil.copytree(home.gate, gate)
        entry = Gate(gate, now=lambda: 0.0).check(Contender(model, str(adapter)), Here)
        decisions[name] = None if entry.verdict is None else msgspec.to_builtins(entry.verdict)
    before = _read(folder / "gate-sft", Contender(model, str(sft)))
    after = _read(folder / "gate-dpo", Contender(model, str(dpo)))
    return {
        "seed": seed,
        "probes": len(probes.probes),
        "attempts": woken.done,
        "solved": woken.solved,
        "successes": manifest.sft,
        "contrasts": manifest.dpo,
        "decisions": decisions,
        "dpo_against_sft": msgspec.to_builtins(compare(after.scores, before.scores)),
        "greedy": {
            name: greedy_rate(home.gate, one)
            for name, one in (
                ("base", contender),
                ("sft", Contender(model, str(sft))),
                ("dpo", Contender(model, str(dpo))),
            )
        },
        "cpu_s": round(time.process_time() - began, 1),
    }


def _read(gate: Path, contender: Contender) -> Answered:
    path = gate / "answers" / f"{contender.identity()}.json"
    return msgspec.json.decode(path.read_bytes(), type=Answered)


def main(arguments: Sequence[str]) -> int:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description="Measure the weights line on a tiny model.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    rows: list[JsonValue] = []
    for seed in range(given.seeds):
        with tempfile.TemporaryDirectory(prefix="daydream-weights-") as folder:
            rows.append(cycle(seed, Path(folder)))
        found: JsonValue = {"base_steps": BASE_STEPS, "shuffled": SHUFFLED, "seeds": rows}
        given.out.write_bytes(dumps(found) + b"\n")
        print(f"seed {seed} done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
