"""Writing a corpus: SFT and DPO rows as TRL reads them, their lineage, and a manifest, last.

    sft.jsonl       {"prompt", "completion"}
    dpo.jsonl       {"prompt", "chosen", "rejected"}
    lineage.jsonl   for each row, in order, the episodes that it came from
    manifest.json   counts, hashes, settings; a folder without it is no corpus

A prompt is text for prompts of that form, and a list of turns for chats.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from daydream.canonical import JsonValue, content_hash, dumps, hash_of
from daydream.errors import StoreError, UsageError
from daydream.store.files import disk_errors, replace_file
from daydream.weights.bank import Bank
from daydream.weights.corpus_selection import BuildSettings, Corpus, select
from daydream.weights.episodes import Episode, Form
from daydream.weights.home import Home
from daydream.weights.probes import read_probes
from daydream.wording import counted

MANIFEST: Final = "manifest.json"
SFT: Final = "sft.jsonl"
DPO: Final = "dpo.jsonl"
LINEAGE: Final = "lineage.jsonl"
CORPUS_VERSION: Final = 1


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a corpus is."""

    id: str
    """Hash over the rows."""
    form: Form
    sft: int
    dpo: int
    tasks: int
    files: Mapping[str, str]
    """Name -> content hash."""
    bank: str
    """Hash over the ids of the episodes that the bank held, in order."""
    episodes: int
    """How many these were."""
    solved: int
    probes: str = ""
    """Hash of the probe set that the leak guard knew; empty without one."""
    settings: BuildSettings
    left_out: Mapping[str, int]
    schema_version: int = CORPUS_VERSION


def write_corpus(
    folder: Path,
    corpus: Corpus,
    settings: BuildSettings,
    *,
    bank: Sequence[Episode],
    probes: str,
) -> Manifest:
    """Write ``corpus`` into ``folder`` and return its manifest.

    Raises :class:`UsageError` when there is nothing to train on, or a corpus is there already, and
    :class:`StoreError` when the disk refuses.
    """
    if (folder / MANIFEST).exists():
        raise UsageError(f"{folder} holds a corpus already (expected a new folder); choose another")
    if not corpus.sft:
        reasons = ", ".join(f"{count} {reason}" for reason, count in corpus.left_out.items())
        raise UsageError(
            f"no episode of {len(bank)} is a success to train on (expected at least one"
            f"{'; left out: ' + reasons if reasons else ''}); fill the bank: daydream wake, or "
            "daydream bank import RUN"
        )
    rows: dict[str, list[JsonValue]] = {
        SFT: [_sft(one) for one in corpus.sft],
        DPO: [_dpo(good, bad) for good, bad in corpus.dpo],
        LINEAGE: [
            *({"file": SFT, "completion": one.id} for one in corpus.sft),
            *({"file": DPO, "chosen": good.id, "rejected": bad.id} for good, bad in corpus.dpo),
        ],
    }
    data = {name: b"".join(dumps(row) + b"\n" for row in found) for name, found in rows.items()}
    files = {name: content_hash(text) for name, text in data.items()}
    manifest = Manifest(
        id=hash_of([corpus.form, files[SFT], files[DPO]])[:32],
        form=corpus.form,
        sft=len(corpus.sft),
        dpo=len(corpus.dpo),
        tasks=len({one.task for one in corpus.sft}),
        files=files,
        bank=hash_of([one.id for one in bank]),
        episodes=len(bank),
        solved=sum(one.solved for one in bank),
        probes=probes,
        settings=settings,
        left_out=corpus.left_out,
    )
    with disk_errors("write", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in data.items():
            replace_file(folder / name, text)
        replace_file(folder / MANIFEST, dumps(manifest) + b"\n")
    return manifest


def build_corpus(place: Home, folder: Path, settings: BuildSettings) -> Manifest:
    """Make the corpus ``folder`` of the bank of ``place``; raises as select and write_corpus do."""
    probes = read_probes(place.gate)
    with Bank(place.bank) as bank:
        episodes = list(bank.episodes())
    corpus = select(episodes, settings, None if probes is None else probes.guard())
    digest = "" if probes is None else probes.hash
    return write_corpus(folder, corpus, settings, bank=episodes, probes=digest)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of the corpus in ``folder``, its files checked.

    Raises :class:`UsageError` where there is no corpus and :class:`StoreError` where it is damaged.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise UsageError(
            f"{folder} holds no corpus (expected {MANIFEST}); make one: daydream build"
        )
    with disk_errors("read", path):
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except msgspec.MsgspecError as error:
            raise StoreError(f"{path} is no manifest: {error}; build the corpus again") from None
        for name, digest in manifest.files.items():
            if content_hash((folder / name).read_bytes()) != digest:
                raise StoreError(
                    f"{folder / name} was changed since it was built (expected the content of its "
                    "manifest); build the corpus again"
                )
    return manifest


def corpus_words(manifest: Manifest) -> str:
    """Return what a corpus holds, for people."""
    return (
        f"{counted(manifest.sft, 'success', 'successes')} of {counted(manifest.tasks, 'task')} and "
        f"{counted(manifest.dpo, 'contrast')} from {counted(manifest.episodes, 'episode')}"
    )


def _prompt(episode: Episode) -> JsonValue:
    if episode.form == "text":
        return "".join(message.text for message in episode.prompt)
    return [{"role": message.role, "content": message.text} for message in episode.prompt]


def _answer(episode: Episode) -> JsonValue:
    if episode.form == "text":
        return episode.answer
    return [{"role": "assistant", "content": episode.answer}]


def _sft(episode: Episode) -> JsonValue:
    return {"prompt": _prompt(episode), "completion": _answer(episode)}


def _dpo(chosen: Episode, rejected: Episode) -> JsonValue:
    return {"prompt": _prompt(chosen), "chosen": _answer(chosen), "rejected": _answer(rejected)}
