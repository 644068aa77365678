"""A log of several writers: whole lines, healed tails, refusals."""

import os
from pathlib import Path

import pytest

from daydream.errors import StoreError
from daydream.store.shared_log import SharedLog


def test_what_is_appended_is_read_in_order_also_from_a_later_place(tmp_path: Path) -> None:
    log = SharedLog(tmp_path / "deep" / "log")
    log.append([b"one", b"two"])
    first = log.read()
    log.append([b"three"])
    assert first.lines == (b"one", b"two")
    assert log.read(first.end).lines == (b"three",)
    assert SharedLog(log.path).read().lines == (b"one", b"two", b"three")


def test_a_log_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    assert SharedLog(tmp_path / "none").read().lines == ()


@pytest.mark.parametrize("torn", [b"{", b"\0" * 5000, b'{"id": "x' + b"y" * 70_000])
def test_a_torn_tail_is_not_read_and_is_dropped_by_the_next_append(
    tmp_path: Path, torn: bytes
) -> None:
    log = SharedLog(tmp_path / "log")
    log.append([b"one"])
    log.close()
    with log.path.open("ab") as file:
        file.write(torn)
    found = SharedLog(log.path).read()
    assert (found.lines, found.torn) == ((b"one",), len(torn))
    log.append([b"two"])
    assert log.path.read_bytes() == b"one\ntwo\n"


def test_a_tail_torn_before_any_record_leaves_an_empty_log(tmp_path: Path) -> None:
    log = SharedLog(tmp_path / "log")
    log.path.write_bytes(b"half a rec")
    assert log.read().lines == ()
    log.append([b"one"])
    assert log.read().lines == (b"one",)


def test_a_record_with_a_line_break_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    log = SharedLog(tmp_path / "log")
    with pytest.raises(StoreError, match="holds a line break"):
        log.append([b"good", b"bad\nline"])
    assert not log.path.exists()


def test_a_forked_child_writes_with_a_lock_of_its_own(tmp_path: Path) -> None:
    log = SharedLog(tmp_path / "log")
    log.append([b"parent"])
    pid = os.fork()
    if pid == 0:
        log.append([b"child"])
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    log.append([b"parent again"])
    assert log.read().lines == (b"parent", b"child", b"parent again")
