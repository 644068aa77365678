"""Discovery agents by name: ``scripted``, ``local_search:solves=12``, ``command:CMD``."""

from collections.abc import Callable
from typing import cast

from daydream import registry
from daydream.agents.base import DiscoveryAgent
from daydream.errors import RegistryError
from daydream.tasks.base import TaskInfo


def load_agent(name: str, task: TaskInfo) -> DiscoveryAgent:
    """Return the agent called ``NAME`` or ``NAME:OPTIONS`` for ``task``.

    Raises :class:`RegistryError` for an unknown name, and what the agent raises for its options.
    """
    kind, _, options = name.partition(":")
    factory = registry.load("agent", kind)
    if not callable(factory):
        raise RegistryError(f"agent plug-in {kind!r} is {factory!r} (expected a function)")
    return cast("Callable[[str, TaskInfo], DiscoveryAgent]", factory)(options, task)
