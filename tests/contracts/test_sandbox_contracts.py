"""Both sandboxes keep every promise of a sandbox, and each known-bad one is found out."""

from functools import partial

import pytest

from daydream.sandbox.base import Sandbox
from daydream.sandbox.bubblewrap import BubblewrapSandbox
from daydream.sandbox.process import ProcessSandbox
from daydream.testing.fakes_sandboxes import (
    KNOWN_BAD,
    LimitsMemoryOfEachProcess,
    WaitsForHangs,
)
from daydream.testing.sandbox_contracts import CHECKS, Check, SandboxUnderTest


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_process_sandbox_keeps_each_promise(check: Check) -> None:
    check(SandboxUnderTest(supply=ProcessSandbox))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_bubblewrap_sandbox_keeps_each_promise(check: Check) -> None:
    check(SandboxUnderTest(supply=BubblewrapSandbox))


def test_every_promise_has_a_sandbox_that_breaks_it() -> None:
    assert set(KNOWN_BAD.values()) == set(CHECKS)


WAITS = {LimitsMemoryOfEachProcess, WaitsForHangs}


@pytest.mark.parametrize(
    ("bad", "check"),
    [
        pytest.param(bad, check, marks=[pytest.mark.slow] if bad in WAITS else [])
        for bad, check in KNOWN_BAD.items()
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_sandbox_that_breaks_a_promise_is_found_out(bad: type[Sandbox], check: Check) -> None:
    with pytest.raises(AssertionError, match=r"expected (the promise|a result)"):
        check(SandboxUnderTest(supply=partial(bad)))
