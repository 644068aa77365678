"""Large changes: requests, money and memory of a review are bounded, and coverage is honest."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.real.checkouts import CHECKS, git, seeded, state
from tests.real.commands import daydream
from tests.real.review_server import ReviewServer

PEAK = """
import resource, sys
from daydream.cli.main import main
code = main(sys.argv[1:])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(f"peak {peak}", file=sys.stderr)
sys.exit(code)
"""


def _wide(count: int, characters: int) -> Mapping[str, str]:
    body = "".join(f"def part_{n}(value):\n    return value + {n}\n" for n in range(2_000))
    return {f"pack/part_{n}.py": f"# {n}\n{body[:characters]}" for n in range(count)}


def _archived(outcome: Mapping[str, Any], name: str) -> Any:
    return json.loads(Path(outcome["archive"], name).read_text())


@pytest.mark.slow
def test_two_hundred_files_are_reviewed_in_bounded_requests_and_memory() -> None:
    seeded(Path("repo"), _wide(200, 12_000))
    with ReviewServer() as server:
        words = ("review", "repo", "-m", server.model, "--archive", "a", "--no-fix", "--json")
        ran = subprocess.run(
            [sys.executable, "-c", PEAK, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
    assert ran.returncode == 0, ran.stderr
    done = json.loads(ran.stdout.splitlines()[-1])
    reviewers, sweeps, others = 12, 2, 2
    assert len(server.seen) <= reviewers + sweeps + others
    assert max(len(json.dumps(one.body)) for one in server.seen) < 120_000
    assert int(ran.stderr.split("peak ")[1]) < 400 * 1024, "KiB"
    shown = set()
    for one in server.seen:
        if one.phase.startswith(("review-", "sweep-")):
            text = one.body["messages"][1]["content"]
            shown |= {line for line in text.splitlines() if line.startswith("+++ b/pack/")}
    manifest = _archived(done, "manifest.json")
    assert len(manifest["code_context"]["changed_files"]) == 200
    assert manifest["metrics"]["coverage_ratio"] == len(shown) / 200 < 1.0


@pytest.mark.slow
def test_no_more_requests_are_made_than_allowed_and_nothing_is_mended() -> None:
    repo = seeded(Path("repo"))
    before = state(repo)
    with ReviewServer() as server:
        done = daydream(
            *("review", "repo", "-m", server.model, "--archive", "a", "--json", "--yes"),
            *("--max-requests", "6", "--fanout", "1", "--test-command", CHECKS),
        ).json
    assert len(server.seen) == done["usage"]["requests"] == 6
    assert done["stopped"] == "spent 6 requests"
    assert (done["commit"], done["tests"]) == (None, None)
    assert any(phase.startswith("fix") for phase in server.phases)
    assert len(done["items"]) == 3
    assert state(repo) == before
    manifest = _archived(done, "manifest.json")
    assert (manifest["status"], manifest["run"]["stopped"]) == ("partial", done["stopped"])


@pytest.mark.slow
def test_a_budget_of_tokens_holds_and_what_was_found_until_then_is_kept() -> None:
    seeded(Path("repo"), _wide(30, 12_000))
    with ReviewServer() as server:
        done = daydream(
            *("review", "repo", "-m", server.model, "--archive", "a", "--json", "--yes"),
            *("--budget", "90ktok", "--fanout", "2"),
        ).json
    assert sum(server.tokens) <= 90_000
    assert done["stopped"] == "the budget of 90,000 tokens is spent"
    assert (done["usage"]["input_tokens"], done["usage"]["output_tokens"]) == server.tokens
    assert 0 <= _archived(done, "manifest.json")["metrics"]["coverage_ratio"] < 1
    assert git("repo", "for-each-ref", "refs/heads/daydream") == ""


@pytest.mark.slow
def test_a_time_and_a_number_of_calls_are_bounds_too() -> None:
    seeded(Path("repo"))
    words = ("review", "repo", "--archive", "a", "--json", "--no-fix", "--fanout", "1")
    with ReviewServer() as server:
        late = daydream(*words, "-m", server.model, "--max-time", "1e-9").json
        assert (late["stopped"], server.seen) == ("the time is up", [])
        few = daydream(*words, "-m", server.model, "--budget", "2calls,1h").json
        assert (few["stopped"], len(server.seen)) == ("spent 2 requests", 2)


@pytest.mark.slow
def test_a_budget_of_money_needs_a_price_and_holds_with_one() -> None:
    seeded(Path("repo"))
    with ReviewServer() as server:
        words = ("review", "repo", "-m", server.model, "--archive", "a", "--budget", "0.1usd")
        said = daydream(*words, code=2).err
        assert "price" in said
        assert server.seen == []
        Path("daydream.toml").write_text(
            f'[run.prices]\n"{server.model}" = {{ input = 100.0, output = 1.0 }}\n'
        )
        done = daydream(*words, "--json", "--no-fix", "--fanout", "1").json
    assert done["stopped"] == "the budget of 0.1 usd is spent"
    tokens = server.tokens
    assert done["usage"]["cost_usd"] == pytest.approx((100 * tokens[0] + tokens[1]) / 1e6)
    assert done["usage"]["cost_usd"] <= 0.1
