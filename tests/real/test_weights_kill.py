"""``kill -9`` in the weights line: the same command ends as if nothing had happened."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from daydream.weights.bank import Bank
from daydream.weights.gate import Gate
from tests.real.commands import call as daydream
from tests.real.commands import start
from tests.real.formula_server import FormulaServer
from tests.real.killed_at import killed_at
from tests.unit.weights.samples import episode

PROBES = "formula:split=probe,instance=0-39"
PARALLEL = 8
"""Requests that are under way at once: those alone may be lost, and asked again."""


@pytest.fixture(name="server")
def _server() -> Iterator[FormulaServer]:
    with FormulaServer() as server:
        yield server


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize(
    "file",
    [
        "manifest.json",
        pytest.param("dpo.jsonl", marks=pytest.mark.slow),
    ],
)
def test_a_killed_build_is_no_corpus_and_is_built_again_to_the_same_bytes(file: str) -> None:
    with Bank(Path("weights/bank")) as bank:
        for number in range(6):
            text = f"x+{number}="
            bank.append(
                [
                    episode(f"formula:instance={number}", f"x{number}+", prompt=text),
                    episode(f"formula:instance={number}", f"x{number}*", prompt=text, solved=False),
                ]
            )
    daydream("build", "--out", "whole")
    killed_at(f"corpora/001/{file}", "build")
    assert "holds no corpus" in daydream("train", "--base", "base", "--sft", code=2).err
    assert daydream("build", "--json").json["corpus"].endswith("001")
    left = _files(Path("weights/corpora/001"))
    assert left == _files(Path("whole"))


def _checked(killed: str = "") -> tuple[object, ...]:
    """Return what a check of a better model comes to, without addresses and times."""
    home = f"home-{Path(killed).name or 'whole'}"
    with FormulaServer() as server:
        weak, strong = server.model("weak"), server.model("strong")
        daydream("gate", "init", "--tasks", PROBES, "-m", weak, "--home", home)
        if killed:
            killed_at(killed, "gate", "check", strong, "--home", home)
        if killed.endswith("deployed"):
            # The history has decided: the pointer follows, and nothing is judged again.
            told = daydream("gate", "check", strong, "--home", home, code=2).err
            assert "is what is deployed already" in told
        else:
            daydream("gate", "check", strong, "--home", home)
        requests = server.requests
        back = daydream("gate", "rollback", "--home", home, "--json").json["candidate"]["model"]
        gate = Gate(Path(home) / "gate", now=lambda: 0.0)
        [entry, _] = gate.history()
        deployed = entry.candidate.model == strong
        return requests, deployed, back == weak, entry.verdict, entry.tokens, entry.cost_usd


@pytest.mark.parametrize(
    "file", ["gate/deployed", pytest.param("gate/history.jsonl", marks=pytest.mark.slow)]
)
def test_a_killed_check_pays_nothing_twice_and_decides_once(file: str) -> None:
    whole = _checked()
    assert whole[:3] == (80, True, True)
    assert _checked(killed=file) == whole


@pytest.mark.slow
def test_a_check_killed_among_its_questions_goes_on_behind_what_was_paid(
    server: FormulaServer,
) -> None:
    weak, strong = server.model("weak"), server.model("strong")
    daydream("gate", "init", "--tasks", PROBES, "-m", weak)
    process = start("gate", "check", strong)
    while server.requests < 55:
        assert process.poll() is None
    process.kill()
    process.wait()
    before = server.requests
    assert before < 80
    daydream("gate", "check", strong)
    assert 80 <= server.requests <= 80 + PARALLEL
    assert daydream("gate", "history", "--json").json["deployed"]["model"] == strong
    # Another check of the same name asks anew, for the name may serve something else by then.
    daydream("gate", "rollback")
    asked = server.requests
    daydream("gate", "check", strong)
    assert server.requests == asked + 80


@pytest.mark.slow
def test_a_stopped_check_can_be_begun_anew(server: FormulaServer) -> None:
    weak, strong = server.model("weak"), server.model("strong")
    daydream("gate", "init", "--tasks", PROBES, "-m", weak)
    killed_at("gate/history.jsonl", "gate", "check", strong)
    assert server.requests == 80
    daydream("gate", "check", strong, "--anew")
    assert server.requests == 160


@pytest.mark.slow
def test_a_killed_wake_asks_the_rest_and_counts_every_answer_once(server: FormulaServer) -> None:
    command = ("wake", "--tasks", "formula:split=practice,instance=0-19", "--samples", "3", "-m")
    process = start(*command, server.model("weak"))
    while server.requests < 30:
        assert process.poll() is None
    process.kill()
    process.wait()
    daydream(*command, server.model("weak"))
    assert 60 <= server.requests <= 60 + PARALLEL
    [group] = daydream("bank", "show", "--json").json["groups"]
    assert group["episodes"] == 60
    with Bank(Path("weights/bank")) as bank:
        assert all(one.usage.requests == 1 for one in bank.episodes())
