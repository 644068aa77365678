"""Policy files in a process of their own beside the same files in process, in one run.

    python benchmarks/isolation.py --out benchmarks/results/isolation.json

A decision round is one batch in one world. Isolated figures count both processes, the start of all
of them, and every round of every pass; in-process figures are measured right before. Read the
ratios: the rates are those of one machine under whatever load it had.
"""

import argparse
import json
import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from daydream.isolation import replay_apart
from daydream.policies.python_file import PythonFileSpec
from daydream.replay import Record, replay
from daydream.testing.worlds import table_tree
from daydream.tree import Tree

ROUNDS = 20
LIGHT = """
class Policy:
    def select_batch(self, view, limit):
        done = view.batches
        if done == 20:
            return []
        if done < 4:
            return [0, 0]
        last = len(view.nodes) - 1
        return [last, 0] if done % 3 and last in view.frontier else [last]
"""
BUSY = LIGHT.replace(
    "        done = view.batches\n",
    "        done = view.batches\n        work = 0\n        for i in range(LOOPS):\n"
    "            work += i * i\n",
)
WORK_US = 24.0
"""Work of the busy policy in one round."""


def cpu_s() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    own, ended = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


def loops_for(work_us: float) -> int:
    """Return how many turns of the busy loop take ``work_us`` microseconds of CPU here."""
    turns = 200_000
    work = 0
    begin = time.process_time()
    for i in range(turns):
        work += i * i
    return max(1, round(work_us * 1e-6 * turns / (time.process_time() - begin)))


def measured(play: Callable[[], int]) -> dict[str, float]:
    """Return rounds, wall seconds and rounds per CPU second of ``play``, which returns rounds."""
    wall, cpu = time.perf_counter(), cpu_s()
    rounds = play()
    wall, cpu = time.perf_counter() - wall, cpu_s() - cpu
    return {"rounds": rounds, "wall_s": wall, "cpu_s": cpu, "rounds_per_cpu_s": rounds / cpu}


def compared(source: str, trees: list[Tree]) -> dict[str, object]:
    """Return the figures of one policy, here and isolated, and their ratio."""
    records = [Record(tree) for tree in trees]
    spec = PythonFileSpec("bench.py", source)
    trusted = PythonFileSpec("bench.py", source, trusted=True)
    played: list[int] = []

    def here() -> int:
        for tree, record in zip(trees, records, strict=True):
            played.append(replay(lambda: trusted.build(1.0), tree, record=record).batches)
        return sum(played)

    def apart() -> int:
        outcomes = replay_apart(spec, records, limit=8, max_batches=1_000)
        if [one.batches for one in outcomes] != played:
            sys.exit("isolated and in-process replay differ")
        return 2 * sum(played)

    inside, outside = measured(here), measured(apart)
    return {
        "in_process": inside,
        "isolated": outside,
        "ratio": outside["rounds_per_cpu_s"] / inside["rounds_per_cpu_s"],
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description="isolated policies")
    parser.add_argument("--worlds", type=int, default=2_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    draw = random.Random(1)
    trees = [
        table_tree([[draw.random() for _ in range(8)] for _ in range(20)])
        for _ in range(given.worlds)
    ]
    busy = BUSY.replace("LOOPS", str(loops_for(WORK_US)))
    found = {
        "worlds": given.worlds,
        "rounds_a_world": ROUNDS,
        "light": compared(LIGHT, trees),
        "busy": {"work_us": WORK_US, **compared(busy, trees)},
    }
    text = json.dumps(found, indent=1)
    print(text)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
