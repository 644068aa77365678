"""The records of a journal: what happened in a run, in order, one frozen struct an event.

Every record carries ``event`` (its kind), ``schema_version`` and ``at`` (UTC, ISO 8601; the journal
stamps it). Times and durations are kept here and nowhere else in a run. ``JOURNAL_VERSION`` goes up
when an older reader would misread a record; a new field with a default is no such change.
"""

from typing import TYPE_CHECKING

import msgspec

from daydream.tree import Eligibility, Status

if TYPE_CHECKING:
    from daydream.canonical import JsonObject
else:
    # msgspec cannot build a decoder from the recursive alias; the values are the same.
    JsonObject = dict[str, object]

JOURNAL_VERSION = 1


class Usage(msgspec.Struct, frozen=True):
    """What requests to models cost."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """None where no price is known; never 0 in its place."""

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum; a cost is known as soon as one of the two is."""
        known = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=sum(known) if known else None,
        )


class Measured(msgspec.Struct, frozen=True):
    """What one evaluation, or one attempt, took on this machine."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    layers: tuple[str, ...] = ()
    """The isolation in force; empty when nothing ran in a sandbox."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of all records."""

    at: str = ""
    """Set by the journal when the record is appended."""
    schema_version: int = JOURNAL_VERSION


class RunStarted(Event, frozen=True, kw_only=True, tag="run_started"):
    """First record of a journal."""

    task: str
    evaluator: str
    seed: int
    config: JsonObject
    """The resolved configuration, as in ``run.toml``."""
    versions: dict[str, str] = {}
    """Name -> version of what could change a number: daydream, python, numpy and so on."""


class RunResumed(Event, frozen=True, kw_only=True, tag="run_resumed"):
    """A process took the run up again; attempts dispatched and not finished before it are lost."""

    versions: dict[str, str] = {}


class RoundStarted(Event, frozen=True, kw_only=True, tag="round_started"):
    """A rollout begins, with everything that its tree file states beside the nodes."""

    round: int
    policy: str
    """Full name of the spec."""
    spec: JsonObject
    limit: int
    seed: int
    evaluator: str
    """A change of it starts a new pool: no evaluation before it is reused after it."""
    root: str | None = None
    """Artifact hash of the root."""
    scale: float | None = None
    """Score scale; None while it is still to be taken from the first finished tree."""
    eligibility: Eligibility = "chain"


class Judged(Event, frozen=True, kw_only=True):
    """Base of the records that hold an evaluator's verdict."""

    status: Status
    score: float
    """Finite, higher is better; 0 unless ``ok``."""
    error_class: str | None = None
    message: str = ""
    diagnostics: JsonObject = {}
    feedback: str = ""
    measured: Measured = Measured()


class RootEvaluated(Judged, frozen=True, kw_only=True, tag="root_evaluated"):
    """The verdict on a root. No call: it counts in no budget of attempts."""

    round: int
    artifact: str


class AttemptDispatched(Event, frozen=True, kw_only=True, tag="attempt_dispatched"):
    """One attempt was handed out. Dispatched again after a crash, it is the same attempt."""

    round: int
    batch: int
    slot: int
    parent: int
    branch: int
    depth: int
    attempt_seed: int


class AttemptFinished(Judged, frozen=True, kw_only=True, tag="attempt_finished"):
    """One call, done: the node it made and what the evaluator said."""

    round: int
    batch: int
    slot: int
    node: int
    """Id in the tree."""
    parent: int
    branch: int
    depth: int
    artifact: str | None = None
    """Content hash; None when the agent made nothing."""
    rationale: str = ""
    notes: JsonObject = {}
    """The agent's facts of how the artifact was made."""
    reused: bool = False
    """The evaluation is that of an earlier identical artifact."""
    usage: Usage = Usage()


class UsageSpent(Event, frozen=True, kw_only=True, tag="usage_spent"):
    """Model requests that no finished attempt reports (yet).

    With ``batch`` and ``slot`` it is what an attempt in flight has spent so far: the attempt's own
    usage replaces it, and a crash turns it into lost usage. Without, it is spent for good, for
    instance by a policy developer.
    """

    round: int
    purpose: str
    usage: Usage
    batch: int | None = None
    slot: int | None = None


class RevisionMade(Event, frozen=True, kw_only=True, tag="revision_made"):
    """A model proposed a policy, or failed to: paid for, so never asked for again."""

    round: int
    dream: str
    """Hash of everything that the questions of this dream follow from."""
    number: int
    """From 1."""
    artifact: str
    """Content hash of the answer and of what was taken from it."""
    problem: str = ""
    """Why the answer holds no policy; empty where it does."""


class TreeFinished(Event, frozen=True, kw_only=True, tag="tree_finished"):
    """A rollout ended and ``history/NNN.json`` holds its tree: the tree may join the pool."""

    round: int
    attempts: int
    batches: int
    off_record: int
    best: float | None
    """Greatest ``ok`` score among the attempts."""
    tree: str
    """Content hash of the file."""


class SelectionMade(Event, frozen=True, kw_only=True, tag="selection_made"):
    """A policy was deployed, or kept."""

    round: int
    """Round after which the selection was made."""
    deployed: str
    spec: JsonObject
    report: JsonObject = {}


class Stopped(Event, frozen=True, kw_only=True, tag="stopped"):
    """The run ended before its last round; it can be resumed."""

    reason: str


class RunFinished(Event, frozen=True, kw_only=True, tag="run_finished"):
    """Every round was played."""


AnyEvent = (
    RunStarted
    | RunResumed
    | RoundStarted
    | RootEvaluated
    | AttemptDispatched
    | AttemptFinished
    | UsageSpent
    | RevisionMade
    | TreeFinished
    | SelectionMade
    | Stopped
    | RunFinished
)

DURABLE: tuple[type[Event], ...] = (
    RunStarted,
    RootEvaluated,
    AttemptFinished,
    UsageSpent,
    RevisionMade,
    TreeFinished,
    SelectionMade,
)
"""Records that are on the disk, and everything before them, when ``append`` returns."""
