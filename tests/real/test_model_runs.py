"""The whole loop against a model server that fails on demand: nothing paid is lost."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from daydream.store.events import Usage
from daydream.store.run_folder import RunFolder
from tests.real.commands import Ran, daydream, start
from tests.real.model_server import KEY, Fault, ModelServer
from tests.real.problems import problem

FAST = "chat:timeout=60,backoff=0.01"


def _totals(run: Path) -> Usage:
    summary = json.loads((run / "summary.json").read_text())
    total = Usage()
    for one in summary["rounds"]:
        total += Usage(**one["usage"])
    return total


def _agree(run: Path, server: ModelServer) -> None:
    """The ledger in summary.json, in ``show`` and in the journal is the server's own count."""
    total = _totals(run)
    assert total.requests == server.requests
    assert (total.input_tokens, total.output_tokens) == server.tokens
    shown = daydream("show", str(run), "--json").json
    assert sum(one["usage"]["requests"] for one in shown["rounds"]) == server.requests
    with RunFolder.open(run) as folder:
        assert folder.state().usage.requests == server.requests


def _run(server: ModelServer, *arguments: str, code: int = 0, agent: str = "") -> Ran:
    agent = agent or f"{FAST}:{server.local}"
    given = ("run", "branch-world", "--agent", agent, "--out", "run", "--json", *arguments)
    return daydream(*given, code=code)


@pytest.mark.parametrize("stream", ["off", pytest.param("on", marks=pytest.mark.slow)])
@pytest.mark.parametrize("wire", ["openai", pytest.param("anthropic", marks=pytest.mark.slow)])
def test_a_run_survives_every_fault_and_its_ledger_is_the_servers_count(
    wire: str, stream: str
) -> None:
    faults: list[Fault] = [
        "ok", "429", "500", "ok", "cut", "broken", "empty", "useless", "429", "429", "ok",
    ]  # fmt: skip
    with ModelServer(faults) as server:
        environment = {
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"http://{server.host}/v1",
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": f"http://{server.host}",
        }
        done = daydream(
            "run", "branch-world", "--agent", f"{FAST},stream={stream}:{wire}/tiny",
            "--out", "run", "--json", "--rounds", "1", "--policy", "parallel_refine-w3-d4",
            "--workers", "2", env=environment,
        ).json  # fmt: skip
        assert done["calls"] == 12
        assert done["rounds"][0]["failures"] <= 1
        assert done["rounds"][0]["finished"]
        assert {one.path for one in server.seen} == {
            "/v1/messages" if wire == "anthropic" else "/v1/chat/completions"
        }
        assert all(KEY in one.key for one in server.seen)
        assert all("temperature" not in one.body for one in server.seen)
        assert all(one.body.get("stream", False) is (stream == "on") for one in server.seen)
        _agree(Path("run"), server)


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["off", "on"])
def test_a_silent_and_a_slow_server_cost_one_request_each(stream: str) -> None:
    with ModelServer(["ok", "silent", "slow"]) as server:
        done = _run(
            server, "--max-calls", "3", "--workers", "1",
            agent=f"chat:timeout=3,backoff=0.01,stream={stream}:{server.local}",
        ).json  # fmt: skip
        assert done["rounds"][0]["failures"] == 0
        assert server.requests == 1 + 3 + 2
        _agree(Path("run"), server)


@pytest.mark.slow
def test_a_rejected_parameter_is_left_out_once_and_for_all() -> None:
    with ModelServer(refuses="temperature") as server:
        agent = f"chat:temperature=0.5,backoff=0.01:{server.local}"
        done = _run(server, "--max-calls", "4", "--workers", "1", agent=agent).json
        assert done["rounds"][0]["failures"] == 0
        assert ["temperature" in one.body for one in server.seen] == [True] + 5 * [False]
        _agree(Path("run"), server)


@pytest.mark.slow
def test_a_model_that_fails_again_and_again_stops_the_run_with_the_cause() -> None:
    with ModelServer(lambda number: "ok" if number == 0 else "quota") as server:
        done = _run(server, "--workers", "1", "--max-failures", "3", code=1).json
        assert done["calls"] == 3
        assert "3 attempts in a row" in done["stopped"]
        assert "no money" in done["stopped"]
        _agree(Path("run"), server)
        again = daydream("resume", "run", "--max-calls", "5", "--json", code=1).json
        assert "brought no answer" in again["message"] or "no money" in again["message"]
        _agree(Path("run"), server)


