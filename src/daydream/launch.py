"""Starting and continuing runs: from a name and settings to an open folder that is played."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import msgspec

from daydream.agents.base import DiscoveryAgent, MeteredAgent
from daydream.agents.load import load_agent, with_defaults
from daydream.bookkeeping import Book
from daydream.canonical import JsonObject, JsonValue, dumps
from daydream.config import BUDGETS, OPERATIONAL, Layer, RunSettings, resolve
from daydream.dreams import check_dreaming, dreaming_of
from daydream.errors import ConfigError, StoreError, UsageError
from daydream.isolation import check_policy
from daydream.llm.budget import check_price, parse_budget
from daydream.online import Attempts
from daydream.policies.specs import parse_spec, spec_from_json
from daydream.prompting import use_prompts
from daydream.rounds import Plan, Surroundings, play, versions, workers_of
from daydream.store import events as log
from daydream.store.run_folder import RunFolder
from daydream.summaries import RunResult
from daydream.tasks.base import Artifact, Demanding, Task, TaskInfo
from daydream.tasks.load import is_path, load_task, problem_of

RUNS = Path("runs")
PROBLEM = "problem"
"""Folder of a run that holds a user's problem when its own folder is gone."""


class Request(msgspec.Struct, frozen=True):
    """A run to start."""

    source: str
    """Task name, or path of a folder."""
    settings: RunSettings = RunSettings()
    out: Path | None = None
    """The run folder itself; None makes one below ``runs/``."""
    trust: bool = False
    """A policy file may run in this process."""


class Prepared(msgspec.Struct, frozen=True):
    """A request with its plug-ins built and checked; nothing is written yet."""

    task: Task
    agent: DiscoveryAgent
    plan: Plan
    problem: Artifact | None = None
    """A user's folder as it is now, kept with the run so that another machine can resume it."""


def run(
    task: str, *, out: str | Path | None = None, trust: bool = False, **settings: object
) -> RunResult:
    """Search ``task`` and return what came of it; ``settings`` are the fields of ``RunSettings``.

    Raises :class:`DaydreamError` subclasses: for a wrong name or setting before anything is
    written, for a folder that cannot be used, for a policy that breaks a rule.
    """
    resolved = resolve([Layer("run()", settings)])
    request = Request(task, resolved, None if out is None else Path(out), trust)
    return start(request, prepare(request), Surroundings())


def prepare(request: Request) -> Prepared:
    """Build the task, the agent and the policy of ``request``; raises for what does not exist."""
    task = _ready(load_task(request.source, request.settings.sandbox))
    info = task.info
    asked = request.settings
    settings = msgspec.structs.replace(
        asked,
        policy=asked.policy or info.policy,
        agent=with_defaults(asked.agent or info.agent, asked),
        prompts=str(Path(asked.prompts).resolve()) if asked.prompts else "",
    )
    use_prompts(settings.prompts)
    if not settings.agent:
        raise UsageError(
            f"task {info.name} has no default agent (expected -m MODEL or --agent); -m mock: needs "
            'no key, and --agent command:"CMD" takes a program of yours'
        )
    check_dreaming(dreaming_of(settings))
    config = cast("JsonObject", settings.policy_config)
    spec = parse_spec(settings.policy, trust=request.trust, config=config)
    check_policy(spec, limit=settings.max_parallelism)
    source = str(Path(request.source).resolve()) if is_path(request.source) else info.name
    agent = load_agent(settings.agent, info)
    check_budget(settings, agent)
    return Prepared(task, agent, Plan(settings, spec, source), _problem(task))


def check_budget(settings: RunSettings, agent: DiscoveryAgent) -> None:
    """Raise :class:`ConfigError` for a budget that cannot be read, or kept for want of a price."""
    allowance = parse_budget(settings.budget)
    if allowance.usd is None:
        return
    for asked in (agent, check_dreaming(dreaming_of(settings))):
        if isinstance(asked, MeteredAgent) and not asked.states_cost:
            check_price(allowance, asked.model, settings.prices)


