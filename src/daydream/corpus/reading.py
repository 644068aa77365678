"""Reading a corpus with every check that can be made without a network.

A finding is an error when a task made of it would be wrong, and a warning when something is only
missing. Nothing is guessed: a commit that is no full SHA, a pull request listed twice, a reference
comment of another repository are named with their place.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from daydream.corpus.excluded import excluded_among
from daydream.corpus.records import (
    GOLDEN,
    INDEX,
    Entry,
    GoldenEntry,
    Index,
    Record,
    golden_url,
    read_as,
    record_path,
)
from daydream.errors import CorpusError

SHA: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
SLUG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9_.][A-Za-z0-9_.-]*")


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong with a corpus."""

    level: Literal["error", "warning"]
    where: str
    problem: str


class Corpus(msgspec.Struct, frozen=True):
    """A corpus as it was read, and what is wrong with it."""

    path: str
    index: Index
    golden: dict[str, GoldenEntry]
    findings: tuple[Finding, ...] = ()

    @property
    def replayable(self) -> tuple[Entry, ...]:
        """The pull requests with a reviewed commit, by number."""
        found = (entry for entry in self.index.prs if entry.review_commit_id)
        return tuple(sorted(found, key=lambda entry: entry.pr_number))

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that forbid to use the corpus."""
        return tuple(found for found in self.findings if found.level == "error")


def read_corpus(path: Path) -> Corpus:
    """Return the corpus in folder ``path``.

    Raises :class:`CorpusError` where a file is missing or cannot be read as what it has to be;
    everything else that is wrong is among the findings.
    """
    index = read_as(path / INDEX, Index)
    golden = read_as(path / GOLDEN, dict[str, GoldenEntry])
    findings = (*_of_index(index), *_of_golden(index, golden), *_of_records(path, index))
    return Corpus(str(path), index, golden, findings)


def shared_with(first: Corpus, second: Corpus) -> list[str]:
    """Return the tasks that two corpora share, as ``owner/name#number (same ...)``.

    A pull request under another number with the same reviewed commit is shared as well.
    """
    numbers = {(second.index.repo.casefold(), entry.pr_number) for entry in second.index.prs}
    commits = {entry.review_commit_id for entry in second.replayable}
    shared = []
    for entry in first.index.prs:
        name = f"{first.index.repo}#{entry.pr_number}"
        if (first.index.repo.casefold(), entry.pr_number) in numbers:
            shared.append(f"{name} (same pull request)")
        elif entry.review_commit_id and entry.review_commit_id in commits:
            shared.append(f"{name} (same commit {entry.review_commit_id[:12]})")
    return shared


def _error(where: str, problem: str) -> Finding:
    return Finding("error", where, problem)


def _of_index(index: Index) -> Iterator[Finding]:
    if not SLUG.fullmatch(index.repo):
        yield _error(INDEX, f"repo is {index.repo!r} (expected owner/name)")
    for repo in excluded_among([index.repo]):
        yield _error(INDEX, f"{repo} is held out for benchmarks; no option allows it")
    times = Counter(entry.pr_number for entry in index.prs)
    for number, count in sorted(times.items()):
        if count > 1:
            yield _error(f"{INDEX} #{number}", f"listed {count} times (expected once)")
    for entry in index.prs:
        yield from _of_entry(f"{INDEX} #{entry.pr_number}", entry)


def _of_entry(where: str, entry: Entry) -> Iterator[Finding]:
    if not entry.pr_number >= 1:
        yield _error(where, f"pr_number is {entry.pr_number} (expected at least 1)")
    if not entry.review_commit_id:
        yield Finding("warning", where, "no review snapshot commit; it makes no task")
        return
    for name, sha in (("base_sha", entry.base_sha), ("review_commit_id", entry.review_commit_id)):
        if not sha:
            yield _error(where, f"{name} is missing; harvest it again")
        elif not SHA.fullmatch(sha):
            yield _error(where, f"{name} is {sha!r} (expected 40 or 64 lower-case hex digits)")
    if not entry.base_ref:
        yield _error(where, "base_ref is missing; harvest it again")
    if entry.base_sha and entry.base_sha == entry.review_commit_id:
        yield _error(where, "base and head are the same commit; there is nothing to review")
    if not entry.threads_complete:
        yield Finding("warning", where, "conversations are incomplete; labels will be unknown")


def _of_golden(index: Index, golden: Mapping[str, GoldenEntry]) -> Iterator[Finding]:
    wanted = {golden_url(index.repo, entry.pr_number) for entry in index.prs}
    for url, told in sorted(golden.items()):
        if told.repo_name.casefold() != index.repo.casefold():
            yield _error(
                f"{GOLDEN} {url}", f"repo_name is {told.repo_name!r} (expected {index.repo!r})"
            )
        if url not in wanted:
            yield _error(f"{GOLDEN} {url}", f"no pull request of {INDEX} has this address")
        if told.pr_url != url:
            yield _error(f"{GOLDEN} {url}", f"pr_url is {told.pr_url!r} (expected the key)")
        for number, comment in enumerate(told.golden_comments, start=1):
            if comment.path is not None and not _inside(comment.path):
                yield _error(
                    f"{GOLDEN} {url} comment {number}",
                    f"path is {comment.path!r} (expected one relative to the repository)",
                )
    for entry in index.prs:
        if entry.review_commit_id and golden_url(index.repo, entry.pr_number) not in golden:
            yield _error(
                f"{INDEX} #{entry.pr_number}",
                f"{GOLDEN} has no entry for it (an empty one will do)",
            )


def _inside(path: str) -> bool:
    return bool(path) and not path.startswith("/") and ".." not in path.split("/")


def _of_records(path: Path, index: Index) -> Iterator[Finding]:
    for entry in index.prs:
        file = record_path(path, entry.pr_number)
        where = f"{file.parent.name}/{file.name}"
        if not file.is_file():
            yield Finding("warning", where, "not there; labels cannot be made")
            continue
        try:
            record = read_as(file, Record)
        except CorpusError as error:
            yield _error(where, str(error))
            continue
        pairs = (
            ("repo", record.repo, index.repo),
            ("pr_number", record.pr_number, entry.pr_number),
            ("base_sha", record.base_sha, entry.base_sha),
            ("review_commit_id", record.review_commit_id, entry.review_commit_id),
        )
        for name, found, expected in pairs:
            if found != expected:
                yield _error(where, f"{name} is {found!r} (expected {expected!r} as in {INDEX})")
