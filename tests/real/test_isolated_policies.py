"""Policy files from the command line, without --trust: isolated and judged."""

import json
from pathlib import Path

from tests.conftest import ROOT
from tests.real.commands import daydream, history

THREE = (
    "class Policy:\n"
    "    def select_batch(self, view, limit):\n"
    "        return [view.root] * min(3, limit) if view.batches == 0 else []\n"
)


def test_a_file_searches_and_replays_in_a_process_of_its_own() -> None:
    Path("mine.py").write_text(THREE)
    run = ("run", "branch-world", "--policy", "mine.py", "--rounds", "1", "--dreamer", "none")
    assert daydream(*run, "--out", "r", "--json").json["calls"] == 3
    daydream(*run, "--out", "trusted", "--trust")
    assert history(Path("r")) == history(Path("trusted"))
    replay = ("replay", "r", "--policy", "mine.py", "--json")
    assert daydream(*replay).json == daydream(*replay, "--trust").json


def test_a_run_with_a_file_resumes_and_is_judged_again() -> None:
    Path("mine.py").write_text(THREE)
    run = ("run", "branch-world", "--policy", "mine.py", "--out", "r", "--max-calls", "2")
    daydream(*run)
    Path("mine.py").unlink()
    done = daydream("resume", "r", "--json").json
    assert [one["calls"] for one in done["rounds"]] == [3, 3]
    assert daydream("dream", "r", "--dry-run", "--json").json["disqualified"] == 0


BAD = (
    ("import os\ndef select_batch(view, limit):\n    os._exit(3)\n", 1, "ended with status 3"),
    (
        "import os\ndef select_batch(view, limit):\n"
        "    pid = os.getpid() >> 3 * view.batches\n"
        "    return [0] * (1 + pid % 8) if view.batches < 8 else []\n",
        None,
        "non-determinism",
    ),
    ("def select_batch(view, limit):\n    return [5] if view.batches else [0]\n", 2, "parent 5"),
    ("def select_batch(view, limit):\n    return []\n", 0, "reveals nothing"),
    ("def select_batch(view limit):\n", 1, "SyntaxError"),
    ("select_batch = 1\n", 1, "has no select_batch"),
)


def test_a_bad_file_is_out_with_world_batch_and_reason() -> None:
    daydream("run", "branch-world", "--out", "r", "--rounds", "1")
    for source, batch, reason in BAD:
        Path("bad.py").write_text(source)
        failed = daydream("replay", "r", "--policy", "bad.py", "--json", code=1)
        out = failed.json["disqualified"]
        assert set(out) == {"world", "batch", "reason"}
        assert out["world"] == 1
        assert reason in out["reason"]
        assert batch is None or out["batch"] == batch, reason


def test_a_file_that_is_no_policy_starts_no_run() -> None:
    Path("bad.py").write_text("x = (\n")
    refused = daydream("run", "branch-world", "--policy", "bad.py", "--out", "r", code=1)
    assert "SyntaxError" in refused.err
    assert not Path("r").exists()


def test_the_example_in_the_style_of_the_paper_runs_live_and_in_replay() -> None:
    example = str(ROOT / "examples" / "optimal_policy.py")
    run = ("run", "branch-world", "--rounds", "1", "--dreamer", "none", "--policy")
    daydream(*run, example, "--out", "r")
    live = daydream("show", "r", "--json").json
    scored = daydream("replay", "r", "--policy", example, "--json").json["worlds"][0]
    assert scored["attempts"] == live["calls"] > 8
    assert scored["off_record"] == 0
    assert scored["quality"] == 0.95
    daydream(*run, "parallel_refine-w6-d13", "--out", "wide")
    again = daydream("replay", "wide", "--policy", example, "--json").json["worlds"][0]
    assert (again["attempts"], again["quality"]) == (scored["attempts"], scored["quality"])


PLANS = """
class OptimalPolicy:
    config = {"beta": 0.75}

    def plan_grid(self, context):
        return GridPlan(context.max_branches + len(context.manifests), 1 + len(context.manifests))

    def solve(self, question, budget=None):
        while question.legal_actions():
            question.probe_batch(question.legal_actions())
"""


def test_a_planned_grid_follows_the_rounds_and_replays_as_it_ran() -> None:
    Path("plans.py").write_text(PLANS)
    run = ("run", "branch-world", "--policy", "plans.py", "--rounds", "3", "--dreamer", "none")
    calls = daydream(*run, "--out", "r", "--max-branches", "2", "--json").json["rounds"]
    assert [one["calls"] for one in calls] == [2, 4, 6]
    grids = [json.loads(text)["grid"] for _, text in history(Path("r"))]
    assert grids == [
        {"width": 2 + n, "depth": 1 + n, "beta": 0.75, "max_branches": 2} for n in range(3)
    ]
    for trust in ((), ("--trust",)):
        told = daydream("replay", "r", "--policy", "plans.py", "--json", *trust).json
        assert [world["attempts"] for world in told["worlds"]] == [2, 4, 6]
        assert [world["off_record"] for world in told["worlds"]] == [0, 1, 2]
    daydream(*run, "--out", "trusted", "--max-branches", "2", "--trust")
    assert history(Path("trusted")) == history(Path("r"))