def _ready(task: Task) -> Task:
    """Return ``task``; raises :class:`EnvironmentMissing` when it lacks what evaluations need."""
    if isinstance(task, Demanding):
        task.ready()
    return task


def _problem(task: Task) -> Artifact | None:
    files = problem_of(task)
    return None if files is None else Artifact(dict(files))


def start(
    request: Request,
    prepared: Prepared,
    surroundings: Surroundings,
    *,
    attempts: Attempts | None = None,
    explore: bool = False,
) -> RunResult:
    """Make the run folder and play the run, or with ``explore`` its first rollout alone.

    ``attempts`` are shared with another run when given.
    """
    plan, info = prepared.plan, prepared.task.info
    config = config_json(prepared)
    out = request.out or default_folder(info.name, plan.settings.seed, surroundings.now())
    with RunFolder.create(out, config, clock=surroundings.now) as folder:
        return _begin(Book(folder), config, prepared, surroundings, attempts, explore=explore)


def _begin(
    book: Book,
    config: JsonObject,
    prepared: Prepared,
    surroundings: Surroundings,
    attempts: Attempts | None,
    *,
    explore: bool = False,
) -> RunResult:
    if prepared.problem is not None:
        book.folder.put_artifact(prepared.problem.files)
    book.emit(
        log.RunStarted(
            task=prepared.task.info.name,
            evaluator=prepared.task.info.evaluator,
            seed=prepared.plan.settings.seed,
            config=config,
            versions=dict(versions()),
        ),
        durable=True,
    )
    if attempts is not None:
        return play(book, attempts, prepared.plan, surroundings, explore=explore)
    with _attempts(book, prepared) as own:
        return play(book, own, prepared.plan, surroundings, explore=explore)


def _attempts(book: Book, prepared: Prepared) -> Attempts:
    return Attempts(
        prepared.task,
        prepared.agent,
        workers=workers_of(prepared.plan.settings),
        settled=book.settled(),
    )


def resume(
    path: str | Path,
    *,
    changes: Mapping[str, object] | None = None,
    new_pool: bool = False,
    trust: bool = False,
    surroundings: Surroundings = Surroundings(),  # noqa: B008 - frozen
) -> RunResult:
    """Continue the run in folder ``path``; ``changes`` may set workers, budgets and rounds only.

    Pays for no finished attempt again. Raises :class:`StoreError` when the folder is in use or
    damaged, or when the evaluator changed and ``new_pool`` is not set.
    """
    result, _ = resume_with_info(
        path, changes=changes, new_pool=new_pool, trust=trust, surroundings=surroundings
    )
    return result


def resume_with_info(
    path: str | Path,
    *,
    changes: Mapping[str, object] | None = None,
    new_pool: bool = False,
    trust: bool = False,
    surroundings: Surroundings = Surroundings(),  # noqa: B008 - frozen
    attempts: Attempts | None = None,
    explore: bool = False,
) -> tuple[RunResult, TaskInfo]:
    """Do what :func:`resume` does; return the facts of the task as well.

    ``explore`` plays one rollout and selects nothing.
    """
    folder_path = Path(path)
    with RunFolder.open(folder_path, clock=surroundings.now) as folder:
        book = Book(folder)
        started = book.state.started
        config = folder.config() if started is None else started.config
        prepared = _rebuild(folder, config, changes or {}, trust=trust)
        if started is None:
            config = config_json(prepared)
            result = _begin(book, config, prepared, surroundings, attempts, explore=explore)
            return result, prepared.task.info
        _check_evaluator(folder_path, book, prepared, new_pool=new_pool)
        book.emit(log.RunResumed(versions=dict(versions())), durable=True)
        info = prepared.task.info
        if attempts is not None:
            return play(book, attempts, prepared.plan, surroundings, explore=explore), info
        with _attempts(book, prepared) as own:
            return play(book, own, prepared.plan, surroundings, explore=explore), info


