"""Kernels without torch: shapes, random data, what counts as equal, and what is told without it.

The kernels themselves run in tests/training, where torch is installed.
"""

import importlib.util
from math import prod
from pathlib import Path

import numpy as np
import pytest

from daydream.errors import EnvironmentMissing, TaskError
from daydream.tasks import kernels
from daydream.tasks.kernel_specs import KERNELS, difference, draw_input
from daydream.tasks.kernels import build
from daydream.tasks.load import load_task
from daydream.tree import Status
from tests.real.commands import call

FULL = {
    "layernorm": ((16, 64, 256, 256), (16, 64, 256, 256)),
    "convdiv": ((128, 8, 128, 128), (128, 64, 126, 126)),
    "convmax": ((128, 8, 256, 256), (128, 64, 63, 63)),
    "vgg16": ((10, 3, 224, 224), (10, 1000)),
}


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.parametrize("name", KERNELS)
def test_full_sizes_are_those_of_the_benchmark_and_small_ones_are_smaller(name: str) -> None:
    full, small = KERNELS[name]("full"), KERNELS[name]("small")
    assert (full.input, full.output) == FULL[name]
    assert prod(small.input) < prod(full.input)
    assert len(small.input) == len(full.input)
    assert prod(small.input) <= 10_000_000


@pytest.mark.parametrize("name", KERNELS)
def test_weights_are_random_in_every_place_and_as_many_as_stated(name: str) -> None:
    spec = KERNELS[name]("small")
    first, second = (spec.weights(np.random.default_rng(seed)) for seed in (1, 2))
    assert sum(one.size for one in first.values()) == spec.largest
    for key, values in first.items():
        assert values.dtype == np.float32
        assert np.isfinite(values).all()
        assert not np.array_equal(values, second[key])
        assert values.size == 1 or values.std() > 0.01


def test_vgg16_has_its_138_million_weights_at_full_size() -> None:
    assert KERNELS["vgg16"]("full").largest == 138_357_544


def test_inputs_take_turns_between_three_distributions() -> None:
    rng = np.random.default_rng(3)
    means = [float(draw_input((100, 100), number, rng).mean()) for number in range(6)]
    stds = [float(draw_input((100, 100), number, rng).std()) for number in range(3)]
    assert means == pytest.approx([0.5, 0.0, 0.7, 0.5, 0.0, 0.7], abs=0.1)
    assert stds == pytest.approx([0.289, 1.0, 2.5], abs=0.05)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1.0, 1e30])
def test_an_output_with_one_bad_number_is_not_within(bad: float) -> None:
    known = np.ones(1_000_000, dtype=np.float32)
    found = known.copy()
    assert difference(found, known, 1e-4).within(1e-4)
    found[77] += np.float32(bad)
    assert not difference(found, known, 1e-4).within(1e-4)


def test_a_small_error_everywhere_is_found_by_its_length() -> None:
    known = np.full(1_000, 1e-3, dtype=np.float32)
    gap = difference(known * np.float32(1.05), known, 1e-4)
    assert gap.largest <= 1
    assert not gap.within(1e-4)
    nothing = np.zeros(10, dtype=np.float32)
    assert not difference(nothing, nothing, 1e-4).within(1e-4)


def test_names_hold_every_choice_that_changes_a_number() -> None:
    for name in (
        "kernels", "kernels:kernel=vgg16", "kernels:tolerance=1e-2", "kernels:size=full",
        "kernels:kernel=convmax,device=cuda", "kernels:device=cuda,size=small,tolerance=1e-2",
    ):  # fmt: skip
        assert load_task(name).info.name == name
    assert "tolerance 1e-2" in load_task("kernels:tolerance=1e-2").info.title
    evaluators = {build({"size": size}).info.evaluator for size in ("small", "full")}
    assert len(evaluators) == 2
    with pytest.raises(TaskError, match="layernorm, convdiv"):
        load_task("kernels:kernel=relu")
    with pytest.raises(TaskError, match="no parameter 'colour'"):
        load_task("kernels:colour=red")
    with pytest.raises(TaskError, match="1e-4, 1e-2"):
        load_task("kernels:tolerance=1")


@pytest.mark.usefixtures("without_torch")
def test_without_torch_an_attempt_fails_and_a_run_ends_with_what_to_install() -> None:
    task = build({})
    found = task.evaluate(task.root())
    assert (found.status, found.error_class, found.score) == (Status.ERROR, "environment", 0.0)
    assert "pip install 'daydream-rsi[kernels]'" in found.message
    ran = call("run", "kernels", "-m", "mock:", code=3)
    assert "torch" in ran.err
    assert not Path("runs").exists()


def test_without_a_cuda_device_its_task_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(kernels, "Path", lambda text: tmp_path)
    with pytest.raises(EnvironmentMissing, match="CUDA"):
        build({"device": "cuda"}).ready()
    build({}).ready()
