"""The ``local_search`` agent: numerical search that continues from its parent's artifact.

Owns the choice of the searcher and the effort of one attempt. Each task that has a searcher keeps
it in a module of this package with the task's name. Such a module defines ``UNIT`` (what effort
counts, such as ``solves``; never seconds, since a clock would break equal bytes for equal
contexts), ``EFFORT`` (the default number of units of one attempt) and ``propose(context, effort)``,
whose answer depends on the context and the effort alone.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Final, Literal

from daydream.agents.base import AttemptContext, DiscoveryAgent, Proposal
from daydream.errors import UsageError
from daydream.tasks.base import TaskInfo

NAME: Final = "local_search"
MAX_EFFORT: Final = 1_000_000_000
SEARCHERS: Final[Mapping[str, str]] = {
    "autocorrelation": "daydream.agents.local_search.autocorrelation",
    "circle-packing": "daydream.agents.local_search.circle_packing",
    "sum-diff": "daydream.agents.local_search.sum_diff",
}
"""Task -> module; imported when an agent is built, because the searchers need numpy or scipy."""

Searcher = Callable[[AttemptContext, int], Proposal]


class LocalSearch:
    """Dispatches to the searcher of one task; see the module's docstring for the promise."""

    where: Literal["inline", "process"] = "process"
    deterministic = True

    def __init__(self, name: str, propose: Searcher, effort: int) -> None:
        self.name = name
        self.effort = effort
        """Units that one attempt may spend."""
        self._propose = propose

    def propose(self, context: AttemptContext) -> Proposal:
        """Return a child of ``context.parent``; raises what the searcher raises."""
        return self._propose(context, self.effort)


def build(options: str, task: TaskInfo) -> DiscoveryAgent:
    """Return the searcher of ``task``; ``options`` is empty or such as ``solves=12``.

    Raises :class:`UsageError` for a task without a searcher and for an option it does not have.
    """
    family = task.name.partition(":")[0]
    target = SEARCHERS.get(family)
    if target is None:
        raise UsageError(
            f"agent {NAME} has no searcher for task {family!r} (it has one for: "
            f"{', '.join(SEARCHERS)}); choose another --agent"
        )
    module = importlib.import_module(target)
    unit: str = module.UNIT
    effort: int = module.EFFORT
    if options:
        effort = _effort(options, unit, effort)
    propose: Searcher = module.propose
    return LocalSearch(f"{NAME}:{options}" if options else NAME, propose, effort)


def _effort(options: str, unit: str, default: int) -> int:
    key, _, text = options.partition("=")
    if key != unit or not text.isascii() or not text.isdigit():
        raise UsageError(
            f"agent {NAME} has option {options!r} (expected {unit}=NUMBER); "
            f"for example {NAME}:{unit}={default}"
        )
    if not 1 <= int(text) <= MAX_EFFORT:
        raise UsageError(
            f"agent {NAME} has {unit}={text} (expected a whole number from 1 to {MAX_EFFORT})"
        )
    return int(text)
