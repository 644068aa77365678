"""Labels of reference comments, each with its evidence.

What was not looked at is unknown, never rejected: a missing conversation is no verdict.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from daydream.corpus.reading import Corpus
from daydream.corpus.records import LABELS, Record, Thread, read_as, record_path, write_json
from daydream.errors import CorpusError

Verdict = Literal["accepted", "contested", "rejected", "unknown"]
VERDICTS: tuple[Verdict, ...] = ("accepted", "contested", "rejected", "unknown")


class Label(msgspec.Struct, frozen=True):
    """What became of one comment, and how that is known."""

    comment_id: int
    path: str
    line: int | None
    label: Verdict
    evidence: str


def judge(thread: Thread | None, *, complete: bool, merged: bool) -> tuple[Verdict, str]:
    """Return the label of a comment with the conversation ``thread``, and the evidence."""
    if not complete:
        return "unknown", "the conversations of the pull request were not all read"
    if thread is None:
        return "unknown", "no conversation begins with this comment"
    if thread.is_resolved and thread.is_outdated:
        return "accepted", "resolved, and its lines changed afterwards"
    if thread.is_resolved and merged:
        return "rejected", "resolved, and merged with its lines unchanged"
    if thread.repliers and not thread.is_resolved:
        return "contested", f"answered by {', '.join(thread.repliers)} and not resolved"
    return "unknown", "nobody resolved or answered it" if merged else "still open"


def labels_of(record: Record) -> Iterator[Label]:
    """Yield the labels of the comments of ``record`` that begin a conversation."""
    begun = {thread.first_comment: thread for thread in record.threads}
    for comment in record.comments:
        if comment.in_reply_to_id is None:
            verdict, evidence = judge(
                begun.get(comment.id),
                complete=record.threads_complete,
                merged=record.merged_at is not None,
            )
            line = comment.original_line or comment.line
            yield Label(comment.id, comment.path, line, verdict, evidence)


def label_corpus(corpus: Corpus) -> dict[str, list[Label]]:
    """Write ``results/labels.json`` and return it: address of a pull request to its labels.

    Raises :class:`CorpusError` for a corpus with errors, and where a record is missing.
    """
    if corpus.errors:
        first = corpus.errors[0]
        raise CorpusError(
            f"{corpus.path} has {len(corpus.errors)} errors, the first in {first.where}: "
            f"{first.problem}; see daydream corpus check"
        )
    root = Path(corpus.path)
    found = {}
    for entry in corpus.index.prs:
        record = read_as(record_path(root, entry.pr_number), Record)
        found[record.url] = list(labels_of(record))
    write_json(root / LABELS, found)
    return found
