"""Attempts in a worker process: what :mod:`daydream.sandbox.worker_child` calls."""

import time

import msgspec

from daydream.agents.base import AttemptContext, DiscoveryAgent, Proposal
from daydream.agents.load import load_agent
from daydream.tasks.base import Artifact, Evaluation, Task
from daydream.tasks.load import load_task

SETUP = "daydream.agents.process:setup"
PROPOSE = "daydream.agents.process:propose"
EVALUATE = "daydream.agents.process:evaluate"


class Pair(msgspec.Struct, frozen=True):
    """What a worker holds."""

    task: Task
    agent: DiscoveryAgent


class Timed(msgspec.Struct, frozen=True):
    """An answer and the CPU seconds that it took."""

    value: Proposal | Evaluation
    cpu_s: float


def setup(task: str, agent: str) -> Pair:
    """Build the task and the agent from their names."""
    built = load_task(task)
    return Pair(built, load_agent(agent, built.info))


def propose(pair: Pair, context: AttemptContext) -> Timed:
    """Return the agent's proposal."""
    start = time.process_time()
    return Timed(pair.agent.propose(context), time.process_time() - start)


def evaluate(pair: Pair, artifact: Artifact) -> Timed:
    """Return the task's evaluation."""
    start = time.process_time()
    return Timed(pair.task.evaluate(artifact), time.process_time() - start)
