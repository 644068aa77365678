"""The run folder: made once, one writer, every file readable on another machine."""

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from daydream.canonical import JsonObject, content_hash
from daydream.errors import StoreError, TreeError
from daydream.store.events import Stopped, TreeFinished
from daydream.store.run_folder import RunFolder, read_tree
from tests.unit.store.samples import (
    clock,
    dispatched,
    finished,
    make_run,
    round_started,
    run_events,
    small_tree,
    started,
)


def tree_finished(number: int, digest: str) -> TreeFinished:
    return TreeFinished(round=number, attempts=2, batches=1, off_record=0, best=0.5, tree=digest)


def test_a_new_folder_holds_its_configuration_and_can_be_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "t" / "first"
    with make_run(path) as run:
        for event in run_events(1):
            run.journal.append(event)
    with RunFolder.open(path) as run:
        assert run.config() == {"task": "t", "seed": 3}
        assert [msgspec.structs.replace(event, at="") for event in run.events()] == run_events(1)
        assert run.state().calls == 1
        assert run.reading.torn is None


def test_a_folder_that_holds_a_run_or_other_files_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with make_run(path) as run:
        run.journal.append(started())
    with pytest.raises(StoreError, match="daydream resume"):
        make_run(path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("precious")
    with pytest.raises(StoreError, match=r"already holds thesis\.tex"):
        make_run(other)
    assert [entry.name for entry in other.iterdir()] == ["thesis.tex"]


def test_what_a_killed_create_left_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    make_run(path).close()
    (path / "journal.jsonl").unlink()
    (path / ".run.toml.tmp").write_text("half")
    assert RunFolder.open(path).state().started is None
    with make_run(path) as run:
        run.journal.append(started())
    assert RunFolder.open(path).state().started is not None


def test_a_file_in_the_way_of_a_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(StoreError, match=r"cannot make .*taken"):
        make_run(tmp_path / "taken" / "run")
    with pytest.raises(StoreError, match=r"cannot make .*taken"):
        make_run(tmp_path / "taken")


def test_the_same_process_cannot_write_twice(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with make_run(path) as run:
        run.journal.append(started())
        with pytest.raises(StoreError, match=r"by process \d+ on host .*daydream resume"):
            RunFolder.open(path, clock=clock)
        assert len(RunFolder.open(path).events()) == 1, "reading needs no lock"
    with RunFolder.open(path, clock=clock) as run:
        run.journal.append(round_started())
        assert len(run.events()) == 2


def test_an_artifact_is_on_the_disk_before_the_record_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, int]] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        fsync(handle)
        synced.append((os.fstat(handle).st_ino, os.fstat(handle).st_size))

    with make_run(tmp_path / "run") as run:
        monkeypatch.setattr("os.fsync", noted)
        artifact = run.put_artifact({"a": b"content"})
        blobs = list((run.path / "blobs").rglob("*"))
        kept = {path.stat().st_ino for path in blobs} | {(run.path / "blobs").stat().st_ino}
        assert {inode for inode, _ in synced} == kept, "files, and the folders of their names"
        synced.clear()
        run.journal.append(dispatched(1))
        assert synced == [], "a dispatch may be lost"
        run.journal.append(finished(1, artifact=artifact))
        journal = (run.path / "journal.jsonl").stat()
        assert synced == [(journal.st_ino, journal.st_size)]
        run.journal.append(dispatched(2), durable=True)
        assert len(synced) == 2
        run.journal.append(finished(2), durable=False)
        assert len(synced) == 2
        synced.clear()
        run.write_tree(small_tree())
        tree = run.path / "history" / "001.json"
        assert [inode for inode, _ in synced] == [
            tree.stat().st_ino,
            tree.parent.stat().st_ino,
        ]


