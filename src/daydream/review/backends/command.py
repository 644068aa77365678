"""The agent programs ``claude``, ``codex`` and ``pi`` as reviewers: thin, over their command lines.

A program works in a private copy of the checkout, so what it changes there counts only for files
in scope, which the host takes over. Its own keys are the user's, so it gets no shell of its own to
carry them away; codex has one inside of its own sandbox. How a program reports is read where agents
read it, :mod:`daydream.agents.programs`; which files it looked at is read here.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from daydream.agents.programs.base import Program, Told, events_of, text_at
from daydream.agents.programs.claude import Claude
from daydream.agents.programs.codex import Codex
from daydream.agents.programs.pi import Pi
from daydream.canonical import JsonValue, clean_text
from daydream.config import user_environment
from daydream.errors import EnvironmentMissing, ModelError, Stopped
from daydream.llm.base import at
from daydream.review.backends.base import Ask
from daydream.review.tools import Tools
from daydream.review.trajectory import Call, Fork
from daydream.sandbox.base import Job, Limits
from daydream.sandbox.process import ProcessSandbox
from daydream.sandbox.workspace import workspace

WALL_S: Final = 1_800.0
OUTPUT: Final = 32 << 20


class Reviewer(NamedTuple):
    """How one program is called as a reviewer, and which tools it says it used."""

    program: Program
    argv: Callable[[str, Ask, bool], list[str]]
    """From the model, the question and whether files may change, to the command line."""
    calls: Callable[[Sequence[JsonValue]], Iterator[Call]]
    takes_system: bool
    """Whether the system message has a place on the command line."""


def _claude(model: str, ask: Ask, writes: bool) -> list[str]:
    tools = "Read,Grep,Glob" + (",Edit,Write" if writes else "")
    return [
        *("claude", "-p", "--output-format", "stream-json", "--verbose"),
        *(("--model", model) if model else ()),
        *("--append-system-prompt", ask.system, "--tools", tools, "--allowedTools", tools),
        *("--permission-mode", "acceptEdits" if writes else "default"),
    ]


def _codex(model: str, ask: Ask, writes: bool) -> list[str]:
    del ask
    return [
        *("codex", "exec", "--json", "--skip-git-repo-check"),
        *("-s", "workspace-write" if writes else "read-only"),
        *(("-m", model) if model else ()),
        "-",
    ]


def _pi(model: str, ask: Ask, writes: bool) -> list[str]:
    tools = "read,grep,find,ls" + (",edit,write" if writes else "")
    return [
        *("pi", "--mode", "json", "-p", "--no-session", "--tools", tools),
        *(("--model", model) if model else ()),
        *("--append-system-prompt", ask.system),
    ]


def _claude_calls(events: Sequence[JsonValue]) -> Iterator[Call]:
    for event in events:
        content = at(event, "message", "content")
        for one in content if isinstance(content, list) else ():
            if at(one, "type") == "tool_use":
                yield _call(at(one, "id"), at(one, "name"), at(one, "input"))


def _codex_calls(events: Sequence[JsonValue]) -> Iterator[Call]:
    for event in events:
        item = at(event, "item")
        if at(event, "type") == "item.completed" and at(item, "type") == "command_execution":
            yield _call(at(item, "id"), "bash", {"command": text_at(item, "command")})


def _pi_calls(events: Sequence[JsonValue]) -> Iterator[Call]:
    for event in events:
        if at(event, "type") == "tool_execution_start":
            yield _call(at(event, "toolCallId"), at(event, "toolName"), at(event, "args"))


def _call(identity: JsonValue, name: JsonValue, given: JsonValue) -> Call:
    told: dict[str, object] = dict(given) if isinstance(given, Mapping) else {}
    return Call(str(identity or "call"), str(name or ""), told)


REVIEWERS: Final = {
    "claude": Reviewer(Claude(), _claude, _claude_calls, takes_system=True),
    "codex": Reviewer(Codex(), _codex, _codex_calls, takes_system=False),
    "pi": Reviewer(Pi(), _pi, _pi_calls, takes_system=True),
}


class CommandBackend:
    """One agent program."""

    def __init__(self, reviewer: Reviewer, model: str, stop: Callable[[], bool]) -> None:
        self._reviewer = reviewer
        self._model = model
        self._stop = stop
        facts = reviewer.program.facts
        if shutil.which(facts.name) is None:
            raise EnvironmentMissing(
                f"backend {facts.name} is not installed (expected {facts.name} on PATH); install "
                f"it: {facts.install}, then {facts.login}; or use --backend chat"
            )

    @property
    def name(self) -> str:
        """The program's name."""
        return self._reviewer.program.facts.name

    @property
    def model(self) -> str:
        """The model that it was given; empty leaves the choice to it."""
        return self._model

    def converse(self, ask: Ask, tools: Tools, fork: Fork) -> str:
        """Return the program's last words; files in scope that it changed are taken over."""
        fork.add("system", ask.system)
        fork.add("user", ask.user, extra={"shown_files": list(ask.shown_files)})
        with workspace() as place:
            copy = place / "repo"
            shutil.copytree(tools.tree, copy, symlinks=True)
            events, how = self._run(ask, copy, writes=bool(tools.scope))
            told = self._reviewer.program.read(events)
            fork.add(
                "agent",
                told.text,
                model=told.model or self._model,
                calls=tuple(self._reviewer.calls(events)),
                usage=told.usage,
            )
            self._check(told, len(events), how)
            for name in sorted(tools.scope):
                _take_over(copy / name, tools, name)
        return told.text

    def _run(self, ask: Ask, copy: Path, *, writes: bool) -> tuple[list[JsonValue], str]:
        """Return what it printed as JSON, and how it ended where it did not end well."""
        prefix = "" if self._reviewer.takes_system else f"{ask.system}\n\n"
        job = Job(
            argv=tuple(self._reviewer.argv(self._model, ask, writes)),
            cwd=str(copy),
            env={**user_environment(), **self._reviewer.program.facts.quiet},
            stdin=f"{prefix}{ask.user}".encode("utf-8", "replace"),
            scratch=(str(copy),),
        )
        limits = Limits(wall_s=WALL_S, output_bytes=OUTPUT)
        done = ProcessSandbox().run_until(job, limits, self._stop)
        if done.outcome == "stopped":
            raise Stopped("interrupted", exit_code=130)
        said = clean_text(done.stderr.decode("utf-8", "replace").strip()[-600:], 600)
        how = f"exit status {done.exit}" if done.outcome == "exited" else done.outcome
        ended = (done.outcome, done.exit) == ("exited", 0)
        return list(events_of(done.stdout)), "" if ended else f"{how}: {said or 'no word'}"

    def _check(self, told: Told, count: int, how: str) -> None:
        title = self._reviewer.program.facts.title
        if how:
            why = clean_text(told.error, 600)
            raise ModelError(
                f"{title} ended with {how}{f': {why}' if why else ''} (expected 0); try it by hand"
            )
        if told.error or not told.text.strip():
            why = clean_text(told.error, 600) or "no word"
            raise ModelError(
                f"{title} gave no answer in {count} lines of JSON: {why} (expected one); try it by "
                "hand"
            )


def _take_over(place: Path, tools: Tools, name: str) -> None:
    original = tools.tree / name
    if place.is_symlink() or not place.is_file():
        return
    data = place.read_bytes()
    if not original.is_file() or original.read_bytes() != data:
        tools.take(name, data)
