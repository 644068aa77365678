"""Any program as a discovery agent: ``command:CMD`` or ``command:timeout=120,memory=2GB:CMD``.

The command runs in a temporary workspace that holds the parent's files and is its working
directory. It edits the files, and what it leaves there is the proposal. What it may want to know is
a JSON file outside the workspace, at the path in ``DAYDREAM_CONTEXT``. It is the user's own
program: it has his environment and his rights, and a time limit after which it is killed with all
it started.

``{folder}`` in the command stands for the problem's folder, ``{python}`` for the interpreter that
runs Daydream, both quoted. A command with a character that a shell gives a meaning to, such as
``|``, ``>``, ``$`` or ``*``, or that starts with ``NAME=value``, runs as ``sh -c CMD``; any other
is split into words and started without a shell.
"""

import re
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from daydream.agents.base import AttemptContext, Proposal
from daydream.agents.history import write_history
from daydream.canonical import JsonObject, clean_text, dumps
from daydream.config import user_environment
from daydream.errors import AgentError, Stopped, TaskError, UsageError
from daydream.llm.client import Line
from daydream.sandbox.base import ExecResult, Job, Limits, Stop
from daydream.sandbox.process import ProcessSandbox
from daydream.sandbox.workspace import (
    Unreadable,
    let_nobody_write,
    read_files,
    workspace,
    write_files,
)
from daydream.store.events import Usage
from daydream.tasks.base import Artifact, TaskInfo, to_measure
from daydream.tasks.folder_settings import memory_mb
from daydream.tasks.verdict import signal_name

SCHEMA_VERSION: Final = 1
TIMEOUT_S: Final = 600.0
OUTPUT_BYTES: Final = 1 << 18
TAIL: Final = 2_000
PARALLEL: Final = 1_024
"""Commands at a time beyond what the workers of a run allow."""
_OPTION = r"(?:timeout|memory)=[^,:\s]+"
_OPTIONS: Final = re.compile(rf"({_OPTION}(?:,{_OPTION})*):(.*)", re.DOTALL)
_SHELL: Final = re.compile(r"[|&;<>()$`*?\[\]~#\n]|^\s*\w+=")


class Report(msgspec.Struct, frozen=True):
    """What a command may write, as JSON, to the path at ``report`` in its context."""

    rationale: str = ""
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


class CommandAgent(msgspec.Struct, frozen=True):
    """Runs a command for every attempt. Plain data: pickles, and serves several threads."""

    name: str
    argv: tuple[str, ...]
    limits: Limits
    folder: str
    where: Literal["inline", "process"] = "inline"
    deterministic: bool = False
    reads_history: bool = True
    states_cost: bool = True
    sandbox: ProcessSandbox = ProcessSandbox()

    @property
    def model(self) -> str:
        """What its spending is called; its report may say what it cost."""
        return "command"

    def preflight(self, line: Line) -> None:
        """Do nothing: what a command needs shows in its first attempt."""

    def propose(self, context: AttemptContext) -> Proposal:
        """Return what the command made of the parent's files.

        Raises :class:`AgentError` when it failed, ran over its limits, changed nothing, or left
        something that is no artifact.
        """
        return self._made(context, lambda job, _: self.sandbox.run(job, self.limits))

    def propose_over(self, context: AttemptContext, line: Line) -> Proposal:
        """Do what :meth:`propose` does; what a failed command reports to have spent counts too.

        Raises :class:`Stopped` when somebody asked to stop; the command is ended at once.
        """

        def run(job: Job, report: Path) -> ExecResult:
            def work(stop: Stop) -> tuple[ExecResult, Usage, bool]:
                result = self.sandbox.run_until(job, self.limits, stop)
                return result, _usage(_read_report(report)[0]), False

            return line.program(self.model, PARALLEL, work)

        # The line has counted it.
        return msgspec.structs.replace(self._made(context, run), usage=Usage())

    def _made(self, context: AttemptContext, run: Callable[[Job, Path], ExecResult]) -> Proposal:
        with workspace() as place:
            work = place / "workspace"
            work.mkdir()
            write_files(work, context.parent.files)
            report, history = place / "report.json", place / "history"
            history.mkdir()
            write_history(history, context)
            let_nobody_write(history)
            known = {**described(context, report), "history": str(history)}
            place.joinpath("context.json").write_bytes(dumps(known))
            env = user_environment() | {"DAYDREAM_CONTEXT": str(place / "context.json")}
            result = run(Job(self.argv, str(work), env), report)
            if result.outcome == "stopped":
                raise Stopped("interrupted", exit_code=130)
            if result.outcome != "exited" or result.exit != 0:
                raise AgentError(self._failure(result, context.parent.files))
            try:
                files = read_files(work)
                artifact = Artifact(files)
            except (Unreadable, TaskError) as error:
                raise AgentError(
                    f"the command left a workspace that is no artifact: {error}"
                ) from None
            if not files:
                raise AgentError("the command left no file (expected at least one)")
            if files == context.parent.files:
                raise AgentError(f"the command changed no file{_last_words(result)}")
            told, notes = _read_report(report)
        printed = _printed(result.stdout)
        return Proposal(
            artifact=artifact,
            rationale=clean_text(told.rationale or printed, TAIL),
            usage=_usage(told),
            notes=notes,
        )

    def _failure(self, result: ExecResult, files: Mapping[str, bytes]) -> str:
        if result.outcome == "wall":
            return (
                f"the command took over {self.limits.wall_s:g} s and was killed with all it "
                "started; give it more time with command:timeout=SECONDS:CMD"
            )
        if result.outcome == "memory":
            return f"the command used over {self.limits.memory_mb} MiB of memory and was killed"
        how = f"ended with the outcome {result.outcome}"
        if result.outcome == "exited":
            how = f"exited with status {result.exit}"
        elif result.outcome == "signalled":
            how = f"was killed by {signal_name(result.signal)}"
        return f"the command {how}{self._hint(files)}{_last_words(result)}"

    def _hint(self, files: Mapping[str, bytes]) -> str:
        """Say where a file is that the command names and the workspace does not have."""
        for word in self.argv:
            for base in filter(None, (self.folder, str(Path.cwd()))):
                if (
                    not Path(word).is_absolute()
                    and word not in files
                    and Path(base, word).is_file()
                ):
                    place = "{folder}/" + word if base == self.folder else str(Path(base, word))
                    return (
                        f"; it runs in a workspace that has no {word}, so name the file as {place}"
                    )
        return ""


