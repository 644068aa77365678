"""The agent programs ``claude``, ``codex`` and ``pi`` as reviewers: thin, over their command lines.

A program works in a private copy of the checkout, so what it changes there counts only for files
in scope, which the host takes over. Its own keys are the user's; it runs as he would run it. Its
output is read as JSON lines: the last words, and what it used.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from daydream.canonical import JsonValue, clean_text
from daydream.config import user_environment
from daydream.errors import EnvironmentMissing, ModelError
from daydream.llm.base import at, whole_at
from daydream.review.backends.base import Ask
from daydream.review.tools import Tools
from daydream.review.trajectory import Call, Fork
from daydream.sandbox.base import Job, Limits
from daydream.sandbox.process import ProcessSandbox
from daydream.sandbox.workspace import workspace
from daydream.store.events import Usage

WALL_S: Final = 1_800.0
OUTPUT: Final = 32 << 20


class Heard(NamedTuple):
    """What a program said."""

    text: str
    usage: Usage
    calls: tuple[Call, ...]
    model: str


class Program(NamedTuple):
    """How one program is called and read."""

    name: str
    argv: Callable[[str, Ask, bool], list[str]]
    """From the model, the question and whether files may change, to the command line."""
    hear: Callable[[Sequence[JsonValue]], Heard]
    install: str


def _claude(model: str, ask: Ask, writes: bool) -> list[str]:
    tools = "Read,Grep,Glob,Bash" + (",Edit,Write" if writes else "")
    return [
        *("claude", "-p", "--output-format", "stream-json", "--verbose"),
        *(("--model", model) if model else ()),
        *("--append-system-prompt", ask.system, "--allowedTools", tools),
        *("--permission-mode", "acceptEdits" if writes else "default"),
    ]


def _codex(model: str, ask: Ask, writes: bool) -> list[str]:
    del ask
    return [
        *("codex", "exec", "--experimental-json", "--skip-git-repo-check"),
        *(("--model", model) if model else ()),
        *("--sandbox", "workspace-write" if writes else "read-only", "-"),
    ]


def _pi(model: str, ask: Ask, writes: bool) -> list[str]:
    tools = "read,grep,find,ls,bash" + (",edit,write" if writes else "")
    return [
        *("pi", "--mode", "json"),
        *(("--model", model) if model else ()),
        *("--append-system-prompt", ask.system, "--tools", tools, ask.user),
    ]


def _hear_claude(lines: Sequence[JsonValue]) -> Heard:
    text, usage, calls, model = "", Usage(), [], ""
    for line in lines:
        model = str(at(line, "message", "model") or model)
        calls += list(_tool_uses(at(line, "message", "content"), "tool_use", "input"))
        if at(line, "type") == "result":
            text = str(at(line, "result") or "")
            inputs = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
            read = sum(whole_at(line, "usage", key) or 0 for key in inputs)
            cost = at(line, "total_cost_usd")
            usage += Usage(
                whole_at(line, "num_turns") or 1,
                read,
                whole_at(line, "usage", "output_tokens") or 0,
                float(cost) if isinstance(cost, int | float) else None,
            )
    return Heard(text, usage, tuple(calls), model)


def _hear_codex(lines: Sequence[JsonValue]) -> Heard:
    text, usage, calls = "", Usage(), []
    for line in lines:
        kind = at(line, "item", "type")
        if kind in ("agent_message", "assistant_message"):
            text = str(at(line, "item", "text") or text)
        if kind == "command_execution" and at(line, "type") == "item.completed":
            command = str(at(line, "item", "command") or "")
            calls.append(Call(str(at(line, "item", "id") or "call"), "bash", {"command": command}))
        if at(line, "type") == "turn.completed":
            usage += Usage(
                1,
                whole_at(line, "usage", "input_tokens") or 0,
                whole_at(line, "usage", "output_tokens") or 0,
            )
    return Heard(text, usage, tuple(calls), "")


def _hear_pi(lines: Sequence[JsonValue]) -> Heard:
    text, usage, calls, model = "", Usage(), [], ""
    for line in lines:
        kind = at(line, "type")
        if kind == "tool_execution_start":
            arguments = at(line, "args")
            told: dict[str, object] = dict(arguments) if isinstance(arguments, Mapping) else {}
            identity = str(at(line, "toolCallId") or "call")
            calls.append(Call(identity, str(at(line, "toolName") or ""), told))
        if kind == "message_end" and at(line, "message", "role") == "assistant":
            content = at(line, "message", "content")
            parts = [
                str(at(one, "text"))
                for one in (content if isinstance(content, list) else ())
                if at(one, "type") == "text"
            ]
            text = "".join(parts) or text
            model = str(at(line, "message", "model") or model)
            usage += Usage(
                1,
                whole_at(line, "message", "usage", "input") or 0,
                whole_at(line, "message", "usage", "output") or 0,
            )
    return Heard(text, usage, tuple(calls), model)


def _tool_uses(content: JsonValue, kind: str, key: str) -> Iterator[Call]:
    for one in content if isinstance(content, list) else ():
        if at(one, "type") == kind:
            given = at(one, key)
            told: dict[str, object] = dict(given) if isinstance(given, Mapping) else {}
            yield Call(str(at(one, "id") or "call"), str(at(one, "name") or ""), told)


PROGRAMS: Final = {
    "claude": Program(
        "claude", _claude, _hear_claude, "npm install -g @anthropic-ai/claude-code, then claude"
    ),
    "codex": Program(
        "codex", _codex, _hear_codex, "npm install -g @openai/codex, then codex login"
    ),
    "pi": Program("pi", _pi, _hear_pi, "npm install -g @earendil-works/pi-coding-agent, then pi"),
}


class CommandBackend:
    """One agent program."""

    def __init__(self, program: Program, model: str) -> None:
        self._program = program
        self._model = model
        if shutil.which(program.name) is None:
            raise EnvironmentMissing(
                f"backend {program.name} is not installed (expected {program.name} on PATH); "
                f"install it: {program.install}; or use --backend chat"
            )

    @property
    def name(self) -> str:
        """The program's name."""
        return self._program.name

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
            heard = self._run(ask, copy, writes=bool(tools.scope))
            fork.add(
                "agent",
                heard.text,
                model=heard.model or self._model,
                calls=heard.calls,
                usage=heard.usage,
            )
            for name in sorted(tools.scope):
                _take_over(copy / name, tools, name)
        return heard.text

    def _run(self, ask: Ask, copy: Path, *, writes: bool) -> Heard:
        program = self._program
        prefix = "" if program.name != "codex" else f"{ask.system}\n\n"
        job = Job(
            argv=tuple(program.argv(self._model, ask, writes)),
            cwd=str(copy),
            env=user_environment(),
            stdin=f"{prefix}{ask.user}".encode(),
            scratch=(str(copy),),
        )
        done = ProcessSandbox().run(job, Limits(wall_s=WALL_S, output_bytes=OUTPUT))
        said = clean_text(done.stderr.decode("utf-8", "replace").strip()[-600:], 600)
        if (done.outcome, done.exit) != ("exited", 0):
            how = f"exit status {done.exit}" if done.outcome == "exited" else done.outcome
            raise ModelError(
                f"{program.name} ended with {how}: {said or 'no word'} (expected 0); try it by hand"
            )
        lines = [value for line in done.stdout.splitlines() if (value := _parsed(line)) is not None]
        heard = program.hear(lines)
        if not heard.text.strip():
            raise ModelError(
                f"{program.name} said nothing in {len(lines)} lines of JSON (expected an answer): "
                f"{said or 'no word'}"
            )
        return heard


def _take_over(place: Path, tools: Tools, name: str) -> None:
    original = tools.tree / name
    if place.is_symlink() or not place.is_file():
        return
    data = place.read_bytes()
    if not original.is_file() or original.read_bytes() != data:
        tools.take(name, data)


def _parsed(line: bytes) -> JsonValue:
    try:
        value: JsonValue = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value
