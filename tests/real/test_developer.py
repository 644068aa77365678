"""Dreaming with a model that writes policies: what it is shown, what is kept, what never wins."""

import json
from pathlib import Path
from typing import Any

import pytest

from daydream.store.run_folder import RunFolder
from tests.real.commands import Ran, daydream, start
from tests.real.model_server import KEY, ModelServer

NARROW = """Version: four branches are enough.

File: policy.py
```python
class Policy:
    def select_batch(self, view, limit):
        if view.branches < 4:
            return [0] * (4 - view.branches)
        leaves = [n for n in view.frontier if n and view.nodes[n].depth < 4]
        return leaves[:limit]
```
"""
CRASH = (
    "```python\nclass Policy:\n    def select_batch(self, view, limit):\n        return 1 // 0\n```"
)
ILLEGAL = "```python\ndef select_batch(view, limit):\n    return [99]\n```"
BROKEN = "```python\nclass Policy\n    pass\n```"
PROSE = "I would open fewer branches."
SOLVES = """```python
class OptimalPolicy:
    config = {"beta": 0.6}

    def solve(self, question, budget=None):
        question.probe_batch(question.legal_roots()[:4])
        while True:
            ready = [n for n in question.legal_actions() if 1 < question.meta(n).attempt <= 4]
            if not ready:
                return
            question.probe_batch(ready)
```
"""


@pytest.fixture
def explored() -> Path:
    """A run with one rollout and no selection."""
    daydream("explore", "branch-world", "--out", "run", "--json")
    return Path("run")


def _dream(server: ModelServer, *arguments: str, code: int = 0) -> Ran:
    given = ("dream", "run", "--model", f"backoff=0.01,timeout=5:{server.local}", "--json")
    return daydream(*given, *arguments, code=code, env={"LOCAL_API_KEY": KEY})


def test_a_developer_learns_from_each_version_and_the_best_is_deployed(explored: Path) -> None:
    answers = [PROSE, CRASH, ILLEGAL, BROKEN, NARROW, NARROW, SOLVES]
    with ModelServer(answers=answers) as server:
        done = _dream(server, "--dreamer", "developer", "--revisions", "7").json
        asked = [one.body["messages"][-1]["content"] for one in server.seen]
        assert done["usage"]["requests"] == server.requests == 7
        assert (done["usage"]["input_tokens"], done["usage"]["output_tokens"]) == server.tokens
    versions = done["revisions"]
    assert "none defines" in versions[0]["problem"]
    assert "ZeroDivisionError" in versions[1]["disqualified"]["reason"]
    assert "99" in versions[2]["disqualified"]["reason"]
    assert "SyntaxError" in versions[3]["disqualified"]["reason"]
    assert versions[4]["mean"] == pytest.approx(0.938)
    assert versions[5]["problem"] == "it is version 5 again (expected another one)"
    assert versions[6]["mean"] == pytest.approx(0.938)
    assert done["chosen"]["policy"] == versions[4]["policy"]
    assert done["incumbent"]["mean"] == pytest.approx(0.884)
    assert "ZeroDivisionError" in asked[2]
    assert "four branches" not in asked[5]
    assert "view.branches < 4" in asked[5]
    assert "node 22 (branch 3, depth 4) 0.95" in asked[0]
    kept = sorted(path.name for path in next((explored / "dreams").iterdir()).iterdir())
    assert [name for name in kept if name.endswith(".py")] == [
        f"version-{number}.py" for number in (2, 3, 4, 5, 7)
    ]
    assert json.loads((explored / "summary.json").read_text())["rounds"][0]["usage"] == {
        **done["usage"]
    }
    done = daydream("explore", "run", "--json").json
    assert [one["calls"] for one in done["rounds"]] == [48, 16]
    assert done["rounds"][1]["policy"] == versions[4]["policy"]


def test_without_a_better_version_the_policy_in_use_stays(explored: Path) -> None:
    with ModelServer(answers=[CRASH, PROSE]) as server:
        done = _dream(server, "--dreamer", "developer", "--revisions", "2").json
    assert not done["changed"]
    assert done["deployed"]["policy"] == "parallel_refine-w6-d8"