def build(options: str, task: TaskInfo) -> CommandAgent:
    """Return the agent ``command:OPTIONS``.

    Raises :class:`UsageError` for an empty command, an option out of range, or ``{folder}`` with a
    task that has none.
    """
    match = _OPTIONS.fullmatch(options)
    settings, command = (match[1], match[2]) if match else ("", options)
    command = command.strip()
    if not command:
        raise UsageError(
            'agent command has no command (expected such as --agent command:"python agent.py")'
        )
    if "{folder}" in command and not task.folder:
        raise UsageError(
            f"agent command uses {{folder}}, and task {task.name} has no folder; write the path"
        )
    expanded = command.replace("{folder}", shlex.quote(task.folder))
    expanded = expanded.replace("{python}", shlex.quote(sys.executable))
    try:
        argv = ["sh", "-c", expanded] if _SHELL.search(command) else shlex.split(expanded)
    except ValueError as error:
        raise UsageError(
            f"agent command {command!r} cannot be read: {error}; close the quotes"
        ) from None
    return CommandAgent(f"command:{options}", tuple(argv), _limits(settings), task.folder)


def _limits(settings: str) -> Limits:
    values = dict(part.split("=", 1) for part in settings.split(",") if part)
    try:
        timeout = float(values.get("timeout", TIMEOUT_S))
        memory = memory_mb(values["memory"]) if "memory" in values else None
    except ValueError as error:
        raise UsageError(f"agent command: option {settings!r}: {error}; correct it") from None
    if not 0 < timeout <= 604_800:
        raise UsageError(f"agent command: timeout={timeout:g} (expected seconds, up to a week)")
    return Limits(wall_s=timeout, memory_mb=memory, output_bytes=OUTPUT_BYTES)


def described(context: AttemptContext, report: Path) -> JsonObject:
    """Return what a command may know, as the JSON at ``DAYDREAM_CONTEXT``; ``docs`` lists it."""
    info, evaluation = context.task, context.evaluation
    score = None if evaluation is None or evaluation.error_class else evaluation.score
    return {
        "schema_version": SCHEMA_VERSION,
        "task": info.name,
        "title": info.title,
        "statement": info.statement,
        "goal": info.goal,
        "measure": info.measure,
        "folder": info.folder,
        "round": context.round,
        "branch": context.branch,
        "depth": context.depth,
        "attempt_seed": context.attempt_seed,
        "files": sorted(context.parent.files),
        "report": str(report),
        "parent": {
            "status": None if evaluation is None else evaluation.status.value,
            "score": score,
            "measure": None if score is None else to_measure(info, score),
            "error_class": None if evaluation is None else evaluation.error_class,
            "message": "" if evaluation is None else evaluation.message,
            "diagnostics": {} if evaluation is None else evaluation.diagnostics,
            "feedback": "" if evaluation is None else evaluation.feedback,
        },
        "lineage": [msgspec.to_builtins(ancestor) for ancestor in context.lineage],
    }


def _read_report(path: Path) -> tuple[Report, JsonObject]:
    """Return the command's report; an unreadable one is noted, for the proposal stands without."""
    if not path.is_file() or path.is_symlink() or path.stat().st_size > 1 << 20:
        return Report(), {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report), {}
    except msgspec.DecodeError as error:
        return Report(), {"report": f"cannot be read: {error}"}


def _usage(told: Report) -> Usage:
    return Usage(told.requests, told.input_tokens, told.output_tokens, told.cost_usd)


def _printed(data: bytes) -> str:
    text = data[-2 * TAIL :].decode("utf-8", "replace")
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t").strip()


def _last_words(result: ExecResult) -> str:
    text = _printed(result.stderr) or _printed(result.stdout)
    return f"; it printed last:\n{text[-TAIL:]}" if text else ""
