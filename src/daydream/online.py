"""The online world: a batch becomes attempts, made by the discovery agent and scored by the task.

Attempts of a batch run on bounded workers and do not see each other; nodes are numbered in slot
order, so the tree does not depend on how many workers there are. This is the attempt boundary:
what an agent or an evaluator raises becomes a failed node that keeps the reason.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol, cast

import msgspec

from daydream.agents import process as remote
from daydream.agents.base import (
    Ancestor,
    AttemptContext,
    DiscoveryAgent,
    Earlier,
    MeteredAgent,
    Proposal,
    reads_history,
)
from daydream.canonical import JsonObject, clean_json, clean_text, seed_of
from daydream.config import worker_environment
from daydream.errors import Stopped
from daydream.llm.client import Line
from daydream.sandbox.faults import patiently
from daydream.sandbox.workers import Worker, WorkerFailed
from daydream.search import Revealed
from daydream.store.events import Usage
from daydream.tasks.base import Artifact, Evaluation, Task, failed
from daydream.tree import (
    ROOT,
    Batch,
    Before,
    Eligibility,
    GrowingView,
    Node,
    Status,
    TreeView,
    VisibleNode,
    nothing_before,
)

REUSABLE = (Status.OK, Status.INVALID)
POLL_S = 0.5


class Plan(msgspec.Struct, frozen=True):
    """One slot that will make a node."""

    node: int
    """Id of that node in the tree."""
    batch: int
    slot: int
    parent: int
    branch: int
    depth: int
    attempt_seed: int
    world_seed: int


class Attempt(msgspec.Struct, frozen=True):
    """One finished attempt."""

    plan: Plan
    evaluation: Evaluation
    artifact: Artifact | None
    """None where the agent produced nothing."""
    rationale: str = ""
    notes: JsonObject = {}
    usage: Usage = Usage()
    reused: bool = False
    """The evaluation is that of an identical artifact."""
    wall_s: float = 0.0
    cpu_s: float = 0.0


class Ledger(Protocol):
    """What a rollout asks and tells; its calls come from one thread."""

    def finished(self, batch: int, slot: int) -> Attempt | None:
        """Return the attempt already paid for in this place, or None."""
        ...

    def may_dispatch(self) -> None:
        """Raise :class:`Stopped` when a budget is spent or a stop was asked for."""
        ...

    def dispatched(self, plan: Plan) -> None:
        """Note that an attempt starts."""
        ...

    def line(self, plan: Plan) -> Line | None:
        """Return what the attempt asks models over; None where its agent asks none."""
        ...

    def record(self, attempt: Attempt) -> None:
        """Keep a finished attempt; durable when this returns."""
        ...


class Start(msgspec.Struct, frozen=True):
    """Where a rollout starts."""

    artifact: Artifact
    evaluation: Evaluation | None
    earlier: tuple[Earlier, ...] = ()
    """Attempts of earlier rounds, for an agent that reads them."""


class OnlineSettings(msgspec.Struct, frozen=True):
    """What fixes an online rollout beside policy, task and agent."""

    seed: int = 0
    round: int = 1
    max_branches: int | None = None
    max_depth: int | None = None
    eligibility: Eligibility = "chain"
    fresh: bool = False
    """Give ``world_seed`` the value of ``attempt_seed``: another world every round."""


class _Backend(Protocol):
    def propose(self, context: AttemptContext, line: Line | None) -> tuple[Proposal, float]: ...
    def evaluate(self, artifact: Artifact) -> tuple[Evaluation, float]: ...
    def close(self) -> None: ...


class _Inline:
    def __init__(self, task: Task, agent: DiscoveryAgent) -> None:
        self._task = task
        self._agent = agent

    def propose(self, context: AttemptContext, line: Line | None) -> tuple[Proposal, float]:
        start, agent = time.thread_time(), self._agent
        if line is not None and isinstance(agent, MeteredAgent):
            return agent.propose_over(context, line), time.thread_time() - start
        return agent.propose(context), time.thread_time() - start

    def evaluate(self, artifact: Artifact) -> tuple[Evaluation, float]:
        start = time.thread_time()
        return self._task.evaluate(artifact), time.thread_time() - start

    def close(self) -> None:
        """Nothing is held."""


class _Remote:
    def __init__(self, task: str, agent: str) -> None:
        self._worker = Worker(remote.SETUP, (task, agent), worker_environment())

    def propose(self, context: AttemptContext, line: Line | None) -> tuple[Proposal, float]:
        timed = cast("remote.Timed", self._worker.call(remote.PROPOSE, context))
        return cast("Proposal", timed.value), timed.cpu_s

    def evaluate(self, artifact: Artifact) -> tuple[Evaluation, float]:
        timed = cast("remote.Timed", self._worker.call(remote.EVALUATE, artifact))
        return cast("Evaluation", timed.value), timed.cpu_s

    def close(self) -> None:
        self._worker.close()


class Attempts:
    """Runs attempts of one task and one agent on at most ``workers`` workers. A context manager.

    ``settled`` maps artifact hashes to evaluations that may be reused. With ``share`` a
    deterministic agent is asked once for equal contexts, so that both arms of a comparison can
    use one object without computing common attempts twice.
    """

    def __init__(
        self,
        task: Task,
        agent: DiscoveryAgent,
        *,
        workers: int = 1,
        settled: Mapping[str, Evaluation] | None = None,
        share: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.task = task
        self.agent = agent
        self.workers = workers
        self._clock = clock
        self._local = threading.local()
        self._backends: list[_Backend] = []
        self._settled = dict(settled or {})
        self._flights: dict[str, threading.Lock] = {}
        self._proposals: dict[str, Proposal] | None = {} if share and agent.deterministic else None
        self._guard = threading.Lock()
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="attempt")

    def __enter__(self) -> "Attempts":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill what is running and wait until it is gone."""
        with self._guard:
            backends, self._backends = self._backends, []
        for backend in backends:
            backend.close()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def submit(
        self, plan: Plan, context: AttemptContext, line: Line | None = None
    ) -> "Future[Attempt]":
        """Start one attempt; its result never raises for what the agent or the task did.

        It raises :class:`Stopped` where the budget or a broken sandbox ended the attempt.
        """
        return self._threads.submit(self._attempt, plan, context, line)

    def evaluate_root(self, artifact: Artifact) -> Evaluation:
        """Return the root's evaluation; a raising evaluator gives a failed one."""
        try:
            return self._threads.submit(self._evaluate, artifact).result()[0]
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 - the attempt boundary
            return _failure(error, "evaluator")

    def _backend(self) -> _Backend:
        found: _Backend | None = getattr(self._local, "backend", None)
        if found is None:
            apart, names = self.agent.where == "process", (self.task.info.name, self.agent.name)
            found = _Remote(*names) if apart else _Inline(self.task, self.agent)
            self._local.backend = found
            with self._guard:
                self._backends.append(found)
        return found

    def _attempt(self, plan: Plan, context: AttemptContext, line: Line | None) -> Attempt:
        start = self._clock()
        proposal: Proposal | None = None
        cpu = spent = 0.0
        reused = False
        try:
            proposal, cpu = patiently(lambda: self._propose(context, line))
            evaluation, reused, spent = self._evaluate(proposal.artifact)
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 - the attempt boundary: a bad attempt is data
            evaluation = _failure(error, "agent" if proposal is None else "evaluator")
        made = Proposal(Artifact({})) if proposal is None else proposal
        return Attempt(
            plan=plan,
            evaluation=evaluation,
            artifact=None if proposal is None else proposal.artifact,
            rationale=clean_text(made.rationale, 4_000),
            notes=cast("JsonObject", clean_json(made.notes)),
            usage=made.usage if line is None else made.usage + line.usage,
            reused=reused,
            wall_s=self._clock() - start,
            cpu_s=cpu + spent,
        )

    def _propose(self, context: AttemptContext, line: Line | None) -> tuple[Proposal, float]:
        memo = self._proposals
        seeds = f"{context.round} {context.branch} {context.depth} {context.attempt_seed}"
        key = f"{seeds} {context.world_seed} {context.parent.hash}"
        if memo is not None and key in memo:
            return memo[key], 0.0
        proposal, cpu = self._backend().propose(context, line)
        if memo is not None:
            memo[key] = proposal
        return proposal, cpu

    def _evaluate(self, artifact: Artifact) -> tuple[Evaluation, bool, float]:
        if self.task.info.noisy:
            evaluation, cpu = patiently(lambda: self._backend().evaluate(artifact))
            return evaluation, False, cpu
        key = artifact.hash
        with self._guard:
            flight = self._flights.setdefault(key, threading.Lock())
        with flight:
            known = self._settled.get(key)
            if known is not None:
                return known, True, 0.0
            evaluation, cpu = patiently(lambda: self._backend().evaluate(artifact))
            if evaluation.status in REUSABLE:
                self._settled[key] = evaluation
            return evaluation, False, cpu


