"""A real language model, small and packaged, searches HumanEval on this machine: make test-model.

Opt-in: it needs torch and a model of 93 MB, and takes minutes. The model solves easy problems now
and then; what has to hold is that the loop works with it: real answers are taken apart, scored and
counted, and among three easy problems it solves at least one.
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.real.commands import call
from tools.serve_model import ModelServer, loaded, packaged, unpacked

EASY = (23, 53, 28)
"""HumanEval's strlen, add and concatenate."""
TEXTS = Path(__file__).parent / "texts"
"""Shorter texts than ours: a model of 135 million parameters loses the thread of long ones."""


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    folder = unpacked(packaged(), ROOT / ".cache" / "models")
    serving = ModelServer({"smollm2": loaded(folder, 1)}, 0)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield serving
    serving.shutdown()
    thread.join()
    serving.server_close()


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_a_real_model_solves_one_of_three_easy_problems(server: ModelServer) -> None:
    asked = server.answered
    solved = []
    for number in EASY:
        options = "edit=whole,max_tokens=160,temperature=0.3,timeout=300,deadline=600"
        done = call(
            "run", f"humaneval:id={number}", "--agent", f"chat:{options}:{server.local}",
            "--prompts", str(TEXTS), "--rounds", "1", "--policy", "parallel_refine-w3-d1",
            "--workers", "1", "--max-failures", "0", "--out", f"run-{number}", "--json",
        ).json  # fmt: skip
        usage = done["rounds"][0]["usage"]
        assert usage["requests"] == server.answered - asked
        assert usage["output_tokens"] > 0
        asked = server.answered
        best = done["best"] or 0.0
        print(f"HumanEval/{number}: best {best:.2f} in {done['calls']} attempts")
        solved += [number] if best == 1.0 else []
    assert solved
