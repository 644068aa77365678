"""Policy files in a process of their own beside the same files in process, in one run.

    python benchmarks/isolation.py --out benchmarks/results/isolation.json

A decision round is one batch in one world. Isolated figures count both processes, the start of all
of them, and every round of every pass; in-process figures are measured right before. Of several
such pairs the one with the median ratio counts. Read the ratios: the rates are those of one
machine under whatever load it had. The exit code is 1 when a bound is missed.
"""

import argparse
import json
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

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
PAIRS = 5
RATE = 40_000
"""Least rounds per CPU second of the light policy, isolated."""
RATIO = 0.4
"""Least share of the rate in process that the busy policy keeps."""
WALL_S = 5.0
"""Most seconds that the light policy may take."""


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


class Measured(msgspec.Struct, frozen=True):
    """What one way to play took."""

    rounds: int
    wall_s: float
    cpu_s: float
    rounds_per_cpu_s: float


def measured(play: Callable[[], int]) -> Measured:
    """Return rounds, wall seconds and rounds per CPU second of ``play``, which returns rounds."""
    wall, cpu = time.perf_counter(), cpu_s()
    rounds = play()
    wall, cpu = time.perf_counter() - wall, cpu_s() - cpu
    return Measured(rounds, wall, cpu, rounds / cpu)


class Pair(msgspec.Struct, frozen=True):
    """One policy, here and isolated."""

    in_process: Measured
    isolated: Measured
    ratio: float


def compared(source: str, trees: Sequence[Tree]) -> Pair:
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
    return Pair(inside, outside, outside.rounds_per_cpu_s / inside.rounds_per_cpu_s)


def typical(source: str, trees: Sequence[Tree]) -> Pair:
    """Return the pair with the median ratio."""
    pairs = [compared(source, trees) for _ in range(PAIRS)]
    return sorted(pairs, key=lambda pair: pair.ratio)[PAIRS // 2]


def missed(light: Pair, busy: Pair) -> list[str]:
    """Return the bounds that do not hold."""
    bounds = {
        f"rounds per CPU second (at least {RATE})": light.isolated.rounds_per_cpu_s >= RATE,
        f"seconds for all worlds (under {WALL_S:g})": light.isolated.wall_s < WALL_S,
        f"share of the rate in process (at least {RATIO})": busy.ratio >= RATIO,
    }
    return [what for what, holds in bounds.items() if not holds]


def main() -> int:
    """Measure and write; return 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description="isolated policies")
    parser.add_argument("--worlds", type=int, default=2_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    draw = random.Random(1)
    trees = [
        table_tree([[draw.random() for _ in range(8)] for _ in range(ROUNDS)])
        for _ in range(given.worlds)
    ]
    light = typical(LIGHT, trees)
    busy = typical(BUSY.replace("LOOPS", str(loops_for(WORK_US))), trees)
    found = {
        "worlds": given.worlds,
        "rounds_a_world": ROUNDS,
        "pairs": PAIRS,
        "light": msgspec.to_builtins(light),
        "busy": {"work_us": WORK_US, **msgspec.to_builtins(busy)},
    }
    text = json.dumps(found, indent=1)
    print(text)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text + "\n", encoding="utf-8")
    late = missed(light, busy)
    for what in late:
        print(f"missed: {what}", file=sys.stderr)
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
