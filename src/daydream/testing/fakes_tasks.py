"""Tasks for trying the task contracts: one that keeps them all, and known-bad ones.

The honest task scores three numbers in [0, 1] by their sum. Each fake changes one thing about it
that a hurried author might. ``KNOWN_BAD`` says which check must find each out.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from daydream.canonical import JsonValue
from daydream.tasks.base import (
    ARTIFACT_FILE,
    Artifact,
    Evaluation,
    TaskInfo,
    failed,
    json_artifact,
    ok,
    read_json,
)
from daydream.testing.task_contracts import (
    Check,
    Gold,
    TaskUnderTest,
    check_gives_equal_verdicts_on_equal_artifacts,
    check_leaves_artifacts_alone,
    check_lets_no_hostile_number_through,
    check_never_trusts_a_claim,
    check_refuses_garbage_with_a_reason,
    check_refuses_near_misses_with_a_reason,
    check_scores_gold_as_known,
    check_starts_from_an_artifact_that_it_can_judge,
    check_states_what_the_search_needs,
)
from daydream.tree import Status


class HonestSum:
    """Three numbers in [0, 1], scored by their sum."""

    evaluator = "honest-sum/1"

    @property
    def info(self) -> TaskInfo:
        """Facts of the task."""
        return TaskInfo(
            name="honest-sum",
            title="Three numbers",
            statement='Write {"numbers": [a, b, c]}, each from 0 to 1; the score is their sum.',
            evaluator=self.evaluator,
            policy="parallel_refine-w2-d2",
            agent="scripted",
        )

    def root(self) -> Artifact:
        """Return three zeros."""
        return json_artifact({"numbers": [0, 0, 0]})

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Return the sum, or why there is none."""
        try:
            value = read_json(artifact)
        except ValueError as error:
            return failed("unreadable", str(error))
        numbers = value.get("numbers") if isinstance(value, Mapping) else None
        if not isinstance(numbers, list) or len(numbers) != 3:
            return failed("shape", "artifact.json is not three numbers (expected numbers: a, b, c)")
        return self.judge(numbers)

    def judge(self, numbers: Sequence[JsonValue]) -> Evaluation:
        """Return the sum of three values, of whatever type they are."""
        total = 0.0
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                return failed("type", f"{number!r} is no number (expected numbers only)")
            if not 0 <= number <= 1:
                return failed("range", f"{number!r} is outside 0 to 1")
            total += number
        return ok(total)


class TrustsAClaim(HonestSum):
    """Takes the score that the artifact reports."""

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Return the claim where there is one."""
        found = super().evaluate(artifact)
        if found.status is Status.OK:
            value = read_json(artifact)
            claim = value.get("score") if isinstance(value, Mapping) else None
            return ok(claim) if isinstance(claim, (int, float)) else found
        return found


class TrustsAFile(HonestSum):
    """Reads the score from a file that came with the artifact."""

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Return what ``metrics.json`` says where there is one."""
        found = super().evaluate(artifact)
        metrics = artifact.files.get("metrics.json")
        return found if metrics is None else ok(float(json.loads(metrics)["combined_score"]))


class LetsNaNThrough(HonestSum):
    """Reads leniently and asks whether a number is outside, which NaN never is."""

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Return the sum unless a number is seen to be outside."""
        try:
            value = json.loads(artifact.files[ARTIFACT_FILE])
            numbers = [float(number) for number in value["numbers"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return failed("unreadable", f"cannot read three numbers: {error!r}")
        if any(number < 0 or number > 1 for number in numbers):
            return failed("range", "a number is outside 0 to 1")
        total = sum(numbers)
        return ok(total if math.isfinite(total) else 3.0)


class ScoresInfinity(HonestSum):
    """Builds its evaluation by hand and lets a score through that is no finite number."""

    def judge(self, numbers: Sequence[JsonValue]) -> Evaluation:
        """Return an infinite score for all zeros."""
        found = super().judge(numbers)
        if found.status is Status.OK and found.score == 0:
            return Evaluation(status=Status.OK, score=math.inf)
        return found


class RaisesForGarbage(HonestSum):
    """Expects every artifact to be well-formed."""

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Return the sum of whatever is there, or raise."""
        value = json.loads(artifact.files[ARTIFACT_FILE])
        return self.judge(value["numbers"])


