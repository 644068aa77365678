"""Fixed exploration against dreaming: the same task, agent, evaluator, round-1 policy and seeds.

Each arm pays its own round 1. Attempts that both arms make in the same place of the same round have
the same seed, so a pair differs by its policies alone.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from daydream.config import RunSettings
from daydream.errors import Stopped, UsageError
from daydream.intervals import Interval, interval
from daydream.launch import (
    Prepared,
    Request,
    config_json,
    prepare,
    resume_with_info,
    start,
)
from daydream.objective import MARGIN
from daydream.online import Attempts
from daydream.rounds import Surroundings, workers_of
from daydream.store.run_folder import JOURNAL, REPLIES, RunFolder
from daydream.summaries import RunResult
from daydream.tasks.base import TaskInfo
from daydream.tree import Status, Tree


class ArmRound(msgspec.Struct, frozen=True):
    """One round of one arm."""

    round: int
    calls: int
    """Attempts of this round."""
    cum: int
    """Attempts up to and with this round."""
    best: float | None
    """Best score so far in this arm."""
    round_best: float | None
    """Best score of this round alone."""
    policy: str
    """Full name of the spec that ran."""


class Arm(msgspec.Struct, frozen=True):
    """One arm of one pair."""

    rounds: tuple[ArmRound, ...]
    curve: tuple[tuple[int, float], ...]
    """(calls, best score so far) at each improvement, calls counted over all rounds."""

    @property
    def calls(self) -> int:
        """Attempts in all rounds."""
        return self.rounds[-1].cum if self.rounds else 0


class Pair(msgspec.Struct, frozen=True):
    """Both arms under one seed."""

    seed: int
    fixed: Arm
    dream: Arm


class Summary(msgspec.Struct, frozen=True):
    """Paired differences over seeds, of scores: higher is better whatever the measure."""

    calls_saved: Interval
    """Fixed minus dream."""
    quality_lost: Interval
    """Best score of fixed minus best score of dream, over all rounds."""
    last_round_lost: Interval
    """The same for the last round alone."""
    calls_to_fixed_best: Interval
    """Dream's calls to reach fixed's final best minus fixed's own, among pairs in which it does."""
    reached: int
    """Pairs in which dream reaches fixed's final best."""
    best_at_equal_calls: Interval
    """Dream's best score minus fixed's, at the smaller of both totals."""
    wins: int
    """Pairs in which dream's final best is higher."""
    ties: int
    losses: int


class TaskComparison(msgspec.Struct, frozen=True):
    """One task: the first pair in full, every pair, and the summary where there are several."""

    task: str
    measure: str
    goal: str
    """``max`` or ``min``: which way the measure improves."""
    pairs: tuple[Pair, ...]
    summary: Summary | None = None


def best_after(arm: Arm, calls: int) -> float | None:
    """Return the best score of ``arm`` within its first ``calls`` attempts."""
    reached = [score for at, score in arm.curve if at <= calls]
    return reached[-1] if reached else None


def calls_to(arm: Arm, score: float) -> int | None:
    """Return the number of attempts after which ``arm`` first reached ``score``, or None."""
    return next((at for at, best in arm.curve if best >= score), None)


def final_best(arm: Arm) -> float | None:
    """Return the best score of ``arm``."""
    return arm.curve[-1][1] if arm.curve else None


def summarise(pairs: Sequence[Pair]) -> Summary:
    """Return the paired differences of ``pairs``; pairs without any success count as equal."""
    lost: list[float] = []
    last: list[float] = []
    equal: list[float] = []
    calls: list[float] = []
    for pair in pairs:
        fixed, dream = final_best(pair.fixed), final_best(pair.dream)
        lost.append(_difference(fixed, dream))
        last.append(_difference(pair.fixed.rounds[-1].round_best, pair.dream.rounds[-1].round_best))
        shared = min(pair.fixed.calls, pair.dream.calls)
        equal.append(_difference(best_after(pair.dream, shared), best_after(pair.fixed, shared)))
        if fixed is not None:
            mine, theirs = calls_to(pair.dream, fixed), calls_to(pair.fixed, fixed)
            if mine is not None and theirs is not None:
                calls.append(float(mine - theirs))
    return Summary(
        calls_saved=interval([float(p.fixed.calls - p.dream.calls) for p in pairs]),
        quality_lost=interval(lost),
        last_round_lost=interval(last),
        calls_to_fixed_best=interval(calls),
        reached=len(calls),
        best_at_equal_calls=interval(equal),
        wins=sum(value < -MARGIN for value in lost),
        ties=sum(abs(value) <= MARGIN for value in lost),
        losses=sum(value > MARGIN for value in lost),
    )


