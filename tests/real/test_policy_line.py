"""The policy line through the command line: search, resume, compare, dream, replay, show."""

import json
import shlex
import shutil
import signal
from pathlib import Path

import pytest

from daydream.store.run_folder import RunFolder
from tests.real.commands import daydream, history, start


def test_a_run_reproduces_the_worked_example() -> None:
    done = daydream("run", "branch-world", "--out", "r", "--json").json
    assert (done["event"], done["best"], done["calls"]) == ("done", 0.95, 64)
    shown = daydream("show", "r", "--json").json
    assert [(r["round"], r["calls"], r["policy"]) for r in shown["rounds"]] == [
        (1, 48, "parallel_refine-w6-d8"),
        (2, 16, "adaptive-w4-d4-p3-g0.02"),
    ]
    selection = shown["rounds"][0]["selection"]
    assert selection["incumbent"]["mean"] == pytest.approx(0.884, abs=1e-12)
    assert selection["chosen"]["mean"] == pytest.approx(0.938, abs=1e-12)
    world = selection["chosen"]["worlds"][0]
    assert (world["attempts"], world["batches"], world["parallelism"]) == (16, 4, 4.0)
    assert (world["cost"], world["bonus"]) == (pytest.approx(0.032), pytest.approx(0.02))


def test_what_is_useful_next_can_be_copied_line_by_line() -> None:
    name = "a-run-with-a-name-" + "so-long-" * 12
    said = daydream("run", "branch-world", "--rounds", "1", "--out", name).err
    show, resume = said[said.index("Next: ") + 6 :].splitlines()
    assert shlex.split(show) == ["daydream", "show", name, "tree"]
    assert shlex.split(resume) == ["daydream", "resume", name, "--rounds", "N"]
    daydream(*shlex.split(show)[1:])


def test_compare_prints_the_figures_of_the_first_implementation() -> None:
    found = daydream("compare", "--task", "branch-world", "--rounds", "2", "--json").json
    assert found["total"] == {"fixed": 96, "dream": 64}
    (task,) = found["tasks"]
    assert [r["calls"] for r in task["fixed"]] == [48, 48]
    assert [(r["calls"], r["cum"], r["best"]) for r in task["dream"]] == [
        (48, 48, 0.95),
        (16, 64, 0.95),
    ]
    assert task["dream"][1]["policy"] == "adaptive-w4-d4-p3-g0.02"


def test_compare_prints_the_measure_that_people_speak_of() -> None:
    asked = ("compare", "autocorrelation", "--rounds", "1", "--policy", "parallel_refine-w2-d2")
    told = daydream(*asked, "--out", "r").out
    (task,) = daydream(*asked, "--out", "r", "--json").json["tasks"]
    assert (task["measure"], told.count("autocorrelation: ")) == ("C", 2)
    assert told.count("(C, lower is better)") == 2
    score = task["fixed"][0]["best"]
    assert f"{1 / score:.6f}" in told
    assert f"{score:.6f}" not in told


@pytest.mark.slow
def test_all_six_tasks_save_calls_and_hold_the_best_score() -> None:
    found = daydream("compare", "--all", "--rounds", "2", "--json", "--plot", "all.html").json
    calls = {
        task["task"]: [sum(r["calls"] for r in task[arm]) for arm in ("fixed", "dream")]
        for task in found["tasks"]
    }
    six = {
        "autocorrelation": 32,
        "branch-world": 96,
        "circle-packing": 32,
        "kernel-layernorm": 32,
        "lasso": 24,
        "sum-diff": 48,
    }
    assert {name: calls[name][0] for name in six} == six
    assert sum(calls[name][0] for name in six) == 264
    assert sum(calls[name][1] for name in six) <= 182
    assert [found["total"]["fixed"], found["total"]["dream"]] == [
        sum(column) for column in zip(*calls.values(), strict=True)
    ]
    for task in found["tasks"]:
        assert task["dream"][1]["round_best"] == task["dream"][0]["round_best"], task["task"]
    assert "<svg" in Path("all.html").read_text()


def test_a_stopped_run_resumes_to_the_same_bytes() -> None:
    daydream("run", "branch-world", "--out", "whole")
    daydream("run", "branch-world", "--out", "cut", "--max-calls", "13")
    with RunFolder.open(Path("cut")) as folder:
        assert folder.state().calls == 13
    daydream("resume", "cut", "--max-calls", "51")
    done = daydream("resume", "cut", "--json").json
    assert done["calls"] == 64
    assert history(Path("cut")) == history(Path("whole"))


def test_the_number_of_workers_changes_no_byte() -> None:
    for workers in ("1", "8"):
        daydream("run", "sum-diff", "--out", workers, "--workers", workers, "--seed", "3")
    assert history(Path("1")) == history(Path("8"))


