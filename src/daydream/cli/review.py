"""``daydream review``: a review of the change on a branch, its fix, its tests, its commit."""

import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Literal, Self

import msgspec
from cyclopts import Parameter
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.prompt import Confirm
from rich.syntax import Syntax

from daydream.canonical import JsonValue, hash_of
from daydream.cli import output, results
from daydream.cli.flags import settings_here
from daydream.cli.numbers import Whole
from daydream.cli.progress import interruptible
from daydream.config import (
    ARCHIVE_VARIABLE,
    RunSettings,
    environment_layer,
    mocking,
    resolve,
    variable,
)
from daydream.errors import UsageError
from daydream.prompting import use_prompts
from daydream.review.archive import Archive
from daydream.review.flow import Review
from daydream.review.git import Repository
from daydream.review.outcome import Options, Phase, Reviewed, Surroundings
from daydream.review.outputs import as_github, as_sarif, as_text
from daydream.review.records import Item, Verdict
from daydream.review.reviewers import Asking, open_backend
from daydream.review.tools import Shell
from daydream.review.trajectory import Agent, Recorder
from daydream.sandbox.workspace import remove_tree
from daydream.tasks.folder_settings import SETTINGS_FILE
from daydream.wording import counted

ARCHIVE = Path("~/.daydream/archive")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReviewFlags:
    """Who reviews, and what it may cost."""

    base: str = ""
    """Commit to compare with. [default: origin/HEAD, main or master]"""
    backend: Literal["chat", "claude", "codex", "pi"] = "chat"
    """Who answers: a model over Chat Completions, or an agent program."""
    model: Annotated[str, Parameter(name=["--model", "-m"])] = ""
    """Model: openai/gpt-5-mini, local/NAME@URL, mock: for chat; the program's own name else."""
    fanout: Whole = 4
    """Conversations held at a time."""
    max_requests: Whole | None = None
    """Stop asking after so many requests; what was found until then is reported."""
    max_time: float | None = None
    """Stop asking after so many seconds."""
    budget: str = ""
    """Stop asking when so much is spent: 1usd, 2Mtok, 1h, or several with commas."""
    prompts: str | None = None
    """Folder with texts of yours in place of those that models are told."""
    archive: Path | None = None
    """Folder of archives. [default: DAYDREAM_ARCHIVE_DIR, else ~/.daydream/archive]"""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FixFlags:
    """What becomes of the findings."""

    fix: bool = True
    """Mend findings that hold up, once you agree."""
    yes: Annotated[bool, Parameter(negative="")] = False
    """Agree to the fix beforehand."""
    test_command: str = ""
    """The repository's tests; the fix is kept only when they pass."""
    in_place: Annotated[bool, Parameter(negative="")] = False
    """Move what is checked out to the fix too, where it has no changes of yours."""
    push: Annotated[bool, Parameter(negative="")] = False
    """Push the fix's branch to origin."""


