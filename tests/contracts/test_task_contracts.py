"""The task contracts pass on an honest task and find every known-bad one out."""

import pytest

from daydream.testing.fakes_tasks import HONEST, KNOWN_BAD, HonestSum, under_test
from daydream.testing.task_contracts import CHECKS, Check


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_an_honest_task_keeps_each_promise(check: Check) -> None:
    check(HONEST)


def test_every_promise_has_a_task_that_breaks_it() -> None:
    assert set(KNOWN_BAD.values()) == set(CHECKS)


@pytest.mark.parametrize(
    ("bad", "check"), KNOWN_BAD.items(), ids=lambda value: getattr(value, "__name__", "")
)
def test_a_task_that_only_looks_right_is_found_out(bad: type[HonestSum], check: Check) -> None:
    with pytest.raises(AssertionError, match="expected the promise"):
        check(under_test(bad))
