"""What dreaming saves and costs, measured through the command line; rows are kept and resumed.

    python benchmarks/policy_line.py --part six      the six tasks at their default size
    python benchmarks/policy_line.py --part fresh    the same over 100 seeds of fresh worlds
    python benchmarks/policy_line.py --part margin   recovery from a policy that became too narrow
    python benchmarks/policy_line.py --part real     paired searches at full size, local_search
    python benchmarks/policy_line.py --part real --task sum-diff:cap=512     one task of these anew

Results land in benchmarks/results/policy_line.json, from which the README is generated. Only calls
and scores are reported, so another machine gives the same numbers for the first three parts.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeAlias

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "policy_line.json"
SIX = (
    "autocorrelation",
    "branch-world",
    "circle-packing",
    "kernel-layernorm",
    "lasso",
    "sum-diff",
)
REAL: Mapping[str, Sequence[str]] = {
    "circle-packing:n=26": (
        "--agent", "local_search:solves=6", "--policy", "parallel_refine-w6-d6", "--rounds", "3",
    ),
    "sum-diff:cap=512": (
        "--agent", "local_search:moves=8000", "--policy", "parallel_refine-w6-d4", "--rounds", "3",
    ),
    "autocorrelation:variant=third-strict,bins=800": (
        "--agent", "local_search:solves=100", "--policy", "parallel_refine-w4-d4", "--rounds", "2",
    ),
}  # fmt: skip
"""Tasks at full size with a starting policy that keeps one run below two minutes on two cores."""

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"


def daydream(*arguments: str) -> Json:
    """Return the last line of JSON that ``daydream ARGUMENTS`` prints; progress stays visible."""
    done = subprocess.run(
        [sys.executable, "-m", "daydream", *arguments, "--json"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: Json = json.loads(done.stdout.splitlines()[-1])
    return found


def six(folder: Path) -> Json:
    """Return the comparison of the six tasks over two rounds."""
    return daydream("compare", "--all", "--rounds", "2", "--out", str(folder / "six"))


def fresh(folder: Path) -> Json:
    """Return the summaries over 100 seeds of fresh worlds."""
    rows: dict[str, Json] = {}
    for task in SIX:
        found = daydream(
            "compare", task, "--fresh", "--seeds", "0-99", "--out", str(folder / "fresh")
        )
        rows[task] = _summary(found)
    return rows


def margin(folder: Path) -> Json:
    """Return five rounds from the narrowest policy, with and without a margin."""
    rows: dict[str, Json] = {}
    for width in ("0", "1", "2"):
        found = daydream(
            "run", "branch-world", "--policy", "parallel_refine-w1-d1", "--rounds", "5",
            "--explore-margin", width, "--out", str(folder / f"margin-{width}"),
        )  # fmt: skip
        keys = ("round", "calls", "cum", "best", "round_best", "off_record", "policy")
        rounds = found["rounds"] if isinstance(found, dict) else []
        listed = rounds if isinstance(rounds, list) else []
        rows[width] = [{k: one[k] for k in keys} for one in listed if isinstance(one, dict)]
    return rows


def real(folder: Path, tasks: Sequence[str]) -> dict[str, Json]:
    """Return paired searches over ten seeds on ``tasks``; runs in ``folder`` continue."""
    rows: dict[str, Json] = {}
    for task in tasks:
        begun = time.monotonic()
        found = daydream(
            "compare",
            task,
            "--seeds",
            "0-9",
            *REAL[task],
            "--out",
            str(folder / "real"),
        )
        rows[task] = _summary(found)
        print(f"{task}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return rows


def _summary(found: Json) -> Json:
    """The paired summary and, for each seed, what both arms came to."""
    tasks = found["tasks"] if isinstance(found, dict) else None
    first = tasks[0] if isinstance(tasks, list) else None
    if not isinstance(first, dict):
        raise SystemExit("compare printed no task (expected one); run it by hand to see why")
    seeds = first["seeds"]
    rows: list[Json] = []
    for pair in seeds if isinstance(seeds, list) else []:
        if isinstance(pair, dict):
            rows.append(
                {"seed": pair["seed"], **{arm: _last(pair[arm]) for arm in ("fixed", "dream")}}
            )
    return {"measure": first["measure"], "summary": first["summary"], "seeds": rows}


def _last(rounds: Json) -> Json:
    last = rounds[-1] if isinstance(rounds, list) else None
    if not isinstance(last, dict):
        return None
    return {key: last[key] for key in ("cum", "best", "round_best", "policy")}


PARTS = {"six": six, "fresh": fresh, "margin": margin}


def main() -> int:
    """Run the parts asked for and merge their results into the results file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--part", choices=[*PARTS, "real", "all"], default="all")
    parser.add_argument("--task", choices=list(REAL), action="append", help="of the part real")
    parser.add_argument("--work", type=Path, help="folder of the runs; runs found there continue")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    asked = parser.parse_args()
    work = asked.work or Path(mkdtemp(prefix="daydream-bench-"))
    results: dict[str, Json] = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    for name in (*PARTS, "real"):
        if asked.part not in {name, "all"}:
            continue
        if name == "real":
            before = results.get(name)
            kept = before if isinstance(before, dict) else {}
            found = {**kept, **real(work, asked.task or list(REAL))}
            results[name] = {task: found[task] for task in REAL if task in found}
        else:
            results[name] = PARTS[name](work)
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps(results, sort_keys=True) + "\n")
    if asked.work is None:
        shutil.rmtree(work)
    if asked.json:
        print(json.dumps(results, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
