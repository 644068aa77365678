"""The files of a corpus of reviewed pull requests, and reading and writing them.

A corpus is a folder for one repository: ``index.json`` lists the pull requests, newest first,
``harvest/pr-N.json`` holds all that is known of one, and ``results/benchmark_data.json`` the
reference comments by address of the pull request. Unknown keys are ignored in what came from
elsewhere; a wrong type is refused with its place.
"""

from pathlib import Path
from typing import Final, TypeVar

import msgspec

from daydream.canonical import dumps
from daydream.errors import CorpusError
from daydream.store.files import disk_errors, replace_file

INDEX: Final = "index.json"
HARVEST: Final = "harvest"
GOLDEN: Final = "results/benchmark_data.json"
LABELS: Final = "results/labels.json"
SEEN: Final = "harvest/seen.json"
Kind = TypeVar("Kind")


class Review(msgspec.Struct, frozen=True):
    """One submitted review of the bot."""

    id: int
    commit_id: str | None = None
    submitted_at: str | None = None
    state: str = ""
    body: str = ""


class Comment(msgspec.Struct, frozen=True):
    """One inline comment of the bot."""

    id: int
    path: str
    line: int | None = None
    original_line: int | None = None
    start_line: int | None = None
    commit_id: str | None = None
    original_commit_id: str | None = None
    in_reply_to_id: int | None = None
    subject_type: str | None = None
    created_at: str = ""
    body: str = ""

    @property
    def anchor(self) -> str | None:
        """The commit that the comment was written on."""
        return self.original_commit_id or self.commit_id


class Thread(msgspec.Struct, frozen=True):
    """One conversation on a line that the bot began."""

    is_resolved: bool
    is_outdated: bool
    path: str
    line: int | None = None
    author: str = ""
    first_comment: int | None = None
    repliers: tuple[str, ...] = ()
    """Who else wrote in it."""


class Record(msgspec.Struct, frozen=True):
    """All that is known of one pull request."""

    repo: str
    pr_number: int
    title: str
    state: str
    base_ref: str
    base_sha: str
    head_ref: str
    bot: str
    merged_at: str | None = None
    created_at: str = ""
    updated_at: str = ""
    review_commit_id: str | None = None
    reviews: tuple[Review, ...] = ()
    comments: tuple[Comment, ...] = ()
    threads: tuple[Thread, ...] = ()
    threads_complete: bool = False
    n_review_summaries: int = 0
    n_inline_comments: int = 0

    @property
    def url(self) -> str:
        """The address under which the reference comments stand."""
        return golden_url(self.repo, self.pr_number)


class Entry(msgspec.Struct, frozen=True):
    """One line of the index."""

    pr_number: int
    title: str = ""
    state: str = ""
    merged: bool = False
    base_ref: str | None = None
    base_sha: str | None = None
    review_commit_id: str | None = None
    n_inline_comments: int = 0
    n_review_summaries: int = 0
    n_resolved_threads: int = 0
    threads_complete: bool = False


class Index(msgspec.Struct, frozen=True):
    """What a corpus holds."""

    repo: str
    bot: str
    prs: tuple[Entry, ...]
    n_prs_with_bot_activity: int = 0
    harvested_at: str | None = None


class GoldenComment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reference comment."""

    comment: str
    path: str | None = None
    line: int | None = None
    resolved: bool | None = None
    severity: str | None = None


class ToolReview(msgspec.Struct, frozen=True):
    """What one tool said of a pull request; read by benchmarks, not by us."""

    tool: str
    repo_name: str
    pr_url: str
    review_comments: tuple[GoldenComment, ...] = ()


class GoldenEntry(msgspec.Struct, frozen=True):
    """The reference comments of one pull request."""

    pr_url: str
    repo_name: str
    golden_comments: tuple[GoldenComment, ...] = ()
    reviews: tuple[ToolReview, ...] = ()


def golden_url(repo: str, number: int) -> str:
    """Return the address of a pull request."""
    return f"https://github.com/{repo}/pull/{number}"


def entry_of(record: Record) -> Entry:
    """Return the line of the index for ``record``."""
    return Entry(
        pr_number=record.pr_number,
        title=record.title,
        state=record.state,
        merged=record.merged_at is not None,
        base_ref=record.base_ref,
        base_sha=record.base_sha,
        review_commit_id=record.review_commit_id,
        n_inline_comments=record.n_inline_comments,
        n_review_summaries=record.n_review_summaries,
        n_resolved_threads=sum(thread.is_resolved for thread in record.threads),
        threads_complete=record.threads_complete,
    )


def golden_of(record: Record) -> GoldenEntry:
    """Return the reference comments of ``record``: the bot's own on the reviewed commit.

    An answer within a conversation is none, and a comment on an earlier commit is none.
    """
    resolved = {thread.first_comment: thread.is_resolved for thread in record.threads}
    comments = tuple(
        GoldenComment(
            comment=comment.body,
            path=comment.path,
            line=comment.original_line or comment.line,
            resolved=resolved.get(comment.id) if record.threads_complete else None,
        )
        for comment in record.comments
        if comment.in_reply_to_id is None and comment.anchor == record.review_commit_id
    )
    return GoldenEntry(pr_url=record.url, repo_name=record.repo, golden_comments=comments)


def record_path(corpus: Path, number: int) -> Path:
    """Return where the record of pull request ``number`` is."""
    return corpus / HARVEST / f"pr-{number}.json"


def read_as(path: Path, kind: type[Kind]) -> Kind:
    """Return the JSON file ``path`` as ``kind``; raises :class:`CorpusError` with the place."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        raise CorpusError(
            f"{path} is not there (expected a corpus made by daydream corpus harvest or from-git)"
        ) from None
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path} is no such file of a corpus: {error}; harvest again") from None


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as one line of JSON; a crash leaves the old file or the new one."""
    with disk_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, dumps(value) + b"\n")


def write_corpus(corpus: Path, index: Index, records: list[Record]) -> None:
    """Write the index and the reference comments; the index comes last, so it is never ahead."""
    golden = {record.url: golden_of(record) for record in records}
    write_json(corpus / GOLDEN, golden)
    write_json(corpus / INDEX, index)