def review(
    path: Path = Path(),
    *,
    asked: ReviewFlags = ReviewFlags(),
    wanted: FixFlags = FixFlags(),
    non_interactive: Annotated[bool, Parameter(negative="")] = False,
    format: Literal["text", "json", "sarif", "github"] = "text",
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Review what a branch changes, mend what holds up, test it, and commit it on a branch.

    Your work tree, your index and your branch stay as they are; the fix is a commit on a branch of
    its own. Commands of models run in the sandbox, on a copy.

    Parameters
    ----------
    path
        A checkout of a Git repository.
    non_interactive
        Ask nothing; without --yes nothing is mended.
    format
        Form of the findings on standard output.
    json
        Print JSON lines and nothing else on standard output.
    """
    options = _options(asked, wanted)
    root = _archive_root(asked)
    chatty = not json and not non_interactive and sys.stdin.isatty() and sys.stdout.isatty()
    settings = settings_here()
    with (
        _room(root) as room,
        interruptible(
            "stopping once the requests in flight are answered; Ctrl-C again stops at once",
            "stopped at once; nothing of yours was changed",
        ) as interrupted,
        _Phases(as_json=json) as shown,
    ):
        repository = Repository(path, room)
        use_prompts(_texts(asked, settings, repository.top))
        session = _session(repository, asked)
        recorder = Recorder(session, Agent("daydream", _version(), asked.model), _clock)
        around = Surroundings(
            clock=_clock,
            confirm=lambda items, verdicts: wanted.yes or (chatty and _agree(items, verdicts)),
            notify=shown.notify,
            interrupted=interrupted,
            version=_version(),
        )
        asking = Asking(
            backend=asked.backend,
            model=asked.model or ("mock:" if mocking() else ""),
            budget=asked.budget,
            max_requests=asked.max_requests,
            max_time=asked.max_time,
            prices=settings.prices,
            session=session,
            interrupted=interrupted,
        )
        with open_backend(asking) as backend:
            archive = Archive(root, session)
            flow = Review(
                repository,
                backend,
                options,
                archive=archive,
                recorder=recorder,
                shell=Shell(resolve([environment_layer()]).sandbox, stop=interrupted.is_set),
                around=around,
            )
            done = flow.run()
    _show(done, format, as_json=json, asked=chatty and options.fix and not wanted.yes)
    return 1 if done.failed else 0


def _options(asked: ReviewFlags, wanted: FixFlags) -> Options:
    if asked.fanout < 1:
        raise UsageError(f"--fanout is {asked.fanout} (expected at least 1)")
    if asked.max_requests is not None and asked.max_requests < 1:
        raise UsageError(f"--max-requests is {asked.max_requests} (expected at least 1)")
    if asked.max_time is not None and not asked.max_time > 0:
        raise UsageError(f"--max-time is {asked.max_time:g} (expected seconds, more than 0)")
    if not wanted.fix and (wanted.yes or wanted.push or wanted.in_place):
        raise UsageError("--no-fix leaves nothing for --yes, --push and --in-place; drop them")
    return Options(
        base=asked.base,
        fix=wanted.fix,
        in_place=wanted.in_place,
        push=wanted.push,
        test_command=wanted.test_command,
        fanout=asked.fanout,
    )


def _texts(asked: ReviewFlags, settings: RunSettings, checkout: Path) -> str:
    """Return the folder with the person's texts; empty where there is none.

    A ./daydream.toml of the checkout itself chooses no text: who wrote the change would tell the
    reviewers what to think of it.
    """
    if asked.prompts is not None:
        return asked.prompts
    chosen = resolve([environment_layer()]).prompts
    if chosen or not settings.prompts:
        return chosen
    if Path.cwd().is_relative_to(checkout.resolve()):
        output.warn(
            f"prompts in ./{SETTINGS_FILE} is not used: the file lies in the checkout under review "
            "(expected --prompts or DAYDREAM_PROMPTS)"
        )
        return ""
    return settings.prompts


def _clock() -> float:
    return time.time()  # noqa: TID251 - the clock of a review comes in here


def _version() -> str:
    try:
        return version("daydream-rsi")
    except PackageNotFoundError:
        return "unknown"


def _session(repository: Repository, asked: ReviewFlags) -> str:
    now = _clock()
    mark = hash_of([str(repository.top), repository.commit("HEAD"), asked.model, now, os.getpid()])
    return time.strftime("%Y%m%dT%H%M%S-", time.gmtime(now)) + mark[:12]


def _archive_root(asked: ReviewFlags) -> Path:
    return (asked.archive or Path(variable(ARCHIVE_VARIABLE) or ARCHIVE)).expanduser().absolute()


@contextlib.contextmanager
def _room(root: Path) -> Iterator[Path]:
    """Give a folder for the checkout; those that killed reviews left are removed first."""
    work = root / "work"
    try:
        work.mkdir(parents=True, exist_ok=True)
        with (work / "lock").open("wb") as turn:
            # One at a time, so that nobody takes a folder without a lock yet for a leftover.
            fcntl.flock(turn, fcntl.LOCK_EX)
            for old in work.iterdir():
                with contextlib.suppress(OSError), (old / "lock").open("wb") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_tree(old)
            room = work / f"{os.getpid()}-{time.monotonic_ns()}"
            room.mkdir(mode=0o755)
            held = (room / "lock").open("wb")
            fcntl.flock(held, fcntl.LOCK_EX)
    except OSError as error:
        raise UsageError(
            f"the archive {root} cannot be used: {error.strerror}; name another with --archive"
        ) from None
    with held:
        try:
            yield room
        finally:
            remove_tree(room)


class _Phases:
    """Shows the phases: a live line on a terminal, plain lines elsewhere, JSON lines when asked."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._console = output.err()
        self._live: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._quiet()

    def notify(self, phase: Phase) -> None:
        """Tell that a phase began or ended."""
        if self._json:
            event = "phase_done" if phase.ended else "phase"
            output.emit({"event": event, "phase": phase.name, "detail": phase.detail})
            return
        self._quiet()
        if phase.ended:
            self._console.print(f"{phase.name:7} {phase.detail or 'done'}", markup=False)
        elif self._console.is_terminal:
            columns = (TextColumn("{task.description}", markup=False), TimeElapsedColumn())
            self._live = Progress(SpinnerColumn(), *columns, console=self._console, transient=True)
            self._live.add_task(f"{phase.name:7} {phase.detail}")
            self._live.start()
        else:
            self._console.print(f"{phase.name:7} ... {phase.detail}", markup=False)

    def _quiet(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def _agree(items: Sequence[Item], verdicts: Sequence[Verdict]) -> bool:
    output.out().print(_table(items, verdicts))
    return Confirm.ask("Mend the findings that hold up?", default=False)


def _table(items: Sequence[Item], verdicts: Sequence[Verdict]) -> object:
    opinions = {one.issue_id: one.verdict for one in verdicts}
    rows = [
        (
            str(item.id),
            item.severity,
            f"{item.file}:{item.line}",
            item.description,
            opinions.get(item.id, "-"),
        )
        for item in items
    ]
    columns = (">", "severity", "where", "finding", "second look")
    return output.table(counted(len(items), "finding"), columns, rows)


def _show(done: Reviewed, form: str, *, as_json: bool, asked: bool) -> None:
    if form == "sarif":
        output.emit(as_sarif(done.items, done.verdicts, _version()))
    elif form == "github":
        output.emit(as_github(done.items, done.verdicts, done.files, done.head))
    elif as_json or form == "json":
        output.emit(_done(done))
    else:
        _print(done, table=not asked)


def _done(done: Reviewed) -> JsonValue:
    tests: JsonValue = None if done.tests is None else msgspec.to_builtins(done.tests)
    return {
        "event": "done",
        "archive": str(done.archive),
        "base": done.base,
        "head": done.head,
        "items": msgspec.to_builtins(done.items),
        "verdicts": msgspec.to_builtins(done.verdicts),
        "tests": tests,
        "fix_failures": dict(done.fix_failures),
        "reviewers_failed": dict(done.reviewers_failed),
        "commit": done.commit,
        "branch": done.branch,
        "usage": msgspec.to_builtins(done.usage),
        "stopped": done.stopped,
    }


def _print(done: Reviewed, *, table: bool) -> None:
    console = output.out()
    if table and console.is_terminal:
        console.print(_table(done.items, done.verdicts))
    console.print(as_text(done.items, done.verdicts), markup=False)
    for who, reason in sorted({**done.reviewers_failed, **done.fix_failures}.items()):
        output.warn(f"{who}: {reason}")
    if done.patch:
        console.print(Syntax(done.patch, "diff", background_color="default"))
    if done.tests is not None:
        word = "passed" if done.tests.passed else f"failed (exit status {done.tests.exit})"
        console.print(f"Tests {word}: {done.tests.command}", markup=False)
    elif done.commit is not None:
        console.print("Tests were not run: name them with --test-command")
    spent = results.usage_text([done.usage])
    if spent:
        console.print(f"Models: {spent}", markup=False)
    console.print(f"Archived in {output.shown(done.archive)}", markup=False)
    if done.stopped is not None:
        console.print(f"Stopped: {done.stopped}", style="yellow", markup=False)
    if done.branch is not None:
        output.next_step(f"git diff HEAD {done.branch}", f"git merge {done.branch}")
    elif done.items:
        output.next_step("daydream review --yes --test-command CMD")
