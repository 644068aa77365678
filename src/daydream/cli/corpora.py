"""``daydream corpus``: pull requests with their reviews, as tasks to review."""

import os
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import cyclopts
import msgspec
from cyclopts import Parameter
from rich.table import Table

from daydream.canonical import JsonValue
from daydream.cli import output
from daydream.cli.numbers import Whole
from daydream.config import variable
from daydream.corpus.annotations import Annotation, annotate
from daydream.corpus.from_git import from_git as take_from_git
from daydream.corpus.github import API, GitHub, Manners
from daydream.corpus.harvest import State, Wanted
from daydream.corpus.harvest import harvest as harvest_from
from daydream.corpus.labels import VERDICTS, label_corpus
from daydream.corpus.reading import read_corpus, shared_with
from daydream.errors import EnvironmentMissing
from daydream.llm.http import Transport
from daydream.rounds import Surroundings
from daydream.wording import counted

TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")

app = cyclopts.App(
    name="corpus", help="Collect reviewed pull requests as tasks.", help_format="plaintext"
)


@app.command(usage="daydream corpus harvest --repo OWNER/NAME --bot LOGIN --out DIR [OPTIONS]")
def harvest(
    *,
    repo: str,
    bot: str,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    limit: Whole = 200,
    state: State = "all",
    max_wait: float = 900.0,
    api: str = API,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Collect the pull requests of a repository that a bot reviewed, from GitHub.

    The token is read from GITHUB_TOKEN or GH_TOKEN. Run the same command again to continue a
    harvest that was interrupted, or to read what changed since.

    Parameters
    ----------
    repo
        The repository, as OWNER/NAME.
    bot
        Login of the account whose comments are the reference.
    out
        The folder of the corpus.
    limit
        Pull requests to look at, newest first.
    state
        Which pull requests.
    max_wait
        Longest wait for a rate limit, in seconds; a longer one ends the command.
    api
        Address of the API, for a server of your own.
    json
        Print JSON and nothing else on standard output.
    """
    token = next(filter(None, map(variable, TOKENS)), "")
    if not token:
        raise EnvironmentMissing(
            "no token for GitHub (expected one in GITHUB_TOKEN or GH_TOKEN); a token that may read "
            "public repositories is enough"
        )
    clock = Surroundings().now
    manners = Manners(time.sleep, clock, patience_s=max_wait)
    console = output.err()
    with Transport(time.monotonic) as transport:
        client = GitHub(transport, api, token, manners)
        found = harvest_from(
            client,
            Wanted(repo, bot, limit, state),
            out,
            lambda text: None if json else console.print(text, style="dim", markup=False),
            datetime.fromtimestamp(clock(), UTC).isoformat(timespec="seconds"),
        )
    if json:
        told: dict[str, JsonValue] = msgspec.to_builtins(found)
        output.emit({"corpus": str(out), "requests": client.requests, **told})
        return 0
    output.out().print(
        f"{counted(found.looked_at, 'pull request')} looked at, {found.fetched} read anew, "
        f"{found.with_bot} reviewed by {bot}, {found.replayable} with a reviewed commit: "
        f"{output.shown(out)}",
        markup=False,
    )
    if found.incomplete:
        numbers = ", ".join(f"#{number}" for number in found.incomplete[:10])
        output.warn(f"conversations could not all be read: {numbers}")
    output.next_step(f"daydream corpus check {output.shown(out)}")
    return 0


@app.command(name="from-git", usage="daydream corpus from-git REPOSITORY --out DIR [OPTIONS]")
def from_git(
    repository: Path,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    repo: str | None = None,
    ref: str = "HEAD",
    limit: Whole = 200,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Make a corpus of the merge commits of a local repository, without a network.

    Parameters
    ----------
    repository
        A folder with a Git repository.
    out
        The folder of the corpus, a new one.
    repo
        The name that the corpus gives it, as OWNER/NAME. [default: local/FOLDER]
    ref
        The branch or tag whose merges are taken.
    limit
        Merge commits to look at, newest first.
    json
        Print JSON and nothing else on standard output.
    """
    name = repo or f"local/{repository.resolve().name}"
    taken = take_from_git(repository, out, repo=name, ref=ref, limit=limit)
    if json:
        output.emit({"corpus": str(out), "repo": name, **taken._asdict()})
        return 0
    output.out().print(
        f"{counted(taken.merges, 'merge')}, {counted(taken.tasks, 'task')}, {taken.skipped} "
        f"without a change to review: {output.shown(out)}",
        markup=False,
    )
    output.next_step(f"daydream corpus check {output.shown(out)}")
    return 0


@app.command(usage="daydream corpus label CORPUS [OPTIONS]")
def label(
    corpus: Path,
    *,
    archive: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Label each reference comment by what became of it, with the evidence.

    Parameters
    ----------
    corpus
        The folder of a corpus.
    archive
        An archive of reviews, to score those of the corpus's commits as well.
    json
        Print JSON and nothing else on standard output.
    """
    read = read_corpus(corpus)
    labels = label_corpus(read)
    runs = annotate(read, archive) if archive is not None else {}
    counts = Counter(one.label for found in labels.values() for one in found)
    if json:
        scored: list[JsonValue] = [
            {"pull_request": url, **msgspec.to_builtins(one)}
            for url, found in runs.items()
            for one in found
        ]
        told: dict[str, JsonValue] = {verdict: counts[verdict] for verdict in VERDICTS}
        output.emit({"corpus": str(corpus), **told, "runs": scored})
        return 0
    rows = [
        (url.rpartition("/")[2], one.label, f"{one.path}:{one.line or '-'}", one.evidence)
        for url, found in labels.items()
        for one in found
    ]
    output.out().print(output.table("Labels", (">#", "label", "comment", "evidence"), rows))
    output.out().print(", ".join(f"{counts[name]} {name}" for name in VERDICTS), markup=False)
    if archive is not None:
        output.out().print(_runs_table(runs))
    return 0


def _runs_table(runs: dict[str, list[Annotation]]) -> Table:
    def shown(value: JsonValue) -> str:
        return output.number(value) if isinstance(value, int | float) else "-"

    rows = [
        (
            url.rpartition("/")[2],
            one.session,
            *map(shown, (one.seed["composite"], one.strict["composite"], one.golden_overlap)),
        )
        for url, found in runs.items()
        for one in found
    ]
    return output.table("Archived reviews", (">#", "run", ">score", ">strict", ">met"), rows)


@app.command(usage="daydream corpus check CORPUS [OPTIONS]")
def check(
    corpus: Path,
    *,
    against: Annotated[list[Path], Parameter(negative="")] = [],  # noqa: B006 - never changed
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Check a corpus: exit 0 when tasks can be made of it, 1 when something is wrong.

    Parameters
    ----------
    corpus
        The folder of a corpus.
    against
        Another corpus that must share no task with this one.
    json
        Print JSON and nothing else on standard output.
    """
    found = read_corpus(corpus)
    shared = [
        (os.fspath(other), task)
        for other in against
        for task in shared_with(found, read_corpus(other))
    ]
    good = not found.errors and not shared and bool(found.replayable)
    if json:
        output.emit(
            {
                "corpus": str(corpus),
                "repo": found.index.repo,
                "ok": good,
                "pull_requests": len(found.index.prs),
                "tasks": len(found.replayable),
                "findings": [msgspec.to_builtins(one) for one in found.findings],
                "shared": [{"corpus": other, "task": task} for other, task in shared],
            }
        )
        return 0 if good else 1
    rows = [(one.level, one.where, one.problem) for one in found.findings]
    rows += [("error", other, f"shares {task}") for other, task in shared]
    if rows:
        output.out().print(output.table("Findings", ("level", "where", "what"), rows))
    output.out().print(
        f"{found.index.repo}: {counted(len(found.index.prs), 'pull request')}, "
        f"{counted(len(found.replayable), 'task')}, "
        f"{'usable' if good else 'not usable'}",
        markup=False,
    )
    return 0 if good else 1
