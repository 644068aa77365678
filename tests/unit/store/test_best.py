"""The folder of the best artifact: always one whole artifact, with its diff."""

from pathlib import Path

import pytest

from daydream.store.best import MAX_DIFF_LINES, diff_text, repair_best, write_best

ROOT = {"program.py": b"a = 1\nb = 2\n", "README": b"hello"}
BEST = {"program.py": b"a = 1\nb = 3\n", "lib/new.py": b"c = 4\n", "README": b"hello"}


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_best_holds_the_files_and_their_diff_and_nothing_of_an_earlier_best(tmp_path: Path) -> None:
    write_best(tmp_path, {"old.py": b"", "program.py": b"x"}, ROOT)
    folder = write_best(tmp_path, BEST, ROOT)
    assert folder == tmp_path / "best"
    assert content(folder) == {**BEST, "diff.patch": diff_text(ROOT, BEST)}
    assert [entry.name for entry in tmp_path.iterdir()] == ["best"]


def test_a_diff_names_changed_new_and_removed_files(tmp_path: Path) -> None:
    text = diff_text({**ROOT, "gone": b"x\n"}, BEST).decode()
    assert text == (
        "diff --git a/gone b/gone\ndeleted file mode 100644\n"
        "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "diff --git a/lib/new.py b/lib/new.py\nnew file mode 100644\n"
        "--- /dev/null\n+++ b/lib/new.py\n@@ -0,0 +1 @@\n+c = 4\n"
        "diff --git a/program.py b/program.py\n"
        "--- a/program.py\n+++ b/program.py\n@@ -1,2 +1,2 @@\n a = 1\n-b = 2\n+b = 3\n"
    )


def test_equal_artifacts_differ_in_nothing() -> None:
    assert diff_text(BEST, dict(BEST)) == b""


@pytest.mark.parametrize(
    "data", [b"\xff\x00", b"a\0b", b"line\n" * (MAX_DIFF_LINES + 1)], ids=["bytes", "nul", "long"]
)
def test_what_cannot_be_compared_by_lines_is_named_as_different(data: bytes) -> None:
    assert diff_text({"f": b"text"}, {"f": data}) == (
        b"diff --git a/f b/f\nBinary files a/f and b/f differ\n"
    )


@pytest.mark.parametrize("taken", ["diff.patch", "diff.patch/x"])
def test_an_artifact_may_have_a_file_called_like_the_diff(tmp_path: Path, taken: str) -> None:
    folder = write_best(tmp_path, {taken: b"mine"}, {})
    assert (folder / taken).read_bytes() == b"mine"
    assert (folder / "_diff.patch").read_bytes() == diff_text({}, {taken: b"mine"})


def test_a_rewrite_that_failed_half_way_does_not_stop_the_next_one(tmp_path: Path) -> None:
    write_best(tmp_path, BEST, ROOT)
    for name in ("best.old", "best.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "left").write_bytes(b"over")
    folder = write_best(tmp_path, {"n": b"1"}, {})
    assert sorted(content(folder)) == ["diff.patch", "n"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["best"]


@pytest.mark.parametrize("moment", ["before the swap", "inside the swap", "after the swap"])
def test_a_crash_in_a_rewrite_leaves_one_whole_best(tmp_path: Path, moment: str) -> None:
    best = write_best(tmp_path, BEST, ROOT)
    if moment == "before the swap":
        (tmp_path / "best.tmp").mkdir()
        (tmp_path / "best.tmp" / "half").write_bytes(b"")
    elif moment == "inside the swap":
        best.rename(tmp_path / "best.old")
        (tmp_path / "best.tmp").mkdir()
    else:
        (tmp_path / "best.old").mkdir()
    repair_best(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["best"]
    assert (best / "program.py").read_bytes() == BEST["program.py"]
    assert content(write_best(tmp_path, {"n": b"1"}, {})) == {
        "n": b"1",
        "diff.patch": diff_text({}, {"n": b"1"}),
    }
