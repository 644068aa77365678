"""A corpus from GitHub: the pull requests that one bot reviewed.

Each pull request is written when it is complete, and ``harvest/seen.json`` says at which state it
was read, so a harvest that was interrupted continues, and a later one reads only what changed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import msgspec

from daydream.canonical import JsonValue
from daydream.corpus.excluded import excluded_among
from daydream.corpus.github import GitHub
from daydream.corpus.reading import SLUG
from daydream.corpus.records import (
    INDEX,
    SEEN,
    Comment,
    Index,
    Record,
    Review,
    Thread,
    entry_of,
    read_as,
    record_path,
    write_corpus,
    write_json,
)
from daydream.errors import CorpusError, UsageError
from daydream.llm.base import at, whole_at

State = Literal["all", "open", "closed", "merged"]
THREADS: Final = """
query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      reviewThreads(first: 50, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes {
          isResolved isOutdated path line
          comments(first: 50) { totalCount nodes { databaseId author { login } } }
        }
      }
    }
  }
}
"""


class Wanted(msgspec.Struct, frozen=True):
    """What is harvested."""

    repo: str
    bot: str
    limit: int = 200
    """Pull requests looked at, newest first."""
    state: State = "all"


class Harvested(msgspec.Struct, frozen=True):
    """What a harvest brought."""

    looked_at: int
    fetched: int
    kept: int
    """Read before and not changed since."""
    with_bot: int
    replayable: int
    incomplete: tuple[int, ...] = ()
    """Pull requests whose conversations could not all be read."""


class _User(msgspec.Struct, frozen=True):
    login: str = ""


class _Ref(msgspec.Struct, frozen=True):
    ref: str
    sha: str


class _Pull(msgspec.Struct, frozen=True):
    number: int
    title: str
    state: str
    base: _Ref
    head: _Ref
    created_at: str = ""
    updated_at: str = ""
    merged_at: str | None = None


class _Review(msgspec.Struct, frozen=True):
    id: int
    user: _User | None = None
    commit_id: str | None = None
    submitted_at: str | None = None
    state: str = ""
    body: str | None = None


class _Comment(msgspec.Struct, frozen=True):
    id: int
    path: str
    user: _User | None = None
    line: int | None = None
    original_line: int | None = None
    start_line: int | None = None
    commit_id: str | None = None
    original_commit_id: str | None = None
    in_reply_to_id: int | None = None
    subject_type: str | None = None
    created_at: str = ""
    body: str | None = None


def harvest(
    client: GitHub, wanted: Wanted, out: Path, tell: Callable[[str], None], now: str
) -> Harvested:
    """Write the corpus ``out`` and return what it holds; ``tell`` gets a line for each step.

    Raises :class:`UsageError` for a repository that may not be harvested or a folder of another
    one, :class:`CorpusError` when GitHub does not answer; what was read until then stays.
    """
    _check(wanted, out)
    seen_path = out / SEEN
    seen: dict[str, str] = read_as(seen_path, dict[str, str]) if seen_path.exists() else {}
    records: list[Record] = []
    looked = fetched = 0
    state = "closed" if wanted.state == "merged" else wanted.state
    pulls = client.pages(
        f"/repos/{wanted.repo}/pulls", _Pull, state=state, sort="created", direction="desc"
    )
    for pull in pulls:
        if wanted.state == "merged" and pull.merged_at is None:
            continue
        looked += 1
        record = _kept(out, pull, seen)
        if record is None and seen.get(str(pull.number)) != pull.updated_at:
            record = _fetch(client, wanted, pull)
            fetched += 1
            if record is not None:
                write_json(record_path(out, pull.number), record)
            seen[str(pull.number)] = pull.updated_at
            write_json(seen_path, seen)
            count = 0 if record is None else record.n_inline_comments
            tell(f"#{pull.number}: {count} comments of {wanted.bot}")
        if record is not None:
            records.append(record)
        if looked >= wanted.limit:
            break
    records.sort(key=lambda record: record.pr_number, reverse=True)
    entries = tuple(entry_of(record) for record in records)
    write_corpus(out, Index(wanted.repo, wanted.bot, entries, len(entries), now), records)
    return Harvested(
        looked_at=looked,
        fetched=fetched,
        kept=looked - fetched,
        with_bot=len(records),
        replayable=sum(record.review_commit_id is not None for record in records),
        incomplete=tuple(r.pr_number for r in records if not r.threads_complete),
    )


def _check(wanted: Wanted, out: Path) -> None:
    if not SLUG.fullmatch(wanted.repo):
        raise UsageError(f"--repo is {wanted.repo!r} (expected OWNER/NAME)")
    if excluded_among([wanted.repo]):
        raise UsageError(
            f"--repo {wanted.repo} is held out for benchmarks; harvest another repository"
        )
    if not wanted.limit >= 1:
        raise UsageError(f"--limit is {wanted.limit} (expected at least 1)")
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file (expected a folder, new or of this corpus)")
    if (out / INDEX).exists():
        before = read_as(out / INDEX, Index)
        if (before.repo.casefold(), before.bot) != (wanted.repo.casefold(), wanted.bot):
            raise UsageError(
                f"--out {out} holds the corpus of {before.repo} by {before.bot} (expected "
                f"{wanted.repo} by {wanted.bot}); choose another folder"
            )


def _kept(out: Path, pull: _Pull, seen: dict[str, str]) -> Record | None:
    """Return the record that is there, when nothing changed since it was read."""
    path = record_path(out, pull.number)
    if not path.exists():
        return None
    record = read_as(path, Record)
    # A record that was written before its state was noted is as good.
    known = seen.get(str(pull.number), record.updated_at)
    return record if known == pull.updated_at == record.updated_at else None


def same_login(first: str, second: str) -> bool:
    """Return whether two names mean one account: one API writes ``name[bot]``, the other not."""
    return first.casefold().removesuffix("[bot]") == second.casefold().removesuffix("[bot]")


def _fetch(client: GitHub, wanted: Wanted, pull: _Pull) -> Record | None:
    def ours(user: _User | None) -> bool:
        return user is not None and same_login(user.login, wanted.bot)

    place = f"/repos/{wanted.repo}/pulls/{pull.number}"
    reviews = tuple(
        Review(one.id, one.commit_id, one.submitted_at, one.state, one.body or "")
        for one in client.pages(f"{place}/reviews", _Review)
        if ours(one.user)
    )
    comments = tuple(
        Comment(
            id=one.id,
            path=one.path,
            line=one.line,
            original_line=one.original_line,
            start_line=one.start_line,
            commit_id=one.commit_id,
            original_commit_id=one.original_commit_id,
            in_reply_to_id=one.in_reply_to_id,
            subject_type=one.subject_type,
            created_at=one.created_at,
            body=one.body or "",
        )
        for one in client.pages(f"{place}/comments", _Comment)
        if ours(one.user)
    )
    if not reviews and not comments:
        return None
    threads, complete = _threads(client, wanted, pull.number)
    return Record(
        repo=wanted.repo,
        pr_number=pull.number,
        title=pull.title,
        state=pull.state,
        base_ref=pull.base.ref,
        base_sha=pull.base.sha,
        head_ref=pull.head.ref,
        bot=wanted.bot,
        merged_at=pull.merged_at,
        created_at=pull.created_at,
        updated_at=pull.updated_at,
        review_commit_id=snapshot(reviews, comments),
        reviews=reviews,
        comments=comments,
        threads=threads,
        threads_complete=complete,
        n_review_summaries=sum(bool(review.body.strip()) for review in reviews),
        n_inline_comments=len(comments),
    )


def snapshot(reviews: tuple[Review, ...], comments: tuple[Comment, ...]) -> str | None:
    """Return the commit that was reviewed last: of a review with text, else of a comment."""
    told = [one for one in reviews if one.body.strip() and one.commit_id]
    if told:
        return max(told, key=lambda one: (one.submitted_at or "", one.id)).commit_id
    placed = [one for one in comments if one.anchor]
    return max(placed, key=lambda one: (one.created_at, one.id)).anchor if placed else None


def _threads(client: GitHub, wanted: Wanted, number: int) -> tuple[tuple[Thread, ...], bool]:
    """Return the conversations that the bot began, and whether all of them could be read."""
    owner, _, name = wanted.repo.partition("/")
    found: list[Thread] = []
    after: str | None = None
    while True:
        asked: dict[str, JsonValue] = {
            "owner": owner,
            "name": name,
            "number": number,
            "after": after,
        }
        try:
            data = client.graphql(THREADS, asked)
        except CorpusError as error:
            if "GraphQL" not in str(error):
                raise
            return tuple(found), False
        threads = at(data, "repository", "pullRequest", "reviewThreads")
        nodes = at(threads, "nodes")
        if not isinstance(nodes, list):
            return tuple(found), False
        for node in nodes:
            thread, whole = _thread(node, wanted.bot)
            if not whole:
                return tuple(found), False
            if thread is not None:
                found.append(thread)
        cursor = at(threads, "pageInfo", "endCursor")
        if at(threads, "pageInfo", "hasNextPage") is not True or not isinstance(cursor, str):
            return tuple(found), True
        after = cursor


def _thread(node: object, bot: str) -> tuple[Thread | None, bool]:
    """Return one conversation, or None when another began it; and whether it is all there."""
    value = msgspec.to_builtins(node)
    comments = at(value, "comments", "nodes")
    if not isinstance(comments, list) or not comments:
        return None, True
    if len(comments) < (whole_at(value, "comments", "totalCount") or 0):
        return None, False
    logins = [at(comment, "author", "login") for comment in comments]
    names = [login if isinstance(login, str) else "" for login in logins]
    if not same_login(names[0], bot):
        return None, True
    path = at(value, "path")
    others = dict.fromkeys(name for name in names[1:] if not same_login(name, bot))
    return (
        Thread(
            is_resolved=at(value, "isResolved") is True,
            is_outdated=at(value, "isOutdated") is True,
            path=path if isinstance(path, str) else "",
            line=whole_at(value, "line"),
            author=names[0],
            first_comment=whole_at(comments[0], "databaseId"),
            repliers=tuple(others),
        ),
        True,
    )