def test_a_stop_file_stops_and_its_absence_lets_go_on() -> None:
    daydream("run", "branch-world", "--out", "r", "--max-calls", "5")
    Path("r/STOP").touch()
    stopped = daydream("resume", "r", "--json").json
    assert stopped["calls"] == 5
    assert "STOP" in str(stopped["stopped"])
    Path("r/STOP").unlink()
    assert daydream("resume", "r", "--json").json["calls"] == 64


def test_an_interrupt_exits_130_and_resumes() -> None:
    daydream("run", "circle-packing", "--out", "whole", "--seed", "1")
    process = start("run", "circle-packing", "--out", "r", "--seed", "1", "--workers", "1")
    journal = Path("r/journal.jsonl")
    while process.poll() is None and not (
        journal.exists() and b"attempt_finished" in journal.read_bytes()
    ):
        pass
    process.send_signal(signal.SIGINT)
    assert process.wait(60) in {0, 130}
    daydream("resume", "r")
    assert history(Path("r")) == history(Path("whole"))


def test_a_second_process_on_the_same_run_is_refused() -> None:
    daydream("run", "branch-world", "--out", "r", "--max-calls", "5")
    with RunFolder.open(Path("r"), clock=lambda: 0.0):
        refused = daydream("resume", "r", code=1)
    assert "is being written by process" in refused.err
    assert daydream("resume", "r", "--json").json["calls"] == 64


def test_dream_deploys_and_resume_plays_the_deployed_policy() -> None:
    daydream("run", "branch-world", "--out", "r", "--rounds", "1", "--dreamer", "none")
    dry = daydream("dream", "r", "--dry-run", "--json").json
    assert dry["changed"] is True
    assert "adaptive" not in (Path("r/policies/deployed")).read_text()
    made = daydream("dream", "r", "--json").json
    assert made["deployed"]["policy"] == "adaptive-w4-d4-p3-g0.02"
    assert "adaptive-w4-d4-p3-g0.02" in Path("r/policies/deployed").read_text()
    done = daydream("resume", "r", "--rounds", "2", "--json").json
    assert [r["calls"] for r in done["rounds"]] == [48, 16]


def test_replay_prints_the_breakdown_of_every_world() -> None:
    daydream("run", "branch-world", "--out", "r")
    found = daydream("replay", "r", "--policy", "parallel_refine-w6-d8", "--json").json
    first = found["worlds"][0]
    assert {"tree", "quality", "attempts", "batches", "parallelism", "score"} <= set(first)
    assert (first["tree"], first["quality"], first["attempts"], first["batches"]) == (
        1,
        0.95,
        48,
        8,
    )
    assert first["score"] == pytest.approx(0.884, abs=1e-12)
    assert found["mean"] == pytest.approx((0.884 + 0.938) / 2, abs=1e-12)


def test_a_trusted_policy_file_searches_and_replays() -> None:
    Path("mine.py").write_text(
        "class Policy:\n"
        "    def select_batch(self, view, limit):\n"
        "        return [view.root] * min(3, limit) if view.batches == 0 else []\n"
    )
    done = daydream(
        "run",
        "branch-world",
        "--policy",
        "mine.py",
        "--trust",
        "--out",
        "r",
        "--rounds",
        "1",
        "--json",
    ).json
    assert done["calls"] == 3
    found = daydream("replay", "r", "--policy", "mine.py", "--trust", "--json").json
    assert found["worlds"][0]["attempts"] == 3


def test_a_policy_that_breaks_the_rules_is_disqualified_with_world_batch_and_reason() -> None:
    daydream("run", "branch-world", "--out", "r", "--rounds", "1")
    bad = {
        "unknown.py": "def select_batch(view, limit):\n    return [99]\n",
        "many.py": "def select_batch(view, limit):\n    return [0] * (limit + 1)\n",
        "twice.py": "def select_batch(view, limit):\n"
        "    return [0] if view.batches == 0 else [1, 1]\n",
        "raises.py": "def select_batch(view, limit):\n    return 1 / 0\n",
        "lazy.py": "def select_batch(view, limit):\n    return []\n",
        "text.py": "def select_batch(view, limit):\n    return 'root'\n",
    }
    for name, source in bad.items():
        Path(name).write_text(source)
        failed = daydream("replay", "r", "--policy", name, "--trust", "--json", code=1)
        out = failed.json["disqualified"]
        assert out["world"] == 1, name
        assert out["reason"], name
        assert out["batch"] == (2 if name == "twice.py" else 0 if name == "lazy.py" else 1), name


def test_exported_trees_come_back_as_the_same_worlds() -> None:
    daydream("run", "branch-world", "--out", "r")
    scores = daydream("replay", "r", "--policy", "adaptive-w4-d4-p3-g0.02", "--json").json
    for target in ("t.jsonl", "folder"):
        daydream("export", "r", target)
        copy = f"copy-{target}"
        daydream("import", target, "--out", copy)
        again = daydream("replay", copy, "--policy", "adaptive-w4-d4-p3-g0.02", "--json").json
        assert again == scores
        deployed = daydream("dream", copy, "--json").json
        assert deployed["deployed"]["policy"] == "adaptive-w4-d4-p3-g0.02"
    assert "daydream explore" not in daydream("dream", "copy-folder").err


