"""Numbers in messages agree with their nouns."""

import pytest

from daydream.wording import counted


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 tasks"), (1, "1 task"), (2, "2 tasks"), (12_345, "12,345 tasks")],
)
def test_one_thing_is_not_many(count: int, words: str) -> None:
    assert counted(count, "task") == words


def test_odd_plurals_are_named() -> None:
    assert counted(1, "success", "successes") == "1 success"
    assert counted(2, "success", "successes") == "2 successes"