def test_a_model_proposes_numbers_and_hears_what_is_wrong_with_them(explored: Path) -> None:
    answers = [
        '{"kind": "adaptive", "width": 0, "depth": 4, "patience": 3, "min_gain": 0.02}',
        '{"kind": "file", "file": "x.py", "source": "import os"}',
        '```json\n{"kind": "adaptive", "width": 4, "depth": 4, '
        '"patience": 3, "min_gain": 0.02}\n```',
    ]
    with ModelServer(answers=answers) as server:
        done = _dream(server, "--dreamer", "spec-model", "--revisions", "3").json
        asked = [one.body["messages"][-1]["content"] for one in server.seen]
    assert "width (w) is 0" in done["revisions"][0]["problem"]
    assert "no built-in family" in done["revisions"][1]["problem"]
    assert "width (w) is 0" in asked[1]
    assert done["deployed"]["policy"] == "adaptive-w4-d4-p3-g0.02"


def test_kill_9_in_a_dream_pays_for_no_revision_twice(explored: Path) -> None:
    flags = ("--dreamer", "developer", "--revisions", "3", "--cache", "off")
    with ModelServer(["ok", "hold"], answers=[NARROW, CRASH, SOLVES]) as server:
        running = start("dream", "run", "--model", f"backoff=0.01:{server.local}", *flags, "--json")
        try:
            assert server.held.wait(60)
        finally:
            running.kill()
            running.wait()
            running.stdout.close() if running.stdout else None
            running.stderr.close() if running.stderr else None
        server.release.set()
        done = daydream(
            "dream", "run", "--model", f"backoff=0.01:{server.local}", *flags, "--json"
        ).json
        assert server.requests == 4
    assert [one["problem"] for one in done["revisions"]] == ["", "", ""]
    assert done["revisions"][0]["mean"] == pytest.approx(0.938)
    assert done["usage"]["requests"] == 2
    with RunFolder.open(explored) as folder:
        assert folder.state().usage.requests == 4


def test_a_budget_ends_a_dream_that_can_go_on(explored: Path) -> None:
    with ModelServer(answers=[NARROW, SOLVES]) as server:
        flags = ("--dreamer", "developer", "--revisions", "2")
        stopped = _dream(server, *flags, "--budget", "3000tok").json
        assert "budget" in stopped["stopped"]
        paid = server.requests
        done = _dream(server, *flags).json
        assert server.requests == 2
    assert paid <= 1
    assert done["deployed"]["policy"].startswith("policy.py@")


def test_a_silent_developer_ends_the_dream_with_the_cause(explored: Path) -> None:
    with ModelServer(["quota"] * 9) as server:
        stopped = _dream(server, "--dreamer", "developer", code=1).json
    assert "did not answer" in stopped["stopped"]
    assert KEY not in json.dumps(stopped)


