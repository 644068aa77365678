"""The run folder against real processes: a second writer, ``kill -9``, a disk that is full."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from daydream.errors import StoreError
from daydream.store.best import diff_text
from daydream.store.events import AttemptFinished
from daydream.store.run_folder import RunFolder
from tests.conftest import ROOT
from tests.real.store_processes import VERSIONS
from tests.unit.store.samples import clock, finished


@contextmanager
def process(deed: str, folder: Path, *numbers: int) -> Iterator["subprocess.Popen[str]"]:
    """Run a deed of ``store_processes``; it is gone when the block ends."""
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from runpy import run_path; "
    code += "run_path(sys.argv.pop(1), run_name='__main__')"
    script = Path(__file__).with_name("store_processes.py")
    with subprocess.Popen(
        [sys.executable, "-c", code, ROOT, script, deed, folder, *map(str, numbers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def lines_until(running: "subprocess.Popen[str]", count: int) -> list[str]:
    """Read ``count`` lines, kill the process at that instant, and return all that it had said."""
    assert running.stdout is not None
    said = [running.stdout.readline() for _ in range(count)]
    running.kill()
    said += running.stdout.readlines()
    running.wait()
    assert all(line.endswith("\n") for line in said), "the process ended by itself"
    return said


def test_a_second_process_is_told_who_holds_the_run_until_it_dies(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with process("hold", path) as holder:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        with pytest.raises(StoreError, match=rf"process {pid} on host .*kill -INT {pid}\)"):
            RunFolder.open(path, clock=clock)
        assert RunFolder.open(path).events() == ()
        holder.kill()
        holder.wait()
        RunFolder.open(path, clock=clock).close()


def test_a_forked_child_neither_writes_nor_keeps_the_lock_of_a_dead_parent(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run"
    with process("hold_and_fork", path) as holder:
        assert holder.stdout is not None
        _, child, refused = holder.stdout.readline().split()
        assert refused == "True"
        with pytest.raises(StoreError, match=f"process {holder.pid} "):
            RunFolder.open(path, clock=clock)
        holder.kill()
        holder.wait()
        os.kill(int(child), 0)
        RunFolder.open(path, clock=clock).close()


def test_what_was_acknowledged_survives_kill_9_at_any_instant(tmp_path: Path) -> None:
    path = tmp_path / "run"
    instants = random.Random(20)
    acknowledged = 0
    for _ in range(8):
        with process("append", path) as writer:
            acknowledged = int(lines_until(writer, instants.randint(1, 40))[-1])
        run = RunFolder.open(path)
        done = [event for event in run.events() if isinstance(event, AttemptFinished)]
        assert len(done) in {acknowledged, acknowledged + 1}
        assert [event.batch for event in done] == list(range(1, len(done) + 1))
        for event in done[-3:]:
            assert event.artifact is not None
            files = run.get_artifact(event.artifact)
            assert files == {"program.py": b"%d" % event.batch, "same.py": b"same"}
    assert acknowledged >= 8


def test_a_run_whose_creation_was_killed_can_be_opened_or_made_again(tmp_path: Path) -> None:
    instants = random.Random(21)
    for turn in range(5):
        folder = tmp_path / str(turn)
        with process("create", folder) as maker:
            lines_until(maker, instants.randint(1, 30))
        for path in folder.iterdir():
            try:
                RunFolder.open(path, clock=clock).close()
            except StoreError:
                RunFolder.create(path, {}, clock=clock).close()


def test_best_is_one_whole_artifact_after_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "run"
    instants = random.Random(22)
    wholes = [{**version, "diff.patch": diff_text({}, version)} for version in VERSIONS]
    for _ in range(5):
        with process("rewrite_best", path) as writer:
            lines_until(writer, instants.randint(1, 30))
        RunFolder.open(path, clock=clock).close()
        best = path / "best"
        files = [file for file in best.rglob("*") if file.is_file()]
        assert {str(file.relative_to(best)): file.read_bytes() for file in files} in wholes
        assert not {"best.tmp", "best.old"} & {entry.name for entry in path.iterdir()}


def test_a_full_disk_is_explained_and_costs_only_what_did_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with process("fill", path, 20_000) as writer:
        said, _ = writer.communicate()
        assert writer.returncode == 0
    first, second, blob = said.splitlines()
    count = int(first.split()[1])
    assert count > 20
    for line in (first, second, blob):
        assert int(line.split()[1]) == count
        assert "the file size limit is reached; everything recorded before it is kept" in line
        assert line.endswith(f"then continue with: daydream resume {path}")
    assert f"cannot write {path / 'journal.jsonl'}" in first
    assert f"cannot write {path / 'blobs'}" in blob
    with RunFolder.open(path, clock=clock) as run:
        assert run.reading.torn is None, "half a record was taken back"
        assert run.state().calls == count
        run.journal.append(finished(count + 1))
        assert run.state().calls == count + 1
    leftovers = [file for file in path.rglob("*") if file.name.endswith(".tmp")]
    assert leftovers == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a.py": b"x\ny\n"}, {"a.py": b"x\nz\n"}),
        ({"a.py": b"no end"}, {"a.py": b"no end\n", "new/b.py": b"1\n2"}),
        ({"a.py": b"carriage\r\nreturns\r\n"}, {"a.py": b"carriage\r\nreturn\r\n"}),
        ({"a.py": b"form\x0cfeed\nx\n", "gone": b"g\n"}, {"a.py": b"form\x0cfeed\ny\n"}),
    ],
)
def test_git_applies_the_diff_of_the_best(
    tmp_path: Path, before: dict[str, bytes], after: dict[str, bytes]
) -> None:
    for name, data in before.items():
        (tmp_path / name).write_bytes(data)
    patch = diff_text(before, after)
    subprocess.run(["git", "apply", "-"], input=patch, cwd=tmp_path, check=True)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {str(file.relative_to(tmp_path)): file.read_bytes() for file in files} == after
