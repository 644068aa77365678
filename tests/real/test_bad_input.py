"""Wrong requests: each gets a clear message, the right exit code, and nothing is lost or left."""

import json
from pathlib import Path

import pytest

from tests.real.commands import daydream, history

USAGE = 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "circle-pakcing"), "did you mean circle-packing"),
        (("run", "circle-packing:m=26"), "'m'"),
        (("run", "circle-packing:n=many"), "whole number"),
        (("run", "circle-packing:n"), "key=value"),
        (("run", "./no-such-folder"), "no-such-folder"),
        (("run", "branch-world", "--policy", "adaptve-w4-d4-p3-g0.02"), "did you mean adaptive"),
        (("run", "branch-world", "--policy", "adaptive-w4-d4"), "lacks p, g"),
        (("run", "branch-world", "--policy", "adaptive-w0-d4-p3-g0.02"), "whole number from 1"),
        (("run", "branch-world", "--policy", '{"kind": "adaptive", "widht": 4}'), "widht"),
        (("run", "branch-world", "--policy", "missing.py"), "cannot read policy file"),
        (("run", "branch-world", "--agent", "scrpted"), "did you mean scripted"),
        (("run", "branch-world", "--agent", "local_search"), "local_search"),
        (("run", "branch-world", "--dreamer", "gird"), "did you mean grid"),
        (("run", "branch-world", "--rounds", "0"), "rounds"),
        (("run", "branch-world", "--max-time", "-1"), "max_time"),
        (("run", "branch-world", "--ruonds", "2"), "--rounds"),
        (("run", "branch-world", "@missing.toml"), "missing.toml"),
        (("compare",), "one task, or --all"),
        (("show", "r", "--node", "1:1"), "expected one of best, lineage, diff"),
        (("compare", "branch-world", "--seeds", "one"), "expected such as 0-9"),
        (("compare", "branch-world", "--plot", "chart.png"), ".html or .svg"),
        (("runn", "branch-world"), "run"),
        (("run", "branch-world", "--revisions", "3.5"), "found '3.5' (expected a whole number)"),
        (("compare", "branch-world", "--rounds=1e1"), "expected a whole number"),
        (("run", "branch-world", "--cost-weight", "inf"), "cost_weight is inf"),
        (("run", "branch-world", "extra"), "found 'extra' where nothing more can stand"),
        (("run",), "daydream run --help"),
        (("run", "branch-world", "-m", "openai/"), "names no model of openai"),
        (("run", "branch-world", "-m", "mock:", "--budget", "1h,2h"), "seconds twice"),
        (("run", "branch-world", "--agent", "chat:tries=0:mock:"), "whole number from 1 up"),
        (("run", "branch-world", "--agent", "chat:timeout=0:mock:"), "number above 0"),
        (("run", "branch-world", "--max-time", "inf"), "max_time is inf"),
    ],
)
def test_a_wrong_request_is_named_and_leaves_nothing(arguments: tuple[str, ...], says: str) -> None:
    refused = daydream(*arguments, code=USAGE)
    assert says in " ".join((refused.err + refused.out).split()), refused.err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[run]\nruonds = 3\n", "did you mean 'rounds'"),
        ("[run]\nrounds = 'three'\n", "rounds"),
        ("[run\n", "no valid TOML"),
        ("rounds = 3.5\n", "rounds"),
    ],
)
def test_a_wrong_settings_file_is_named_with_its_key(content: str, says: str) -> None:
    Path("mine.toml").write_text(content)
    refused = daydream("run", "branch-world", "@mine.toml", code=USAGE)
    assert "mine.toml" in refused.err
    assert says in " ".join(refused.err.split())


def test_settings_come_in_layers_and_later_ones_win() -> None:
    Path("daydream.toml").write_text("[run]\nrounds = 1\nmax_parallelism = 4\nseed = 5\n")
    Path("more.toml").write_text("seed = 6\n")
    environment = {"DAYDREAM_MAX_PARALLELISM": "5"}
    daydream("run", "branch-world", "@more.toml", "--seed", "7", "--out", "r", env=environment)
    tree = json.loads(Path("r/history/001.json").read_text())
    assert (tree["limit"], tree["seed"]) == (5, 7)
    assert len(history(Path("r"))) == 1


def test_an_unknown_environment_setting_is_refused() -> None:
    refused = daydream("run", "branch-world", env={"DAYDREAM_RUONDS": "2"}, code=USAGE)
    assert "environment" in refused.err


def test_a_folder_that_holds_something_else_is_refused_and_untouched() -> None:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("keep")
    refused = daydream("run", "branch-world", "--out", "mine", code=1)
    assert "notes.txt" in refused.err
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]


def test_a_finished_run_is_never_overwritten() -> None:
    daydream("run", "branch-world", "--out", "r")
    before = Path("r/journal.jsonl").read_bytes()
    refused = daydream("run", "branch-world", "--out", "r", code=1)
    assert "daydream resume" in refused.err
    assert Path("r/journal.jsonl").read_bytes() == before


