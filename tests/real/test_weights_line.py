"""Wake, build and gate over an endpoint, from the command line, as people use them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from daydream.weights.bank import Bank
from tests.real.commands import daydream
from tests.real.formula_server import FormulaServer

PRACTICE = "formula:split=practice,instance=0-19"
PROBES = "formula:split=probe,instance=0-79"


@pytest.fixture(name="server")
def _server() -> Iterator[FormulaServer]:
    server = FormulaServer()
    with server:
        yield server


def _wake(server: FormulaServer, *more: str, code: int = 0) -> dict[str, object]:
    found: dict[str, object] = daydream(
        "wake", "--tasks", PRACTICE, "--samples", "3", "-m", server.model("weak"), "--json", *more,
        code=code,
    ).json  # fmt: skip
    return found


def test_a_wake_keeps_every_attempt_and_asks_nothing_twice(server: FormulaServer) -> None:
    first = _wake(server)
    assert (first["done"], first["planned"], first["failed"]) == (60, 60, 0)
    assert 10 < int(str(first["solved"])) < 45
    again = _wake(server)
    assert (again["done"], again["known"]) == (0, 60)
    assert server.requests == 60
    with Bank(Path("weights/bank")) as bank:
        found = list(bank.episodes())
    assert len(found) == 60
    assert sum(one.solved for one in found) == first["solved"]
    one = found[0]
    assert (one.form, one.prompt[0].role, one.usage.requests) == ("chat", "system", 1)
    assert one.sampling is not None
    built = daydream("build", "--json").json
    assert built["sft"] > 10
    assert built["dpo"] > 10
    corpus = Path("weights/corpora/001/sft.jsonl")
    rows = [json.loads(line) for line in corpus.read_text().splitlines()]
    assert all(row["completion"][0]["content"].startswith("`") for row in rows)
    assert daydream("build", "--json").json["corpus"].endswith("002")


@pytest.mark.slow
def test_a_stopped_wake_goes_on_where_it_stopped(server: FormulaServer) -> None:
    part = _wake(server, "--budget", "20calls")
    assert "budget of 20 calls" in str(part["stopped"])
    done = int(str(part["done"]))
    assert 20 <= done < 60
    rest = _wake(server)
    assert (rest["known"], rest["done"]) == (done, 60 - done)
    assert server.requests == 60


def test_the_gate_promotes_what_is_better_rejects_what_is_worse_and_takes_back(
    server: FormulaServer,
) -> None:
    weak, strong, broken = map(server.model, ("weak", "strong", "broken"))
    frozen = daydream("gate", "init", "--tasks", PROBES, "-m", weak, "--json").json
    assert frozen["probes"] == 80
    good = daydream("gate", "check", strong, "--json").json
    assert good["verdict"]["decision"] == "promoted"
    assert good["verdict"]["trial"]["low"] > 0
    bad = daydream("gate", "check", broken, "--json").json
    assert bad["verdict"]["decision"] == "rejected"
    assert bad["incumbent"]["model"] == strong
    told = daydream("gate", "history").out
    assert "promoted" in told
    assert f"deployed: {strong}" in told.replace("\n", "")
    wake = ("wake", "--tasks", PRACTICE, "--samples", "1", "--adapter", "deployed", "--json", "-m")
    assert f"(expected --model {weak})" in " ".join(daydream(*wake, strong, code=2).err.split())
    assert daydream(*wake, weak).json["done"] == 20
    with Bank(Path("weights/bank")) as bank:
        assert {one.model for one in bank.episodes()} == {strong}
    assert daydream("gate", "rollback", "--json").json["candidate"]["model"] == weak
    assert "nothing to go back to" in daydream("gate", "rollback", code=2).err
    # A name may serve something else by now, so both are asked again.
    assert server.requests == 80 * 4 + 20
    good_one, bad_one = daydream("cycles", "--json").json["cycles"]
    assert (good_one["decision"], good_one["attempts"]) == ("promoted", 0)
    assert (bad_one["decision"], bad_one["attempts"]) == ("rejected", 0)
    assert good_one["cost_usd"] is None
    assert good_one["successes"] is None
    assert "promoted" in daydream("cycles").out
    kinds = [one["kind"] for one in daydream("gate", "history", "--json").json["history"]]
    assert kinds == ["check", "check", "rollback"]


@pytest.mark.slow
def test_what_the_probes_ask_is_neither_sampled_nor_built(server: FormulaServer) -> None:
    model = server.model("strong")
    daydream("wake", "--tasks", "formula:split=probe,instance=0-9", "-m", model)
    daydream("gate", "init", "--tasks", PROBES, "-m", model)
    asked = server.requests
    left = daydream("wake", "--tasks", "formula:split=probe,instance=0-30", "-m", model, "--json")
    assert (left.json["probes"], left.json["planned"]) == (31, 0)
    assert server.requests == asked
    refused = daydream("build", code=1)
    assert "that the probe set asks: formula:" in refused.err
    assert not Path("weights/corpora").exists()
    assert "no episode of" in daydream("build", "--leave-out-leaks", code=2).err


@pytest.mark.slow
def test_a_changed_probe_set_is_refused(server: FormulaServer) -> None:
    model = server.model("weak")
    daydream("gate", "init", "--tasks", PROBES, "-m", model)
    path = Path("weights/gate/probes.json")
    path.write_text(path.read_text().replace('"temperature":1.0', '"temperature":0.5'))
    told = daydream("gate", "check", server.model("strong"), code=1).err
    assert "was changed since it was frozen" in told


BAD = (
    (("wake", "-m", "mock:"), 2, "--tasks names no task"),
    (("wake", "--tasks", "formula:instance=9-3", "-m", "mock:"), 2, "range 'instance=9-3'"),
    (("wake", "--tasks", "formla", "-m", "mock:"), 2, "formula"),
    (("wake", "--tasks", "formula", "-m", "mock:", "--samples", "0"), 2, "--samples 0"),
    (("wake", "--tasks", "formula", "-m", "local:nowhere"), 2, "nowhere holds no model"),
    (("wake", "--tasks", "formula", "-m", "mock:", "--budget", "5 apples"), 2, "5 apples"),
    (("build",), 2, "no episode of 0 is a success"),
    (("build", "--gap", "0"), 2, "cannot be built so"),
    (("train", "--base", "nowhere", "--sft"), 2, "holds no corpus"),
    (("train", "--base", "nowhere", "--sft", "--corpus", "none"), 2, "none holds no corpus"),
    (("night", "--base", "nowhere"), 2, "has no probe set"),
    (("night", "--base", "nowhere", "--config", "none.toml"), 2, "cannot read none.toml"),
    (("gate", "rollback"), 2, "has no probe set"),
    (("gate", "check", "nowhere"), 2, "has no probe set"),
    (("gate", "init", "--tasks", "formula", "-m", "mock:"), 2, "1 different question ("),
    (("gate", "init", "--tasks", "formula:instance=0-9", "-m", "mock:", "--protect", "7 leaves"),
     2, "protected stratum '7 leaves' has no probe"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "code", "said"), BAD)
def test_bad_input_is_named(arguments: tuple[str, ...], code: int, said: str) -> None:
    assert said in " ".join(daydream(*arguments, code=code).err.split())
