"""What is searched and how it is scored: artifacts, evaluations, records, the task protocol."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from daydream.canonical import (
    JsonObject,
    JsonValue,
    clean_json,
    clean_text,
    content_hash,
    dumps,
    listing_hash,
    names_problem,
)
from daydream.errors import TaskError
from daydream.tree import Status

ARTIFACT_FILE = "artifact.json"
MAX_ARTIFACT_BYTES = 64 << 20

Args: TypeAlias = Mapping[str, str]
"""The ``key=value`` part of ``NAME:key=value,...``."""


class Artifact(msgspec.Struct, frozen=True):
    """A set of files: what an agent proposes and an evaluator scores."""

    files: dict[str, bytes]
    """Relative POSIX path -> content. Never changed after construction."""

    def __post_init__(self) -> None:
        problem = names_problem(self.files)
        if problem is not None:
            raise TaskError(problem)

    @property
    def hash(self) -> str:
        """Content hash over names and bytes, in name order."""
        return listing_hash({name: content_hash(data) for name, data in self.files.items()})


def json_artifact(value: object) -> Artifact:
    """Return the artifact whose only file, ``artifact.json``, holds ``value`` as canonical JSON."""
    return Artifact({ARTIFACT_FILE: dumps(value)})


class Evaluation(msgspec.Struct, frozen=True):
    """The verdict on one artifact. Build with :func:`ok` or :func:`failed`."""

    status: Status
    score: float
    """Finite, higher is better; 0 unless ``ok``."""
    error_class: str | None = None
    """One or two words for tables and policies, such as ``overlap``; None when ``ok``."""
    message: str = ""
    """The reason in one sentence, for people and proposers."""
    diagnostics: JsonObject = {}
    """Facts for people and prompts; never used for ranking."""
    feedback: str = ""
    """Text that the evaluator wants the next proposer to read."""


def ok(score: float, *, feedback: str = "", **diagnostics: JsonValue) -> Evaluation:
    """Return a valid evaluation.

    Raises :class:`TaskError` when ``score`` is not a finite float or int (bool is not a number).
    """
    if type(score) not in (int, float) or not math.isfinite(score):
        raise TaskError(f"evaluator scored {score!r} (expected a finite number); fix the evaluator")
    return Evaluation(
        status=Status.OK,
        score=float(score),
        diagnostics=_object(clean_json(diagnostics)),
        feedback=clean_text(feedback, 20_000),
    )


def failed(
    error_class: str,
    message: str,
    *,
    status: Status = Status.INVALID,
    feedback: str = "",
    **diagnostics: JsonValue,
) -> Evaluation:
    """Return a failed evaluation with its reason; ``status`` is any status but ``ok``."""
    if status is Status.OK:
        raise TaskError("failed() was given status ok (expected invalid, error or timeout)")
    return Evaluation(
        status=status,
        score=0.0,
        error_class=clean_text(error_class, 80),
        message=clean_text(message, 4_000),
        diagnostics=_object(clean_json(diagnostics)),
        feedback=clean_text(feedback, 20_000),
    )


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


class Record(msgspec.Struct, frozen=True):
    """A published or own best value, shown beside results and never used to score."""

    value: float
    """In the unit of ``TaskInfo.measure``."""
    source: str
    """Who, where, when."""
    exact: bool | None = None
    """Whether the construction passes this task's own check; None where it is not published."""


