"""Workspaces: what is read back, what is refused, and that everything is removed."""

import os
import socket
from pathlib import Path

import pytest

from daydream.sandbox.workspace import (
    Unreadable,
    read_files,
    remove_tree,
    workspace,
    write_files,
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    files = {"a.py": b"a", "deep/er/b.bin": bytes(range(256)), "ünïcode.txt": b""}
    write_files(tmp_path, files)
    assert read_files(tmp_path) == files


def test_caches_and_histories_are_no_part_of_the_files(tmp_path: Path) -> None:
    names = ["a.py", "__pycache__/a.pyc", ".git/HEAD", "b/.mypy_cache/x", "c.pyc", "skip/me"]
    write_files(tmp_path, dict.fromkeys(names, b"x"))
    assert read_files(tmp_path, skip=lambda name: name == "skip") == {"a.py": b"x"}


def test_a_link_inside_is_read_and_a_link_outside_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("content")
    (tmp_path / "b").symlink_to("a")
    assert read_files(tmp_path) == {"a": b"content", "b": b"content"}
    (tmp_path / "c").symlink_to("/etc/hostname")
    with pytest.raises(Unreadable, match="c is a link to a place outside"):
        read_files(tmp_path)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def _linked_folder(path: Path) -> None:
    (path.parent / "folder").mkdir()
    path.symlink_to("folder")


def _broken_link(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("make", [_pipe, _socket, _linked_folder, _broken_link])
def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path, make: object) -> None:
    assert callable(make)
    make(tmp_path / "entry")
    with pytest.raises(Unreadable, match="entry"):
        read_files(tmp_path)


def test_too_many_files_and_too_many_bytes_are_refused(tmp_path: Path) -> None:
    write_files(tmp_path, {f"{number}": b"xx" for number in range(4)})
    assert len(read_files(tmp_path, max_files=4, max_bytes=8)) == 4
    with pytest.raises(Unreadable, match="more than 3 files"):
        read_files(tmp_path, max_files=3)
    with pytest.raises(Unreadable, match="over the limit"):
        read_files(tmp_path, max_bytes=7)


def test_a_huge_sparse_file_is_refused_by_its_size(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Unreadable, match="sparse with 1099511627776 bytes"):
        read_files(tmp_path)


@pytest.mark.parametrize("name", [b"not\xffutf8", b"back\\slash"])
def test_a_name_that_is_no_plain_text_is_refused(tmp_path: Path, name: bytes) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()
    with pytest.raises(Unreadable, match="no plain text name"):
        read_files(tmp_path)


def test_a_workspace_is_private_and_gone_afterwards() -> None:
    with workspace() as place:
        assert place.stat().st_mode & 0o777 == 0o700
        assert place == place.resolve()
        write_files(place, {"deep/file": b"x"})
    assert not place.exists()


def test_a_tree_is_removed_however_deep_and_whatever_its_permissions(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    outside = tmp_path / "outside"
    outside.write_text("stays")
    here = os.open(root, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("folder" * 5, dir_fd=here)
        inner = os.open("folder" * 5, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    (root / "link").symlink_to(outside)
    os.mkfifo(root / "pipe")
    (root / ".removing-1").mkdir()
    write_files(root, {"locked/in/file": b"x"})
    (root / "locked" / "in").chmod(0)
    (root / "locked").chmod(0)
    remove_tree(root)
    assert not root.exists()
    assert outside.read_text() == "stays"