def test_a_folder_that_could_not_be_opened_is_free_again(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with pytest.raises(StoreError, match="configuration holds nan"):
        RunFolder.create(path, {"scale": float("nan")}, clock=clock)
    with make_run(path) as run:
        run.journal.append(started())
    whole = (path / "journal.jsonl").read_bytes()
    (path / "journal.jsonl").write_bytes(b"damage\n" + whole)
    with pytest.raises(StoreError, match="line 1 of"):
        RunFolder.open(path, clock=clock)
    (path / "journal.jsonl").write_bytes(whole)
    with RunFolder.open(path, clock=clock) as run:
        assert len(run.events()) == 1


def test_a_torn_journal_is_reported_cut_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with make_run(path) as run:
        run.journal.append(started())
    with (path / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"event":"rou')
    reader = RunFolder.open(path)
    assert reader.reading.torn is not None
    with RunFolder.open(path, clock=clock) as run:
        assert run.reading.torn == reader.reading.torn
        run.journal.append(round_started())
        assert list(run.state().rounds) == [1]


def test_a_folder_open_for_reading_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run"
    make_run(path).close()
    before = sorted((entry, entry.stat().st_mtime_ns) for entry in path.rglob("*"))
    run = RunFolder.open(path)
    for write in (
        lambda: run.journal.append(started()),
        lambda: run.put_artifact({"a": b""}),
        lambda: run.write_tree(small_tree()),
        lambda: run.write_policy("p", {}),
        lambda: run.write_summary({}),
        lambda: run.write_config({}),
        lambda: run.write_best({"a": b""}, {}),
    ):
        with pytest.raises(StoreError, match="open for reading"):
            write()
    assert sorted((entry, entry.stat().st_mtime_ns) for entry in path.rglob("*")) == before


def test_a_tree_is_a_canonical_file_and_comes_back_equal(tmp_path: Path) -> None:
    with make_run(tmp_path / "run") as run:
        run.journal.append(started())
        run.journal.append(round_started())
        digest = run.write_tree(small_tree())
        run.journal.append(tree_finished(1, digest))
        assert run.trees() == (small_tree(),)
    data = (tmp_path / "run" / "history" / "001.json").read_bytes()
    assert content_hash(data) == digest
    assert data.startswith(b'{"eligibility":"chain","evaluator":"e1","limit":8,"nodes":[{')
    assert b'"schema_version":1' in data
    assert read_tree(tmp_path / "run" / "history" / "001.json") == small_tree()


def test_a_tree_whose_record_a_crash_cut_off_is_left_out_until_its_round_ends(
    tmp_path: Path,
) -> None:
    with make_run(tmp_path / "run") as run:
        run.journal.append(started())
        run.journal.append(round_started(1))
        run.journal.append(tree_finished(1, run.write_tree(small_tree(1))))
        run.journal.append(round_started(2))
        digest = run.write_tree(small_tree(2))
        assert run.trees() == (small_tree(1),)
        run.journal.append(tree_finished(2, run.write_tree(small_tree(2))))
        assert run.trees() == (small_tree(1), small_tree(2))
        assert run.write_tree(small_tree(2)) == digest


def test_trees_that_no_journal_started_are_imports_and_count(tmp_path: Path) -> None:
    with make_run(tmp_path / "run") as run:
        for number in (2, 10, 1):
            run.write_tree(small_tree(number))
        assert [tree.round for tree in run.trees()] == [1, 2, 10]


def test_a_finished_tree_never_changes(tmp_path: Path) -> None:
    with make_run(tmp_path / "run") as run:
        run.write_tree(small_tree())
        with pytest.raises(StoreError, match="never changes"):
            run.write_tree(small_tree(score=0.75))
        assert run.trees() == (small_tree(),)


def test_a_tree_that_breaks_an_invariant_is_not_written(tmp_path: Path) -> None:
    tree = small_tree()
    broken = msgspec.structs.replace(tree, nodes=tree.nodes[::-1])
    with make_run(tmp_path / "run") as run, pytest.raises(TreeError):
        run.write_tree(broken)
    assert list((tmp_path / "run" / "history").iterdir()) == []


def test_history_that_was_tampered_with_or_lost_is_named(tmp_path: Path) -> None:
    with make_run(tmp_path / "run") as run:
        run.journal.append(started())
        run.journal.append(round_started())
        run.journal.append(tree_finished(1, run.write_tree(small_tree())))
        file = run.path / "history" / "001.json"
        whole = file.read_bytes()
        file.write_bytes(whole.replace(b"0.5", b"0.9"))
        with pytest.raises(StoreError, match=r"001\.json was changed"):
            run.trees()
        file.write_bytes(whole[:-20])
        with pytest.raises(StoreError, match=r"001\.json: .*expected a tree"):
            run.trees()
        file.rename(file.with_name("002.json"))
        file.with_name("002.json").write_bytes(whole)
        with pytest.raises(StoreError, match=r"002\.json holds round 1"):
            run.trees()
        file.with_name("002.json").unlink()
        with pytest.raises(StoreError, match="no tree of round 1"):
            run.trees()


def test_policy_versions_are_kept_once_and_one_is_deployed(tmp_path: Path) -> None:
    spec: JsonObject = {"kind": "adaptive", "width": 4}
    with make_run(tmp_path / "run") as run:
        assert run.deployed() is None
        assert run.write_policy("first", {"kind": "parallel_refine"}) == "001-first.json"
        assert run.write_policy("adaptive-w4-g0.02", spec) == "002-adaptive-w4-g0.02.json"
        assert run.write_policy("my policy/../x", "class Policy: ...\n", deploy=False) == (
            "003-my-policy-..-x.py"
        )
        assert run.deployed() == run.path / "policies" / "002-adaptive-w4-g0.02.json"
        assert run.write_policy("first", {"kind": "parallel_refine"}) == "001-first.json"
        assert run.write_policy("first", {"kind": "another"}, deploy=False) == "004-first.json"
        assert (run.path / "policies" / "deployed").read_text() == "001-first.json\n"
        assert run.policies() == (
            "001-first.json",
            "002-adaptive-w4-g0.02.json",
            "003-my-policy-..-x.py",
            "004-first.json",
        )
        (run.path / "policies" / "deployed").write_text("../../etc/passwd")
        with pytest.raises(StoreError, match="deployed names"):
            run.deployed()


def test_summary_and_configuration_can_be_replaced_and_read(tmp_path: Path) -> None:
    with make_run(tmp_path / "run") as run:
        assert run.summary() is None
        run.write_summary({"calls": 3})
        assert run.summary() == {"calls": 3, "schema_version": 1}
        run.write_config({"task": "t", "scale": 0.25, "search": {"limit": 8}})
        assert run.config() == {"task": "t", "scale": 0.25, "search": {"limit": 8}}
        (run.path / "summary.json").write_text("{")
        with pytest.raises(StoreError, match="expected a summary"):
            run.summary()
        (run.path / "run.toml").write_text("a = ")
        with pytest.raises(StoreError, match="expected a configuration"):
            run.config()


def test_a_copied_folder_is_the_same_run(tmp_path: Path) -> None:
    with make_run(tmp_path / "run") as run:
        digest = run.put_artifact({"a": b"1"})
        for event in (started(), round_started(), finished(1, artifact=digest)):
            run.journal.append(event)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    with RunFolder.open(tmp_path / "copy", clock=clock) as copy:
        assert copy.state().calls == 1
        assert copy.get_artifact(digest) == {"a": b"1"}
        assert copy.has_artifact(digest)
        copy.journal.append(Stopped(reason="copied"))
    assert RunFolder.open(tmp_path / "run").state().stopped is None
