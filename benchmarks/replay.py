"""How fast recorded searches replay, and what that takes; the peers from PyPI beside it.

    python benchmarks/replay.py                 a table
    python benchmarks/replay.py --json          the same as one JSON object
    python benchmarks/replay.py --out FILE      writes that object as well
    python benchmarks/replay.py --check         exit status 1 when a bar is missed

Every case runs in a process of its own, which is where its peak memory is read. Times are CPU
seconds of that process, the best of several; each case runs in ``--passes`` separate processes and
the best is kept, because a shared machine disturbs by factors. Peers are measured on the same world
with the same policy (open every branch, refine each to the end). They have batch sizes of their
own, so ``daydream_reveals_per_cpu_s`` beside them is ours at that size. To install them:
pip install 'daydream-rsi[bench]'.
"""

import argparse
import asyncio
import functools
import importlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from daydream.closed_form import score_specs
from daydream.objective import Objective
from daydream.policies.adaptive import Adaptive
from daydream.policies.base import PolicySpec
from daydream.policies.parallel_refine import ParallelRefine
from daydream.proposers.grid import revision_grid
from daydream.replay import Record, replay, score_world
from daydream.store.run_folder import read_tree, tree_bytes
from daydream.testing.worlds import table_tree
from daydream.tree import Tree, make_pool

Row: TypeAlias = dict[str, int | float | str]
Report: TypeAlias = dict[str, list[Row]]
Case: TypeAlias = tuple[str | int, ...]
"""Name in ``MEASURES`` and the arguments."""

WORLDS: Sequence[tuple[int, int]] = ((6, 8), (32, 20), (500, 20), (5_000, 20))
"""Branches and depth of each world: 48, 640, 10,000 and 100,000 nodes."""
LIMITS = (8, 32)
NO_BOUND = 10**9
"""Batches: the cap is lifted, so that large worlds are revealed to the end."""

FASTEST = 500_000
"""Bar: revealed nodes a CPU second, in every world."""
STRETCH = 1.5
"""Bar: cost of a node in the largest world over that at 640 nodes."""
PAIRS = 100_000
"""Bar: (spec, world) pairs a CPU second in closed form at 640 nodes."""
LOAD_S = 3.0
"""Bar: seconds to load 100,000 nodes."""
TIMES_PEER = 100
"""Bar: our reveals a second over those of the faster peer at 640 nodes."""


def world(branches: int, depth: int) -> Tree:
    """Return a full world with scores that rise in steps, so that pruning finds flat runs."""
    rng = np.random.default_rng(branches * 1_000 + depth)
    gains = rng.choice([0.0, 0.0, 0.004, 0.012, 0.03, 0.1], size=(branches, depth))
    return table_tree([[float(score) for score in row] for row in gains.cumsum(axis=1)])


def shape(tree: Tree) -> tuple[int, int]:
    """Return the number of branches and the greatest depth."""
    return 1 + max(node.branch for node in tree.nodes), max(node.depth for node in tree.nodes)


def best_of(work: Callable[[], object], *, seconds: float = 1.0, least: int = 5) -> float:
    """Return the CPU seconds that one call of ``work`` takes, the best of several.

    Short calls are grouped to 20 ms a reading, below which the clock's own cost shows.
    """
    start = time.process_time()
    work()
    calls = max(1, int(0.02 / max(1e-6, time.process_time() - start)))
    found: list[float] = []
    while sum(found) < seconds or len(found) < least:
        start = time.process_time()
        for _ in range(calls):
            work()
        found.append(time.process_time() - start)
    return min(found) / calls


def peak_mb() -> float:
    """Return the greatest resident size of this process so far, in MB."""
    try:
        # Unlike ru_maxrss this does not count the process that started this one.
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def measure_replay(history: str, limit: int, policy: str) -> Row:
    """Return the row of one history file, limit and policy; every node is revealed."""
    tree = read_tree(Path(history))
    branches, depth = shape(tree)
    record = Record(tree)
    spec: PolicySpec = (
        ParallelRefine(branches, depth)
        if policy == ParallelRefine.KIND
        else Adaptive(branches, depth, depth - 1, 0.02)
    )
    build = functools.partial(spec.build, 1.0)

    def once() -> int:
        return replay(build, tree, record=record, limit=limit, max_batches=NO_BOUND).attempts

    if once() != tree.attempts:
        raise RuntimeError(f"{spec.name} left nodes of a full world unrevealed")
    seconds = best_of(once)
    return {
        "nodes": tree.attempts,
        "limit": limit,
        "policy": spec.name,
        "reveals_per_cpu_s": tree.attempts / seconds,
        "ms": 1_000 * seconds,
        "peak_mb": peak_mb(),
    }


