"""Episodes of finished runs of the policy line: each attempt as a question and its answer.

The question is the one that a chat agent puts, rebuilt from the journal: the parent's files, the
verdict on them, the branch so far. The answer is the attempt's files in full, whoever proposed
them. Refuses runs whose task cannot be built any more, for nobody could judge what it meant.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from daydream.agents.base import Ancestor, AttemptContext
from daydream.agents.chat.prompt import first_messages
from daydream.bookkeeping import verdict_of
from daydream.canonical import JsonObject
from daydream.errors import StoreError
from daydream.store.events import AttemptFinished, RootEvaluated, RoundStarted, RunStarted
from daydream.store.run_folder import RunFolder
from daydream.tasks.base import Artifact, Task
from daydream.tasks.load import load_task
from daydream.tree import Status
from daydream.weights.episodes import Episode, identity
from daydream.weights.questions import problem_keys, program_of, written

Verdict: TypeAlias = AttemptFinished | RootEvaluated
"""What an attempt may start from."""


class Harvest(msgspec.Struct, frozen=True):
    """What a run holds for the bank."""

    episodes: tuple[Episode, ...]
    left_out: Mapping[str, int]
    """Reason -> attempts without an answer to learn from."""


class _Start(msgspec.Struct, frozen=True):
    """What an attempt started from."""

    artifact: str
    verdict: Verdict
    lineage: tuple[Ancestor, ...]


def harvest(path: Path) -> Harvest:
    """Return the attempts of the finished rounds of the run in ``path`` as episodes.

    Raises :class:`StoreError` for a folder that is no run or was imported without artifacts, and
    what :func:`daydream.tasks.load.load_task` raises for its task.
    """
    with RunFolder.open(path) as folder:
        state = folder.state()
        if state.started is None:
            raise StoreError(f"{path} holds no run yet (expected a finished one); run it first")
        task = load_task(_source(state.started.config, state.started.task))
        found: list[Episode] = []
        left_out: dict[str, int] = {}
        for _, one in sorted(state.rounds.items()):
            if one.tree is None:
                left_out["unfinished round"] = left_out.get("unfinished round", 0) + len(
                    one.finished
                )
                continue
            events = sorted(one.finished.values(), key=lambda event: event.node)
            root = one.root or state.verdicts.get(one.started.root or "")
            for event, start in _starts(one.started, events, root):
                if event.artifact is None:
                    left_out["no files"] = left_out.get("no files", 0) + 1
                elif start is None:
                    left_out["no start"] = left_out.get("no start", 0) + 1
                else:
                    found.append(_episode(folder, task, state.started, event, start))
        return Harvest(tuple(found), left_out)


def _source(config: JsonObject, name: str) -> str:
    source = config.get("source")
    return source if isinstance(source, str) else name


def _agent(config: JsonObject) -> str:
    settings = config.get("settings")
    found = settings.get("agent") if isinstance(settings, Mapping) else None
    return found if isinstance(found, str) and found else "unknown"


def _starts(
    started: RoundStarted, events: list[AttemptFinished], root: Verdict | None
) -> Iterator[tuple[AttemptFinished, _Start | None]]:
    """Yield every attempt with what it started from, parents first."""
    made: dict[int, AttemptFinished] = {event.node: event for event in events}
    lineages: dict[int, tuple[Ancestor, ...]] = {}
    if root is not None:
        lineages[0] = (_ancestor(0, root),)
    for event in events:
        verdict = root if event.parent == 0 else made.get(event.parent)
        artifact = started.root if event.parent == 0 or verdict is None else verdict.artifact
        lineage = lineages.get(event.parent)
        if lineage is not None:
            lineages[event.node] = (*lineage, _ancestor(event.depth, event))
        if verdict is None or artifact is None or lineage is None:
            yield event, None
        else:
            yield event, _Start(artifact, verdict, lineage)


def _ancestor(depth: int, event: Verdict) -> Ancestor:
    return Ancestor(depth, event.status.value, event.score, event.error_class, event.message)


def _episode(
    folder: RunFolder, task: Task, started: RunStarted, event: AttemptFinished, start: _Start
) -> Episode:
    parent = Artifact(folder.get_artifact(start.artifact))
    child = Artifact(folder.get_artifact(event.artifact or ""))
    verdict = start.verdict
    context = AttemptContext(
        task=task.info,
        round=event.round,
        branch=event.branch,
        depth=event.depth,
        attempt_seed=0,
        world_seed=0,
        parent=parent,
        evaluation=verdict_of(verdict),
        lineage=start.lineage,
    )
    # What tells runs apart wherever their folders are copied to.
    run = [started.at, started.task, started.seed, started.config]
    improved = event.status is Status.OK and (
        verdict.status is not Status.OK or event.score > verdict.score
    )
    return Episode(
        id=identity("run", run, event.round, event.node),
        at=event.at,
        source="run",
        task=task.info.name,
        evaluator=task.info.evaluator,
        form="chat",
        prompt=first_messages(context, "whole"),
        answer=written(child),
        program=program_of(child),
        status=event.status,
        score=event.score,
        solved=improved,
        error_class=event.error_class,
        message=event.message,
        diagnostics=event.diagnostics,
        model=_agent(started.config),
        usage=event.usage,
        provenance={
            "run": folder.path.name,
            "round": event.round,
            "node": event.node,
            "start_score": verdict.score,
        },
        keys=problem_keys(task),
    )
