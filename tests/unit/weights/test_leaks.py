"""The leak guard catches copies of a probe, and lets other problems pass."""

import pytest

from daydream.llm.base import Message
from daydream.weights.leaks import Fingerprint, LeakGuard

PROBE = """Write a function that returns the running total of a list.

def running(values):
    total = 0
    kept = []
    for value in values:
        total = total + value
        kept.append(total)
    return kept
"""


def _print(text: str, task: str = "other", keys: tuple[str, ...] = ()) -> Fingerprint:
    return Fingerprint((Message("system", "Answer."), Message("user", text)), keys, task)


GUARD = LeakGuard([_print(PROBE, "probe-1")])


def test_an_exact_copy_is_caught_whatever_its_spacing() -> None:
    caught = GUARD.caught(_print(PROBE.replace("    ", "\t").replace("=", " = ") + "\n\n"))
    assert caught == "is an exact copy of probe probe-1"


def test_a_copy_with_renamed_variables_is_caught() -> None:
    renamed = PROBE
    for old, new in (("total", "acc"), ("kept", "out"), ("values", "items"), ("value", "item")):
        renamed = renamed.replace(old, new)
    renamed = renamed.replace("running acc", "running total")
    assert renamed != PROBE
    assert GUARD.caught(_print(renamed)) == "is a copy with other names of probe probe-1"


def test_a_reordered_copy_is_caught() -> None:
    reordered = PROBE.replace("    total = 0\n    kept = []\n", "    kept = []\n    total = 0\n")
    assert reordered != PROBE
    assert GUARD.caught(_print(reordered)) == "is a reordered copy of probe probe-1"


def test_a_copy_reordered_within_a_line_is_caught() -> None:
    guard = LeakGuard([_print("Return a + 3 * b", "probe-2")])
    assert guard.caught(_print("Return 3 * b + a")) == "is a reordered copy of probe probe-2"


def test_a_copy_that_is_renamed_and_reordered_is_caught() -> None:
    both = PROBE.replace("    total = 0\n    kept = []\n", "    res = []\n    t = 0\n")
    both = both.replace("kept", "res").replace("total = total + value", "t = t + value")
    both = both.replace("append(total)", "append(t)")
    assert "reordered copy" in str(GUARD.caught(_print(both)))


@pytest.mark.parametrize(
    "other",
    [
        PROBE.replace("total + value", "total * value"),
        PROBE.replace("running total", "running product"),
        "Write a function that sorts a list.",
    ],
)
def test_another_problem_passes(other: str) -> None:
    assert GUARD.caught(_print(other)) is None


def test_the_task_of_a_probe_is_caught_whatever_it_asks() -> None:
    assert GUARD.caught(_print("something else", "probe-1")) == "is probe probe-1"


def test_a_task_that_knows_its_problems_decides_by_its_keys() -> None:
    guard = LeakGuard([_print("x+3*y=", "probe", ("k1",))])
    assert "is the same problem as probe probe" in str(guard.caught(_print("y*3+u=", "t", ("k1",))))
    # The same characters in another order are another formula, and the task says so.
    assert guard.caught(_print("3+x*y=", "t", ("k2",))) is None
