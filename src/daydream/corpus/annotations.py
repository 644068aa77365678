"""Archived reviews of a corpus, scored by the function that the online reward is made of.

A run belongs to the pull request whose reviewed commit it reviewed. Both versions of the score are
kept, with how much of the reference it met; nothing here changes an archive.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from daydream.canonical import JsonValue
from daydream.corpus.reading import Corpus
from daydream.corpus.records import GoldenEntry, golden_url, write_json
from daydream.errors import CorpusError
from daydream.review.score import breakdown, read_signals, score, score_strict

ANNOTATIONS: Final = "results/annotations.json"
Kind = TypeVar("Kind")
LARGEST: Final = 16 << 20
"""Bytes of a manifest or a list of findings that are read."""


class Annotation(msgspec.Struct, frozen=True):
    """One archived run of one pull request."""

    session: str
    seed: dict[str, JsonValue]
    """The first version of the score, with what it came from."""
    strict: dict[str, JsonValue]
    golden_overlap: float | None
    """Share of the reference comments on whose file there is a finding; None without any."""


class _Context(msgspec.Struct, frozen=True):
    head_sha: str | None = None


class _Manifest(msgspec.Struct, frozen=True):
    session_id: str = ""
    code_context: _Context = _Context()


class _Found(msgspec.Struct, frozen=True):
    file: str = ""


class _Items(msgspec.Struct, frozen=True):
    items: tuple[_Found, ...] = ()


def annotate(corpus: Corpus, archive: Path) -> dict[str, list[Annotation]]:
    """Write ``results/annotations.json`` and return it: address of a pull request to its runs.

    Raises :class:`CorpusError` for a folder that is no archive. Runs of other commits, and what
    cannot be read as a run, are left out.
    """
    runs = archive / "runs"
    if not runs.is_dir():
        raise CorpusError(f"{archive} is no archive (expected a folder with runs/)")
    urls = {
        entry.review_commit_id: golden_url(corpus.index.repo, entry.pr_number)
        for entry in corpus.replayable
    }
    found: dict[str, list[Annotation]] = {}
    for place, manifest in _manifests(runs):
        url = urls.get(manifest.code_context.head_sha)
        if url is not None:
            made = _annotation(place, manifest, corpus.golden[url])
            found.setdefault(url, []).append(made)
    write_json(Path(corpus.path) / ANNOTATIONS, found)
    return found


def _manifests(runs: Path) -> Iterator[tuple[Path, _Manifest]]:
    for place in sorted(runs.iterdir()):
        manifest = _read(place / "manifest.json", _Manifest)
        if manifest is not None:
            yield place, manifest


def _annotation(place: Path, manifest: _Manifest, golden: GoldenEntry) -> Annotation:
    items = _read(place / "deep" / "merged-items.json", _Items) or _Items()
    files = {item.file for item in items.items}
    wanted = [comment.path for comment in golden.golden_comments if comment.path]
    return Annotation(
        session=manifest.session_id or place.name,
        seed=breakdown(score(read_signals(place))),
        strict=breakdown(score_strict(place)),
        golden_overlap=sum(path in files for path in wanted) / len(wanted) if wanted else None,
    )


def _read(path: Path, kind: type[Kind]) -> Kind | None:
    try:
        if path.is_symlink() or path.stat().st_size > LARGEST:
            return None
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None
