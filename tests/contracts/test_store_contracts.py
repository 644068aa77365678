"""The run folder keeps the promises of a store of events, and the promises can be broken."""

from pathlib import Path

import pytest

from daydream.testing.store_contracts import CHECKS, KNOWN_BAD, RUN_FOLDER, Check, StoreUnderTest


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_run_folder_keeps_each_promise(check: Check, tmp_path: Path) -> None:
    check(RUN_FOLDER, tmp_path / "run")


def test_every_promise_has_a_store_that_breaks_it() -> None:
    assert set(KNOWN_BAD) == set(CHECKS)


@pytest.mark.parametrize(
    ("check", "bad"), KNOWN_BAD.items(), ids=lambda value: getattr(value, "__name__", "")
)
def test_a_store_that_only_looks_right_is_found_out(
    check: Check, bad: StoreUnderTest, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="expected the promise"):
        check(bad, tmp_path / "run")
