"""What the tests of training share: a tiny base, its bank, and a recipe that fits it."""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.tiny_model import make_base
from daydream.store.events import Usage
from daydream.weights import local_child, train_child
from daydream.weights.adapters import StageSettings, TrainSettings
from daydream.weights.answerers import Answer, Contender, Prompt
from daydream.weights.episodes import Form, Sampling
from daydream.weights.training import plan_of
from tests.real.commands import daydream

BASE_STEPS = 175
PROBES = "formula:split=probe,instance=0-399"
TASKS = ("formula:split=practice,instance=0-199", "formula:instance=10000-10199")
RECIPE = """\
[train]
max_length = 64
save_every = 50

[train.sft]
steps = 150
batch = 32
learning_rate = 2e-3

[train.dpo]
steps = 60
batch = 16
learning_rate = 5e-5
"""
SETTINGS = TrainSettings(
    max_length=64,
    save_every=50,
    sft=StageSettings(steps=150, batch=32, learning_rate=2e-3),
    dpo=StageSettings(steps=60, batch=16, learning_rate=5e-5),
)
"""The same as ``RECIPE``."""


class Lab:
    """A folder with a base model, a frozen gate, a bank and a corpus, made by the commands."""

    def __init__(self, folder: Path, *, seed: int = 0) -> None:
        self.folder = folder
        self.base = make_base(folder / "base", steps=BASE_STEPS, seed=seed)
        self.home = folder / "weights"
        self.model = f"local:{self.base}"
        self.recipe = folder / "recipe.toml"
        self.recipe.write_text(RECIPE)

    def prepare(self) -> None:
        """Freeze the gate, wake, and build a corpus."""
        length = ("--max-tokens", "16", "--home", str(self.home))
        daydream("gate", "init", "--tasks", PROBES, "-m", self.model, *length)
        daydream("wake", "--tasks", *TASKS, "--samples", "4", "-m", self.model, *length)
        daydream("build", "--home", str(self.home))

    @property
    def corpus(self) -> Path:
        """The corpus that was built."""
        return self.home / "corpora" / "001"


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


def train_here(
    base: Path, corpus: Path, rows: Path, folder: Path, settings: TrainSettings = SETTINGS
) -> Path:
    """Train SFT on ``rows`` in this process with the code of the child; return the adapter."""
    plan = plan_of(base, corpus, ("sft",), settings)
    state = train_child.prepare(msgspec.to_builtins(plan))
    train_child.run_stage(state, ("sft", str(rows), "", str(folder)))
    return folder / "adapter"


def shuffled(rows: Path, target: Path, *, share: float, seed: int) -> int:
    """Write ``rows`` with the completions of ``share`` of them dealt round; return how many."""
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    rng = random.Random(seed)
    places = rng.sample(range(len(found)), round(share * len(found)))
    labels = [found[place]["completion"] for place in places]
    for place, label in zip(places, labels[1:] + labels[:1], strict=True):
        found[place]["completion"] = label
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(json.dumps(row) + "\n" for row in found))
    return len(places)
