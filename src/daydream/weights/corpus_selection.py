"""From episodes to a corpus: which successes to imitate, which contrasts to prefer.

Owns the selection alone; :mod:`daydream.weights.corpus_files` writes it. Everything is a function
of the episodes and the settings: the same bank gives the same corpus.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Annotated

import msgspec

from daydream.canonical import hash_of
from daydream.errors import LeakError, UsageError
from daydream.tree import Status
from daydream.weights.episodes import Episode, Form, Source
from daydream.weights.leaks import Fingerprint, LeakGuard
from daydream.wording import counted

SHOWN_LEAKS = 3

Count = Annotated[int, msgspec.Meta(ge=1)]


class BuildSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a corpus is made of."""

    families: tuple[str, ...] = ()
    """Families of tasks to take; none takes all."""
    sources: tuple[Source, ...] = ()
    """Where episodes may come from; none takes all."""
    models: tuple[str, ...] = ()
    """Whose answers to take; none takes everybody's."""
    form: Form | None = None
    """The form of prompts to take, where the bank holds both."""
    per_task: Count = 4
    """Successes of one task at most."""
    pairs_per_task: Count = 4
    """Contrasts of one task at most."""
    gap: Annotated[float, msgspec.Meta(gt=0)] = 0.05
    """Least difference of two scores that is a contrast."""
    longest_prompt: Count = 60_000
    """In characters."""
    longest_answer: Count = 20_000
    """In characters."""
    leave_out_leaks: bool = False
    """Leave out what the probe set asks, and count it, instead of failing."""


class Corpus(msgspec.Struct, frozen=True):
    """What is trained on."""

    form: Form
    sft: tuple[Episode, ...]
    dpo: tuple[tuple[Episode, Episode], ...]
    """(chosen, rejected), of one task."""
    left_out: Mapping[str, int]
    """Reason -> episodes."""


def select(episodes: Iterable[Episode], settings: BuildSettings, guard: LeakGuard | None) -> Corpus:
    """Return the corpus of ``episodes``.

    Raises :class:`LeakError` for what the probe set asks, unless the settings leave it out, and
    :class:`UsageError` when prompts of both forms are found and none was chosen.
    """
    left_out: Counter[str] = Counter()
    kept = _admitted(episodes, settings, guard, left_out)
    form = _form(kept, settings.form)
    groups: dict[tuple[str, str], list[Episode]] = {}
    for episode in kept:
        if episode.form == form:
            groups.setdefault((episode.task, episode.evaluator), []).append(episode)
        else:
            left_out["other form"] += 1
    sft: list[Episode] = []
    dpo: list[tuple[Episode, Episode]] = []
    seen: set[str] = set()
    for group in groups.values():
        solved = _distinct([one for one in group if one.solved], left_out, "same program")
        fresh = [one for one in solved if _row(one) not in seen]
        left_out["same prompt and program"] += len(solved) - len(fresh)
        taken = _diverse(fresh)[: settings.per_task]
        left_out["over the cap of a task"] += len(fresh) - len(taken)
        seen.update(_row(one) for one in taken)
        sft += taken
        worse = _distinct([one for one in group if not one.solved], Counter(), "")
        pairs = _contrasts(_diverse(solved), _diverse(worse), settings)
        pairs += _contrasts(_diverse(solved), _diverse(solved[::-1]), settings)
        dpo += pairs[: settings.pairs_per_task]
    return Corpus(form, tuple(sft), tuple(dpo), {k: n for k, n in sorted(left_out.items()) if n})