class TaskInfo(msgspec.Struct, frozen=True):
    """What the search, the policies and people need to know of a task."""

    name: str
    """Identity: the name and every parameter that changes a number: ``circle-packing:n=26``."""
    title: str
    statement: str
    """The problem as a proposer should read it."""
    evaluator: str
    """Version of the evaluator; scores of different versions are never pooled."""
    policy: str
    """Starting policy spec."""
    agent: str
    """Default discovery agent."""
    measure: str = "score"
    """What people call the number, e.g. ``sum of radii``."""
    goal: Literal["max", "min"] = "max"
    """Which way ``measure`` improves; the stored score is always higher-is-better."""
    transform: Literal["identity", "negate", "reciprocal"] = "identity"
    """How the stored score becomes the measure."""
    scale: float | None = 1.0
    """Score scale s; None asks for the spread of the first finished tree."""
    floor: float | None = None
    noisy: bool = False
    """Scores vary from one evaluation to the next, so none is reused."""
    attempt_cost: str = ""
    """What one attempt of the default agent may spend, in solves or evaluations."""
    records: tuple[Record, ...] = ()
    isolation: tuple[str, ...] = ()
    """What keeps its evaluations from this machine, the strength first; empty where they run no
    program of the user's."""
    folder: str = ""
    """Absolute path of a user's own problem folder; empty for a task that comes with a package."""
    entry: str = ""
    """The file to write where the artifact is a program that runs in the sandbox, or a proof; empty
    where it is data."""


class Task(Protocol):
    """A problem: where the search starts and how an artifact is scored."""

    @property
    def info(self) -> TaskInfo:
        """Facts that do not change for the life of the object."""
        ...

    def root(self) -> Artifact:
        """Return the initial artifact."""
        ...

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Score ``artifact`` from its content alone; never trust a score that it claims.

        May raise anything: the attempt boundary turns it into a failed node.
        """
        ...


@runtime_checkable
class Demanding(Task, Protocol):
    """A task whose evaluations need something that a machine may not have."""

    def ready(self) -> None:
        """Raise :class:`daydream.errors.EnvironmentMissing` with what is missing and how to get it.

        Asked before the first attempt of a run.
        """
        ...


TaskFactory: TypeAlias = Callable[..., Task]
"""Called with the parameters, and with ``sandbox=LEVEL`` where it has such a parameter: it builds a
task that runs programs, and is told what has to isolate them."""


def to_measure(info: TaskInfo, score: float) -> float:
    """Return the number that people speak of, from a stored score of ``info``'s task."""
    match info.transform:
        case "identity":
            return score
        case "negate":
            return -score
        case "reciprocal":
            return 1.0 / score


def read_json(artifact: Artifact, *, limit: int = 16 << 20) -> JsonValue:
    """Return the parsed ``artifact.json``, refusing NaN and infinities.

    Raises :class:`ValueError` with a readable reason.
    """
    data = artifact.files.get(ARTIFACT_FILE)
    if data is None:
        raise ValueError(f"no {ARTIFACT_FILE} (found {sorted(artifact.files)[:5]})")
    if len(data) > limit:
        raise ValueError(f"{ARTIFACT_FILE} has {len(data)} bytes (expected at most {limit})")

    def refuse(token: str) -> float:
        raise ValueError(f"{ARTIFACT_FILE} holds {token} (expected finite numbers)")

    try:
        parsed: JsonValue = json.loads(data, parse_constant=refuse)
    except RecursionError:
        raise ValueError(f"{ARTIFACT_FILE} is nested too deeply") from None
    return parsed


def whole(args: Args, key: str, default: int, *, low: int, high: int) -> int:
    """Return ``args[key]`` as a whole number in [low, high].

    Raises :class:`TaskError` naming the key, the value and the range.
    """
    text = args.get(key, str(default))
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise TaskError(
            f"task parameter {key}={text!r} (expected a whole number from {low} to {high})"
        )
    return int(text)


def choice(args: Args, key: str, default: str, options: tuple[str, ...]) -> str:
    """Return ``args[key]`` when it is one of ``options``; raises :class:`TaskError` otherwise."""
    value = args.get(key, default)
    if value not in options:
        raise TaskError(f"task parameter {key}={value!r} (expected one of {', '.join(options)})")
    return value


def only(name: str, args: Args, *known: str) -> None:
    """Raise :class:`TaskError` when ``args`` holds a key that task ``name`` does not have."""
    extra = sorted(set(args) - set(known))
    if extra:
        expected = ", ".join(known) if known else "none"
        raise TaskError(f"task {name} has no parameter {extra[0]!r} (expected: {expected})")
