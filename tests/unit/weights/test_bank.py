"""The bank keeps every episode once, reads whole records, and names damage."""

from pathlib import Path

import pytest

from daydream.errors import StoreError
from daydream.weights.bank import Bank
from tests.unit.weights.samples import episode


def test_an_attempt_is_kept_once_however_often_it_is_appended(tmp_path: Path) -> None:
    with Bank(tmp_path) as one, Bank(tmp_path) as two:
        assert one.append([episode(number=1), episode(number=2), episode(number=1)]) == 2
        assert two.append([episode(number=2), episode(number=3)]) == 1
        assert [found.sample for found in one.episodes()] == [1, 2, 3]


def test_two_records_of_one_attempt_count_once_and_the_first_counts(tmp_path: Path) -> None:
    first, second = Bank(tmp_path), Bank(tmp_path)
    first.append([episode(number=1, message="first")])
    line = first.path.read_bytes().replace(b"first", b"later")
    with first.path.open("ab") as file:
        file.write(line)
    assert [found.message for found in second.episodes()] == ["first"]


def test_text_that_has_no_utf_8_is_kept_as_far_as_it_can_be(tmp_path: Path) -> None:
    with Bank(tmp_path) as bank:
        bank.append([episode(answer="x\ud800y")])
        assert [found.answer for found in bank.episodes()] == ["x?y"]


def test_a_damaged_record_is_named_with_its_line(tmp_path: Path) -> None:
    with Bank(tmp_path) as bank:
        bank.append([episode(number=1)])
        bank.path.write_bytes(bank.path.read_bytes() + b'{"id": 3}\n')
        with pytest.raises(StoreError, match=r"line 2 of .*episodes\.jsonl is no episode"):
            list(bank.episodes())


def test_a_record_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    with Bank(tmp_path) as bank:
        bank.append([episode(schema_version=2)])
        with pytest.raises(StoreError, match="upgrade daydream-rsi"):
            list(bank.episodes())
