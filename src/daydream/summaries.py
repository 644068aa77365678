"""What a run amounts to, round by round: folded from its journal, for people and summary.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec

from daydream.canonical import JsonObject, JsonValue
from daydream.config import RunSettings
from daydream.errors import Stopped
from daydream.store import events as log
from daydream.store.state import RunState
from daydream.tasks.base import TaskInfo
from daydream.tree import Status


class RoundSummary(msgspec.Struct, frozen=True):
    """One round, as kept in ``summary.json``."""

    round: int
    policy: str
    """Full name of the spec that ran."""
    calls: int
    cum: int
    best: float | None
    """Best score so far in the run."""
    round_best: float | None
    failures: int
    batches: int
    empty: int
    """Picks that could bring nothing online, because of a cap."""
    off_record: int | None
    """Picks for which the record before this round had no answer; None for a starting policy."""
    finished: bool
    deployed: str | None = None
    """Policy of the next round; None before the selection."""
    selection: JsonObject | None = None
    usage: log.Usage = log.Usage()
    """Everything that requests to models of this round cost, lost ones included."""
    lost: log.Usage = log.Usage()
    """The part of it that attempts spent which did not finish (yet): a crash or a budget cut them
    off, or they are in flight."""


class RunResult(msgspec.Struct, frozen=True):
    """What a run amounts to so far."""

    path: Path
    task: str
    best: float | None
    calls: int
    rounds: tuple[RoundSummary, ...]
    stopped: str | None
    """Why it ended early; None when every round was played."""
    exit_code: int = 0


def result_of_state(path: Path, state: RunState, stopped: Stopped | None = None) -> RunResult:
    """Return what a run in this state amounts to."""
    rounds: list[RoundSummary] = []
    best: float | None = None
    cum = 0
    off_record: int | None = None
    for number in sorted(state.rounds):
        known = state.rounds[number]
        scores = [e.score for e in known.finished.values() if e.status is Status.OK]
        cum += len(known.finished)
        own = max(scores, default=None)
        best = own if best is None else best if own is None else max(best, own)
        lost = sum(known.pending.values(), start=known.lost_usage)
        usage = state.other_usage.get(number, log.Usage()) + lost
        for event in known.finished.values():
            usage += event.usage
        chosen = known.selection
        rounds.append(
            RoundSummary(
                round=number,
                policy=known.started.policy,
                calls=len(known.finished),
                cum=cum,
                best=best,
                round_best=own,
                failures=len(known.finished) - len(scores),
                batches=0 if known.tree is None else known.tree.batches,
                empty=0 if known.tree is None else known.tree.off_record,
                off_record=off_record,
                finished=known.tree is not None,
                deployed=None if chosen is None else chosen.deployed,
                selection=None if chosen is None else chosen.report,
                usage=usage,
                lost=lost,
            )
        )
        off_record = None if chosen is None else _off_record(chosen.report)
    return RunResult(
        path=path,
        task=state.started.task if state.started is not None else "",
        best=best,
        calls=cum,
        rounds=tuple(rounds),
        stopped=None if stopped is None else stopped.reason,
        exit_code=0 if stopped is None else stopped.exit_code,
    )


def _off_record(selection: JsonObject) -> int | None:
    deployed = selection.get("deployed")
    worlds = deployed.get("worlds") if isinstance(deployed, Mapping) else None
    if not isinstance(worlds, Sequence) or isinstance(worlds, str):
        return None
    counts = [world.get("off_record") for world in worlds if isinstance(world, Mapping)]
    return sum(count for count in counts if isinstance(count, int))


def with_rounds(summary: Mapping[str, object], result: RunResult) -> JsonObject:
    """Return a ``summary.json`` that was read, brought up to what the journal says now."""
    kept = cast("JsonObject", {k: v for k, v in summary.items() if k != "schema_version"})
    return {
        **kept,
        "best": result.best,
        "calls": result.calls,
        "rounds": [cast("JsonValue", msgspec.to_builtins(one)) for one in result.rounds],
    }


def summary_json(result: RunResult, info: TaskInfo, settings: RunSettings) -> JsonObject:
    """Return the content of ``summary.json``."""
    return {
        "task": info.name,
        "evaluator": info.evaluator,
        "seed": settings.seed,
        "limit": settings.max_parallelism,
        "best": result.best,
        "calls": result.calls,
        "rounds": [cast("JsonValue", msgspec.to_builtins(one)) for one in result.rounds],
    }
