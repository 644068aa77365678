"""The cycles of the weights line: from night to night, what was asked, built, trained, decided."""

from collections.abc import Sequence

import msgspec

from daydream.weights.bank import Bank
from daydream.weights.episodes import Episode
from daydream.weights.home import Home
from daydream.weights.night import Night, nights_of


class Cycle(msgspec.Struct, frozen=True, kw_only=True):
    """One wake, as far as the next night's corpus saw it, and that night."""

    number: str
    at: str
    attempts: int
    """New in the bank since the night before."""
    solved: int
    tokens: int
    """Of these attempts and of the candidate's answers at the gate."""
    cost_usd: float | None
    """Of the same; None where no price is known."""
    successes: int
    contrasts: int
    train_seconds: float
    incumbent: float
    """Solve rates on the probe set."""
    candidate: float
    decision: str


def cycles_of(place: Home) -> list[Cycle]:
    """Return the finished cycles in order."""
    with Bank(place.bank) as bank:
        episodes = list(bank.episodes())
    found: list[Cycle] = []
    before = 0
    for night in nights_of(place):
        found.append(_cycle(night, episodes[before : night.corpus.episodes]))
        before = night.corpus.episodes
    return found


def _cycle(night: Night, fresh: Sequence[Episode]) -> Cycle:
    verdict, check = night.check.verdict, night.check
    costs = [one.usage.cost_usd for one in fresh] + [check.cost_usd]
    known = [cost for cost in costs if cost is not None]
    tokens = sum(one.usage.input_tokens + one.usage.output_tokens for one in fresh)
    return Cycle(
        number=night.number,
        at=check.at,
        attempts=len(fresh),
        solved=sum(one.solved for one in fresh),
        tokens=tokens + check.tokens,
        cost_usd=sum(known) if known else None,
        successes=night.corpus.sft,
        contrasts=night.corpus.dpo,
        train_seconds=sum(stage.seconds for stage in night.adapter.stages.values()),
        incumbent=0.0 if verdict is None else verdict.trial.incumbent,
        candidate=0.0 if verdict is None else verdict.trial.candidate,
        decision="" if verdict is None else verdict.decision,
    )
