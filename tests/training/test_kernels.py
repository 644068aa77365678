"""Kernels in torch for real, on a CPU: references pass, near misses and forgeries do not."""

import msgspec
import numpy as np
import pytest

from daydream.tasks.base import Evaluation
from daydream.tasks.kernel_specs import KERNELS
from daydream.tasks.kernels import Kernels, build, kernel
from daydream.testing.task_contracts import (
    TaskUnderTest,
    check_refuses_garbage_with_a_reason,
    check_refuses_near_misses_with_a_reason,
    check_starts_from_an_artifact_that_it_can_judge,
    check_states_what_the_search_needs,
)
from daydream.tree import Status

INVALID, ERROR = Status.INVALID, Status.ERROR
SAME = "import torch\ndef prepare(weights): return weights\n"
CONV = "torch.nn.functional.conv2d(x, w['conv.weight'], w['conv.bias'])"


def task(name: str, tolerance: str = "1e-4", repetitions: int = 2) -> Kernels:
    made = build({"kernel": name, "tolerance": tolerance})
    return msgspec.structs.replace(made, repetitions=repetitions)


def judged(name: str, body: str, tolerance: str = "1e-4") -> Evaluation:
    text = f"{SAME}def run(w, x):\n{body}\n"
    return task(name, tolerance).evaluate(kernel(text.encode()))


@pytest.mark.parametrize("name", KERNELS)
def test_the_reference_passes_beside_itself(name: str) -> None:
    subject = task(name, repetitions=3)
    found = subject.evaluate(subject.root())
    assert found.status is Status.OK, found
    assert found.score == pytest.approx(1 / float(str(found.diagnostics["milliseconds"])))
    # Equal code: only a clock that favours one of the two gives more than noise can.
    assert 0.05 < float(str(found.diagnostics["speed_up"])) < 20


NEAR_MISSES = {
    # A constant, and the map that passes the published check at 1e-2.
    "a constant": ("vgg16", "    return torch.zeros(1, 1000)", INVALID, "wrong"),
    "no weight and bias": (
        "layernorm", "    return torch.nn.functional.layer_norm(x, x.shape[1:], eps=1e-5)",
        INVALID, "wrong",
    ),
    "moments of one distribution": (
        "layernorm", "    return (x - 0.5) * 12 ** 0.5 * w['weight'] + w['bias']",
        INVALID, "wrong",
    ),
    "a divisor of two": (
        "convdiv", f"    return torch.nn.functional.leaky_relu({CONV} / 2, 0.01)",
        INVALID, "wrong",
    ),
    "not a number": ("convdiv", f"    return {CONV} * float('nan')", INVALID, "wrong"),
    "another shape": ("convdiv", f"    return {CONV}[:1]", ERROR, "ValueError"),
    "no tensor": ("convdiv", "    return [[0.0]]", ERROR, "ValueError"),
    "ends": ("convdiv", "    import os; os._exit(0)", ERROR, "crash"),
    "prints a score": (
        "convdiv", "    import os; print('score 1e9'); raise SystemExit(0)", ERROR, "SystemExit",
    ),
    "patches torch": (
        "convdiv",
        "    torch.Tensor.copy_ = lambda a, b: a\n    torch.allclose = lambda *a, **k: True\n"
        "    return torch.zeros(4, 64, 126, 126)",
        INVALID, "wrong",
    ),
    "writes answers": (
        "convdiv",
        "    import os\n    for fd in range(3, 20):\n        try: os.write(fd, b'\\2\\0\\0\\0' "
        "+ b'x' * 18)\n"
        "        except OSError: pass\n    return x",
        ERROR, "forged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NEAR_MISSES)
def test_a_kernel_that_is_wrong_or_hostile_scores_nothing(case: str) -> None:
    name, body, status, kind = NEAR_MISSES[case]
    found = judged(name, body)
    assert (found.status, found.error_class, found.score) == (status, kind, 0.0), found


def test_pooling_before_the_monotone_part_is_right() -> None:
    body = (
        f"    y = torch.nn.functional.max_pool2d({CONV}, 4)\n"
        "    return torch.tanh(y) * w['scale'] + w['bias']"
    )
    text = f"{SAME}def run(w, x):\n{body}\n"
    found = task("convmax", repetitions=1).evaluate(kernel(text.encode()))
    assert found.status is Status.OK, found


def test_half_precision_passes_at_the_lax_tolerance_alone() -> None:
    body = (
        f"    y = {CONV} / w['divisor']\n"
        "    return torch.nn.functional.leaky_relu(y, 0.01).half().float()"
    )
    assert judged("convdiv", body, "1e-2").status is Status.OK
    strict = judged("convdiv", body)
    assert (strict.status, strict.error_class) == (INVALID, "wrong")


def test_a_reference_that_does_not_vary_gives_no_verdict() -> None:
    subject = task("convdiv")
    shapes = {
        name: one.shape for name, one in subject.spec.weights(np.random.default_rng(1)).items()
    }

    def weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
        found = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
        return {
            **found,
            "divisor": np.ones(1, dtype=np.float32),
            "conv.bias": rng.random(64, np.float32),
        }

    flat = msgspec.structs.replace(subject, spec=subject.spec._replace(weights=weights))
    found = flat.evaluate(flat.root())
    assert (found.status, found.error_class) == (ERROR, "insensitive")


def test_the_task_keeps_the_promises_of_a_task() -> None:
    broken = (kernel(b"this is no Python"), kernel(b"import os\nos._exit(0)"), kernel(b""))
    subject = TaskUnderTest(supply=lambda: task("vgg16", repetitions=1), refused=broken)
    for check in (
        check_states_what_the_search_needs,
        check_starts_from_an_artifact_that_it_can_judge,
        check_refuses_near_misses_with_a_reason,
        check_refuses_garbage_with_a_reason,
    ):
        check(subject)
