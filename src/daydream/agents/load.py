"""Discovery agents by name: ``scripted``, ``local_search:solves=12``, ``command:CMD``."""

from collections.abc import Callable
from typing import Final, cast

from daydream import registry
from daydream.agents.base import DiscoveryAgent
from daydream.errors import RegistryError, UsageError
from daydream.tasks.base import TaskInfo

COMPUTING: Final = frozenset({"local_search", "scripted"})
"""Agents that write data and no programs."""


def load_agent(name: str, task: TaskInfo) -> DiscoveryAgent:
    """Return the agent called ``NAME`` or ``NAME:OPTIONS`` for ``task``.

    Raises :class:`RegistryError` for an unknown name, :class:`UsageError` for an agent that cannot
    write what the task wants, and what the agent raises for its options.
    """
    kind, _, options = name.partition(":")
    if task.entry and kind in COMPUTING:
        raise UsageError(
            f"agent {kind} computes data, and task {task.name} wants the program {task.entry} "
            "(expected an agent that writes programs); use -m MODEL, -m mock: or --agent "
            'command:"CMD"'
        )
    factory = registry.load("agent", kind)
    if not callable(factory):
        raise RegistryError(f"agent plug-in {kind!r} is {factory!r} (expected a function)")
    return cast("Callable[[str, TaskInfo], DiscoveryAgent]", factory)(options, task)
