"""Who proposes the next artifact: the context an agent gets, the proposal it returns."""

from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

import msgspec

from daydream.canonical import JsonObject
from daydream.llm.client import Line
from daydream.store.events import Usage
from daydream.tasks.base import Artifact, Evaluation, TaskInfo


class Ancestor(msgspec.Struct, frozen=True):
    """One earlier node of the branch that is being extended."""

    depth: int
    status: str
    score: float
    error_class: str | None
    message: str


class Spot(Protocol):
    """Where an attempt stands in its tree."""

    @property
    def node(self) -> int:
        """Id of its node."""
        ...

    @property
    def parent(self) -> int:
        """Id of the node that it extends."""
        ...

    @property
    def branch(self) -> int:
        """Number of its branch, from 0."""
        ...

    @property
    def depth(self) -> int:
        """Its depth, from 1."""
        ...


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that ended before another one's batch began."""

    round: int
    node: int
    parent: int
    """Node of the same round; 0 is its root."""
    branch: int
    depth: int
    status: str
    score: float
    error_class: str | None
    message: str
    feedback: str
    rationale: str
    artifact: Artifact | None
    """What was proposed; None where there was nothing."""

    @classmethod
    def of(
        cls,
        spot: Spot,
        number: int,
        evaluation: Evaluation,
        artifact: Artifact | None,
        rationale: str,
    ) -> "Earlier":
        """Return the attempt of round ``number`` that stands at ``spot``."""
        return cls(
            round=number,
            node=spot.node,
            parent=spot.parent,
            branch=spot.branch,
            depth=spot.depth,
            status=evaluation.status.value,
            score=evaluation.score,
            error_class=evaluation.error_class,
            message=evaluation.message,
            feedback=evaluation.feedback,
            rationale=rationale,
            artifact=artifact,
        )


class AttemptContext(msgspec.Struct, frozen=True):
    """Everything an agent may know. Attempts of one batch never see each other."""

    task: TaskInfo
    round: int
    branch: int
    """Number of the branch that the new node belongs to, from 0."""
    depth: int
    """Depth of the new node, from 1."""
    attempt_seed: int
    """Function of (run seed, round, branch, depth): fresh every round."""
    world_seed: int
    """Function of (run seed, branch, depth): the same in every round."""
    parent: Artifact
    evaluation: Evaluation | None
    """The parent's evaluation; None for a root that is not evaluated."""
    lineage: tuple[Ancestor, ...] = ()
    """From the root to the parent."""
    earlier: tuple[Earlier, ...] = ()
    """Every attempt of the run that ended before this batch, oldest first, for a
    :class:`HistoryReader`; empty for other agents."""


class Proposal(msgspec.Struct, frozen=True):
    """What an agent proposes."""

    artifact: Artifact
    rationale: str = ""
    usage: Usage = Usage()
    notes: JsonObject = {}
    """Facts of how the artifact was made, kept in the journal."""


class DiscoveryAgent(Protocol):
    """Makes one child. Fixed for a whole run."""

    name: str
    """The spec that rebuilds it."""
    where: Literal["inline", "process"]
    """``inline``: cheap or waiting, runs in a thread; ``process``: computes, wants a core."""
    deterministic: bool
    """Whether equal contexts give equal proposals."""

    def propose(self, context: AttemptContext) -> Proposal:
        """Return one child of ``context.parent``.

        May raise anything; the attempt becomes a failed node that keeps the reason.
        """
        ...


@runtime_checkable
class HistoryReader(Protocol):
    """An agent that is given every earlier attempt of the run."""

    @property
    def reads_history(self) -> bool:
        """Whether it is."""
        ...


def reads_history(agent: DiscoveryAgent) -> bool:
    """Return whether ``agent`` is to be given the earlier attempts of its run."""
    return isinstance(agent, HistoryReader) and agent.reads_history


@runtime_checkable
class MeteredAgent(DiscoveryAgent, Protocol):
    """An agent that asks models over a line of the run, which budgets and journals each request.

    It is ``inline``. Its proposals carry no usage of their own: the line counts.
    """

    @property
    def model(self) -> str:
        """The model string, for prices and messages."""
        ...

    @property
    def states_cost(self) -> bool:
        """Whether what it asks says what it costs, so that no price has to be set."""
        ...

    def propose_over(self, context: AttemptContext, line: Line) -> Proposal:
        """Return one child of ``context.parent``; raises as :meth:`propose` may."""
        ...

    def preflight(self, line: Line) -> None:
        """Ask one tiny question; raises :class:`daydream.errors.ModelError` without an answer."""
        ...


AgentFactory = Callable[[str, TaskInfo], DiscoveryAgent]
"""Builds an agent from the text after ``NAME:`` (may be empty) and the task."""
