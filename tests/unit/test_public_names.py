"""The Python interface: run, replay, select, and a search that the caller drives."""

from pathlib import Path

import pytest

import daydream
from daydream.errors import ConfigError, UsageError
from daydream.proposers.auto import Auto
from daydream.tasks.branch_world import score_at


def test_every_public_name_exists_and_is_listed_in_order() -> None:
    assert list(daydream.__all__) == sorted(daydream.__all__)
    assert all(hasattr(daydream, name) for name in daydream.__all__)


def test_a_run_from_python_gives_trees_that_replay_and_select_take(tmp_path: Path) -> None:
    result = daydream.run("branch-world", out=tmp_path / "r", rounds=1, dreamer="none")
    assert (result.best, result.calls, result.stopped) == (0.95, 48, None)
    tree = daydream.read_tree(tmp_path / "r" / "history" / "001.json")
    spec = daydream.parse_spec("adaptive-w4-d4-p3-g0.02")
    rollout = daydream.replay(lambda: spec.build(1.0), tree)
    assert (rollout.attempts, rollout.batches, rollout.best) == (16, 4, 0.95)
    incumbent = daydream.parse_spec("parallel_refine-w6-d8")
    found = daydream.select(incumbent, Auto(), daydream.make_pool([tree]))
    assert found.chosen.spec == spec
    again = daydream.resume(tmp_path / "r", changes={"rounds": 2})
    assert again.calls == 96


def test_a_wrong_setting_from_python_is_named() -> None:
    with pytest.raises(ConfigError, match="did you mean 'rounds'"):
        daydream.run("branch-world", ruonds=3)


def test_asking_and_telling_makes_the_tree_that_a_run_makes(tmp_path: Path) -> None:
    daydream.run("branch-world", out=tmp_path / "r", rounds=1)
    stored = daydream.read_tree(tmp_path / "r" / "history" / "001.json")
    study = daydream.Study(daydream.parse_spec("parallel_refine-w6-d8"), baseline=0.0)
    while not study.done:
        asked = [*study.ask(3), *study.ask()]
        for one in reversed(asked):
            study.tell(one.id, score_at(one.branch, one.depth))
    made = study.tree()
    assert [(n.parent, n.batch, n.slot, n.score) for n in made.nodes[1:]] == [
        (n.parent, n.batch, n.slot, n.score) for n in stored.nodes[1:]
    ]


def test_telling_twice_the_same_is_harmless_and_anything_else_is_refused() -> None:
    study = daydream.Study(daydream.parse_spec("parallel_refine-w2-d2"))
    first, second = study.ask()
    assert list(study.ask()) == []
    study.tell(first.id, 1.0)
    study.tell(first.id, 1.0)
    for number, score in ((first.id, 2.0), (99, 1.0), (second.id, float("nan"))):
        with pytest.raises(UsageError, match="tell"):
            study.tell(number, score)
    study.tell(second.id, None, error_class="crashed")
    assert [n.status for n in study.view.nodes[1:]] == [daydream.Status.OK, daydream.Status.ERROR]
    study.tell(second.id, None, error_class="crashed")
    with pytest.raises(UsageError, match="already told"):
        study.tell(second.id, 3.0)
