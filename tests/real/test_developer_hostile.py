"""A developer that answers anything at all: a dream goes on, harms nobody, and pays once."""

from pathlib import Path

import pytest

from daydream.errors import UsageError
from daydream.proposers.developer import Developer, fenced_blocks
from daydream.store.run_folder import RunFolder
from tests.real.commands import Ran, daydream, start
from tests.real.model_server import ModelServer
from tests.real.test_developer import CRASH, NARROW, PROSE

SMALL = ("branch-world", "--policy", "parallel_refine-w3-d2")
FILLED = NARROW.replace("class Policy:", "# " + "x" * 1_000_000 + "\nclass Policy:")
HALF_A_PAIR = NARROW.replace("view.branches < 4", "view.branches < 4 and '\ud800'")
READS = "```python\ndef select_batch(view, limit):\n    return list(open({!r}).read())\n```"
FORKS = (
    "```python\nimport os\ndef select_batch(view, limit):\n"
    "    os.fork()\n    os.kill(os.getppid(), 9)\n    return [0]\n```"
)
ENDLESS = "```python\ndef select_batch(view, limit):\n    while True:\n        pass\n```"
ENDLESS_AT_ONCE = "```python\nwhile True:\n    pass\nclass Policy:\n    pass\n```"


@pytest.fixture
def explored() -> Path:
    """A run with one small rollout and no selection."""
    daydream("explore", *SMALL, "--out", "run", "--json")
    return Path("run")


def _dream(server: ModelServer, *arguments: str) -> Ran:
    model = f"backoff=0.01,timeout=5:{server.local}"
    return daydream("dream", "run", "--dreamer", "developer", "-m", model, *arguments)


def test_answers_that_are_no_help_are_revisions_with_their_reason(explored: Path) -> None:
    secret = Path("secret.txt").resolve()
    secret.write_text("the answer")
    answers = [
        FILLED,
        "```a\n" * 200_000,
        HALF_A_PAIR,
        READS.format(str(secret)),
        FORKS,
        NARROW + "\n```python\nclass Policy:\n    unfinished",
        "```python\n\0\nclass Policy:\n    pass\n```",
    ]
    with ModelServer(answers=answers) as server:
        done = _dream(server, "--revisions", str(len(answers)), "--json").json
        asked = [one.body["messages"][-1]["content"] for one in server.seen]
        assert server.requests == len(answers)
    versions = done["revisions"]
    assert "expected at most 200000" in versions[0]["problem"]
    assert "0 fenced blocks" in versions[1]["problem"]
    assert versions[2]["disqualified"] is None
    for number in (3, 4, 6):
        assert versions[number]["disqualified"] is not None
        assert "the answer" not in versions[number]["disqualified"]["reason"]
    assert versions[5]["disqualified"] is None
    assert max(map(len, asked)) < 100_000
    rows = daydream("show", "run", "dreams", "--json").json["versions"]
    assert [row["number"] for row in rows] == [1, 2, 3, 4, 5, 6, 7]
    assert [row["file"] is None for row in rows] == [True, True, False, False, False, False, False]
    assert rows[3]["scores"]["disqualified"] == versions[3]["disqualified"]
    shown = " ".join(daydream("show", "run", "dreams").out.split())
    assert "no policy" in shown
    assert "disqualified in world 1, batch 1" in shown


def test_show_says_where_no_model_was_asked(explored: Path) -> None:
    assert daydream("show", "run", "dreams", "--json").json["versions"] == []
    assert "No model" in daydream("show", "run", "dreams").out


def test_fences_are_found_in_time_linear_in_the_answer() -> None:
    # Were it quadratic, this would take hours: the time limit of every test ends it.
    for answer in ("```a\n" * 200_000, "~~~~a\n" * 200_000, "`" * 1_000_000, "```\n" * 200_000):
        with pytest.raises(UsageError, match="none defines"):
            Developer.extract(Developer.__new__(Developer), answer)


def test_a_block_ends_at_a_fence_of_its_own_kind() -> None:
    answer = "a\n````python\nb\n```\nc\n````\n~~~\nd\n~~~  \n```\nopen"
    assert fenced_blocks(answer) == ["b\n```\nc", "d"]
    assert fenced_blocks("```\r\ne\r\n```\r\n") == ["e\r"]