def test_a_run_dreams_with_the_model_of_its_agent(explored: Path) -> None:
    done = daydream(
        "run", "branch-world", "-m", "mock:", "--dreamer", "developer", "--revisions", "2",
        "--policy", "parallel_refine-w3-d2", "--out", "other", "--json",
    ).json  # fmt: skip
    selections = [one["selection"] for one in done["rounds"]]
    assert [len(one["revisions"]) for one in selections] == [2, 2]
    assert done["rounds"][0]["usage"]["requests"] == 6 + 2 + 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--dreamer", "developer"), "has no model"),
        (("-m", "mock:"), "is for a dreamer that asks one"),
        (("--dreamer", "developer", "-m", "openai/gpt-5-mini"), "OPENAI_API_KEY"),
        (("--dreamer", "developer", "-m", "mock:", "--revisions", "0"), "revisions is 0"),
        (("--dreamer", "develper",), "did you mean developer"),
        (("--holdout", "1",), "leaves no world to choose by"),
        (("--objective", "sweep", "--normalised"), "normalised by itself"),
        (("--dreamer", "developer", "-m", "mock:", "--budget", "three"), "budget"),
    ],
)  # fmt: skip
def test_a_dream_that_cannot_be_is_refused(
    explored: Path, arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    given = ("dream", "run", *arguments)
    ran = daydream(*given, code=3 if "OPENAI" in said else 2)
    assert said in " ".join(ran.err.split())
    assert daydream("show", "run", "--json").json["rounds"][0]["selection"] is None


def test_held_out_worlds_judge_a_choice_and_can_refuse_it(explored: Path) -> None:
    for _ in range(2):
        daydream("explore", "run", "--json")
    flags = ("dream", "run", "--holdout", "2", "--dry-run", "--json")
    done = daydream(*flags).json
    held: dict[str, Any] = done["held_out"]
    assert held["worlds"] == [2, 3]
    assert held["refused"] == ""
    assert held["gain"]["mean"] == pytest.approx(0.938 - 0.884)
    assert held["gain"]["n"] == 2
    assert done["deployed"]["policy"] == held["choice"] == "adaptive-w4-d4-p3-g0.02"
    done = daydream(*flags, "--holdout-margin", "0.06").json
    assert "expected at least 0.06" in done["held_out"]["refused"]
    assert done["deployed"]["policy"] == "parallel_refine-w6-d8"


def test_explore_and_dream_in_turn_are_a_run() -> None:
    flags = ("--cost-weight", "0.01", "--explore-margin", "1", "--dreamer", "grid")
    daydream("explore", "branch-world", *flags, "--out", "steps", "--json")
    for command in ("dream", "explore"):
        daydream(command, "steps", "--json")
    daydream("run", "branch-world", *flags, "--rounds", "2", "--out", "whole", "--json")
    for name in ("001.json", "002.json"):
        steps, whole = (Path(run, "history", name).read_bytes() for run in ("steps", "whole"))
        assert steps == whole


def test_a_dream_by_itself_has_the_settings_of_its_run() -> None:
    Path("texts").mkdir()
    Path("texts/worth_equation1.md").write_text("A pound for $cost, a penny for $parallel.\n")
    Path("texts/developer_system.md").write_text("You write policies in haste.\n")
    with ModelServer(answers=[NARROW, CRASH, SOLVES]) as server:
        given = (
            "explore", "branch-world", "--prompts", "texts", "--cost-weight", "0.03", "--holdout",
            "1", "--dreamer", "developer", "--developer", f"timeout=5:{server.local}",
            "--revisions", "2", "--out", "run", "--json",
        )  # fmt: skip
        daydream(*given, env={"LOCAL_API_KEY": KEY})
        done = daydream("dream", "run", "--json", env={"LOCAL_API_KEY": KEY}).json
        assert [len(one.body["messages"]) for one in server.seen] == [2, 2]
        system, user = (one["content"] for one in server.seen[0].body["messages"])
        assert system.startswith("You write policies in haste.")
        assert "A pound for 0.03, a penny for 0.005." in user
        assert done["incumbent"]["mean"] == pytest.approx(0.95 - 0.03 * 48 + 0.005 * 6)
        flags = ("--dreamer", "grid", "--cost-weight", "0.002", "--dry-run", "--json")
        done = daydream("dream", "run", *flags).json
        # The version in use since makes 16 attempts in 4 batches; what a flag says wins.
        assert done["incumbent"]["mean"] == pytest.approx(0.95 - 0.002 * 16 + 0.005 * 4)
        assert server.requests == 2
    worth = daydream("replay", "run", "--policy", "parallel_refine-w6-d8", "--json").json
    assert worth["mean"] == pytest.approx(0.95 - 0.03 * 48 + 0.005 * 6)


def test_a_sweep_scores_the_curve_over_beta(explored: Path) -> None:
    Path("knob.py").write_text(
        "class Policy:\n"
        "    def __init__(self, config):\n"
        "        self.width = 1 + round(5 * config.get('beta', 0.6))\n"
        "    def select_batch(self, view, limit):\n"
        "        if view.branches < self.width:\n"
        "            return [0] * (self.width - view.branches)\n"
        "        return [n for n in view.frontier if n and view.nodes[n].depth < 8][:limit]\n"
    )
    done = daydream("replay", "run", "--policy", "knob.py", "--objective", "sweep", "--json").json
    points = done["sweep"]["points"]
    assert [point["beta"] for point in points] == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert [point["share"] for point in points] == pytest.approx([n / 6 for n in range(1, 7)])
    attained = [point["attained"] for point in points]
    assert attained == sorted(attained)
    assert attained[3:] == [1.0, 1.0, 1.0]
    # Steps of the curve: nothing below a share of 1/6, then each beta until the next.
    area = sum(attained[:5]) / 6
    penalty = sum(8 / (8 * width) for width in range(1, 7)) / 6
    assert done["sweep"]["area"] == pytest.approx(area)
    assert done["sweep"]["penalty"] == pytest.approx(penalty)
    assert done["mean"] == pytest.approx(area - 0.1 * penalty)