def test_a_model_that_cannot_be_used_is_found_out_before_the_first_attempt() -> None:
    with ModelServer(lambda number: "quota") as server:
        failed = _run(server, code=1)
        assert failed.json["error"] == "ModelError"
        assert server.requests == 1
        _agree(Path("run"), server)
    with RunFolder.open(Path("run")) as folder:
        assert folder.state().calls == 0


@pytest.mark.slow
def test_a_token_budget_stops_the_run_and_a_larger_one_continues_it() -> None:
    with ModelServer() as server:
        done = _run(server, "--budget", "12ktok", "--workers", "1").json
        assert "budget of 12,000 tokens" in done["stopped"]
        assert sum(server.tokens) <= 12_000
        paid = done["calls"]
        assert paid > 0
        more = daydream("resume", "run", "--budget", "90calls,20ktok", "--json").json
        assert more["calls"] > paid
        _agree(Path("run"), server)


def test_kill_9_loses_nothing_that_was_paid_for() -> None:
    with ModelServer(lambda number: "hold" if number == 6 else "ok") as server:
        agent = f"chat:backoff=0.01:{server.local}"
        process = start(
            "run", "branch-world", "--agent", agent, "--out", "run", "--workers", "1",
            "--rounds", "1", "--policy", "parallel_refine-w2-d5",
        )  # fmt: skip
        try:
            assert server.held.wait(60)
        finally:
            process.kill()
            process.wait()
        server.release.set()
        with RunFolder.open(Path("run")) as folder:
            state = folder.state()
        assert state.calls == 5
        done = daydream("resume", "run", "--json").json
        assert done["calls"] == 10
        assert done["rounds"][0]["lost"]["requests"] == 1
        _agree(Path("run"), server)
        asked = Counter(json.dumps(one.body, sort_keys=True) for one in server.seen)
        answered = [one for one in server.seen if one.fault == "ok"]
        # Both branches open with the same question but for its number; the tiny one comes twice.
        assert len(answered) == 2 + 10
        assert len(asked) >= 10


@pytest.mark.slow
def test_an_answer_that_came_before_the_kill_is_not_paid_for_again() -> None:
    """The first answer of an attempt is stored, so only its repair call is asked again."""

    def plan(number: int) -> Fault:
        return {1: "useless", 2: "hold"}.get(number, "ok")  # type: ignore[return-value]

    with ModelServer(plan) as server:
        agent = f"chat:backoff=0.01:{server.local}"
        process = start("run", "branch-world", "--agent", agent, "--out", "run", "--workers", "1")
        try:
            assert server.held.wait(60)
        finally:
            process.kill()
            process.wait()
        server.release.set()
        done = daydream("resume", "run", "--max-calls", "1", "--json").json
        assert done["calls"] == 1
        questions = [one.body["messages"] for one in server.seen if len(one.body["messages"]) > 1]
        assert [len(one) for one in questions] == [2, 4, 4]
        assert done["rounds"][0]["lost"]["requests"] == 2
        _agree(Path("run"), server)


@pytest.mark.slow
def test_only_the_cache_answers_when_told_so() -> None:
    with ModelServer() as server:
        _run(server, "--max-calls", "4", "--workers", "1")
        asked = server.requests
        daydream("resume", "run", "--cache", "only", "--max-calls", "5", "--json")
        assert server.requests == asked
    with RunFolder.open(Path("run")) as folder:
        *_, last = folder.state().rounds[1].finished.values()
    assert "no stored answer" in last.message


def test_a_planted_key_is_written_nowhere() -> None:
    faults: list[Fault] = ["ok", "500", "ok", "quota", "ok"]
    with ModelServer(faults, refuses="top_p") as server:
        environment = {"MY_KEY": KEY}
        done = daydream(
            "run", "branch-world", "--agent",
            f"chat:top_p=0.5,backoff=0.01:{server.local}?api_key_env=MY_KEY",
            "--out", "run", "--max-calls", "5", "--workers", "1", "--json",
            env=environment,
        )  # fmt: skip
        assert all(KEY in one.key for one in server.seen)
        assert any(one.fault == "quota" for one in server.seen)
    assert "[key]" in (Path("run") / "journal.jsonl").read_text()
    shown = daydream("show", "run", "--json")
    assert KEY not in done.out + done.err + shown.out + shown.err
    for path in sorted(Path().rglob("*")):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path


