"""What the tests of training share: a tiny base, its bank, and a recipe that fits it."""

from pathlib import Path

from benchmarks.tiny_model import make_base
from benchmarks.weights_line import BASE_STEPS, TASKS
from tests.real.commands import call as daydream

PROBES = "formula:split=probe,instance=0-279"
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
learning_rate = 2e-5
"""


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
