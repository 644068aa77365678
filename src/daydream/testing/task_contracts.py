"""What every task must keep, as checks that a plug-in author runs on his own.

Each check takes a :class:`TaskUnderTest` and raises ``AssertionError`` saying which promise is
broken. With pytest::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_task_keeps_each_promise(check):
        check(TaskUnderTest(supply=my_task, gold=(Gold(artifact, 1.5),), refused=(...,)))

The tasks in :mod:`daydream.testing.fakes_tasks` break one promise each.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from daydream.canonical import JsonValue
from daydream.tasks.base import ARTIFACT_FILE, Artifact, Evaluation, Task
from daydream.tree import Status


class Gold(msgspec.Struct, frozen=True):
    """An artifact whose score is known from elsewhere than the task."""

    artifact: Artifact
    score: float
    tolerance: float = 1e-12
    """Allowed difference, relative to max(1, |score|)."""


class TaskUnderTest(msgspec.Struct, frozen=True):
    """A task with artifacts of known worth."""

    supply: Callable[[], Task]
    """Builds the task anew on each call."""
    gold: tuple[Gold, ...] = ()
    refused: tuple[Artifact, ...] = ()
    """Near misses and attacks: each must fail with a reason."""


CLAIMS: Final = {
    "score": 1e9,
    "combined_score": 1e9,
    "claimed": 1e9,
    "reported": 1e9,
    "value": 1e9,
    "valid": True,
}
"""What a dishonest artifact may say about itself."""

_RAW: Final[Sequence[bytes]] = (
    b"",
    b"\x00",
    b"\xff\xfe\xfd",
    b"{",
    b"[1, 2",
    b"null",
    b"true",
    b"NaN",
    b"-Infinity",
    b"[NaN]",
    b"1e999",
    b"[1e999]",
    b'"text"',
    b"{}",
    b"[]",
    b"[[]]",
    b"[null]",
    b"[[null, null]]",
    b"1" * 5_000,
    b"[" * 100_000,
    b'{"a":' * 50_000,
)
GARBAGE: Final[tuple[Artifact, ...]] = (
    Artifact({}),
    Artifact({"other.txt": b"nothing to see"}),
    *(Artifact({ARTIFACT_FILE: data}) for data in _RAW),
)
"""Artifacts that no task with an ``artifact.json`` can take for an answer."""

_HOSTILE: Final[Sequence[str]] = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
    "1e308",
    "-1",
    "1.5",
    "true",
    "null",
    '"1"',
    "[]",
    "{}",
    "9" * 400,
)
_NEVER_OK: Final = _HOSTILE[:5]
_MARK: Final = "a8f1 hostile 37c2"
MAX_SPOTS: Final = 6
"""Numbers of one artifact that are replaced by each hostile token, spread over the artifact."""


def check_states_what_the_search_needs(subject: TaskUnderTest) -> None:
    """Identity, statement, evaluator version, policy and agent are there, and equal each time."""
    info, again = subject.supply().info, subject.supply().info
    _require(info == again, f"two builds of {info.name} differ in what they state")
    # Who writes a program is for the user to say.
    named = ("name", "title", "statement", "evaluator", "policy", "measure")
    for field in named if info.entry else (*named, "agent"):
        value = str(getattr(info, field))
        _require(value == value.strip() != "", f"{info.name} states no {field} ({value!r})")
    scale, floor = info.scale, info.floor
    _require(
        scale is None or (math.isfinite(scale) and scale > 0),
        f"{info.name} has score scale {scale!r}, which is not a finite number above 0",
    )
    _require(floor is None or math.isfinite(floor), f"{info.name} has floor {floor!r}")


def check_starts_from_an_artifact_that_it_can_judge(subject: TaskUnderTest) -> None:
    """The root is the same artifact each time, and evaluating it gives a sound verdict."""
    task = subject.supply()
    _require(task.root().hash == subject.supply().root().hash, "the root differs between builds")
    _sound(_judged(task, task.root(), "the root"), "the root")


def check_scores_gold_as_known(subject: TaskUnderTest) -> None:
    """An artifact of known worth is ``ok`` with that score."""
    task = subject.supply()
    for number, gold in enumerate(subject.gold):
        found = _judged(task, gold.artifact, f"gold {number}")
        _sound(found, f"gold {number}")
        _require(
            found.status is Status.OK,
            f"gold {number} is {found.status.value}: {found.error_class}, {found.message}",
        )
        slack = gold.tolerance * max(1.0, abs(gold.score))
        _require(
            abs(found.score - gold.score) <= slack,
            f"gold {number} scores {found.score!r}, known as {gold.score!r}",
        )


def check_refuses_near_misses_with_a_reason(subject: TaskUnderTest) -> None:
    """A near miss or an attack fails, and says why."""
    task = subject.supply()
    for number, artifact in enumerate(subject.refused):
        found = _judged(task, artifact, f"near miss {number}")
        _refused(found, f"near miss {number}")


def check_refuses_garbage_with_a_reason(subject: TaskUnderTest) -> None:
    """Garbage gives a failed evaluation with a reason, never an exception."""
    task = subject.supply()
    for number, artifact in enumerate(GARBAGE):
        _refused(_judged(task, artifact, f"garbage {number}"), f"garbage {number}")


def check_never_trusts_a_claim(subject: TaskUnderTest) -> None:
    """What an artifact says about its own score changes nothing, or gets it refused."""
    task = subject.supply()
    for number, artifact in enumerate(_starting_points(subject)):
        honest = _judged(task, artifact, f"artifact {number}")
        for claimed in _with_claims(artifact):
            found = _judged(task, claimed, f"artifact {number} with a claim")
            _sound(found, f"artifact {number} with a claim")
            _require(
                found.status is not Status.OK
                or (honest.status is Status.OK and found.score == honest.score),
                f"artifact {number} scores {honest.score!r}, and {found.score!r} with a claim",
            )


def check_lets_no_hostile_number_through(subject: TaskUnderTest) -> None:
    """NaN or infinity in the place of a number is refused; other swaps get a sound verdict."""
    task = subject.supply()
    for number, artifact in enumerate(_starting_points(subject)):
        for token, changed in _with_hostile_numbers(artifact):
            what = f"artifact {number} with {token:.12} for a number"
            found = _judged(task, changed, what)
            _sound(found, what)
            if token in _NEVER_OK:
                _refused(found, what)


def check_gives_equal_verdicts_on_equal_artifacts(subject: TaskUnderTest) -> None:
    """The verdict depends on the artifact alone: not on the build or on what came before."""
    task, other = subject.supply(), subject.supply()
    if task.info.noisy:
        return
    artifacts = [*_starting_points(subject), *subject.refused]
    first = [_judged(task, artifact, "an artifact") for artifact in artifacts]
    for artifact in (*GARBAGE[:4], *reversed(artifacts)):
        _judged(task, artifact, "an artifact")
    for number, artifact in enumerate(artifacts):
        for judge in (task, other):
            found = _judged(judge, artifact, f"artifact {number}")
            _require(
                _verdict(found) == _verdict(first[number]),
                f"artifact {number} was {_verdict(first[number])}, then {_verdict(found)}",
            )


def check_leaves_artifacts_alone(subject: TaskUnderTest) -> None:
    """Evaluating changes neither the artifact nor what the task hands out as its root."""
    task = subject.supply()
    root = task.root().hash
    for number, artifact in enumerate([*_starting_points(subject), *subject.refused]):
        before = dict(artifact.files)
        _judged(task, artifact, f"artifact {number}")
        _require(artifact.files == before, f"evaluating changed artifact {number}")
    _require(task.root().hash == root, "evaluating changed the root")


Check: TypeAlias = Callable[[TaskUnderTest], None]

CHECKS: Final[tuple[Check, ...]] = (
    check_states_what_the_search_needs,
    check_starts_from_an_artifact_that_it_can_judge,
    check_scores_gold_as_known,
    check_refuses_near_misses_with_a_reason,
    check_refuses_garbage_with_a_reason,
    check_never_trusts_a_claim,
    check_lets_no_hostile_number_through,
    check_gives_equal_verdicts_on_equal_artifacts,
    check_leaves_artifacts_alone,
)


def _require(kept: bool, problem: str) -> None:
    if not kept:
        raise AssertionError(f"{problem} (expected the promise in the check's docstring)")


def _judged(task: Task, artifact: Artifact, what: str) -> Evaluation:
    try:
        return task.evaluate(artifact)
    except Exception as error:
        _require(False, f"evaluating {what} raised {type(error).__name__}: {error}")
        raise


def _sound(found: Evaluation, what: str) -> None:
    _require(math.isfinite(found.score), f"{what} scores {found.score!r}")
    if found.status is Status.OK:
        _require(found.error_class is None, f"{what} is ok with error {found.error_class!r}")
    else:
        _require(found.score == 0, f"{what} failed with score {found.score!r}, not 0")
        _require(bool(found.error_class and found.message), f"{what} failed without a reason")


def _refused(found: Evaluation, what: str) -> None:
    _sound(found, what)
    _require(found.status is not Status.OK, f"{what} was accepted with {found.score!r}")


def _verdict(found: Evaluation) -> tuple[str, float, str | None]:
    return found.status.value, found.score, found.error_class


def _starting_points(subject: TaskUnderTest) -> list[Artifact]:
    return [subject.supply().root(), *(gold.artifact for gold in subject.gold)]


def _parsed(artifact: Artifact) -> JsonValue:
    data = artifact.files.get(ARTIFACT_FILE)
    if data is None:
        return None
    value: JsonValue = json.loads(data)
    return value


def _with_claims(artifact: Artifact) -> Iterator[Artifact]:
    claim = json.dumps(CLAIMS).encode()
    extra = {"score.json": claim, "metrics.json": claim, "correct.json": b'{"correct": true}'}
    yield Artifact({**artifact.files, **extra})
    value = _parsed(artifact)
    if isinstance(value, dict):
        for key, claimed in CLAIMS.items():
            if key not in value:
                yield _with_json(artifact, {**value, key: claimed})
        yield _with_json(artifact, {**CLAIMS, **value})


def _with_json(artifact: Artifact, value: object) -> Artifact:
    return Artifact({**artifact.files, ARTIFACT_FILE: json.dumps(value).encode()})


def _with_hostile_numbers(artifact: Artifact) -> Iterator[tuple[str, Artifact]]:
    value = _parsed(artifact)
    count = sum(1 for _ in _numbers(value))
    spots = sorted({round(i * (count - 1) / MAX_SPOTS) for i in range(MAX_SPOTS + 1)})
    for spot in spots if count else []:
        text = json.dumps(_marked(value, spot))
        for token in _HOSTILE:
            data = text.replace(f'"{_MARK}"', token).encode()
            yield token, Artifact({**artifact.files, ARTIFACT_FILE: data})


def _numbers(value: JsonValue) -> Iterator[float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def _marked(value: JsonValue, spot: int) -> JsonValue:
    """Return ``value`` with its number ``spot``, in reading order, replaced by the mark."""
    left = [spot]

    def walk(part: JsonValue) -> JsonValue:
        if isinstance(part, dict):
            return {key: walk(item) for key, item in part.items()}
        if isinstance(part, list):
            return [walk(item) for item in part]
        if isinstance(part, (int, float)) and not isinstance(part, bool):
            left[0] -= 1
            return _MARK if left[0] == -1 else part
        return part

    return walk(value)