def _rebuild(
    folder: RunFolder, config: Mapping[str, object], changes: Mapping[str, object], *, trust: bool
) -> Prepared:
    path = folder.path
    source, stored, spec = config.get("source"), config.get("settings"), config.get("spec")
    if not (isinstance(source, str) and isinstance(stored, Mapping) and isinstance(spec, str)):
        raise StoreError(
            f"{path}: its configuration lacks source, settings or spec (expected those that "
            "`daydream run` writes); imported runs can be replayed and dreamt on, not resumed"
        )
    fixed = sorted(set(changes) - OPERATIONAL)
    if fixed:
        raise ConfigError(
            f"a run that has begun keeps its {fixed[0]} (expected one of "
            f"{', '.join(sorted(OPERATIONAL))}); start a new run for other "
            "settings"
        )
    # A budget is what one command may spend, so it ends with the command that named it.
    kept = {key: value for key, value in stored.items() if key not in BUDGETS}
    settings = resolve([Layer(str(path), kept), Layer("resume", changes)])
    use_prompts(settings.prompts)
    task = _ready(load_task(_at_hand(folder, source, config.get("problem")), settings.sandbox))
    agent = load_agent(settings.agent, task.info)
    check_budget(settings, agent)
    policy = spec_from_json(json.loads(spec), trust=trust)
    check_policy(policy, limit=settings.max_parallelism)
    return Prepared(task, agent, Plan(settings, policy, source), _problem(task))


def _at_hand(folder: RunFolder, source: str, problem: object) -> str:
    """Return ``source``, or where a user's folder that is gone was laid out again from the run."""
    if not is_path(source) or Path(source).is_dir() or not isinstance(problem, str):
        return source
    place = folder.path / PROBLEM / Path(source).name
    for name, data in folder.get_artifact(problem).items():
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return str(place)


def _check_evaluator(path: Path, book: Book, prepared: Prepared, *, new_pool: bool) -> None:
    rounds = book.state.rounds
    started = book.state.started
    last = rounds[max(rounds)].started.evaluator if rounds else ""
    known = last or (started.evaluator if started is not None else "")
    now = prepared.task.info.evaluator
    if known != now and not new_pool:
        raise StoreError(
            f"the evaluator of {prepared.task.info.name} changed: {now[:12]} (expected "
            f"{known[:12]}, which scored the run in {path}); restore it, or keep the old trees and "
            f"start a new pool: daydream resume {path} --new-pool"
        )


def config_json(prepared: Prepared) -> JsonObject:
    """Return the resolved configuration of a run, as kept in ``run.toml`` and the journal."""
    plan, info = prepared.plan, prepared.task.info
    settings = {
        key: value for key, value in msgspec.to_builtins(plan.settings).items() if value is not None
    }
    config: dict[str, JsonValue] = {
        "schema_version": 1,
        "task": info.name,
        "source": plan.source,
        "evaluator": info.evaluator,
        "policy": plan.spec.name,
        "spec": dumps(plan.spec.to_json()).decode("utf-8"),
        "settings": settings,
        "versions": dict(versions()),
    }
    if info.isolation:
        config["isolation"] = list(info.isolation)
    problem = None if prepared.problem is None else prepared.problem.hash
    for key, value in (("scale", info.scale), ("floor", info.floor), ("problem", problem)):
        if value is not None:
            config[key] = value
    return config


def default_folder(task: str, seed: int, now: float) -> Path:
    """Return ``runs/<slug>/<utc>-s<seed>`` for a run that starts at ``now``."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", task).strip(".-") or "task"
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%S")
    folder = RUNS / slug / f"{stamp}-s{seed}"
    number = 2
    while folder.exists():
        folder = RUNS / slug / f"{stamp}-s{seed}-{number}"
        number += 1
    return folder
