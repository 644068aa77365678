"""Laws of reading other tools' trees: round trips, other spellings, and only clear refusals."""

import json
import random
import tempfile
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from daydream.errors import StoreError
from daydream.interchange.base import Imported, Names
from daydream.interchange.history_json import read_history, write_history
from daydream.interchange.trees_jsonl import read_trees, write_trees
from daydream.testing.strategies import trees
from daydream.tree import ROOT, Status, Tree, check_tree

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 12) | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(
            st.sampled_from(
                ["id", "parent", "score", "status", "nodes", "tree", "root", "ok", "1"]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=30,
)


@given(st.lists(trees(), min_size=1, max_size=4, unique_by=lambda tree: tree.round))
def test_trees_written_in_both_formats_come_back_equal_without_a_note(drawn: list[Tree]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_trees(drawn, folder / "trees.jsonl")
        assert read_trees(folder / "trees.jsonl") == Imported(tuple(drawn), ())
        write_history(drawn, folder / "history")
        ordered = tuple(sorted(drawn, key=lambda tree: tree.round))
        assert read_history(folder) == Imported(ordered, ())
        assert read_history(folder / "history") == Imported(ordered, ())


def respelled(tree: Tree, spelling: int) -> list[dict[str, object]]:
    """Return the nodes as another tool might spell them."""
    nodes: list[dict[str, object]] = []
    for node in tree.nodes:
        good = node.status is Status.OK
        if spelling == 0:
            item: dict[str, object] = {"node_id": f"n{node.id}", "ok": good, "value": node.score}
            item["parent_id"] = None if node.parent is None else f"n{node.parent}"
        else:
            item = {"id": float(node.id), "score": node.score if good else None}
            item["parent"] = str(-1 if node.parent is None else node.parent)
            item["status"] = "success" if good else "failed"
        nodes.append({**item, "depth": node.depth, "seq": node.id, "mood": ["good"]})
    return nodes


@given(trees(), st.integers(0, 1), st.integers(0, 1000))
def test_other_spellings_in_any_order_with_a_sequence_give_the_same_tree(
    tree: Tree, spelling: int, seed: int
) -> None:
    nodes = respelled(tree, spelling)
    random.Random(seed).shuffle(nodes)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "tree.json"
        file.write_text(json.dumps({"nodes": nodes}))
        [found] = read_history(file, Names(task="t", evaluator="e")).trees
    shape = [(n.parent, n.branch, n.depth, n.status is Status.OK, n.score) for n in tree.nodes]
    assert [
        (n.parent, n.branch, n.depth, n.status is Status.OK, n.score) for n in found.nodes
    ] == shape


@given(trees(), st.integers(0, 1000))
def test_without_a_sequence_parents_still_come_first_and_nothing_is_lost(
    tree: Tree, seed: int
) -> None:
    nodes = respelled(tree, 0)
    for node in nodes:
        del node["seq"]
    random.Random(seed).shuffle(nodes)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "tree.json"
        file.write_text(json.dumps(nodes))
        [found] = read_history(file).trees
    assert check_tree(found) is found
    assert sorted(n.score for n in found.nodes[1:]) == sorted(n.score for n in tree.nodes[1:])
    assert sorted(n.depth for n in found.nodes) == sorted(n.depth for n in tree.nodes)


@given(ANY_JSON)
def test_any_json_is_a_valid_tree_or_a_clear_refusal(value: object) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "x.json"
        file.write_text(json.dumps(value))
        for read in (read_history, read_trees):
            refusal = ""
            found: tuple[Tree, ...] = ()
            try:
                found = read(file).trees
            except StoreError as error:
                refusal = str(error)
            assert bool(found) != (str(file) in refusal and "; " in refusal)
            for tree in found:
                assert check_tree(tree).nodes[ROOT].parent is None


@given(trees(max_attempts=6), st.integers(0, 3000))
def test_a_jsonl_file_cut_anywhere_keeps_its_whole_lines(tree: Tree, cut: int) -> None:
    second = msgspec.structs.replace(tree, round=tree.round + 1)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "trees.jsonl"
        write_trees([tree, second], file)
        data = file.read_bytes()
        first = data.index(b"\n") + 1
        cut = min(first + cut, len(data))
        file.write_bytes(data[:cut])
        imported = read_trees(file)
    whole = cut >= len(data) - 1
    assert imported.trees == ((tree, second) if whole else (tree,))
    assert bool(imported.notes) == (not whole and cut > first)
