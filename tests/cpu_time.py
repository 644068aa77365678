"""What the default tests cost, in CPU time: their own, and that of the processes they waited for.

CPU time, because other work on the machine must not decide; it still grows by half or so when all
cores are busy. A default test above :data:`REPORTED` is listed at the end of the run; one above
:data:`REFUSED`, which is ten times that, fails. What set-up costs (a run that several tests read)
counts for the sum only.
"""

import resource
from collections.abc import Iterator
from typing import Final

import pytest

REPORTED: Final = 4.0
"""CPU seconds."""
REFUSED: Final = 40.0
"""CPU seconds."""
WHOLE: Final = 300.0
"""CPU seconds of all default tests: two and a half minutes on two cores that are free."""
ADVICE: Final = "share a finished run, take a smaller case, or mark it slow"

_SPENT: Final = "cpu seconds, the whole test"
_CALLED: Final = "cpu seconds, default test"


def _spent() -> float:
    own, waited_for = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + waited_for.ru_utime + waited_for.ru_stime


def _guarded(item: pytest.Item) -> bool:
    """Whether ``item`` is a default test at its default size."""
    if item.get_closest_marker("slow"):
        return False
    law = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    return not (law and item.config.getoption("--slow"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Note the start."""
    item.stash[_START] = _spent()
    yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Measure the test itself; fail one that belongs among the slow ones."""
    before = _spent()
    yield
    took = _spent() - before
    if _guarded(item):
        item.user_properties.append((_CALLED, took))
        if not took <= REFUSED:
            pytest.fail(f"{took:.1f} s of CPU (a default test has {REFUSED:g}): {ADVICE}", False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Sum up."""
    yield
    item.user_properties.append((_SPENT, _spent() - item.stash[_START]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the sum, and the default tests that are too heavy to be default tests."""
    total, heavy = 0.0, []
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "teardown":
                continue
            measured = dict(report.user_properties)
            total += measured.get(_SPENT, 0.0)
            if measured.get(_CALLED, 0.0) > REPORTED:
                heavy.append((measured[_CALLED], report.nodeid))
    bound = "" if terminalreporter.config.getoption("--slow") else f" (expected at most {WHOLE:g})"
    terminalreporter.write_line(f"{total:.0f} s of CPU in the tests{bound}")
    for took, name in sorted(heavy, reverse=True):
        terminalreporter.write_line(f"{took:.1f} s of CPU in {name} (not marked slow): {ADVICE}")


_START: Final = pytest.StashKey[float]()
