"""``daydream run`` and ``daydream resume``."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from daydream import launch
from daydream.agents.programs.agent import ProgramAgent
from daydream.canonical import JsonValue
from daydream.cli import flags as shared
from daydream.cli import output, results
from daydream.cli.estimate import show_estimate
from daydream.cli.numbers import Whole
from daydream.cli.progress import Progress, interruptible
from daydream.errors import UsageError
from daydream.rounds import Surroundings
from daydream.sandbox.choose import weakness
from daydream.store.run_folder import JOURNAL
from daydream.summaries import RunResult
from daydream.tasks.base import TaskInfo


def run(
    task: str,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    trust: Annotated[bool, Parameter(negative="")] = False,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    config: shared.ConfigFiles = [],  # noqa: B006 - never changed
    flags: shared.RunFlags = shared.RunFlags(),  # noqa: B008 - frozen
) -> int:
    """Search a task: an online rollout, then a selection by replay, round after round.

    Parameters
    ----------
    task
        Task name such as circle-packing:n=26, or the path of your own problem folder.
    out
        The run folder itself. [default: runs/TASK/TIME-sSEED]
    trust
        Run a policy file of yours in this process, without isolation.
    dry_run
        Say what the run may cost at most, and do nothing.
    json
        Print JSON lines and nothing else on standard output.
    config
        TOML files with settings; @FILE is short for it.
    """
    task = shared.with_recipe(task, config)
    settings = shared.settings(flags, task, config)
    request = launch.Request(task, settings, out, trust)
    prepared = launch.prepare(request)
    if dry_run:
        return show_estimate(prepared, as_json=json)
    info = prepared.task.info
    _warn(prepared)
    with interruptible() as interrupted, Progress(as_json=json) as progress:
        result = launch.start(
            request, prepared, Surroundings(interrupted=interrupted, notify=progress.notify)
        )
    return finish(result, info, as_json=json)


def resume(
    run: Path,
    *,
    rounds: Whole | None = None,
    workers: Whole | None = None,
    max_calls: Whole | None = None,
    max_time: float | None = None,
    budget: str | None = None,
    cache: Literal["on", "off", "only"] | None = None,
    new_pool: Annotated[bool, Parameter(negative="")] = False,
    trust: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Continue a run that was stopped or killed. No finished attempt is paid for again.

    Parameters
    ----------
    run
        The run folder.
    rounds
        Play up to this round; more than the run had extends it.
    workers
        Concurrent attempts; never changes a result.
    max_calls
        Stop, resumably, after so many attempts of the whole run.
    max_time
        Stop, resumably, after so many seconds of this command.
    budget
        Stop, resumably, when so much is spent: 5usd, 2Mtok, 1h, 200calls.
    cache
        Use of the answers that the run has stored; only asks no server.
    new_pool
        Go on with a changed evaluator; earlier trees stay and join no selection.
    trust
        Run a policy file of yours in this process, without isolation.
    json
        Print JSON lines and nothing else on standard output.
    """
    wanted = {
        "rounds": rounds,
        "workers": workers,
        "max_calls": max_calls,
        "max_time": max_time,
        "budget": budget,
        "cache": cache,
    }
    changes = {key: value for key, value in wanted.items() if value is not None}
    with interruptible() as interrupted, Progress(as_json=json) as progress:
        result, info = launch.resume_with_info(
            run,
            changes=changes,
            new_pool=new_pool,
            trust=trust,
            surroundings=Surroundings(interrupted=interrupted, notify=progress.notify),
        )
    return finish(result, info, as_json=json)


def explore(
    run: str,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    trust: Annotated[bool, Parameter(negative="")] = False,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    config: shared.ConfigFiles = [],  # noqa: B006 - never changed
    flags: shared.RunFlags = shared.RunFlags(),  # noqa: B008 - frozen
) -> int:
    """Make one online rollout with the deployed policy and add its tree to the run.

    With `daydream dream` in between, rollouts explored one by one are those of `daydream run`.

    Parameters
    ----------
    run
        The folder of a run to go on with, or a task or problem folder to begin one.
    out
        The folder of a run that begins. [default: runs/TASK/TIME-sSEED]
    trust
        Run a policy file of yours in this process, without isolation.
    dry_run
        Say what the first rollout may cost at most, and do nothing.
    json
        Print JSON lines and nothing else on standard output.
    config
        TOML files with settings; @FILE is short for it.
    """
    if (Path(run) / JOURNAL).is_file():
        if out is not None:
            raise UsageError(f"--out {out} is for a run that begins, and {run} has begun; drop it")
        if dry_run:
            raise UsageError(f"--dry-run is for a run that begins, and {run} has begun; drop it")
        changes = shared.given(flags)
        with interruptible() as interrupted, Progress(as_json=json) as progress:
            result, info = launch.resume_with_info(
                run,
                changes=changes,
                trust=trust,
                surroundings=Surroundings(interrupted=interrupted, notify=progress.notify),
                explore=True,
            )
        return finish(result, info, as_json=json, explored=True)
    run = shared.with_recipe(run, config)
    settings = shared.settings(flags, run, config)
    request = launch.Request(run, settings, out, trust)
    prepared = launch.prepare(request)
    if dry_run:
        return show_estimate(prepared, as_json=json, explored=True)
    info = prepared.task.info
    _warn(prepared)
    with interruptible() as interrupted, Progress(as_json=json) as progress:
        result = launch.start(
            request,
            prepared,
            Surroundings(interrupted=interrupted, notify=progress.notify),
            explore=True,
        )
    return finish(result, info, as_json=json, explored=True)


def _warn(prepared: launch.Prepared) -> None:
    """Say where something runs with less around it than there could be."""
    agent = prepared.agent
    output.warn(weakness(prepared.task.info.isolation))
    if isinstance(agent, ProgramAgent) and not agent.apart:
        output.warn(f"{agent.program.facts.title} runs as you; it may edit files and no more")


def finish(result: RunResult, info: TaskInfo, *, as_json: bool, explored: bool = False) -> int:
    """Show what a run came to and return the exit code."""
    if as_json:
        done: dict[str, JsonValue] = {
            "event": "done",
            "run": str(result.path),
            "task": result.task,
            "best": result.best,
            "calls": result.calls,
            "stopped": result.stopped,
            "rounds": [msgspec.to_builtins(one) for one in result.rounds],
        }
        output.emit(done)
    else:
        results.print_run(result, info, explored=explored)
    return result.exit_code
