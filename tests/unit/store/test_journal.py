"""The journal: what it accepts, what it reports, what it refuses."""

import os
from pathlib import Path

import msgspec
import pytest

from daydream.errors import StoreError
from daydream.store.events import AttemptFinished, RunStarted, Stopped
from daydream.store.journal import Journal, read_journal
from tests.unit.store.samples import clock, dispatched, finished, round_started, run_events, started


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def write(path: Path, *extra: bytes, attempts: int = 2) -> bytes:
    journal = Journal(path, clock=clock, good_bytes=0)
    for event in run_events(attempts):
        journal.append(event)
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b"".join(extra))
    return whole


def test_a_record_is_one_canonical_line_with_time_kind_and_version(path: Path) -> None:
    journal = Journal(path, clock=clock, good_bytes=0)
    stored = journal.append(Stopped(reason="spent"))
    assert stored.at == "2027-01-15T08:00:00.000+00:00"
    assert path.read_bytes() == (
        b'{"at":"2027-01-15T08:00:00.000+00:00","event":"stopped","reason":"spent",'
        b'"schema_version":1}\n'
    )
    journal.close()


def test_what_was_appended_is_what_is_read(path: Path) -> None:
    write(path)
    reading = read_journal(path)
    assert [msgspec.structs.replace(event, at="") for event in reading.events] == run_events(2)
    assert reading.torn is None
    assert reading.good_bytes == path.stat().st_size


@pytest.mark.parametrize(
    "tail",
    [
        b'{"at":"2027',
        b'{"event":"stopped","reason":"no newline yet"}',
        b"\0" * 4096,
        b'{"at":"2027' + b"\0" * 100,
        b'{"at":"20\0\0\0\0\n',
        b'{"half a record}\n',
        b"\xff\xfe\n",
    ],
)
def test_a_torn_tail_is_reported_and_leaves_the_records_before_it(path: Path, tail: bytes) -> None:
    whole = write(path, tail)
    reading = read_journal(path)
    assert len(reading.events) == 6
    assert reading.good_bytes == len(whole)
    assert reading.torn is not None
    assert f"line 7 of {path}" in reading.torn


def test_a_writer_removes_the_torn_tail_and_goes_on(path: Path) -> None:
    whole = write(path, b'{"at":"2027')
    journal = Journal(path, clock=clock, good_bytes=read_journal(path).good_bytes)
    journal.append(Stopped(reason="spent"))
    journal.close()
    reading = read_journal(path)
    assert path.read_bytes().startswith(whole)
    assert isinstance(reading.events[-1], Stopped)
    assert reading.torn is None


def test_zeros_before_records_that_were_never_synced_are_a_torn_tail(path: Path) -> None:
    lost = msgspec.json.encode(dispatched(3)) + b"\n"
    whole = write(path, b"\0" * 70 + b"\n", lost)
    reading = read_journal(path)
    assert reading.good_bytes == len(whole)
    assert reading.torn is not None
    assert "zeros" in reading.torn


def test_zeros_before_a_record_that_was_synced_are_damage(path: Path) -> None:
    write(path, b"\0" * 70 + b"\n", msgspec.json.encode(finished(3)) + b"\n")
    with pytest.raises(StoreError, match="line 7 of"):
        read_journal(path)


@pytest.mark.parametrize(
    "damage", [b"not json\n", b"{}\n", b"\n", b'{"event":"stopped"}\n', b'{"event":"parade"}\n']
)
def test_damage_before_whole_records_names_the_line_and_a_way_out(
    path: Path, damage: bytes
) -> None:
    whole = write(path)
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], damage, *lines[3:]]))
    with pytest.raises(StoreError, match=r"line 4 of .*head -n 3"):
        read_journal(path)


def test_a_last_line_that_is_json_but_no_record_is_damage_not_a_torn_tail(path: Path) -> None:
    write(path, b'{"event":"parade"}\n')
    with pytest.raises(StoreError, match="line 7 of"):
        read_journal(path)


@pytest.mark.parametrize(
    "record",
    [
        b'{"event":"stopped","reason":"x","schema_version":2}\n',
        b'{"event":"parade","schema_version":9}\n',
    ],
)
def test_a_record_of_a_newer_version_asks_for_an_upgrade(path: Path, record: bytes) -> None:
    write(path, record)
    with pytest.raises(StoreError, match=r"line 7 .*newer Daydream: upgrade daydream-rsi"):
        read_journal(path)


def test_fields_that_this_version_does_not_know_are_ignored(path: Path) -> None:
    write(path, b'{"event":"stopped","reason":"x","mood":"good","schema_version":1}\n')
    assert read_journal(path).events[-1] == Stopped(reason="x")


def test_an_empty_journal_holds_nothing(path: Path) -> None:
    path.write_bytes(b"")
    assert read_journal(path).events == ()


def test_text_that_has_no_utf8_form_is_kept_in_a_readable_one(path: Path) -> None:
    journal = Journal(path, clock=clock, good_bytes=0)
    journal.append(msgspec.structs.replace(finished(1), rationale="broken \ud800 text"))
    journal.close()
    [event] = read_journal(path).events
    assert isinstance(event, AttemptFinished)
    assert event.rationale == "broken ? text"


def test_a_number_that_json_lacks_is_refused_and_nothing_is_written(path: Path) -> None:
    journal = Journal(path, clock=clock, good_bytes=0)
    journal.append(started())
    with pytest.raises(StoreError, match="clean_json"):
        journal.append(msgspec.structs.replace(finished(1), score=float("nan")))
    journal.append(round_started())
    journal.close()
    assert len(read_journal(path).events) == 2


def test_a_foreign_write_is_noticed_before_the_next_append(path: Path) -> None:
    journal = Journal(path, clock=clock, good_bytes=0)
    journal.append(started())
    with path.open("ab") as foreign:
        foreign.write(b'{"event":"run_finished"}\n')
    with pytest.raises(StoreError, match="something else wrote to it"):
        journal.append(round_started())
    journal.close()


def test_a_closed_journal_takes_nothing_more(path: Path) -> None:
    journal = Journal(path, clock=clock, good_bytes=0)
    journal.close()
    journal.close()
    with pytest.raises(StoreError, match="closed"):
        journal.append(started())


@pytest.mark.parametrize("written", ["nothing", "a part", "all"])
def test_an_interrupt_inside_an_append_leaves_whole_records(
    path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    journal = Journal(path, clock=clock, good_bytes=0)
    journal.append(started())
    real_write = os.write

    def interrupted(handle: int, data: bytes) -> int:
        size = {"nothing": 0, "a part": len(data) // 2, "all": len(data)}[written]
        real_write(handle, data[:size])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("daydream.store.journal.os.write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.append(round_started())
    journal.append(finished(1))
    journal.close()
    kinds = [type(event).__name__ for event in read_journal(path).events]
    middle = ["RoundStarted"] if written == "all" else []
    assert kinds == ["RunStarted", *middle, "AttemptFinished"]


@pytest.mark.slow
def test_a_hundred_thousand_attempts_load(path: Path) -> None:
    write(path, attempts=500)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 1_002
    path.write_bytes(b"".join(lines[:2]) + b"".join(lines[2:]) * 200)
    events = read_journal(path).events
    assert sum(isinstance(event, AttemptFinished) for event in events) == 100_000
    assert isinstance(events[0], RunStarted)
    assert events[-1].at
