"""Trees that other tools wrote: what is understood, assumed aloud, refused."""

import json
from pathlib import Path

import pytest

from daydream.errors import StoreError
from daydream.interchange.base import Imported, Names
from daydream.interchange.history_json import read_history, write_history
from daydream.interchange.trees_jsonl import read_trees
from daydream.replay import replay
from daydream.tree import Status, Tree, make_pool
from tests.unit.store.samples import small_tree

NAMES = Names(task="t", evaluator="e")


def imported(tmp_path: Path, value: object, names: Names = NAMES) -> Imported:
    file = tmp_path / "001.json"
    file.write_text(json.dumps(value))
    return read_history(file, names)


def shape(tree: Tree) -> list[tuple[int | None, int, int, str | None, float]]:
    return [
        (node.parent, node.branch, node.depth, node.status and node.status.value, node.score)
        for node in tree.nodes
    ]


def test_id_parent_score_and_status_are_enough(tmp_path: Path) -> None:
    result = imported(
        tmp_path,
        [
            {"id": 0, "parent": None, "score": 0.1, "status": "ok"},
            {"id": 1, "parent": 0, "score": 0.5, "status": "ok"},
            {"id": 2, "parent": 0, "score": 0, "status": "failed", "error": "ValueError: x\nat"},
            {"id": 3, "parent": 1, "score": -2, "status": "ok"},
        ],
    )
    [tree] = result.trees
    assert result.notes == ()
    assert shape(tree) == [
        (None, -1, 0, "ok", 0.1),
        (0, 0, 1, "ok", 0.5),
        (0, 1, 1, "error", 0.0),
        (1, 0, 2, "ok", -2.0),
    ]
    assert tree.nodes[2].error_class == "ValueError: x"
    assert (tree.task, tree.evaluator, tree.round, tree.scale) == ("t", "e", 1, 1.0)
    assert tree.eligibility == "chain"


@pytest.mark.parametrize("nobody", [None, -1, "-1", ""])
def test_the_root_may_be_left_out(tmp_path: Path, nobody: object) -> None:
    result = imported(
        tmp_path,
        [
            {"id": 0, "parent": nobody, "score": 1},
            {"id": 1, "parent": nobody, "score": 2},
            {"id": 2, "parent": 0, "score": 3},
        ],
    )
    assert shape(result.trees[0]) == [
        (None, -1, 0, None, 0.0),
        (0, 0, 1, "ok", 1.0),
        (0, 1, 1, "ok", 2.0),
        (1, 0, 2, "ok", 3.0),
    ]
    assert result.notes == (
        f"{tmp_path / '001.json'}: no node is the root; an unevaluated one was put above the "
        "first attempts",
    )


def test_a_root_that_only_its_children_name_is_the_root(tmp_path: Path) -> None:
    nodes = [{"id": 1, "parent": 0, "score": 1}, {"id": 2, "parent": 0, "score": 2}]
    [tree] = imported(tmp_path, {"nodes": nodes, "baseline": 0.25}).trees
    assert shape(tree)[0] == (None, -1, 0, "ok", 0.25)
    assert [node.parent for node in tree.nodes] == [None, 0, 0]
    [note] = imported(tmp_path, nodes).notes
    assert "no node is the root" in note


def test_children_that_stand_before_their_parent_keep_their_order(tmp_path: Path) -> None:
    nodes = [{"id": i, "parent": 3, "score": i} for i in (7, 5, 6)]
    nodes += [{"id": 3, "parent": 0, "score": 3}, {"id": 0, "parent": -1, "score": 0}]
    result = imported(tmp_path, nodes)
    assert [node.score for node in result.trees[0].nodes] == [0, 3, 7, 5, 6]
    assert result.notes == (
        f"{tmp_path / '001.json'}: 3 nodes stood before their parents and were moved behind them",
    )


def test_a_single_first_attempt_that_says_its_depth_is_no_root(tmp_path: Path) -> None:
    nodes = [{"id": 5, "parent": None, "score": 1, "depth": 1}, {"id": 6, "parent": 5, "score": 2}]
    [tree] = imported(tmp_path, nodes).trees
    assert [node.depth for node in tree.nodes] == [0, 1, 2]


def test_orphans_hang_on_the_root_and_it_is_said_so(tmp_path: Path) -> None:
    nodes: list[dict[str, object]] = [{"id": "r", "parent": None, "score": 0}]
    nodes += [{"id": f"n{i}", "parent": f"evicted{i}", "score": i} for i in range(7)]
    nodes += [{"id": "x", "parent": None, "score": 1}]
    nodes[0]["depth"] = 0
    result = imported(tmp_path, nodes)
    assert {node.parent for node in result.trees[0].nodes[1:]} == {0}
    assert result.notes == (
        f"{tmp_path / '001.json'}: nodes n0, n1, n2, n3, n4 and 3 more had no known parent: "
        "attached to the root",
    )