def _failure(error: Exception, who: str) -> Evaluation:
    kind = error.error_class if isinstance(error, WorkerFailed) else type(error).__name__
    return failed(kind, f"{who} raised {kind}: {error}", status=Status.ERROR)


class OnlineWorld:
    """One online rollout. Use a new one for each."""

    def __init__(
        self,
        attempts: Attempts,
        ledger: Ledger,
        start: Start,
        settings: OnlineSettings = OnlineSettings(),  # noqa: B008 - frozen
        before: Callable[[], Before] = nothing_before,
    ) -> None:
        self._attempts = attempts
        self._ledger = ledger
        self._settings = settings
        root = start.evaluation
        self._view = GrowingView(
            status=None if root is None else root.status,
            score=0.0 if root is None else root.score,
            eligibility=settings.eligibility,
            before=before,
        )
        self._artifacts = [start.artifact]
        """What a child of each node starts from: its own files, else its parent's."""
        self._evaluations = [root]
        self._earlier: list[Earlier] | None = (
            list(start.earlier) if reads_history(attempts.agent) else None
        )
        self._seeds = [settings.seed]
        self._children = [0]
        self._nodes = [
            Node(
                id=ROOT,
                parent=None,
                branch=-1,
                depth=0,
                batch=0,
                slot=0,
                status=self._view.nodes[ROOT].status,
                score=self._view.nodes[ROOT].score,
                error_class=None if root is None else root.error_class,
                artifact=start.artifact.hash,
            )
        ]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The tree so far, as it will be stored."""
        return tuple(self._nodes)

    def view(self) -> TreeView:
        """Return the revealed prefix."""
        return self._view

    def advance(self, batch: Batch) -> Revealed:
        """Make one child for each parent in ``batch`` that may have one.

        Raises :class:`Stopped` when the ledger says so; finished attempts are kept by then.
        """
        plans = self._plan(batch)
        made = self._make(plans)
        revealed = [self._reveal(plan, made[plan.slot]) for plan in plans]
        self._view.batches += 1
        return Revealed(revealed, len(batch) - len(plans), ended=False)

    def _plan(self, batch: Batch) -> list[Plan]:
        settings, view = self._settings, self._view
        opened = view.branches
        plans: list[Plan] = []
        for slot, parent in enumerate(batch):
            above = view.nodes[parent]
            branch = opened if parent == ROOT else above.branch
            wide = parent == ROOT and branch >= (settings.max_branches or branch + 1)
            if wide or above.depth >= (settings.max_depth or above.depth + 1):
                view.exhaust(parent)
                continue
            opened += parent == ROOT
            ordinal = self._children[parent]
            self._children[parent] += 1
            depth = above.depth + 1
            same, fresh = self._place(parent, branch, depth, ordinal)
            plans.append(
                Plan(
                    node=len(view.nodes) + len(plans),
                    batch=view.batches + 1,
                    slot=slot,
                    parent=parent,
                    branch=branch,
                    depth=depth,
                    attempt_seed=fresh,
                    world_seed=fresh if settings.fresh else same,
                )
            )
        return plans

    def _place(self, parent: int, branch: int, depth: int, ordinal: int) -> tuple[int, int]:
        """The seed of this place in every round, and the one of this round alone."""
        settings = self._settings
        if settings.eligibility == "any":
            same = seed_of(self._seeds[parent], ordinal)
            return same, seed_of(settings.round, same)
        return (
            seed_of(settings.seed, branch, depth),
            seed_of(settings.seed, settings.round, branch, depth),
        )

    def _make(self, plans: Sequence[Plan]) -> Mapping[int, Attempt]:
        ledger, attempts = self._ledger, self._attempts
        made: dict[int, Attempt] = {}
        waiting: list[Plan] = []
        for plan in plans:
            paid = ledger.finished(plan.batch, plan.slot)
            if paid is None:
                waiting.append(plan)
            else:
                made[plan.slot] = paid
        running: set[Future[Attempt]] = set()
        stopped: Stopped | None = None
        while waiting or running:
            while waiting and len(running) < attempts.workers:
                try:
                    ledger.may_dispatch()
                except Stopped as reason:
                    stopped = reason
                    waiting.clear()
                    break
                plan = waiting.pop(0)
                ledger.dispatched(plan)
                running.add(attempts.submit(plan, self._context(plan), ledger.line(plan)))
            done, running = wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED)
            cut = [future.exception() for future in done if future.exception() is not None]
            ended = [future.result() for future in done if future.exception() is None]
            for attempt in sorted(ended, key=lambda one: one.plan.slot):
                ledger.record(attempt)
                made[attempt.plan.slot] = attempt
            for error in cut:
                if not isinstance(error, Stopped):
                    raise RuntimeError("an attempt escaped its boundary") from error
                stopped = stopped or error
                waiting.clear()
        if stopped is not None:
            raise stopped
        return made

    def _context(self, plan: Plan) -> AttemptContext:
        return AttemptContext(
            task=self._attempts.task.info,
            round=self._settings.round,
            branch=plan.branch,
            depth=plan.depth,
            attempt_seed=plan.attempt_seed,
            world_seed=plan.world_seed,
            parent=self._artifacts[plan.parent],
            evaluation=self._evaluations[plan.parent],
            lineage=tuple(self._lineage(plan.parent)),
            earlier=tuple(self._earlier or ()),
        )

    def _lineage(self, number: int) -> list[Ancestor]:
        path: list[Ancestor] = []
        while number >= 0:
            node = self._view.nodes[number]
            evaluation = self._evaluations[number]
            path.append(
                Ancestor(
                    depth=node.depth,
                    status="unscored" if node.status is None else node.status.value,
                    score=node.score,
                    error_class=node.error_class,
                    message="" if evaluation is None else evaluation.message,
                )
            )
            number = node.parent
        return path[::-1]

    def _reveal(self, plan: Plan, attempt: Attempt) -> VisibleNode:
        evaluation, artifact = attempt.evaluation, attempt.artifact
        node = self._view.reveal(
            plan.parent, evaluation.status, evaluation.score, evaluation.error_class
        )
        self._artifacts.append(self._artifacts[plan.parent] if artifact is None else artifact)
        self._evaluations.append(evaluation)
        if self._earlier is not None:
            done = Earlier.of(plan, self._settings.round, evaluation, artifact, attempt.rationale)
            self._earlier.append(done)
        self._seeds.append(plan.world_seed)
        self._children.append(0)
        self._nodes.append(
            Node(
                id=node.id,
                parent=plan.parent,
                branch=node.branch,
                depth=node.depth,
                batch=plan.batch,
                slot=plan.slot,
                status=evaluation.status,
                score=evaluation.score,
                error_class=evaluation.error_class,
                artifact=None if artifact is None else artifact.hash,
            )
        )
        return node