@pytest.mark.slow
def test_policies_that_never_end_are_out_by_time(explored: Path) -> None:
    with ModelServer(answers=[ENDLESS, NARROW, ENDLESS_AT_ONCE]) as server:
        done = _dream(server, "--revisions", "3", "--json").json
    reasons = [(one["disqualified"] or {}).get("reason", "") for one in done["revisions"]]
    assert "CPU time" in reasons[0]
    assert reasons[1] == ""
    assert "CPU time" in reasons[2]


def test_a_run_killed_in_its_dream_resumes_and_pays_for_no_revision_twice() -> None:
    with ModelServer(["ok", "hold"], answers=[NARROW, CRASH]) as server:
        model = f"backoff=0.01:{server.local}"
        flags = ("--dreamer", "developer", "--developer", model, "--revisions", "2")
        running = start("run", *SMALL, *flags, "--rounds", "1", "--cache", "off", "--out", "run")
        try:
            assert server.held.wait(100)
        finally:
            running.kill()
            running.wait()
        server.release.set()
        done = daydream("resume", "run", "--json").json
        assert server.requests == 3
    selection = done["rounds"][0]["selection"]
    assert [one["problem"] for one in selection["revisions"]] == ["", ""]
    assert "ZeroDivisionError" in selection["revisions"][1]["disqualified"]["reason"]
    with RunFolder.open(Path("run")) as folder:
        state = folder.state()
    assert (state.calls, state.finished, state.usage.requests) == (6, True, 3)


def test_a_run_with_a_developer_holds_worlds_out_and_starts_from_a_file() -> None:
    Path("mine.py").write_text(
        "def select_batch(view, limit):\n    return [0] * 3 if view.batches == 0 else []\n"
    )
    with ModelServer(answers=[PROSE, NARROW, PROSE, CRASH]) as server:
        done = daydream(
            "run", "branch-world", "--policy", "mine.py", "--rounds", "2", "--out", "run",
            "--dreamer", "developer", "--developer", f"backoff=0.01:{server.local}",
            "--revisions", "2", "--holdout", "1", "--json",
        ).json  # fmt: skip
        asked = [one.body["messages"][-1]["content"] for one in server.seen]
    first, second = (one["selection"] for one in done["rounds"])
    assert "return [0] * 3 if view.batches == 0" in asked[0]
    assert first.get("held_out") is None
    assert second["held_out"]["worlds"] == [2]
    assert not second["changed"]
    told = " ".join(daydream("show", "run").out.split())
    assert "held-out world 2 took no part in the choice" in told


def test_a_run_selects_by_the_sweep() -> None:
    done = daydream(
        "run", *SMALL, "--rounds", "1", "--objective", "sweep", "--dreamer", "developer",
        "--developer", "mock:", "--revisions", "1", "--out", "run", "--json",
    ).json  # fmt: skip
    revision = done["rounds"][0]["selection"]["revisions"][0]
    assert [point["beta"] for point in revision["sweep"]["points"]] == [0, 0.2, 0.4, 0.6, 0.8, 1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("dream", "run", "--holdout-margin", "nan"), "expected a finite number"),
        (("dream", "run", "--holdout-margin", "0.1"), "no held-out world"),
        (("dream", "run", "--holdout", "-1"), "holdout is -1"),
        (("run", "branch-world", "--out", "new", "--holdout-margin", "nan"), "finite number"),
        (("run", "branch-world", "--out", "new", "--holdout", "-1"), "holdout is -1"),
        (("run", "branch-world", "--out", "new", "--dreamer", "developer"), "has no model"),
        (("show", "run", "dreems"), "dreams"),
    ],
)
def test_requests_that_make_no_sense_are_refused_and_leave_nothing(
    explored: Path, arguments: tuple[str, ...], said: str
) -> None:
    ran = daydream(*arguments, code=2)
    assert said in " ".join(ran.err.split())
    assert not Path("new").exists()
    assert daydream("show", "run", "--json").json["rounds"][0]["selection"] is None