def test_a_tree_that_branches_below_its_root_may_branch_anywhere_in_replay(tmp_path: Path) -> None:
    nodes = [{"id": 0, "parent": None, "score": 0}] + [
        {"id": i, "parent": parent, "score": i} for i, parent in ((1, 0), (2, 1), (3, 1))
    ]
    [tree] = imported(tmp_path, nodes).trees
    assert tree.eligibility == "any"
    assert make_pool([tree]).eligibility == "any"

    class Everything:
        def select_batch(self, view, limit):  # type: ignore[no-untyped-def]
            return list(view.frontier)[:limit]

    assert replay(Everything, tree).attempts == 3


@pytest.mark.parametrize(
    ("node", "status", "reason"),
    [
        ({"score": 1}, Status.OK, None),
        ({"value": 1, "state": "Completed"}, Status.OK, None),
        ({"combined_score": 1, "valid": True}, Status.OK, None),
        ({"score": 1, "status": "rejected", "error_class": "overlap"}, Status.INVALID, "overlap"),
        ({"score": 0, "ok": False}, Status.ERROR, None),
        ({"score": 0, "ok": False, "error": "TimeoutExpired"}, Status.TIMEOUT, "TimeoutExpired"),
        ({"score": 0, "error": "boom"}, Status.ERROR, "boom"),
        ({"score": 1, "error": None, "fail_class": "ok"}, Status.OK, None),
        ({"score": 0, "fail_class": "timeout"}, Status.TIMEOUT, "timeout"),
        ({"score": 0, "success": False, "fail_class": "invalid"}, Status.INVALID, "invalid"),
        ({"score": 1, "failed": True}, Status.ERROR, None),
        ({"score": None, "status": "timeout"}, Status.TIMEOUT, None),
    ],
)
def test_common_ways_to_say_how_a_node_ended(
    tmp_path: Path, node: dict[str, object], status: Status, reason: str | None
) -> None:
    nodes = [{"id": 0, "parent": None, "score": 0}, {"id": 1, "parent": 0, **node}]
    result = imported(tmp_path, nodes)
    found = result.trees[0].nodes[1]
    assert (found.status, found.error_class) == (status, reason)
    assert found.score == (1 if status is Status.OK else 0)
    assert result.notes == ()


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({"score": float("nan")}, "a score that is no finite number"),
        ({"score": float("inf"), "ok": True}, "a score that is no finite number"),
        ({"score": True}, "a score that is no finite number"),
        ({"score": "0.9", "status": "ok"}, "a score that is no finite number"),
        ({"status": "ok"}, "a score that is no finite number"),
        ({"score": 10**400}, "a score that is no finite number"),
        ({"score": 1, "status": "dancing"}, "unknown status 'dancing'"),
    ],
)
def test_what_cannot_be_a_verdict_is_read_as_an_error_aloud(
    tmp_path: Path, node: dict[str, object], said: str
) -> None:
    nodes = [{"id": 0, "parent": None, "score": 0}, {"id": 1, "parent": 0, **node}]
    result = imported(tmp_path, nodes)
    assert result.trees[0].nodes[1].status is Status.ERROR
    assert result.trees[0].nodes[1].score == 0
    [note] = result.notes
    assert note == f"{tmp_path / '001.json'}: {said} is read as error: node 1"


def test_a_mapping_with_number_keys_keeps_creation_order(tmp_path: Path) -> None:
    nodes = {str(i): {"parent_id": None if i == 0 else 0, "score": i} for i in (0, 10, 2, 1, 11)}
    [tree] = imported(tmp_path, dict(sorted(nodes.items()))).trees
    assert [node.score for node in tree.nodes] == [0, 1, 2, 10, 11]
    [again] = imported(tmp_path, {"tree": {"nodes": nodes}, "round": 4}).trees
    assert again.nodes == tree.nodes
    assert again.round == 4


def test_facts_beside_the_nodes_are_used_and_the_person_knows_better(tmp_path: Path) -> None:
    value = {
        "task": {"name": "sum-diff", "cap": 512},
        "evaluator_hash": "v7",
        "policy": {"kind": "adaptive", "width": 4},
        "limit": 4,
        "seed": 9,
        "scale": 0.5,
        "round": 3,
        "nodes": [{"id": 0, "parent": None, "score": 0}],
    }
    [tree] = imported(tmp_path, value, Names()).trees
    assert (tree.task, tree.evaluator, tree.limit) == ("sum-diff", "v7", 4)
    assert (tree.seed, tree.scale, tree.round) == (9, 0.5, 3)
    assert tree.policy == '{"kind":"adaptive","width":4}'
    [named] = imported(tmp_path, value, Names(task="mine", evaluator="me", scale=2.0)).trees
    assert (named.task, named.evaluator, named.scale) == ("mine", "me", 2.0)