def test_a_search_that_became_too_narrow_recovers_with_an_explore_margin() -> None:
    narrow = ("run", "branch-world", "--policy", "parallel_refine-w1-d1", "--rounds", "5", "--json")
    stuck = daydream(*narrow, "--out", "stuck").json
    wide = daydream(*narrow, "--out", "wide", "--explore-margin", "1").json
    assert stuck["best"] == 0.1
    assert wide["best"] == 0.95
    assert [r["off_record"] for r in wide["rounds"]] == [None, 1, 3, 6, 10]
    assert [r["round_best"] for r in wide["rounds"]] == [0.1, 0.35, 0.6, 0.95, 0.95]


def test_show_looks_at_a_run_from_every_side() -> None:
    daydream("run", "branch-world", "--out", "r")
    assert "adaptive-w4-d4-p3-g0.02" in daydream("show", "r").out
    assert json.loads(daydream("show", "r", "best").out) == {"branch": 3, "depth": 4}
    assert '+{"branch":3,"depth":4}' in daydream("show", "r", "diff").out
    assert "0.95 ★" in daydream("show", "r", "tree").out
    lineage = daydream("show", "r", "lineage").out
    assert lineage.count("0.2000") == 3
    daydream("show", "r", "--plot", "curve.svg")
    daydream("show", "r", "tree", "--plot", "tree.svg")
    assert all("<svg" in Path(name).read_text() for name in ("curve.svg", "tree.svg"))
    trees = daydream("show", "r", "--json").json["trees"]
    assert [len(tree["nodes"]) for tree in trees] == [49, 17]


def test_the_best_artifact_and_its_difference_lie_in_the_run_folder() -> None:
    daydream("run", "branch-world", "--out", "r", "--max-calls", "13")
    assert json.loads(Path("r/best/artifact.json").read_text()) == {"branch": 1, "depth": 2}
    shutil.rmtree("r/best")
    daydream("resume", "r")
    assert json.loads(Path("r/best/artifact.json").read_text()) == {"branch": 3, "depth": 4}
    assert '+{"branch":3,"depth":4}' in Path("r/best/diff.patch").read_text()
    summary = json.loads(Path("r/summary.json").read_text())
    assert [r["deployed"] for r in summary["rounds"]] == ["adaptive-w4-d4-p3-g0.02"] * 2


def test_every_attempt_of_a_folder_names_the_isolation_it_was_scored_under() -> None:
    daydream("init", "mine")
    daydream("run", "mine", "--out", "r", "--max-calls", "2", "--sandbox", "process")
    with RunFolder.open(Path("r")) as folder:
        finished = folder.state().rounds[1].finished.values()
    assert {event.measured.layers for event in finished} == {("process",)}


def test_a_folder_that_is_gone_is_laid_out_again_from_the_run() -> None:
    daydream("init", "mine")
    daydream("run", "mine", "--out", "r", "--max-calls", "3")
    shutil.rmtree("mine")
    done = daydream("resume", "r", "--rounds", "1", "--json").json
    assert (done["calls"], done["stopped"]) == (16, None)


def test_a_changed_evaluator_is_refused_until_a_new_pool_is_asked_for() -> None:
    daydream("init", "mine")
    daydream("run", "mine", "--out", "r", "--rounds", "1", "--policy", "parallel_refine-w2-d2")
    evaluator = Path("mine/evaluator.py")
    evaluator.write_text(evaluator.read_text().replace(": distance,", ": 2 * distance,"))
    refused = daydream("resume", "r", "--rounds", "2", code=1)
    assert "--new-pool" in refused.err
    done = daydream("resume", "r", "--rounds", "1", "--new-pool", "--json").json
    assert [r["round"] for r in done["rounds"]] == [1, 2]
    assert done["best"] > 0.6
    found = daydream("replay", "r", "--policy", "parallel_refine-w4-d4", "--json").json
    assert [world["tree"] for world in found["worlds"]] == [2]


def test_paired_seeds_report_means_intervals_and_wins_and_go_on_where_they_stopped() -> None:
    arguments = ("compare", "sum-diff", "--seeds", "0-2", "--fresh", "--out", "pairs", "--json")
    first = daydream(*arguments).json["tasks"][0]
    assert [pair["seed"] for pair in first["seeds"]] == [0, 1, 2]
    summary = first["summary"]
    assert summary["calls_saved"]["n"] == 3
    assert summary["wins"] + summary["ties"] + summary["losses"] == 3
    size = Path("pairs/sum-diff/seed-2/dream/journal.jsonl").read_bytes().count(b"attempt_finished")
    assert daydream(*arguments).json["tasks"][0] == first
    again = (
        Path("pairs/sum-diff/seed-2/dream/journal.jsonl").read_bytes().count(b"attempt_finished")
    )
    assert again == size
