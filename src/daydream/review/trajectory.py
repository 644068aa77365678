"""What happened in a review, step by step, in the Agent Trajectory Interchange Format (ATIF 1.7).

One trajectory a fork (one reviewer, the verifier, one group of fixes), and one of the whole run,
which names the forks. Only the fields that we write; readers ignore what they do not know.
"""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from daydream.canonical import JsonObject
from daydream.store.events import Usage

SCHEMA: Final = "ATIF-v1.7"


class Call(msgspec.Struct, frozen=True):
    """One use of a tool."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, object]


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tool answered."""

    source_call_id: str
    content: str


class Observation(msgspec.Struct, frozen=True):
    """The answers of one step's tools."""

    results: tuple[Result, ...]


class Metrics(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one model call used."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn."""

    step_id: int
    timestamp: str
    source: Literal["system", "user", "agent"]
    message: str
    model_name: str | None = None
    tool_calls: tuple[Call, ...] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    extra: dict[str, object] | None = None


class Agent(msgspec.Struct, frozen=True):
    """Who acted."""

    name: str
    version: str
    model_name: str


class FinalMetrics(msgspec.Struct, frozen=True):
    """Sums; written only when the run came to its end."""

    total_prompt_tokens: int
    total_completion_tokens: int
    total_cost_usd: float | None
    total_steps: int


class Trajectory(msgspec.Struct, frozen=True, omit_defaults=True):
    """One trajectory."""

    session_id: str
    agent: Agent
    steps: tuple[Step, ...]
    schema_version: str = ""
    trajectory_id: str | None = None
    final_metrics: FinalMetrics | None = None
    extra: dict[str, object] | None = None


class Fork:
    """Takes down one conversation. Used by one thread."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.name = name
        self._clock = clock
        self.steps: list[Step] = []
        self.usage = Usage()

    def add(
        self,
        source: Literal["system", "user", "agent"],
        message: str,
        *,
        model: str = "",
        calls: tuple[Call, ...] = (),
        usage: Usage | None = None,
        extra: JsonObject | None = None,
    ) -> None:
        """Add one step."""
        metrics = None
        if usage is not None:
            self.usage += usage
            metrics = Metrics(usage.input_tokens, usage.output_tokens, usage.cost_usd)
        self.steps.append(
            Step(
                step_id=len(self.steps) + 1,
                timestamp=stamp(self._clock()),
                source=source,
                message=message,
                model_name=model or None,
                tool_calls=calls or None,
                metrics=metrics,
                extra=None if extra is None else dict(extra),
            )
        )

    def observe(self, results: tuple[Result, ...]) -> None:
        """Give the answers of the tools that the last step called."""
        self.steps[-1] = msgspec.structs.replace(self.steps[-1], observation=Observation(results))


class Recorder:
    """All forks of one review; threads open forks side by side."""

    def __init__(self, session: str, agent: Agent, clock: Callable[[], float]) -> None:
        self.session = session
        self.agent = agent
        self._clock = clock
        self._guard = threading.Lock()
        self.forks: list[Fork] = []

    def fork(self, name: str) -> Fork:
        """Begin the trajectory of ``name``."""
        made = Fork(name, self._clock)
        with self._guard:
            self.forks.append(made)
        return made

    @property
    def usage(self) -> Usage:
        """What all forks used so far."""
        with self._guard:
            return sum((fork.usage for fork in self.forks), start=Usage())

    def of_fork(self, fork: Fork) -> Trajectory:
        """Return one fork's trajectory."""
        return Trajectory(
            schema_version=SCHEMA,
            session_id=self.session,
            trajectory_id=fork.name,
            agent=self.agent,
            steps=tuple(fork.steps),
            extra={"phase": fork.name},
        )

    def whole(self, *, ended: bool, phases: list[JsonObject]) -> Trajectory:
        """Return the trajectory of the run: its forks in order, final metrics once it ended."""
        with self._guard:
            forks = list(self.forks)
        steps: list[Step] = []
        for fork in forks:
            for step in fork.steps:
                extra = {**(step.extra or {}), "daydream_phase": fork.name}
                steps.append(msgspec.structs.replace(step, step_id=len(steps) + 1, extra=extra))
        usage = self.usage
        return Trajectory(
            schema_version=SCHEMA,
            session_id=self.session,
            agent=self.agent,
            steps=tuple(steps),
            final_metrics=FinalMetrics(
                usage.input_tokens, usage.output_tokens, usage.cost_usd, len(steps)
            )
            if ended
            else None,
            extra={
                "phase_events": list(phases),
                "subtrajectories": [f"trajectories/{fork.name}.json" for fork in forks],
            },
        )


def stamp(seconds: float) -> str:
    """Return seconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
