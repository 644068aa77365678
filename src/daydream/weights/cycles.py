"""The cycles of the weights line: from check to check of the gate, what was asked, built, trained.

A cycle ends with a check, whether a night made it or ``gate check``. What the name of an endpoint
was trained on is known to those alone who serve it.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from daydream.weights.adapters import MANIFEST, Adapter, read_adapter
from daydream.weights.answerers import LOCAL, Contender
from daydream.weights.bank import Bank
from daydream.weights.corpus_files import MANIFEST as CORPUS
from daydream.weights.corpus_files import Manifest, read_manifest
from daydream.weights.episodes import Episode
from daydream.weights.gate import Entry, Gate
from daydream.weights.home import Home


class Cycle(msgspec.Struct, frozen=True, kw_only=True):
    """One wake, as far as the corpus or the check saw it, and that check."""

    candidate_name: str
    at: str
    attempts: int
    """New in the bank since the check before."""
    solved: int
    tokens: int
    """Of these attempts and of the answers at the gate."""
    cost_usd: float | None
    """Of the same; None where a price is not known, and where nothing had one."""
    successes: int | None
    """In the corpus of the candidate; None where that is not known."""
    contrasts: int | None
    train_seconds: float | None
    incumbent: float
    """Solve rates on the probe set."""
    candidate: float
    decision: str


def cycles_of(place: Home) -> list[Cycle]:
    """Return the cycles in order."""
    with Bank(place.bank) as bank:
        episodes = list(bank.episodes())
    corpora = [read_manifest(path.parent) for path in sorted(place.corpora.glob(f"*/{CORPUS}"))]
    found: list[Cycle] = []
    before = 0
    for entry in Gate(place.gate, now=lambda: 0.0).history():
        if entry.kind == "check":
            found.append(_cycle(entry, episodes[before : entry.attempts], corpora))
            before = max(before, entry.attempts)
    return found


def _cycle(check: Entry, fresh: Sequence[Episode], corpora: Sequence[Manifest]) -> Cycle:
    verdict, adapter = check.verdict, _adapter(check.candidate)
    corpus = next((one for one in corpora if adapter and one.id == adapter.corpus), None)
    spent = [(one.model, _tokens(one), one.usage.cost_usd) for one in fresh]
    spent.append((check.candidate.model, check.tokens, check.cost_usd))
    stages = None if adapter is None else adapter.stages.values()
    return Cycle(
        candidate_name=check.candidate.name,
        at=check.at,
        attempts=len(fresh),
        solved=sum(one.solved for one in fresh),
        tokens=sum(map(_tokens, fresh)) + check.tokens,
        cost_usd=cost_of(spent),
        successes=None if corpus is None else corpus.sft,
        contrasts=None if corpus is None else corpus.dpo,
        train_seconds=None if stages is None else sum(stage.seconds for stage in stages),
        incumbent=0.0 if verdict is None else verdict.trial.incumbent,
        candidate=0.0 if verdict is None else verdict.trial.candidate,
        decision="" if verdict is None else verdict.decision,
    )


def _adapter(candidate: Contender) -> Adapter | None:
    """Return the manifest of ``candidate`` where its folder is still here."""
    folder = Path(candidate.adapter)
    there = bool(candidate.adapter) and (folder / MANIFEST).is_file()
    return read_adapter(folder) if there else None


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