def test_a_path_below_a_file_cannot_become_a_run_folder() -> None:
    Path("file").write_text("x")
    refused = daydream("run", "branch-world", "--out", "file/run", code=1)
    assert "file" in refused.err


def test_a_truncated_last_record_is_reported_and_survived() -> None:
    daydream("run", "branch-world", "--out", "whole")
    daydream("run", "branch-world", "--out", "r", "--max-calls", "20")
    journal = Path("r/journal.jsonl")
    journal.write_bytes(journal.read_bytes()[:-30])
    assert "journal" in daydream("show", "r").err
    daydream("resume", "r")
    assert history(Path("r")) == history(Path("whole"))


def test_a_malformed_record_in_the_middle_is_refused_with_its_line() -> None:
    daydream("run", "branch-world", "--out", "r")
    journal = Path("r/journal.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[4] = b'{"event": "attempt_fin\n'
    journal.write_bytes(b"".join(lines))
    for command in (("resume", "r"), ("show", "r"), ("dream", "r")):
        refused = daydream(*command, code=1)
        assert "line 5" in refused.err or "record 5" in refused.err, refused.err


def test_a_malformed_tree_is_refused_with_its_node() -> None:
    daydream("run", "branch-world", "--out", "r")
    path = Path("r/history/001.json")
    tree = json.loads(path.read_text())
    tree["nodes"][3]["parent"] = 40
    path.write_text(json.dumps(tree))
    refused = daydream("replay", "r", "--policy", "parallel_refine-w6-d8", code=1)
    assert "001.json" in refused.err
    assert "node 3" in refused.err


def test_worlds_of_two_tasks_make_no_pool() -> None:
    daydream("run", "branch-world", "--out", "a", "--rounds", "1")
    daydream("run", "sum-diff", "--out", "b", "--rounds", "1")
    daydream("export", "a", "a.jsonl")
    daydream("export", "b", "b.jsonl")
    Path("mixed.jsonl").write_text(Path("a.jsonl").read_text() + Path("b.jsonl").read_text())
    refused = daydream("replay", "mixed.jsonl", "--policy", "parallel_refine-w6-d8", code=1)
    assert "pool mixes tasks: branch-world, sum-diff" in " ".join(refused.err.split())


def test_commands_on_a_folder_that_is_no_run_say_so() -> None:
    Path("empty").mkdir()
    for command in (("resume", "empty"), ("show", "empty"), ("dream", "empty")):
        assert "no run folder" in daydream(*command, code=1).err


def test_a_run_that_has_begun_keeps_what_it_began_with() -> None:
    daydream("explore", "branch-world", "--out", "r")
    before = Path("r/journal.jsonl").read_bytes()
    for flags, says in (
        (("-m", "mock:"), "keeps its agent"),
        (("--seed", "2"), "keeps its seed"),
        (("--out", "s"), "r has begun"),
        (("--dry-run",), "r has begun"),
    ):
        assert says in " ".join(daydream("explore", "r", *flags, code=USAGE).err.split())
    assert Path("r/journal.jsonl").read_bytes() == before


def test_a_failure_with_json_is_json_on_standard_output() -> None:
    refused = daydream("run", "no-such-task", "--json", code=USAGE)
    assert refused.json["event"] == "error"
    assert refused.json["error"] == "RegistryError"
    refused = daydream("run", "branch-world", "--rounds", "2.5", "--json", code=USAGE)
    assert (refused.json["event"], refused.json["error"]) == ("error", "UsageError")
    assert "expected a whole number" in refused.json["message"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("dream", "--cost-weight", "nan"), "cost_weight is nan"),
        (("dream", "--parallel-weight", "-1"), "parallel_weight is -1"),
        (("dream", "--revisions", "3.5", "--dreamer", "developer"), "expected a whole number"),
        (("dream", "--holdout", "1"), "leaves no world to choose by"),
        (("replay", "--policy", "parallel_refine-w6-d8", "--cost-weight", "inf"), "cost_weight"),
        (("replay", "--policy", "parallel_refine-w6-d8", "--limit", "0"), "at least 1"),
        (("replay", "--policy", "parallel_refine-w6-d8", "--limit", "2.5"), "whole number"),
    ],
)
def test_a_wrong_number_for_a_selection_is_named_and_the_run_stays_as_it_was(
    arguments: tuple[str, ...], says: str
) -> None:
    daydream("run", "branch-world", "--out", "r", "--rounds", "1")
    before = Path("r/journal.jsonl").read_bytes()
    refused = daydream(arguments[0], "r", *arguments[1:], code=USAGE)
    assert says in " ".join((refused.err + refused.out).split()), refused.err
    assert Path("r/journal.jsonl").read_bytes() == before


def test_a_policy_that_breaks_a_rule_online_stops_the_run_and_keeps_what_was_paid() -> None:
    Path("bad.py").write_text(
        "def select_batch(view, limit):\n"
        "    return [view.root] * 3 if view.batches == 0 else [77]\n"
    )
    refused = daydream("run", "branch-world", "--policy", "bad.py", "--trust", "--out", "r", code=1)
    assert "77" in refused.err
    assert daydream("show", "r", "--json").json["calls"] == 3