def _difference(left: float | None, right: float | None) -> float:
    return 0.0 if left is None or right is None else left - right


def arm_of(result: RunResult, trees: Sequence[Tree]) -> Arm:
    """Return the arm that a run amounts to; its curve counts attempts in tree order."""
    curve: list[tuple[int, float]] = []
    calls = 0
    for tree in trees:
        for node in tree.nodes[1:]:
            calls += 1
            if node.status is Status.OK and (not curve or node.score > curve[-1][1]):
                curve.append((calls, node.score))
    rounds = tuple(
        ArmRound(one.round, one.calls, one.cum, one.best, one.round_best, one.policy)
        for one in result.rounds
    )
    return Arm(rounds, tuple(curve))


class Comparing(msgspec.Struct, frozen=True):
    """One comparison to make."""

    source: str
    settings: RunSettings
    seeds: Sequence[int]
    out: Path
    """Folder of the pairs' run folders; runs found there are continued, not repeated."""
    trust: bool = False


def compare_task(
    asked: Comparing, surroundings: Surroundings, on_arm: Callable[[int, str], None]
) -> TaskComparison:
    """Play both arms for every seed and return the comparison.

    ``on_arm`` hears the seed and the arm that begin. Raises :class:`Stopped` when a budget or an
    interrupt ended an arm: what is done is kept in ``asked.out``, and the same call continues.
    """
    pairs: list[Pair] = []
    info: TaskInfo | None = None
    for seed in asked.seeds:
        settings = msgspec.structs.replace(asked.settings, seed=seed)
        request = Request(asked.source, settings, None, asked.trust)
        prepared = prepare(request)
        info = prepared.task.info
        arms: dict[str, Arm] = {}
        # A question that both arms ask in one place gets one answer.
        shared = msgspec.structs.replace(surroundings, replies=asked.out / f"seed-{seed}" / REPLIES)
        with Attempts(
            prepared.task, prepared.agent, workers=workers_of(settings), share=True
        ) as attempts:
            for name in ("fixed", "dream"):
                on_arm(seed, name)
                arm_settings = settings
                if name == "fixed":
                    arm_settings = msgspec.structs.replace(
                        settings, dreamer="none", explore_margin=0
                    )
                folder = asked.out / f"seed-{seed}" / name
                arm_request = Request(asked.source, arm_settings, folder, asked.trust)
                arms[name] = _play_arm(arm_request, attempts, shared)
        pairs.append(Pair(seed, arms["fixed"], arms["dream"]))
    if info is None:
        raise UsageError("compare was given no seeds (expected such as --seeds 0-9)")
    return TaskComparison(
        task=info.name,
        measure=info.measure,
        goal=info.goal,
        pairs=tuple(pairs),
        summary=summarise(pairs) if len(pairs) > 1 else None,
    )


def _play_arm(request: Request, attempts: Attempts, surroundings: Surroundings) -> Arm:
    prepared = prepare(request)
    folder = request.out
    if folder is None:
        raise UsageError("an arm needs a run folder (expected Request.out)")
    if (folder / JOURNAL).exists():
        _check_same(folder, prepared)
        result, _ = resume_with_info(
            folder, trust=request.trust, surroundings=surroundings, attempts=attempts
        )
    else:
        result = start(request, prepared, surroundings, attempts=attempts)
    if result.stopped is not None:
        raise Stopped(result.stopped, exit_code=result.exit_code)
    with RunFolder.open(folder) as opened:
        return arm_of(result, opened.trees())


def _check_same(folder: Path, prepared: Prepared) -> None:
    with RunFolder.open(folder) as opened:
        found = opened.config()
    wanted = config_json(prepared)
    for key in ("task", "evaluator", "spec", "settings"):
        if found.get(key) != wanted[key]:
            raise UsageError(
                f"{folder} holds another run: its {key} is {found.get(key)!r} (expected "
                f"{wanted[key]!r}); choose another --out"
            )
