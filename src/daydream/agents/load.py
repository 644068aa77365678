"""Discovery agents by name: ``scripted``, ``local_search:solves=12``, ``command:CMD``."""

import re
from collections.abc import Callable, Mapping
from typing import Final, cast

from daydream import registry
from daydream.agents.base import DiscoveryAgent
from daydream.config import RunSettings
from daydream.errors import RegistryError, UsageError
from daydream.tasks.base import TaskInfo

COMPUTING: Final = frozenset({"local_search", "scripted"})
"""Agents that write data and no programs."""


DEFAULTS: Final[Mapping[str, Mapping[str, str]]] = {
    "chat": {
        "temperature": "temperature",
        "max_tokens": "max_tokens",
        "deadline": "attempt_timeout",
        "timeout": "request_timeout",
    },
    "cli": {"timeout": "attempt_timeout", "sandbox": "sandbox"},
    "command": {"timeout": "attempt_timeout"},
}
"""Kind of agent -> its options -> the settings that give them where the agent's name does not."""
_OPTIONS: Final = re.compile(r"([a-z_]+=[^,:\s]+(?:,[a-z_]+=[^,:\s]+)*):(.*)", re.DOTALL)


def with_defaults(name: str, settings: RunSettings) -> str:
    """Return ``name`` with the options that ``settings`` add to those it has."""
    kind, colon, rest = name.partition(":")
    match = _OPTIONS.fullmatch(rest)
    told, target = (match[1], match[2]) if match else ("", rest)
    have = {part.partition("=")[0] for part in told.split(",")}
    if told and not have <= {*DEFAULTS.get(kind, {}), *_MORE.get(kind, ())}:
        # The start of a command may look like an option.
        told, target, have = "", rest, set()
    more = []
    for option, field in DEFAULTS.get(kind, {}).items():
        value = getattr(settings, field)
        if option not in have and value not in (None, "auto"):
            more.append(f"{option}={value:g}" if isinstance(value, float) else f"{option}={value}")
    options = ",".join([*filter(None, [told]), *more])
    return f"{kind}:{options}:{target}" if options and colon else name


_MORE: Final[Mapping[str, tuple[str, ...]]] = {
    "chat": ("edit", "stream", "top_p", "seed", "backoff", "tries", "parallel"),
    "cli": ("memory", "parallel"),
    "command": ("memory",),
}
"""Options that no setting gives."""


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
