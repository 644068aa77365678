"""The commands of the weights line load nothing heavy themselves."""

from pathlib import Path

from tests.arch.fresh import loaded_after
from tests.real.commands import daydream

HEAVY = {"torch", "transformers", "peft", "trl", "datasets", "accelerate", "numpy"}


def test_no_command_of_the_weights_line_loads_torch() -> None:
    loaded = loaded_after(
        "import daydream.cli.banks, daydream.cli.waking, daydream.cli.gates, daydream.cli.training"
    )
    assert "daydream.weights.training" in loaded
    assert not {name.partition(".")[0] for name in loaded} & HEAVY


def test_without_the_extra_a_local_model_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / "model" / name).write_text('{"model_type": "llama"}')
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    told = daydream(
        "wake", "--tasks", "formula", "-m", "local:model", code=3, env={"PYTHONPATH": str(absent)}
    ).err
    assert "pip install 'daydream-rsi[weights]'" in " ".join(told.split())