def _admitted(
    episodes: Iterable[Episode],
    settings: BuildSettings,
    guard: LeakGuard | None,
    left_out: Counter[str],
) -> list[Episode]:
    kept: list[Episode] = []
    leaks: list[str] = []
    for episode in episodes:
        reason = _unwanted(episode, settings)
        if reason is not None:
            left_out[reason] += 1
            continue
        leak = None if guard is None else guard.caught(fingerprint(episode))
        if leak is None:
            kept.append(episode)
        elif settings.leave_out_leaks:
            left_out["asked by the probe set"] += 1
        else:
            leaks.append(f"{episode.task} {leak}")
    if leaks:
        reasons = list(dict.fromkeys(leaks))
        rest = len(reasons) - SHOWN_LEAKS
        several = f" and {counted(rest, 'other task')}" if rest > 0 else ""
        raise LeakError(
            f"the corpus would hold {counted(len(leaks), 'episode')} that the probe set asks: "
            f"{'; '.join(reasons[:SHOWN_LEAKS])}{several} (expected none); nothing was written. "
            "Find out how they came into the bank, or leave them out with --leave-out-leaks"
        )
    return kept


def _unwanted(episode: Episode, settings: BuildSettings) -> str | None:
    """Return why ``episode`` is not trained on, or None."""
    tests: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("copied context", lambda: episode.copied),
        ("another family", lambda: not _in(episode.task.partition(":")[0], settings.families)),
        ("another source", lambda: not _in(episode.source, settings.sources)),
        ("another model", lambda: not _in(episode.model, settings.models)),
        ("empty answer", lambda: not episode.answer.strip()),
        ("too long", lambda: not _fits(episode, settings)),
    )
    return next((reason for reason, test in tests if test()), None)


def _in(value: str, allowed: Sequence[str]) -> bool:
    return not allowed or value in allowed


def _fits(episode: Episode, settings: BuildSettings) -> bool:
    asked = sum(len(message.text) for message in episode.prompt)
    return asked <= settings.longest_prompt and len(episode.answer) <= settings.longest_answer


def fingerprint(episode: Episode) -> Fingerprint:
    """Return what the leak guard compares of an episode."""
    return Fingerprint(episode.prompt, episode.keys, episode.task)


def _form(episodes: Sequence[Episode], wanted: Form | None) -> Form:
    found = sorted({episode.form for episode in episodes})
    if wanted is not None or len(found) < 2:
        return wanted or (found[0] if found else "chat")
    raise UsageError(
        "the bank holds prompts as text and as chats (expected one form, for a corpus has one); "
        "choose with --form text or --form chat"
    )


def _row(episode: Episode) -> str:
    prompt = [[message.role, " ".join(message.text.split())] for message in episode.prompt]
    return hash_of([prompt, episode.program or episode.answer])


def _distinct(episodes: Sequence[Episode], left_out: Counter[str], reason: str) -> list[Episode]:
    """Return one episode for each program, the best first, in the order of the bank."""
    best: dict[str, Episode] = {}
    for episode in episodes:
        key = episode.program or hash_of(episode.answer)
        if key not in best or episode.score > best[key].score:
            best[key] = episode
    left_out[reason] += len(episodes) - len(best)
    return sorted(best.values(), key=lambda episode: -episode.score)


def _diverse(episodes: Sequence[Episode]) -> list[Episode]:
    """Return ``episodes`` with each behaviour once before any of them comes again."""
    groups: dict[str, list[Episode]] = {}
    for episode in episodes:
        groups.setdefault(episode.behaviour or episode.program or episode.answer, []).append(
            episode
        )
    rows = zip_longest(*groups.values())
    return [episode for row in rows for episode in row if episode is not None]


def _contrasts(
    chosen: Sequence[Episode], rejected: Sequence[Episode], settings: BuildSettings
) -> list[tuple[Episode, Episode]]:
    """Return pairs in turn, so that the better and the worse are all used about as often."""
    pairs: list[tuple[Episode, Episode]] = []
    for shift in range(len(rejected)):
        for place, good in enumerate(chosen):
            bad = rejected[(place + shift) % len(rejected)]
            if len(pairs) < settings.pairs_per_task and is_contrast(good, bad, settings.gap):
                pairs.append((good, bad))
    return pairs


def is_contrast(chosen: Episode, rejected: Episode, gap: float) -> bool:
    """Return whether ``chosen`` is a success and ``rejected`` is worse by enough.

    Where scores are graded, a success that is worse by enough will do.
    """
    if not chosen.solved:
        return False
    return rejected.status is not Status.OK or chosen.score - rejected.score >= gap
