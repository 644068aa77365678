"""Names of plug-ins and where their code is. Nothing is imported before it is used.

A name maps to ``module:attribute``. Packages can add names through the entry point groups
``daydream.tasks``, ``daydream.policies``, ``daydream.proposers`` and ``daydream.agents``.
"""

import difflib
import importlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from daydream.errors import EnvironmentMissing, RegistryError

TASKS: Final[Mapping[str, str]] = {
    "autocorrelation": "daydream.tasks.autocorrelation:load",
    "branch-world": "daydream.tasks.branch_world:build",
    "circle-packing": "daydream.tasks.circle_packing:load",
    "formula": "daydream.tasks.formula:build",
    "humaneval": "daydream.tasks.humaneval:build",
    "kernel-layernorm": "daydream.tasks.kernel_layernorm:build",
    "lasso": "daydream.tasks.lasso_path:load",
    "kernels": "daydream.tasks.kernels:build",
    "lean": "daydream.tasks.lean:build",
    "sum-diff": "daydream.tasks.sum_diff:load",
}
TASK_ALIASES: Final[Mapping[str, str]] = {
    "autocorr": "autocorrelation",
    "human-eval": "humaneval",
    "packing": "circle-packing",
    "sumdiff": "sum-diff",
}
POLICIES: Final[Mapping[str, str]] = {
    "adaptive": "daydream.policies.adaptive:Adaptive",
    "best_first": "daydream.policies.best_first:BestFirst",
    "parallel_refine": "daydream.policies.parallel_refine:ParallelRefine",
}
PROPOSERS: Final[Mapping[str, str]] = {
    "auto": "daydream.proposers.auto:Auto",
    "developer": "daydream.proposers.developer:Developer",
    "grid": "daydream.proposers.grid:Grid",
    "none": "daydream.proposers.none:Nothing",
    "spec-model": "daydream.proposers.spec_model:SpecModel",
    "system1": "daydream.proposers.system1:System1",
}
AGENTS: Final[Mapping[str, str]] = {
    "chat": "daydream.agents.chat.agent:build",
    "cli": "daydream.agents.programs.agent:build",
    "command": "daydream.agents.command_line:build",
    "local_search": "daydream.agents.local_search.agent:build",
    "scripted": "daydream.agents.scripted.agent:build",
}
FAMILIES: Final[Mapping[str, Mapping[str, str]]] = {
    "task": TASKS,
    "policy": POLICIES,
    "proposer": PROPOSERS,
    "agent": AGENTS,
}
PLURALS: Final[Mapping[str, str]] = {
    "task": "tasks",
    "policy": "policies",
    "proposer": "proposers",
    "agent": "agents",
}


@cache
def _extensions(family: str) -> Mapping[str, EntryPoint]:
    """The entry points of other packages; reading the metadata of all packages takes a while."""
    return {entry.name: entry for entry in entry_points(group=f"daydream.{PLURALS[family]}")}


def names(family: str) -> list[str]:
    """Return the known names of ``family`` (task, policy, proposer, agent), sorted."""
    return sorted({*FAMILIES[family], *_extensions(family)})


def load(family: str, name: str) -> object:
    """Return the object behind ``name``.

    Raises :class:`RegistryError` for an unknown name, with the nearest ones, and
    :class:`EnvironmentMissing` when a package that it needs is not installed.
    """
    target = FAMILIES[family].get(name)
    if target is None:
        entry = _extensions(family).get(name)
        if entry is None:
            raise unknown(family, name, names(family))
        loaded: object = entry.load()
        return loaded
    module, _, attribute = target.partition(":")
    try:
        found: object = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("daydream"):
            raise
        raise EnvironmentMissing(
            f"{family} {name} needs the package {error.name!r}, which is not installed; "
            "install the extra that brings it: pip install 'daydream-rsi[tasks]'"
        ) from None
    return found


def unknown(what: str, name: str, known: list[str]) -> RegistryError:
    """Return the error for an unknown ``name``, with the nearest known ones."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
    return RegistryError(f"unknown {what} {name!r}; {hint}")
