"""What a process that loads a model says when it cannot go on."""

import os

import pytest

from daydream.errors import DaydreamError, EnvironmentMissing, ModelError, UsageError
from daydream.sandbox.workers import Worker
from daydream.weights.answerers import call
from tests.conftest import ROOT

HERE = "tests.unit.weights.failing_child"


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        ("memory", ModelError, "smaller batch and more accumulate"),
        ("package", EnvironmentMissing, r"pip install 'daydream-rsi\[weights\]'"),
        ("request", UsageError, "^request$"),
        ("other", ModelError, "the model process failed with ValueError: other"),
    ],
)
def test_a_failure_in_the_process_of_the_model_says_what_to_do(
    error: str, kind: type[DaydreamError], said: str
) -> None:
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    worker = Worker(f"{HERE}:load", (), env)
    try:
        with pytest.raises(kind, match=said):
            call(worker, f"{HERE}:work", error)
    finally:
        worker.close()
