"""The flags that several commands share, and how they become settings."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from daydream import registry
from daydream.cli.numbers import Whole
from daydream.config import (
    Layer,
    RunSettings,
    environment_layer,
    file_layer,
    recipe_of,
    resolve,
)
from daydream.errors import UsageError
from daydream.tasks.folder_settings import SETTINGS_FILE
from daydream.tasks.load import is_path
from daydream.wording import counted


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """Settings of a run; what is not given comes from the layers below."""

    rounds: Whole | None = None
    """Outer cycles: one rollout, then one selection. [default: 2]"""
    seed: Whole | None = None
    """Seed of the run. [default: 0]"""
    policy: str | None = None
    """Starting policy: a spec such as adaptive-w4-d4-p3-g0.02, its JSON, or a .py file."""
    agent: str | None = None
    """Who proposes: scripted, local_search, chat:MODEL, or command:"CMD". [default: the task's]"""
    model: Annotated[str | None, Parameter(name=["--model", "-m"])] = None
    """A model proposes: openai/gpt-5-mini, ollama/NAME, mock:, cli:claude. [default: none]"""
    dreamer: str | None = None
    """Who proposes the next policy: auto, system1, grid, none; developer, spec-model ask a model.
    [default: auto]"""
    developer: str | None = None
    """Model that those two ask. [default: the agent's model]"""
    revisions: Whole | None = None
    """Policies that it proposes in one selection. [default: 4]"""
    guard: Literal["quality", "none"] | None = None
    """quality admits only what keeps every world's quality. [default: none for developer]"""
    objective: Literal["equation1", "sweep"] | None = None
    """What a policy is worth in replay; sweep plays a file at six betas. [default: equation1]"""
    holdout: Whole | None = None
    """Newest worlds that a selection leaves out and then judges its choice by. [default: 0]"""
    holdout_margin: float | None = None
    """Mean gain there that a choice needs to be deployed. [default: only reported]"""
    cost_weight: float | None = None
    """Weight of an attempt in the replay score. [default: 0.002]"""
    parallel_weight: float | None = None
    """Weight of parallelism in the replay score. [default: 0.005]"""
    normalised: Annotated[bool | None, Parameter(negative="")] = None
    """Score attainment and shares of the record instead of raw scores."""
    max_parallelism: Whole | None = None
    """Attempts that one batch may hold. [default: 8]"""
    max_batches: Whole | None = None
    """Batches of one rollout. [default: 1000]"""
    replay_batches: Whole | None = None
    """Batches of one replay. [default: max_batches]"""
    prompts: str | None = None
    """Folder with texts of yours in place of those that models are told."""
    temperature: float | None = None
    """Temperature of the model that makes attempts. [default: none is sent]"""
    attempt_timeout: float | None = None
    """Seconds that a model, a program or a command has for one attempt."""
    max_branches: Whole | None = None
    """Branches that a rollout may open online."""
    max_depth: Whole | None = None
    """Depth that a rollout may reach online."""
    explore_margin: Whole | None = None
    """How far the deployed width and depth may exceed what replay chose. [default: 0]"""
    start: Literal["root", "best"] | None = None
    """Where later rounds start from. [default: root]"""
    fresh: Annotated[bool | None, Parameter(negative="")] = None
    """Give scripted agents another world every round."""
    workers: Whole | None = None
    """Concurrent attempts; never changes a result. [default: cores]"""
    sandbox: Literal["auto", "bubblewrap", "process"] | None = None
    """Isolation of your evaluator: auto takes the strongest there is. [default: auto]"""
    max_calls: Whole | None = None
    """Stop, resumably, after so many attempts."""
    max_time: float | None = None
    """Stop, resumably, after so many seconds."""
    budget: str | None = None
    """Stop, resumably, when so much is spent: 5usd, 2Mtok, 1h, 200calls, or several with commas."""
    max_failures: Whole | None = None
    """Stop after so many attempts in a row without files from a model or command; 0 never.
    [default: 5]"""
    preflight: bool | None = None
    """Ask the model one tiny question before the first attempt. [default: true]"""
    cache: Literal["on", "off", "only"] | None = None
    """Use of the answers that the run has stored; only asks no server. [default: on]"""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ScoreFlags:
    """How a replay is scored; what is not given is as the run has it."""

    cost_weight: float | None = None
    """Weight of an attempt. [default: the run's]"""
    parallel_weight: float | None = None
    """Weight of parallelism. [default: the run's]"""
    normalised: bool | None = None
    """Score attainment and shares of the record instead of raw scores. [default: the run's]"""
    objective: Literal["equation1", "sweep"] | None = None
    """What a policy is worth; sweep plays a file at six betas. [default: the run's]"""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DreamFlags:
    """Who proposes, and what stands against a choice that only looks good."""

    dreamer: str | None = None
    """Who proposes: auto, system1, grid, none; developer, spec-model ask a model.
    [default: the run's, auto where that is none]"""
    model: Annotated[str | None, Parameter(name=["--model", "-m"])] = None
    """Model that those two ask: openai/gpt-5-mini, ollama/NAME, mock:. [default: the run's]"""
    revisions: Whole | None = None
    """Policies that it proposes. [default: the run's]"""
    guard: Literal["quality", "none"] | None = None
    """quality admits only what keeps every world's quality. [default: the run's]"""
    explore_margin: Whole | None = None
    """How far the deployed width and depth may exceed what replay chose. [default: the run's]"""
    holdout: Whole | None = None
    """Newest worlds that take no part in the choice and judge it afterwards.
    [default: the run's]"""
    holdout_margin: float | None = None
    """Mean gain there that a choice needs to be deployed. [default: the run's]"""
    budget: str | None = None
    """Stop, resumably, when so much is spent by the run: 5usd, 2Mtok."""
    cache: Literal["on", "off", "only"] | None = None
    """Use of the answers that the run has stored; only asks no server. [default: the run's]"""


ConfigFiles = Annotated[list[Path], Parameter(name=["--config", "-c"], negative="")]


def given(flags: RunFlags) -> dict[str, object]:
    """Return the settings that were given as flags; a model is the agent that asks it.

    Raises :class:`UsageError` for an agent and a model at once.
    """
    values = {field.name: getattr(flags, field.name) for field in fields(flags)}
    model = values.pop("model")
    if model is not None:
        if values["agent"] is not None:
            raise UsageError("--agent and --model both say who proposes (expected one of them)")
        values["agent"] = model if model.startswith("cli:") else f"chat:{model}"
    return {name: value for name, value in values.items() if value is not None}


def of_run(stored: RunSettings, run: Path, *groups: DreamFlags | ScoreFlags) -> RunSettings:
    """Return the settings of the run in ``run`` with the flags that were given in their place.

    Raises :class:`daydream.errors.ConfigError` for a wrong value.
    """
    values = {
        {"model": "developer"}.get(field.name, field.name): getattr(group, field.name)
        for group in groups
        for field in fields(group)
        if getattr(group, field.name) is not None
    }
    own: dict[str, object] = msgspec.to_builtins(stored)
    return resolve([Layer(str(run), own), Layer("command line", values)])


def settings_here() -> RunSettings:
    """Return what ./daydream.toml and the environment say."""
    own = Path(SETTINGS_FILE)
    return resolve([*([file_layer(own)] if own.is_file() else []), environment_layer()])


def settings(flags: RunFlags, source: str, files: Sequence[Path]) -> RunSettings:
    """Return defaults < daydream.toml < @file < DAYDREAM_* < flags.

    ``daydream.toml`` is the problem folder's own, or else the working folder's. Raises
    :class:`daydream.errors.ConfigError` for an unknown key or a wrong value.
    """
    home = Path(source) if is_path(source) else Path()
    own = home / SETTINGS_FILE
    layers = [file_layer(own)] if own.is_file() else []
    layers += [file_layer(path) for path in files]
    return resolve([*layers, environment_layer(), Layer("command line", given(flags))])


def with_recipe(source: str, files: Sequence[Path]) -> str:
    """Return the task ``source`` with the parameters that ``[tasks.NAME]`` of the files adds.

    What the name itself says wins, then later files. A path is returned as it is.
    """
    if is_path(source):
        return source
    name, _, told = source.partition(":")
    known = registry.TASK_ALIASES.get(name, name)
    own = Path(SETTINGS_FILE)
    recipe: dict[str, str] = {}
    for path in [*([own] if own.is_file() else []), *files]:
        recipe |= recipe_of(path, known)
    given = {part.partition("=")[0] for part in told.split(",")}
    more = [f"{key}={value}" for key, value in recipe.items() if key not in given]
    return f"{known}:{','.join([*filter(None, [told]), *more])}" if more else source


def seeds_of(text: str) -> list[int]:
    """Return the seeds of ``0-9``, ``1,4,7`` or a mix; raises ``ValueError`` with the reason."""
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdigit() or (dash and not high.isdigit()):
            raise ValueError(
                f"seeds {text!r}: cannot read {part!r} (expected such as 0-9 or 1,4,7)"
            )
        found += range(int(low), int(high if dash else low) + 1)
    if not found or len(found) > 10_000:
        raise ValueError(f"seeds {text!r} name {counted(len(found), 'seed')} (expected 1 to 10000)")
    return sorted(set(found))
