"""The scripted agent: one deterministic method for each task, without a model or a key.

A method lives in ``daydream.agents.scripted.<task name with underscores>`` as a function
``propose(context) -> Proposal``. It may read the task, branch, depth, ``world_seed`` and the
parent's artifact of its context and nothing else, so that a world is the same in every round.
"""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Literal, cast

from daydream.agents import scripted
from daydream.agents.base import AttemptContext, Proposal
from daydream.errors import UsageError
from daydream.tasks.base import TaskInfo

Method = Callable[[AttemptContext], Proposal]


class ScriptedAgent:
    """Answers with the method of one task; equal contexts give equal proposals."""

    where: Literal["inline", "process"] = "inline"
    deterministic = True

    def __init__(self, method: Method) -> None:
        self.name = "scripted"
        self._method = method

    def propose(self, context: AttemptContext) -> Proposal:
        """Return the method's child of ``context.parent``."""
        return self._method(context)


def build(options: str, task: TaskInfo) -> ScriptedAgent:
    """Return the scripted agent of ``task``.

    Raises :class:`UsageError` for any option, and for a task without a method, naming those that
    have one.
    """
    if options:
        raise UsageError(
            f"agent scripted has no options (found {options!r}); name it as plain 'scripted'"
        )
    name = task.name.partition(":")[0]
    known = methods()
    if name not in known:
        raise UsageError(
            f"agent scripted has no method for task {name!r} (it has one for {', '.join(known)}); "
            "choose another agent with --agent"
        )
    module = importlib.import_module(f"{scripted.__name__}.{name.replace('-', '_')}")
    return ScriptedAgent(cast("Method", module.propose))


def methods() -> list[str]:
    """Return the names of the tasks that have a scripted method, sorted."""
    found = (module.name for module in pkgutil.iter_modules(scripted.__path__))
    return sorted(
        name.replace("_", "-") for name in found if name != "agent" and not name.startswith("_")
    )


def parameters(task: TaskInfo) -> dict[str, str]:
    """Return the ``key=value`` part of the task's identity."""
    _, _, tail = task.name.partition(":")
    pairs = (part.partition("=") for part in tail.split(",") if part)
    return {key: value for key, _, value in pairs}
