"""A corpus from the merge commits of a local repository, without a network.

Each merge on the main line is one pull request: its base is where the branch left, its head is what
was merged. Git runs with none of the user's configuration and with no program that the repository
could name. There are no comments, so a corpus made so trains and evaluates without references.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from daydream.config import user_environment
from daydream.corpus.reading import SLUG
from daydream.corpus.records import (
    INDEX,
    Index,
    Record,
    entry_of,
    record_path,
    write_corpus,
    write_json,
)
from daydream.errors import CorpusError, EnvironmentMissing, UsageError
from daydream.sandbox.base import Job, Limits
from daydream.sandbox.process import ProcessSandbox

NUMBERED: Final = re.compile(r"pull request #(\d+)|merge request \S*!(\d+)|\(#(\d+)\)")
BOT: Final = "git"
"""Stands where a corpus names the reviewer: nobody reviewed."""
SAFE: Final = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*"),
    *("-c", "log.showSignature=false", "--no-replace-objects", "--no-pager"),
)


class _Merge(NamedTuple):
    first: str
    second: str
    date: str
    subject: str


class Taken(NamedTuple):
    """What was made of a repository."""

    merges: int
    tasks: int
    skipped: int


def from_git(repository: Path, out: Path, *, repo: str, ref: str, limit: int) -> Taken:
    """Write the corpus ``out`` of the merge commits on the first-parent history of ``ref``.

    ``repo`` is the name ``owner/name`` that the corpus gets. Numbers are those in the subjects of
    the merges where there are any, else they count from the oldest.

    Raises :class:`UsageError` for a folder without a repository or a corpus that is in the way, and
    :class:`CorpusError` when there is no merge to be used.
    """
    if not SLUG.fullmatch(repo):
        raise UsageError(f"--repo is {repo!r} (expected OWNER/NAME)")
    if not limit >= 1:
        raise UsageError(f"--limit is {limit} (expected at least 1)")
    if (out / INDEX).exists() or (out.exists() and not out.is_dir()):
        raise UsageError(f"--out {out} is in use (expected a new folder)")
    if _git(repository, "rev-parse", "--git-dir").code != 0:
        raise UsageError(f"{repository} is no Git repository (expected a folder with one)")
    merges = _merges(repository, ref, limit)
    records = []
    skipped = 0
    taken: set[int] = set()
    known = [_numbered(merge.subject) for merge in merges]
    top = max((number for number in known if number), default=0)
    for merge, parsed in zip(merges, known, strict=True):
        base = _git(repository, "merge-base", merge.first, merge.second).out.strip()
        same = _git(repository, "diff-tree", "--quiet", base or merge.first, merge.second)
        if not base or base == merge.second or same.code != 1:
            skipped += 1
            continue
        number = parsed
        if number is None or number in taken:
            number = top = top + 1
        taken.add(number)
        records.append(_record(repo, ref, merge, base, number))
    if not records:
        raise CorpusError(
            f"{repository} has {len(merges)} merge commits on {ref} and none with a change to "
            "review (expected at least one); name another --ref"
        )
    for record in records:
        write_json(record_path(out, record.pr_number), record)
    records.sort(key=lambda record: record.pr_number, reverse=True)
    write_corpus(out, Index(repo, BOT, tuple(map(entry_of, records)), 0), records)
    return Taken(len(merges), len(records), skipped)


def _merges(repository: Path, ref: str, limit: int) -> list[_Merge]:
    found = _git(
        repository,
        *("log", "--merges", "--first-parent", f"--max-count={limit}"),
        *("--format=%P%x1f%cI%x1f%s%x1e", "--end-of-options", ref, "--"),
    )
    if found.code != 0:
        raise UsageError(f"{repository} has no commit {ref!r}; name a branch or a tag with --ref")
    merges = []
    for block in reversed(found.out.split("\x1e")):
        parents, _, rest = block.strip().partition("\x1f")
        date, _, subject = rest.partition("\x1f")
        ids = parents.split()
        if len(ids) == 2:
            merges.append(_Merge(ids[0], ids[1], date, subject))
    return merges


def _numbered(subject: str) -> int | None:
    found = NUMBERED.search(subject)
    number = int(next(filter(None, found.groups()))) if found else 0
    return number or None


def _record(repo: str, ref: str, merge: _Merge, base: str, number: int) -> Record:
    return Record(
        repo=repo,
        pr_number=number,
        title=merge.subject,
        state="closed",
        base_ref=ref,
        base_sha=base,
        head_ref=merge.second[:12],
        bot=BOT,
        merged_at=merge.date,
        created_at=merge.date,
        updated_at=merge.date,
        review_commit_id=merge.second,
        threads_complete=True,
    )


class _Said(NamedTuple):
    code: int
    out: str


def _git(repository: Path, *words: str) -> _Said:
    command: Sequence[str] = ("git", *SAFE, *words)
    quiet = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C.UTF-8",
    }
    kept = {"PATH": user_environment().get("PATH", ""), **quiet}
    if not repository.is_dir():
        raise UsageError(f"{repository} is no folder (expected a Git repository)")
    job = Job(argv=tuple(command), cwd=str(repository.absolute()), env=kept)
    done = ProcessSandbox().run(job, Limits(wall_s=120.0, output_bytes=32 << 20))
    if done.exit == 127:
        raise EnvironmentMissing("git is not on PATH; install it, for example: apt install git")
    return _Said(-1 if done.exit is None else done.exit, done.stdout.decode("utf-8", "replace"))
