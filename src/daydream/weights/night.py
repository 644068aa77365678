"""A night: build a corpus, train an adapter on it and bring it to the gate, resumably.

Owns the order and what is kept of a night. Each step is there whole or not at all, so a night that
was killed goes on with the step that it was in; ``nights/NNN/result.json``, written last, ends it.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from daydream.canonical import dumps
from daydream.errors import StoreError, UsageError
from daydream.store.files import disk_errors, replace_file
from daydream.weights.adapters import Adapter
from daydream.weights.answerers import LOCAL, Answerer, Contender
from daydream.weights.corpus_files import (
    MANIFEST,
    Manifest,
    build_corpus,
    corpus_words,
    read_manifest,
)
from daydream.weights.corpus_selection import BuildSettings
from daydream.weights.gate import Entry, Gate
from daydream.weights.home import Home, next_numbered
from daydream.weights.train_settings import Stage, TrainSettings
from daydream.weights.training import plan_of, train
from daydream.wording import counted

PLAN: Final = "plan.json"
RESULT: Final = "result.json"


class NightPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a night does."""

    base: str
    """Path of the base model."""
    stages: tuple[Stage, ...]
    build: BuildSettings
    train: TrainSettings


class Night(msgspec.Struct, frozen=True, kw_only=True):
    """What a night came to."""

    number: str
    corpus: Manifest
    adapter: Adapter
    check: Entry
    schema_version: int = 1


def play_night(
    place: Home,
    plan: NightPlan,
    gate: Gate,
    answerer_of: Callable[[Contender], Answerer],
    notify: Callable[[str], None],
    *,
    anew: bool = False,
) -> Night:
    """Play the next night, or go on with the one that was not finished.

    ``anew`` drops what that one has built and trained. Raises :class:`UsageError` when an
    unfinished night has another plan, or the gate judges another base, and what its steps raise.
    """
    probes = gate.probes()
    if probes.model != f"{LOCAL}{plan.base}":
        raise UsageError(
            f"the gate judges adapters of {probes.model} (expected {LOCAL}{plan.base}); name that "
            "base, or freeze a probe set for this one in another --home"
        )
    folder = next_numbered(place.nights, RESULT)
    number = folder.name
    corpus, home = place.corpora / f"night-{number}", place.adapters / f"night-{number}"
    if anew:
        for begun in (folder, corpus, home):
            shutil.rmtree(begun, ignore_errors=True)
    _claim(plan, folder)
    manifest = _corpus(place, corpus, plan.build)
    notify(f"corpus: {corpus_words(manifest)}")
    stages = tuple(stage for stage in plan.stages if stage != "dpo" or manifest.dpo)
    training = plan_of(Path(plan.base), corpus, stages, plan.train)
    adapter = train(training, home)
    for name, stage in adapter.stages.items():
        fall = f"{stage.first_loss:.3f} to {stage.last_loss:.3f}"
        notify(f"{name}: loss {fall} in {counted(stage.steps, 'step')}")
    candidate = Contender(probes.model, str(home))
    entry = gate.check(candidate, answerer_of, once=True, attempts=manifest.episodes)
    night = Night(number=number, corpus=manifest, adapter=adapter, check=entry)
    with disk_errors("write", folder):
        replace_file(folder / RESULT, dumps(night) + b"\n")
    return night


def _claim(plan: NightPlan, folder: Path) -> None:
    path = folder / PLAN
    data = dumps(plan) + b"\n"
    with disk_errors("write", path):
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            replace_file(path, data)
        elif path.read_bytes() != data:
            raise UsageError(
                f"night {folder.name} is not finished and has other settings (expected the same); "
                f"finish it with those of {path}, or drop what it has with --anew"
            )


def _corpus(place: Home, folder: Path, settings: BuildSettings) -> Manifest:
    """Return the corpus of a night, built now or before."""
    if not (folder / MANIFEST).exists():
        return build_corpus(place, folder, settings)
    manifest = read_manifest(folder)
    if manifest.settings != settings:
        raise UsageError(
            f"corpus {folder} was built with other settings (expected those of this night); drop "
            "what the unfinished night has with --anew"
        )
    return manifest


def nights_of(place: Home) -> list[Night]:
    """Return the finished nights in order."""
    found = []
    for path in sorted(place.nights.glob(f"*/{RESULT}")):
        with disk_errors("read", path):
            data = path.read_bytes()
        try:
            found.append(msgspec.json.decode(data, type=Night))
        except msgspec.MsgspecError as error:
            raise StoreError(f"{path} is no result of a night: {error}; restore it") from None
    return found