def test_a_run_folder_of_the_first_daydream_is_read_in_order_of_its_rounds(tmp_path: Path) -> None:
    run = tmp_path / "sum-diff"
    (run / "history").mkdir(parents=True)
    for number in (1, 2, 10):
        nodes = [{"id": 0, "parent": None, "score": 0}, {"id": 1, "parent": 0, "score": number}]
        (run / "history" / f"{number}.json").write_text(json.dumps(nodes))
    (run / "summary.json").write_text('{"task": "sum-diff", "rounds": []}')
    for path in (run, run / "history"):
        result = read_history(path, Names(evaluator="e"))
        assert [tree.nodes[1].score for tree in result.trees] == [1, 2, 10]
        assert [tree.round for tree in result.trees] == [1, 2, 3]
        assert {tree.task for tree in result.trees} == {"sum-diff"}
        assert result.notes == ()
    make_pool(result.trees)
    assert read_history(run / "history" / "2.json").trees[0].task == "sum-diff"
    (run / "summary.json").write_text("{")
    notes = read_history(run).notes
    assert "no task is named; it is called 'imported'" in notes[0]


def test_several_trees_in_one_file_are_several_worlds(tmp_path: Path) -> None:
    one = {"nodes": [{"id": 0, "parent": None, "score": 0}, {"id": 1, "parent": 0, "score": 1}]}
    assert [tree.round for tree in imported(tmp_path, [one, one]).trees] == [1, 2]


def test_trees_of_a_jsonl_file_may_be_of_several_tasks(tmp_path: Path) -> None:
    file = tmp_path / "trees.jsonl"
    lines = [
        {"task_id": name, "nodes": [{"id": 0, "parent": None, "score": 0}]} for name in ("a", "b")
    ]
    file.write_text("\ufeff" + "\n\n".join(map(json.dumps, lines)))
    trees = read_trees(file, Names(evaluator="e")).trees
    assert [(tree.task, tree.round) for tree in trees] == [("a", 1), ("b", 2)]


def test_two_trees_of_one_round_are_not_written_over_each_other(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="two trees have round 1"):
        write_history([small_tree(1), small_tree(1, score=0.75)], tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a.json").write_text('{"round": 2, "nodes": [{"id": 0, "score": 1}]}')
    (tmp_path / "b.json").write_text('{"round": 2, "nodes": [{"id": 0, "score": 2}]}')
    with pytest.raises(StoreError, match="two trees have round 2"):
        read_history(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "at column 2"),
        ('[\n {"id": 1 2}]', "at line 2, column 11"),
        ("3", "holds 3"),
        ("{}", "holds {}"),
        ("[]", "holds no nodes"),
        ('{"nodes": {}}', "holds no nodes"),
        ('{"nodes": "many"}', "expected a list of nodes"),
        ('[{"id": 0, "score": 1}, 7]', "node 1 is 7"),
        ('[{"id": 0, "score": 1}, {"id": 1}]', r"node 1 has the keys \['id'\]"),
        ('[{"id": {}, "score": 1}]', "node 0 has id {}"),
        ('[{"id": 0, "parent": true, "score": 1}]', "node 0 has parent True"),
        ('[{"id": 0, "score": 1}, {"id": "0", "parent": 0, "score": 1}]', "the id '0'"),
        ('[{"id":1,"parent":2,"score":1},{"id":2,"parent":1,"score":1}]', "nodes 1, 2 can be"),
        ("[" * 100_000, "expected plain JSON"),
    ],
)
def test_malformed_input_names_the_file_the_place_and_what_to_do(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(StoreError, match=said) as caught:
        read_history(file)
    assert str(caught.value).startswith(str(file))
    lines = tmp_path / "trees.jsonl"
    good = '{"nodes": [{"id": 0, "score": 1}]}\n'
    lines.write_text(good + text.replace("\n", " ") + "\n" + good)
    with pytest.raises(StoreError) as caught:
        read_trees(lines)
    assert str(caught.value).startswith(f"{lines}, line 2: ")


def test_paths_without_trees_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(StoreError, match="holds no tree"):
        read_trees(tmp_path / "empty.jsonl")
    with pytest.raises(StoreError, match="byte 0 is no UTF-8"):
        read_history(tmp_path / "bytes.json")
    (tmp_path / "bytes.json").unlink()
    with pytest.raises(StoreError, match=r"holds no \.json file"):
        read_history(tmp_path)
    for read in (read_history, read_trees):
        with pytest.raises(StoreError, match="cannot read"):
            read(tmp_path / "nowhere.json")
