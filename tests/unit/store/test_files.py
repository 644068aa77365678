"""Writes that a crash cannot halve, and what is said when the disk refuses."""

import errno
import os
from pathlib import Path

import pytest

from daydream.errors import StoreError
from daydream.store.files import REASONS, disk_errors, remove_tree, replace_file


@pytest.mark.parametrize("number", REASONS)
def test_every_refusal_of_a_disk_says_what_is_kept_and_what_to_do(number: int) -> None:
    found, cure = REASONS[number]
    with (
        pytest.raises(StoreError) as caught,
        disk_errors("write", Path("runs/t/a/journal.jsonl"), Path("runs/t/a")),
    ):
        raise OSError(number, os.strerror(number))
    assert str(caught.value) == (
        f"cannot write runs/t/a/journal.jsonl: {found}; everything recorded before it is kept; "
        f"{cure}, then continue with: daydream resume runs/t/a"
    )


def test_other_errors_keep_the_words_of_the_system() -> None:
    with (
        pytest.raises(StoreError, match=r"cannot read x: No such file or directory; .* try again"),
        disk_errors("read", Path("x")),
    ):
        Path("x").read_bytes()


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "summary.json"
    replace_file(path, b"old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr("daydream.store.files.os.fsync", full)
        with pytest.raises(OSError, match="full"):
            replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["summary.json"]
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"


def test_removing_a_link_to_a_folder_leaves_the_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    remove_tree(tmp_path / "link")
    remove_tree(tmp_path / "never there")
    assert [entry.name for entry in tmp_path.iterdir()] == ["real"]
