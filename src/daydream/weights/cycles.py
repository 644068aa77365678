"""The cycles of the weights line: from night to night, what was asked, built, trained, decided."""

from collections.abc import Iterable, Sequence

import msgspec

from daydream.weights.answerers import LOCAL
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
    """Of the same; None where a price is not known, and where nothing had one."""
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
    spent = [(one.model, _tokens(one), one.usage.cost_usd) for one in fresh]
    spent.append((check.candidate.model, check.tokens, check.cost_usd))
    tokens = sum(map(_tokens, fresh))
    return Cycle(
        number=night.number,
        at=check.at,
        attempts=len(fresh),
        solved=sum(one.solved for one in fresh),
        tokens=tokens + check.tokens,
        cost_usd=cost_of(spent),
        successes=night.corpus.sft,
        contrasts=night.corpus.dpo,
        train_seconds=sum(stage.seconds for stage in night.adapter.stages.values()),
        incumbent=0.0 if verdict is None else verdict.trial.incumbent,
        candidate=0.0 if verdict is None else verdict.trial.candidate,
        decision="" if verdict is None else verdict.decision,
    )


def _tokens(episode: Episode) -> int:
    return episode.usage.input_tokens + episode.usage.output_tokens


def cost_of(spent: Iterable[tuple[str, int, float | None]]) -> float | None:
    """Return the sum over (model, tokens, cost); None where a part of it is not known.

    What a model on this machine answers has no price.
    """
    costs: list[float] = []
    for model, tokens, cost in spent:
        if cost is not None:
            costs.append(cost)
        elif tokens and not model.startswith(LOCAL):
            return None
    return sum(costs) if costs else None
