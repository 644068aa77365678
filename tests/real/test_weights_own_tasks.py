"""The weights line over problem folders of one's own: wake, build, leaks, gate, imports."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.commands import daydream
from tests.real.model_server import ModelServer

EVALUATOR = """\
import ast
from pathlib import Path

def evaluate(path):
    value = ast.literal_eval(Path(path).read_text().split("=")[1].strip())
    return 1.0 / (1.0 + abs(value - {target}))
"""
PROGRAM = "first = 0\nsecond = 0\n"


def _problem(name: str, target: int, text: str = "", program: str = "value = 0\n") -> str:
    """Write a folder with a problem and return its path."""
    folder = Path(name)
    folder.mkdir()
    (folder / "initial_program.py").write_text(program)
    (folder / "evaluator.py").write_text(EVALUATOR.format(target=target))
    (folder / "instruction.md").write_text(text or f"Set value to a number close to {target}.\n")
    return name


def _answer(value: str) -> str:
    return f"File: initial_program.py\n```\nvalue = {value}\n```\n"


@pytest.fixture(name="server")
def _server() -> Iterator[ModelServer]:
    answers = [_answer(value) for value in ("9", "9.0", "5", "0.4", "0")]
    with ModelServer(answers=[*answers, "I cannot do that."]) as server:
        yield server


def test_an_own_problem_is_woken_graded_and_built_by_the_gap_of_its_scores(
    server: ModelServer,
) -> None:
    wake = ("wake", "--tasks", _problem("near", 9), "-m", server.local, "--json")
    # One sample after another, so that the answers come in the order in which they are scripted.
    for samples in range(1, 7):
        daydream(*wake, "--samples", str(samples))
    assert server.requests == 6
    built = daydream("build", "--gap", "0.1", "--json").json
    assert (built["sft"], built["left_out"]) == (4, {})
    scores = {"9": 1.0, "9.0": 1.0, "5": 0.2, "0.4": 0.104, "0": 0.1, "": -1.0}
    pairs = set()
    for line in Path("weights/corpora/001/dpo.jsonl").read_text().splitlines():
        row = json.loads(line)
        assert row["prompt"][0]["role"] == "system"
        texts = (row[one][0]["content"] for one in ("chosen", "rejected"))
        pairs.add(tuple(text.partition("value = ")[2].partition("\n")[0] for text in texts))
    assert len(pairs) == built["dpo"] == 4
    assert all(scores[better] - scores[worse] >= 0.1 for better, worse in pairs)
    assert ("9", "0") in pairs
    told = daydream("build", "--per-task", "1", "--pairs-per-task", "1").out
    assert told.startswith("1 success of 1 task and 1 contrast from 6 episodes: ")


COPIES = {
    "the same under another name": (PROGRAM, "Set first to 3. Leave second as it is.\n"),
    "with other variables": ("left = 0\nright = 0\n", "Set first to 3. Leave second as it is.\n"),
    "in another order": (
        "second = 0\nfirst = 0\n", "Leave second as it is. Set first to 3.\n",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_of_a_probe_in_a_folder_of_its_own_is_neither_woken_nor_built(copy: str) -> None:
    program, text = COPIES[copy]
    frozen = _problem("frozen", 3, "Set first to 3. Leave second as it is.\n", PROGRAM)
    copied = _problem("copied", 3, text, program)
    other = _problem("other", 4, "Set first to 4 and second to 5.\n", PROGRAM)
    more = _problem("more", 5)
    # Woken before a gate was frozen, it is in the bank, and stops the build.
    daydream("wake", "--tasks", copied, "--samples", "1", "-m", "mock:")
    daydream("gate", "init", "--tasks", frozen, more, "-m", "mock:")
    told = " ".join(daydream("build", code=1).err.split())
    assert "copied is the same problem as probe frozen, renamed or reordered" in told
    assert "nothing was written" in told
    assert not Path("weights/corpora").exists()
    woken = daydream(
        "wake", "--tasks", copied, other, "--samples", "1", "--seed", "1", "-m", "mock:", "--json"
    ).json
    assert (woken["probes"], woken["planned"]) == (1, 1)


@pytest.mark.slow
def test_a_gate_over_own_problems_refuses_another_evaluator(server: ModelServer) -> None:
    names = [_problem(f"p{number}", number + 2) for number in range(3)]
    daydream("gate", "init", "--tasks", *names, "-m", "mock:", "--protect", "p0")
    evaluator = Path("p1/evaluator.py")
    before = evaluator.read_text()
    evaluator.write_text(before + "# changed\n")
    told = " ".join(daydream("gate", "check", server.local, code=1).err.split())
    assert "the evaluator of probe p1 is now" in told
    evaluator.write_text(before)
    Path("p2/instruction.md").write_text("Set value to 7.\n")
    told = " ".join(daydream("gate", "check", server.local, code=1).err.split())
    assert "probe p2 now asks something else than was frozen" in told
    shutil.rmtree("p2")
    assert "p2" in daydream("gate", "check", server.local, code=2).err
    assert server.requests == 0
