"""Episodes of archived reviews: each conversation of a run as a question and its last answer.

The strict score of the run is the score of all its conversations: it is recomputed from the
archive and takes no claim of the run's. Runs that crashed are left out. A step that an agent took
over from another conversation is marked as copied, and no corpus takes it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from daydream.canonical import content_hash
from daydream.errors import StoreError
from daydream.llm.base import Message
from daydream.review.score import STRICT_VERSION, Score, score_strict
from daydream.store.events import Usage
from daydream.store.files import disk_errors
from daydream.tree import Status
from daydream.weights.episodes import Episode, identity
from daydream.weights.import_runs import Harvest

TARGET: Final = 0.8
"""Strict score from which on a review counts as a success."""
TRAJECTORY: Final = "trajectory.json"
LONGEST: Final = 64 << 20


class _Result(msgspec.Struct, frozen=True):
    content: object = ""


class _Observation(msgspec.Struct, frozen=True):
    results: tuple[_Result, ...] = ()


class _Metrics(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None


class _Step(msgspec.Struct, frozen=True):
    source: Literal["system", "user", "agent"]
    message: str = ""
    timestamp: str = ""
    model_name: str | None = None
    observation: _Observation | None = None
    metrics: _Metrics | None = None
    is_copied_context: bool = False
    extra: dict[str, object] | None = None

    @property
    def copied(self) -> bool:
        return self.is_copied_context or bool((self.extra or {}).get("is_copied_context"))


class _Agent(msgspec.Struct, frozen=True):
    name: str = "unknown"
    model_name: str = "unknown"


class _Trajectory(msgspec.Struct, frozen=True):
    session_id: Annotated[str, msgspec.Meta(min_length=1)]
    agent: _Agent = _Agent()
    steps: tuple[_Step, ...] = ()


def is_review(folder: Path) -> bool:
    """Return whether ``folder`` is one archived review."""
    return (folder / "manifest.json").is_file() and (folder / TRAJECTORY).is_file()


def harvest_review(folder: Path) -> Harvest:
    """Return the conversations of the archived review in ``folder`` as episodes.

    Raises :class:`StoreError` for a trajectory that cannot be read.
    """
    found = score_strict(folder)
    forks = sorted((folder / "trajectories").glob("*.json"))
    if found.state == "crashed":
        return Harvest((), {"crashed review": max(1, len(forks))})
    diff = folder / "diff.patch"
    with disk_errors("read", diff):
        reviewed = content_hash(diff.read_bytes() if diff.is_file() else b"")[:12]
    episodes: list[Episode] = []
    silent = 0
    for path in forks:
        episode = _episode(path, reviewed, found)
        if episode is None:
            silent += 1
        else:
            episodes.append(episode)
    return Harvest(tuple(episodes), {"no answer": silent} if silent else {})


def _episode(path: Path, reviewed: str, found: Score) -> Episode | None:
    trajectory = _read(path)
    last = max((n for n, one in enumerate(trajectory.steps) if _answers(one)), default=None)
    if last is None:
        return None
    step, before = trajectory.steps[last], trajectory.steps[:last]
    metrics = step.metrics or _Metrics()
    value = found.composite
    return Episode(
        id=identity("review", trajectory.session_id, path.stem),
        at=step.timestamp,
        source="review",
        task=f"review:diff={reviewed},phase={path.stem}",
        evaluator=STRICT_VERSION,
        stratum=path.stem.partition("-")[0],
        form="chat",
        prompt=_turns(before),
        answer=step.message,
        status=Status.OK if value is not None else Status.INVALID,
        score=value or 0.0,
        solved=value is not None and value >= TARGET,
        error_class=None if value is not None else found.state,
        diagnostics={"correctness": found.correctness, "grounding": found.grounding},
        model=step.model_name or trajectory.agent.model_name,
        usage=Usage(1, metrics.prompt_tokens, metrics.completion_tokens, metrics.cost_usd),
        provenance={"session": trajectory.session_id, "fork": path.stem},
        copied=step.copied,
    )


def _answers(step: _Step) -> bool:
    return step.source == "agent" and bool(step.message.strip())


def _turns(steps: Sequence[_Step]) -> tuple[Message, ...]:
    """Return the conversation before the answer; what tools said follows as a turn of its own."""
    turns: list[Message] = []
    for step in steps:
        if step.message.strip():
            role = "assistant" if step.source == "agent" else step.source
            turns.append(Message(role, step.message))
        said = () if step.observation is None else step.observation.results
        texts = [one.content for one in said if isinstance(one.content, str)]
        if texts:
            turns.append(Message("user", "\n\n".join(texts)))
    return tuple(turns)


def _read(path: Path) -> _Trajectory:
    with disk_errors("read", path):
        if path.stat().st_size > LONGEST:
            raise StoreError(f"{path} has more than {LONGEST} bytes; import the run without it")
        data = path.read_bytes()
    try:
        return msgspec.json.decode(data, type=_Trajectory)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{path} is no trajectory: {error} (expected ATIF, as daydream review archives it); "
            "restore it from a copy"
        ) from None
