"""What an evaluation came to. ``eval`` ends with 0 even when every rollout failed; this does not.

    python -m daydream_review_v1 report OUTPUT...

Reads ``traces.jsonl`` with one trace a line, as verifiers 0.2 writes it, or one episode of traces,
as later versions do.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

AXES = ("correctness", "grounding", "length")


class Summary(msgspec.Struct, frozen=True):
    """An evaluation in numbers."""

    rollouts: int
    failed: int
    rewards: dict[str, float]
    """Means over the rollouts that did not fail."""
    metrics: dict[str, float]
    axes: dict[str, int]
    """Axis of the trajectory score -> rollouts that have it."""
    errors: dict[str, int]
    """Kind and beginning of an error -> how often."""
    branches: float
    """Mean number of captured branches."""


def traces(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the traces of output folders and ``traces.jsonl`` files; raises ``ValueError``."""
    for path in paths:
        files = sorted(path.rglob("traces.jsonl")) if path.is_dir() else [path]
        if not files:
            raise ValueError(f"{path} holds no traces.jsonl (expected the output of an eval)")
        for file in files:
            try:
                lines = file.read_text(encoding="utf-8").splitlines()
            except OSError as error:
                raise ValueError(f"cannot read {file}: {error.strerror}") from None
            for number, line in enumerate(lines, start=1):
                try:
                    value = json.loads(line)
                except ValueError:
                    raise ValueError(f"{file}:{number} is no JSON; the run is not over") from None
                yield from value.get("traces", [value])


def _reward(value: Any) -> float:
    if isinstance(value, Mapping):
        return float(value.get("score", 0.0)) * float(value.get("weight", 1.0))
    return float(value)


def summarise(found: Sequence[Mapping[str, Any]]) -> Summary:
    """Return the numbers of traces."""
    good = [trace for trace in found if not trace.get("errors")]
    names = sorted({name for trace in good for name in trace.get("rewards", {})})
    metrics = sorted({name for trace in good for name in trace.get("metrics", {})})
    axes: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for trace in found:
        present = trace.get("info", {}).get("reward_breakdown", {}).get("axes_present", {})
        axes.update(axis for axis in AXES if present.get(axis))
        for error in trace.get("errors", ()):
            errors[f"{error.get('type')}: {str(error.get('message'))[:100]}"] += 1
    rewards = {
        name: _mean([_reward(t.get("rewards", {}).get(name, 0.0)) for t in good]) for name in names
    }
    if names:
        rewards["total"] = sum(rewards.values())
    return Summary(
        rollouts=len(found),
        failed=len(found) - len(good),
        rewards=rewards,
        metrics={
            name: _mean([t["metrics"][name] for t in good if name in t.get("metrics", {})])
            for name in metrics
        },
        axes=dict(axes),
        errors=dict(errors),
        branches=_mean([_leaves(trace) for trace in good]),
    )


def _leaves(trace: Mapping[str, Any]) -> float:
    nodes = trace.get("nodes", [])
    parents = {node.get("parent") for node in nodes}
    return float(sum(number not in parents for number in range(len(nodes))))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def main(paths: Sequence[Path], *, as_json: bool) -> int:
    """Print the numbers of evaluations; 1 when every rollout failed or there is none, else 0."""
    try:
        summary = summarise(list(traces(paths)))
    except ValueError as error:
        print(f"report: {error}", file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps(msgspec.to_builtins(summary)))
    else:
        print(f"rollouts {summary.rollouts}, failed {summary.failed}")
        for title, values in (("reward", summary.rewards), ("metric", summary.metrics)):
            for name, value in values.items():
                print(f"{title} {name} {value:.4f}")
        print(f"branches {summary.branches:.1f}")
        for axis in AXES:
            print(f"axis {axis} in {summary.axes.get(axis, 0)}")
        for told, count in summary.errors.items():
            print(f"error {count} x {told}")
    return 1 if summary.failed == summary.rollouts else 0