class FailsSilently(HonestSum):
    """Refuses without saying why."""

    def judge(self, numbers: Sequence[JsonValue]) -> Evaluation:
        """Return a failure without a message."""
        found = super().judge(numbers)
        return found if found.status is Status.OK else failed(found.error_class or "", "")


class KeepsTheScoreOfFailures(HonestSum):
    """Leaves a score on what it refuses."""

    def judge(self, numbers: Sequence[JsonValue]) -> Evaluation:
        """Return a failure with a score."""
        found = super().judge(numbers)
        if found.status is Status.OK:
            return found
        return Evaluation(Status.INVALID, 0.5, error_class="range", message="half the points")


class AllowsATolerance(HonestSum):
    """Accepts what is nearly within bounds."""

    def judge(self, numbers: Sequence[JsonValue]) -> Evaluation:
        """Return the sum of the numbers, cut to 0 to 1 where they are near it."""
        near = [
            min(1.0, max(0.0, number))
            if isinstance(number, float) and -1e-6 <= number <= 1 + 1e-6
            else number
            for number in numbers
        ]
        return super().judge(near)


class CountsItsCalls(HonestSum):
    """Scores a little higher each time it is asked."""

    def __init__(self) -> None:
        self._calls = 0

    def judge(self, numbers: Sequence[JsonValue]) -> Evaluation:
        """Return the sum and a bonus for the time of day."""
        self._calls += 1
        found = super().judge(numbers)
        return ok(found.score + self._calls * 1e-14) if found.status is Status.OK else found


class RemembersTheBest(HonestSum):
    """Judges an artifact by what came before it."""

    def __init__(self) -> None:
        self._best = 0.0

    def judge(self, numbers: Sequence[JsonValue]) -> Evaluation:
        """Return ``invalid`` for what is worse than the best so far."""
        found = super().judge(numbers)
        if found.score < self._best:
            return failed("worse", f"{found.score} is below the best so far, {self._best}")
        self._best = max(self._best, found.score)
        return found


class CleansTheArtifact(HonestSum):
    """Writes the parsed form back into the artifact."""

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Return the sum and leave a note behind."""
        found = super().evaluate(artifact)
        artifact.files["log.txt"] = found.status.value.encode()
        return found


class DependsOnTheBuild(HonestSum):
    """States another evaluator version each time it is built."""

    _builds = 0

    def __init__(self) -> None:
        DependsOnTheBuild._builds += 1
        self.evaluator = f"honest-sum/{DependsOnTheBuild._builds}"


class OffByOne(HonestSum):
    """Forgets the last number."""

    def judge(self, numbers: Sequence[JsonValue]) -> Evaluation:
        """Return the sum of the first two."""
        found = super().judge(numbers)
        return found if found.status is not Status.OK else super().judge([*numbers[:2], 0])


def under_test(supply: Callable[[], HonestSum]) -> TaskUnderTest:
    """Return ``supply`` with artifacts of known worth for the sum of three numbers."""
    gold = json_artifact({"numbers": [0.5, 0.25, 1]})
    misses: list[object] = [
        {"numbers": [0.5, 0.25, 1.0000001]},
        {"numbers": [0.5, 0.25]},
        {"numbers": [0.5, 0.25, True]},
        {"numbers": "1, 1, 1"},
    ]
    return TaskUnderTest(
        supply=supply,
        gold=(Gold(gold, 1.75),),
        refused=tuple(json_artifact(miss) for miss in misses),
    )


HONEST: Final = under_test(HonestSum)
KNOWN_BAD: Final[Mapping[type[HonestSum], Check]] = {
    DependsOnTheBuild: check_states_what_the_search_needs,
    ScoresInfinity: check_starts_from_an_artifact_that_it_can_judge,
    OffByOne: check_scores_gold_as_known,
    AllowsATolerance: check_refuses_near_misses_with_a_reason,
    FailsSilently: check_refuses_near_misses_with_a_reason,
    KeepsTheScoreOfFailures: check_refuses_near_misses_with_a_reason,
    RaisesForGarbage: check_refuses_garbage_with_a_reason,
    TrustsAClaim: check_never_trusts_a_claim,
    TrustsAFile: check_never_trusts_a_claim,
    LetsNaNThrough: check_lets_no_hostile_number_through,
    CountsItsCalls: check_gives_equal_verdicts_on_equal_artifacts,
    RemembersTheBest: check_gives_equal_verdicts_on_equal_artifacts,
    CleansTheArtifact: check_leaves_artifacts_alone,
}
"""A task that only looks right -> the check that must find it out."""
