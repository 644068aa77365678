"""What the offline searcher reaches at full size: one run for each seed, rows kept and resumed.

    python benchmarks/search.py                              every case and seed that has no row yet
    python benchmarks/search.py --case n26 --seeds 0-4       some of them
    python benchmarks/search.py --json                       the summary as one JSON object
    python benchmarks/search.py --check                      exit status 1 when a bar is missed
    python benchmarks/search.py --smoke                      one seed of two cases, nothing kept

A row is one run of ``daydream.run`` with the local_search agent, its best artifact evaluated once
more by a task built for that. Scores and calls are the same on every machine with the same linear
algebra; seconds are not, and CPU seconds include the workers and the start of their interpreters.
Rows land in benchmarks/results/search.jsonl; a case whose settings changed is measured anew.
"""

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeAlias

import daydream
from daydream.tasks.base import Artifact, to_measure
from daydream.tasks.load import load_task
from daydream.tree import Status

RESULTS = Path(__file__).resolve().parent / "results" / "search.jsonl"

Row: TypeAlias = dict[str, int | float | str | bool]


class Case(NamedTuple):
    """One task at full size, how it is searched, and what it should reach."""

    task: str
    agent: str
    policy: str
    seeds: int
    target: float
    """In the measure that people speak of; whether to exceed it or to stay below is the task's."""
    need: int
    """Seeds that have to reach the target."""
    rounds: int = 2


CASES: Mapping[str, Case] = {
    "n8": Case("circle-packing:n=8", "local_search", "parallel_refine-w4-d4", 10, 1.4238, 10),
    "n26": Case(
        "circle-packing:n=26", "local_search:solves=24", "parallel_refine-w8-d6", 10, 2.63598, 7
    ),
    "n32": Case(
        "circle-packing:n=32", "local_search:solves=24", "parallel_refine-w8-d6", 5, 2.9395, 2
    ),
    "sumdiff512": Case("sum-diff:cap=512", "local_search", "", 10, 1.1448, 7, rounds=1),
    "c3strict800": Case(
        "autocorrelation:variant=third-strict,bins=800",
        "local_search:solves=3000",
        "parallel_refine-w8-d3",
        10,
        1.4550,
        1,
        rounds=1,
    ),
    "c1-800": Case(
        "autocorrelation:variant=first,bins=800",
        "local_search",
        "parallel_refine-w8-d4",
        10,
        1.508,
        1,
        rounds=1,
    ),
}
SMOKE: Mapping[str, Case] = {
    "n8": CASES["n8"]._replace(seeds=1, need=1, rounds=1),
    "n26": CASES["n26"]._replace(seeds=1, need=1, rounds=1, target=2.625),
}


def measure(name: str, case: Case, seed: int) -> Row:
    """Run ``case`` once and return its row."""
    task = load_task(case.task)
    wall, cpu = time.monotonic(), cpu_seconds()
    with tempfile.TemporaryDirectory(prefix="daydream-search-") as folder:
        result = daydream.run(
            case.task,
            out=Path(folder) / "run",
            agent=case.agent,
            policy=case.policy,
            rounds=case.rounds,
            seed=seed,
        )
        wall, cpu = time.monotonic() - wall, cpu_seconds() - cpu
        best = result.path / "best" / "artifact.json"
        again = task.evaluate(Artifact({"artifact.json": best.read_bytes()}))
    if not (again.status is Status.OK and again.score == result.best):
        raise SystemExit(
            f"{name}, seed {seed}: the best artifact scores {again.score!r} ({again.message}) when "
            f"evaluated again (expected {result.best!r}); the evaluator is not deterministic"
        )
    value = to_measure(task.info, again.score)
    reached = value <= case.target if task.info.goal == "min" else value >= case.target
    return {
        **settings_of(name, case, seed),
        "goal": task.info.goal,
        "target": case.target,
        "score": again.score,
        "measure": value,
        "reached": reached,
        "calls": result.calls,
        "wall_s": round(wall, 2),
        "cpu_s": round(cpu, 2),
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        **{package: installed(package) for package in ("daydream-rsi", "numpy", "scipy")},
    }


