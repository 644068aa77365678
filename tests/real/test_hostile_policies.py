"""Hostile policy files: none is accepted with a changed result, and the parent is unharmed."""

import os
import re
import resource
from pathlib import Path

import pytest

from daydream.errors import PolicyFault
from daydream.isolation import PolicyLimits, replay_apart
from daydream.policies.python_file import PythonFileSpec
from daydream.replay import Record, replay
from daydream.search import Outcome
from daydream.testing.worlds import table_tree
from tests.real.hostile_policies import HONEST, HOSTILE, SAME, TIME, Hostile

TREES = [
    table_tree([[0.1, 0.2, 0.3], [0.1 * number, 0.2, None], [0.3], [0.4, 0.1]])
    for number in range(5)
]
FIRST = {
    *("gc_objects", "frames", "history_on_disk"),
    *("write_file", "fork", "socket", "kill_parent"),
    *("garbage_on_every_fd", "extra_message", "forged_replies", "patched_check"),
    *("exit_quietly", "nasty_exception", "huge_batch", "nothing", "endless_loop"),
    *("chance", "memory_in_sys", "company", "still_alone_means_live"),
}
"""Some of each kind, for the default tests."""
LIMITS = PolicyLimits(decision_s=1.5, start_s=10.0, memory_mb=256)


def _honest() -> list[Outcome]:
    spec = PythonFileSpec("honest.py", HONEST + "\nselect_batch = honest\n", trusted=True)
    done = [replay(lambda: spec.build(1.0), tree) for tree in TREES]
    return [Outcome(one.attempts, one.batches, one.off_record, one.best) for one in done]


def _children() -> set[str]:
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[1] == str(os.getpid()):
            found.add(stat.parent.name)
    return found


@pytest.mark.parametrize(
    "name",
    [name if name in FIRST else pytest.param(name, marks=pytest.mark.slow) for name in HOSTILE],
)
def test_a_hostile_file_is_out_or_changes_nothing(name: str) -> None:
    hostile = HOSTILE[name]
    spec = PythonFileSpec(f"{name}.py", hostile.source())
    records = [Record(tree) for tree in TREES]
    before, files = _children(), len(list(Path("/proc/self/fd").iterdir()))
    if hostile.reason == SAME:
        assert replay_apart(spec, records, limit=8, max_batches=50, limits=LIMITS) == _honest()
    elif name == "nothing":
        found = replay_apart(spec, records, limit=8, max_batches=50, limits=LIMITS)
        assert [one.attempts for one in found] == [0] * len(TREES)
    else:
        with pytest.raises(PolicyFault) as caught:
            replay_apart(spec, records, limit=8, max_batches=50, limits=LIMITS)
        fault = caught.value
        assert re.search(hostile.reason, fault.reason), fault.reason
        assert 0 <= fault.world < len(TREES)
        assert fault.batch >= 1
        assert len(fault.reason) < 2_000
        assert fault.reason.isprintable()
    assert _children() == before
    assert len(list(Path("/proc/self/fd").iterdir())) == files
    assert not Path("/tmp/daydream-was-here").exists()


def test_a_loop_without_end_in_one_of_a_thousand_worlds_is_found_and_the_world_is_named() -> None:
    deed = "if any(node.score == 0.137 for node in view.nodes):\n    while True: pass"
    spec = PythonFileSpec("one.py", Hostile(deed, TIME).source())
    records = [Record(table_tree([[number / 1_000, 0.5], [0.1]])) for number in range(1_000)]
    before = _children()
    with pytest.raises(PolicyFault) as caught:
        replay_apart(spec, records, limit=8, max_batches=9, limits=LIMITS)
    assert (caught.value.world, caught.value.reason[:6]) == (137, "time: ")
    assert _children() == before


def test_there_are_at_least_forty() -> None:
    assert len(HOSTILE) >= 40
    assert set(HOSTILE) > FIRST


def test_a_flood_from_a_child_does_not_fill_the_parent() -> None:
    source = HOSTILE["announce_a_gigabyte"].source()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(PolicyFault):
        replay_apart(PythonFileSpec("flood.py", source), [Record(TREES[0])], limit=8, max_batches=9)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10
