"""What the extra ``weights`` brings is loaded by processes that train or generate alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

from daydream.cli.main import COMMANDS
from tests.arch.fresh import loaded_after
from tests.conftest import ROOT
from tests.real.commands import daydream

EXTRA = {"torch", "transformers", "peft", "trl", "datasets", "accelerate", "safetensors"}


def test_no_command_loads_anything_of_the_extra() -> None:
    modules = sorted({where.partition(":")[0] for _, where, _ in COMMANDS})
    loaded = loaded_after(f"import {', '.join(modules)}")
    assert "daydream.weights.training" in loaded
    assert not {name.partition(".")[0] for name in loaded} & EXTRA


def test_no_command_of_the_weights_line_loads_numpy() -> None:
    loaded = loaded_after(
        "import daydream.cli.banks, daydream.cli.waking, daydream.cli.gates, daydream.cli.training"
    )
    assert "numpy" not in loaded


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_only_the_inside_of_a_process_of_its_own_names_the_extra() -> None:
    # A function that imports when called would slip through what is loaded above.
    source = ROOT / "src" / "daydream"
    naming = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if EXTRA & set(_imported(path))
    }
    weights = {name for name in naming if name.startswith("weights/")}
    assert weights == {f"weights/{name}_child.py" for name in ("device", "local", "train")}
    # Kernels are timed in the sandbox, where the task's own extra brings torch.
    assert all("/kernel" in name for name in naming - weights), naming


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