def measure_closed_form(history: str, limit: int) -> Row:
    """Return the row of the grid scored on one history file, checked against replay on a sample."""
    tree = read_tree(Path(history))
    pool, objective = make_pool([tree]), Objective()
    specs = revision_grid(pool)
    specs = specs[:: max(1, len(specs) // 8_000)]

    def once() -> object:
        return score_specs(specs, pool, objective, limit=limit, max_batches=NO_BOUND)

    scores = score_specs(specs, pool, objective, limit=limit, max_batches=NO_BOUND)
    record = Record(tree)
    checked = range(0, len(specs), max(1, len(specs) // 40))
    for i in checked:
        build = functools.partial(specs[i].build, 1.0)
        rollout = replay(build, tree, record=record, limit=limit, max_batches=NO_BOUND)
        if [score_world(pool, tree, objective, rollout, limit=limit)] != scores[i]:
            raise RuntimeError(f"{specs[i].name}: closed form and replay differ at limit {limit}")
    seconds = best_of(once)
    return {
        "nodes": tree.attempts,
        "limit": limit,
        "specs": len(specs),
        "checked": len(checked),
        "pairs_per_s": len(specs) / seconds,
        "peak_mb": peak_mb(),
    }


def measure_load(history: str) -> Row:
    """Return the row of reading a history file: decode, check every invariant, index for replay."""
    path = Path(history)
    start = time.process_time()
    tree = read_tree(path)
    Record(tree)
    first = time.process_time() - start
    return {
        "nodes": tree.attempts,
        "mb": path.stat().st_size / (1 << 20),
        "seconds": first,
        "again": best_of(lambda: Record(read_tree(path)), seconds=0.5, least=2),
        "peak_mb": peak_mb(),
    }


def run_dreamrsi(tree: Tree, branches: int, depth: int) -> Callable[[], int]:
    """Return one replay by dreamrsi: its strict replay of its FixedParallelPolicy."""
    discovery = importlib.import_module("dreamrsi.discovery")
    strict = importlib.import_module("dreamrsi.replay")
    policies = importlib.import_module("dreamrsi.policies.fixed_parallel")
    theirs = discovery.DiscoveryTree()
    theirs.create_root(node_id="0")
    for node in tree.nodes[1:]:
        theirs.add_node(str(node.parent), node_id=str(node.id), score=node.score)
    theirs.commit()
    there = strict.ReplayWorld(theirs)
    engine = strict.StrictReplay(max_rounds=100_000, max_parallelism=branches)

    def once() -> int:
        policy = policies.FixedParallelPolicy(branches=branches, max_depth=depth)
        return int(asyncio.run(engine.replay(there, policy)).total_probes)

    return once


def run_open_dream_rsi(tree: Tree, branches: int, depth: int) -> Callable[[], int]:
    """Return one replay by open-dream-rsi: its in-process rollout, one node a step.

    It ships no such policy, so this one keeps its own queue and reads only the newest node of the
    list it is handed: the least a policy can cost there.
    """
    library = importlib.import_module("open_dream_rsi.core.tree")
    rollout = importlib.import_module("open_dream_rsi.core.policygen")
    theirs = library.DiscoveryTree()
    theirs.add_node("0", "root", None, 0.0)
    for node in tree.nodes[1:]:
        theirs.add_node(str(node.id), "step", None, node.score, parent_id=str(node.parent))

    def once() -> int:
        queue: deque[str] = deque()

        def pick(visible: Sequence[Mapping[str, str]], step: int) -> str:
            if step:
                queue.append(visible[-1]["node_id"])
            return "0" if step < branches else queue.popleft()

        there = rollout.rollout_world_payload(theirs)
        rewards, _, invalid, problem = rollout._simulate_step_rewards(there, pick)
        if problem or invalid or sorted(rewards) != sorted(n.score for n in tree.nodes[1:]):
            raise RuntimeError(f"open-dream-rsi did not replay the world: {problem}, {invalid}")
        return len(rewards)

    return once


class Peer(NamedTuple):
    """How a peer replays."""

    prepare: Callable[[Tree, int, int], Callable[[], int]]
    """From tree, branches and depth to one replay, which returns the nodes it revealed."""
    limit: int | None
    """Nodes that one of its batches holds here; None for as many as there are branches."""


PEERS: Mapping[str, Peer] = {
    "dreamrsi": Peer(run_dreamrsi, None),
    "open-dream-rsi": Peer(run_open_dream_rsi, 1),
}


def measure_peer(history: str, name: str) -> Row:
    """Return the row of peer ``name`` on one history file, or why it was skipped."""
    try:
        release = version(name)
    except PackageNotFoundError:
        return {
            "name": name,
            "skipped": f"{name} is not installed; pip install 'daydream-rsi[bench]'",
        }
    tree = read_tree(Path(history))
    branches, depth = shape(tree)
    once = PEERS[name].prepare(tree, branches, depth)
    if once() != tree.attempts:
        raise RuntimeError(f"{name} left nodes of a full world unrevealed")
    seconds = best_of(once, least=2)
    return {
        "name": name,
        "version": release,
        "nodes": tree.attempts,
        "limit": PEERS[name].limit or branches,
        "reveals_per_cpu_s": tree.attempts / seconds,
        "ms": 1_000 * seconds,
        "peak_mb": peak_mb(),
    }


MEASURES: Mapping[str, Callable[..., Row]] = {
    "replay": measure_replay,
    "closed_form": measure_closed_form,
    "load": measure_load,
    "peers": measure_peer,
}


def in_child(case: Case) -> Row:
    """Return the row of ``case``, measured in a fresh process."""
    done = subprocess.run(
        [sys.executable, __file__, "--case", json.dumps(case)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: Row = json.loads(done.stdout)
    return found


def better(row: Row, known: Row) -> bool:
    """Return whether ``row`` is the faster of two measurements of one case."""
    for key, sign in (("reveals_per_cpu_s", 1), ("pairs_per_s", 1), ("seconds", -1)):
        if key in row:
            return sign * float(row[key]) > sign * float(known[key])
    return False


def plan(histories: Sequence[str]) -> dict[str, list[Case]]:
    """Return the cases of each section; ``beside peers`` is this package at their limits."""
    refine, adaptive = ParallelRefine.KIND, Adaptive.KIND
    pairs = [(path, limit) for path in histories for limit in LIMITS]
    small = list(zip(histories[:2], WORLDS, strict=False))
    return {
        "replay": [("replay", *pair, refine) for pair in pairs],
        "replay_adaptive": [("replay", *pair, adaptive) for pair in pairs],
        "closed_form": [("closed_form", *pair) for pair in pairs[:-2]],
        "load": [("load", histories[-1])],
        "peers": [("peers", path, name) for name in PEERS for path, _ in small],
        "beside peers": [
            ("replay", path, peer.limit or branches, refine)
            for peer in PEERS.values()
            for path, (branches, _) in small
        ],
    }


def measure(passes: int, folder: Path) -> Report:
    """Return every row; the worlds are written into ``folder`` as history files first.

    A pass goes through all cases, so that a disturbance does not hit every reading of one case.
    """
    histories: list[str] = []
    for size in WORLDS:
        path = folder / f"{size[0]}x{size[1]}.json"
        path.write_bytes(tree_bytes(world(*size)))
        histories.append(str(path))
    sections = plan(histories)
    best: dict[Case, Row] = {}
    for _ in range(passes):
        for case in dict.fromkeys(case for cases in sections.values() for case in cases):
            row = in_child(case)
            if case not in best or better(row, best[case]):
                best[case] = row
    report = {name: [best[case] for case in cases] for name, cases in sections.items()}
    for row, ours in zip(report["peers"], report.pop("beside peers"), strict=True):
        if "skipped" not in row:
            row["daydream_reveals_per_cpu_s"] = ours["reveals_per_cpu_s"]
            row["times"] = float(ours["reveals_per_cpu_s"]) / float(row["reveals_per_cpu_s"])
    report["bars"] = bars(report)
    return report


def bars(report: Report) -> list[Row]:
    """Return one row for each bar: what was asked, what was found, whether it held."""
    rows: list[Row] = []

    def add(name: str, asked: float, found: float, *, at_most: bool = False) -> None:
        held = found <= asked if at_most else found >= asked
        rows.append({"bar": name, "asked": asked, "found": found, "held": held})

    for key in ("replay", "replay_adaptive"):
        rates = {
            (row["nodes"], row["limit"]): float(row["reveals_per_cpu_s"]) for row in report[key]
        }
        add(f"{key}: slowest, reveals a CPU second", FASTEST, min(rates.values()))
        stretch = max(rates[640, limit] / rates[100_000, limit] for limit in LIMITS)
        add(f"{key}: node at 100,000 over node at 640", STRETCH, stretch, at_most=True)
    pairs = [float(row["pairs_per_s"]) for row in report["closed_form"] if row["nodes"] == 640]
    add("closed form at 640 nodes, pairs a second", PAIRS, min(pairs))
    add("load of 100,000 nodes, seconds", LOAD_S, float(report["load"][0]["seconds"]), at_most=True)
    times = [float(row["times"]) for row in report["peers"] if row.get("nodes") == 640]
    if times:
        add("times the faster peer at 640 nodes", TIMES_PEER, min(times))
    return rows


def show(report: Report) -> str:
    """Return the report as plain tables."""
    lines: list[str] = []
    for title, rows in report.items():
        lines.append(title)
        columns = list(dict.fromkeys(name for row in rows for name in row))
        cells = [columns, *([_cell(row.get(name, "")) for name in columns] for row in rows)]
        widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
        for line in cells:
            padded = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            lines.append("  " + "  ".join(padded).rstrip())
        lines.append("")
    return "\n".join(lines)


def _cell(value: int | float | str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else value


def main(arguments: Sequence[str]) -> int:
    """Measure, print and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    parser.add_argument("--out", type=Path, help="write the JSON to this file as well")
    parser.add_argument("--passes", type=int, default=3, help="processes a case (default 3)")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bar is missed")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.case:
        kind, *rest = json.loads(options.case)
        print(json.dumps(MEASURES[kind](*rest)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        report = measure(max(1, options.passes), Path(folder))
    text = json.dumps(report, indent=1, sort_keys=True)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text + "\n", encoding="utf-8")
    print(text if options.json else show(report))
    return 1 if options.check and not all(row["held"] for row in report["bars"]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