def settings_of(name: str, case: Case, seed: int) -> Row:
    """Return what makes a row the answer to the question asked now."""
    info = load_task(case.task).info
    return {
        "case": name,
        "seed": seed,
        "task": info.name,
        "evaluator": info.evaluator,
        "agent": case.agent,
        "policy": case.policy or info.policy,
        "rounds": case.rounds,
    }


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def installed(package: str) -> str:
    """Return the version of ``package``, or a word for its absence."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def rows_in(path: Path) -> list[Row]:
    """Return the rows kept in ``path``; none without a file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def kept(rows: Iterable[Row], wanted: Row) -> Row | None:
    """Return the latest of ``rows`` that was measured with the settings ``wanted``."""
    found = None
    for row in rows:
        if all(row.get(key) == value for key, value in wanted.items()):
            found = row
    return found


def search(cases: Mapping[str, Case], seeds: Sequence[int] | None, out: Path | None) -> list[Row]:
    """Return the row of each case and seed, measuring those that ``out`` does not hold yet."""
    before = [] if out is None else rows_in(out)
    rows = []
    for name, case in cases.items():
        for seed in range(case.seeds) if seeds is None else seeds:
            row = kept(before, settings_of(name, case, seed))
            if row is None:
                row = measure(name, case, seed)
                print(progress(row), file=sys.stderr)
                if out is not None:
                    out.parent.mkdir(parents=True, exist_ok=True)
                    with out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row, sort_keys=True) + "\n")
            rows.append(row)
    return rows


def progress(row: Row) -> str:
    """Return one line about a row."""
    mark = "reached" if row["reached"] else "missed"
    return (
        f"{row['case']} seed {row['seed']}: {row['measure']:.10f} ({mark} {row['target']}), "
        f"{row['calls']} calls, {row['wall_s']} s, {row['cpu_s']} CPU s"
    )


def summary(cases: Mapping[str, Case], rows: Sequence[Row]) -> list[Row]:
    """Return one line a case: how many seeds reached the target, the best, the usual time."""
    lines: list[Row] = []
    for name, case in cases.items():
        mine = [row for row in rows if row["case"] == name]
        if not mine:
            continue
        values = sorted(float(row["measure"]) for row in mine)
        lowest = mine[0]["goal"] == "min"
        reached = sum(bool(row["reached"]) for row in mine)
        lines.append(
            {
                "case": name,
                "target": case.target,
                "goal": str(mine[0]["goal"]),
                "seeds": len(mine),
                "reached": reached,
                "need": case.need,
                "met": reached >= case.need,
                "best": values[0] if lowest else values[-1],
                "median": median(values),
                "median_wall_s": median(float(row["wall_s"]) for row in mine),
                "max_wall_s": max(float(row["wall_s"]) for row in mine),
                "median_cpu_s": median(float(row["cpu_s"]) for row in mine),
            }
        )
    return lines


def table(lines: Sequence[Row]) -> str:
    """Return the summary as text."""
    head = f"{'case':<12} {'target':>10} {'reached':>9} {'need':>5} {'best':>14} {'median':>14} "
    head += f"{'wall s':>8} {'longest':>8} {'CPU s':>8}"
    body = [
        f"{line['case']:<12} {'<=' if line['goal'] == 'min' else '>='} {line['target']:>7} "
        f"{line['reached']:>3} of {line['seeds']:>2} {line['need']:>5} {line['best']:>14.10f} "
        f"{line['median']:>14.10f} {line['median_wall_s']:>8.1f} {line['max_wall_s']:>8.1f} "
        f"{line['median_cpu_s']:>8.1f}"
        for line in lines
    ]
    return "\n".join([head, *body])


def seeds_of(text: str) -> list[int]:
    """Return the seeds in text such as ``0-9`` or ``1,4,7``."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise argparse.ArgumentTypeError(f"{text!r} names no seeds (expected 0-9 or 1,4,7)")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def main() -> int:
    """Measure what was asked for and print the summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--case", choices=list(CASES), action="append", help="may be repeated")
    parser.add_argument("--seeds", type=seeds_of, help="such as 0-9; default: those of the case")
    parser.add_argument("--smoke", action="store_true", help="one short seed of n8 and n26")
    parser.add_argument("--out", type=Path, help=f"rows [default: {RESULTS.name}; smoke: none]")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--check", action="store_true", help="exit status 1 when a bar is missed")
    asked = parser.parse_args()
    known = SMOKE if asked.smoke else CASES
    cases = {name: case for name, case in known.items() if not asked.case or name in asked.case}
    out = asked.out or (None if asked.smoke else RESULTS)
    lines = summary(cases, search(cases, asked.seeds, out))
    print(json.dumps({"search": lines}, sort_keys=True) if asked.json else table(lines))
    return 1 if asked.check and not all(line["met"] for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