def test_a_missing_key_is_named_with_what_to_do_instead() -> None:
    failed = daydream("run", "branch-world", "-m", "openai/gpt-5-mini", "--json", code=3).json
    assert "OPENAI_API_KEY" in failed["message"]
    assert "-m mock:" in failed["message"]
    assert not Path("runs").exists()


@pytest.mark.slow
def test_models_lists_a_server_that_answers() -> None:
    with ModelServer() as server:
        listed = daydream("models", "--json", env={"OLLAMA_HOST": server.host}).json["models"]
    ways: dict[str, Any] = {one["name"]: one for one in listed}
    assert ways["ollama"]["models"] == ["ollama/tiny"]
    assert ways["ollama"]["usable"]
    assert not ways["openai"]["usable"]
    for name in ("claude", "codex", "gemini", "pi"):
        assert any(one["models"] == [f"cli:{name}"] for one in listed)
    assert ways["mock"]["usable"]


def test_the_mock_stands_in_for_every_model_when_the_environment_says_so() -> None:
    done = daydream(
        "run", "branch-world", "-m", "openai/gpt-5-mini", "--rounds", "1", "--json",
        env={"DAYDREAM_MOCK": "1"},
    ).json  # fmt: skip
    assert done["rounds"][0]["failures"] == 0
    assert done["best"] == 0.95


def test_the_mock_changes_any_program_a_little() -> None:
    for text in ("x = 1\n", "def f():\n    return 1"):
        problem("def evaluate(path):\n    return 1.0\n", {"initial_program.py": text})
        done = daydream(
            "run", "task", "-m", "mock:", "--rounds", "1", "--policy", "parallel_refine-w1-d2",
            "--json",
        ).json  # fmt: skip
        assert (done["calls"], done["rounds"][0]["failures"]) == (2, 0), text


def test_a_budget_of_money_needs_every_price_and_the_mock_costs_nothing() -> None:
    budget = ("--budget", "5usd", "--json")
    done = daydream("run", "branch-world", "-m", "mock:", *budget, "--out", "run").json
    assert done["rounds"][0]["usage"]["cost_usd"] == 0.0
    unknown = "local/tiny@http://127.0.0.1:1/v1"
    asking = ("--dreamer", "developer", "--revisions", "1")
    for words in (
        ("run", "branch-world", "-m", unknown),
        ("run", "branch-world", "--developer", unknown, *asking),
        ("dream", "run", "-m", unknown, *asking),
    ):
        failed = daydream(*words, *budget, code=2).json
        assert f"needs the price of {unknown}" in failed["message"]
    assert not Path("runs").exists()
    done = daydream("dream", "run", "-m", "mock:", *asking, *budget).json
    assert done["usage"]["cost_usd"] == 0.0


@pytest.mark.slow
def test_a_dry_run_estimates_and_writes_nothing() -> None:
    Path("daydream.toml").write_text('[run.prices]\n"mock:" = { input = 1.0, output = 4.0 }\n')
    found = daydream("run", "lasso", "-m", "mock:", "--dry-run", "--json").json
    assert found["calls"] == 24
    assert found["prompt_tokens"] > 500
    assert found["most_usd"] == pytest.approx(2 * found["likely_usd"])
    assert found["policies"] == 0
    asking = ("lasso", "-m", "mock:", "--dreamer", "developer", "--revisions", "3", "--dry-run")
    both = daydream("run", *asking, "--json").json
    assert (both["policies"], both["developer"]) == (6, "mock:")
    one = daydream("explore", *asking, "--json").json
    assert (one["calls"], one["policies"]) == (12, 0)
    assert not Path("runs").exists()


@pytest.mark.slow
def test_a_price_makes_a_cost_and_its_absence_none() -> None:
    with ModelServer() as server:
        _run(server, "--max-calls", "3")
    assert _totals(Path("run")).cost_usd is None
    Path("daydream.toml").write_text('[run.prices]\n"mock:" = { input = 1.0, output = 4.0 }\n')
    daydream("run", "branch-world", "-m", "mock:", "--budget", "1usd,3calls", "--out", "paid")
    total = _totals(Path("paid"))
    assert total.cost_usd == pytest.approx(
        (total.input_tokens + 4 * total.output_tokens) / 1e6, rel=1e-9
    )
