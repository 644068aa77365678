"""An agent program as a discovery agent: ``cli:claude``, ``cli:codex/MODEL``, ``cli:pi``.

``cli:KEY=VALUE,...:PROGRAM/MODEL`` takes ``timeout`` in seconds, ``memory`` such as 4GB,
``parallel`` programs at a time and ``sandbox`` (auto, bubblewrap, process).

Each attempt starts the program once, without a person, in a workspace with the parent's files; the
history of the run lies read-only beside it. In bubblewrap it sees nothing else of the user's: it
has a home of its own with copies of its login, and the network, without which it reaches no model.
There it may run commands; where only process limits can be had it may edit files and no more. It
gets the variables of its own keys and no other key. What it leaves is refused when it holds one.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from daydream.agents.base import AttemptContext, Proposal
from daydream.agents.chat.agent import ChatAgent, chat
from daydream.agents.chat.prompt import facts_of
from daydream.agents.programs.base import Facts, Program, Told, events_of, tokens_in
from daydream.agents.programs.claude import Claude
from daydream.agents.programs.codex import Codex
from daydream.agents.programs.gemini import Gemini
from daydream.agents.programs.pi import Pi
from daydream.agents.programs.place import Place, variables
from daydream.canonical import JsonValue, clean_text
from daydream.config import SandboxLevel, mocking, suggest, user_environment
from daydream.errors import AgentError, EnvironmentMissing, Stopped, TaskError, UsageError
from daydream.llm.client import Line
from daydream.llm.http import hide
from daydream.prompting import prompt
from daydream.sandbox.base import ExecResult, Job, Limits, Stop
from daydream.sandbox.bubblewrap import BubblewrapSandbox
from daydream.sandbox.choose import choose
from daydream.sandbox.process import ProcessSandbox
from daydream.sandbox.profiles import ONLINE
from daydream.sandbox.workspace import workspace
from daydream.store.events import Usage
from daydream.tasks.base import Artifact, TaskInfo
from daydream.tasks.folder_settings import memory_mb
from daydream.tasks.verdict import signal_name

PROGRAMS: Final[Mapping[str, Program]] = {
    one.facts.name: one for one in (Claude(), Codex(), Gemini(), Pi())
}
OUTPUT_BYTES: Final = 32 << 20
"""What is kept of a program's output: its events, one a line."""
START_S: Final = 120.0
"""How long a program may take to name its version."""
KEYS: Final = ("timeout", "memory", "parallel", "sandbox")
_OPTION: Final = rf"(?:{'|'.join(KEYS)})=[^,:\s]+"
_OPTIONS: Final = re.compile(rf"({_OPTION}(?:,{_OPTION})*):(.*)", re.DOTALL)
_SHORTEST_SECRET: Final = 8
_TOOLS: Final = {
    True: "You may run commands in your working folder, to try what you write.",
    False: "You cannot run commands here; read and edit files.",
}


class ProgramAgent(msgspec.Struct, frozen=True):
    """Starts one agent program for every attempt; serves several threads."""

    name: str
    program: Program
    path: str
    """Where the program is."""
    own_model: str
    """The program's model; empty for its own default."""
    limits: Limits
    sandbox: BubblewrapSandbox | ProcessSandbox
    parallel: int = 16
    where: Literal["inline", "process"] = "inline"
    deterministic: bool = False
    reads_history: bool = True

    @property
    def model(self) -> str:
        """The model string, for prices and messages."""
        known = self.program.facts.name
        return f"cli:{known}/{self.own_model}" if self.own_model else f"cli:{known}"

    @property
    def states_cost(self) -> bool:
        """Whether the program says what it costs."""
        return self.program.facts.states_cost

    @property
    def isolation(self) -> tuple[str, ...]:
        """The layers that the program runs in."""
        return self.sandbox.layers

    @property
    def apart(self) -> bool:
        """Whether the program sees only what it is shown."""
        return isinstance(self.sandbox, BubblewrapSandbox)

    def propose(self, context: AttemptContext) -> Proposal:
        """Refuse: the program runs over a run's line, which keeps to its budget."""
        raise AgentError(f"agent {self.name} needs a run (expected to be asked over its line)")

    def preflight(self, line: Line) -> None:
        """Start the program for its version, where it will work; that asks no model.

        Raises :class:`EnvironmentMissing` when it does not start, or is logged in nowhere.
        """
        facts = self.program.facts
        if not logged_in(facts):
            raise EnvironmentMissing(
                f"{facts.title} is not logged in: found none of {', '.join(facts.keys[:3])} and "
                f"no {facts.secrets[0]} in the home folder; {facts.login}"
            )
        with workspace() as root:
            place = Place(root)
            nothing = AttemptContext(_NOBODY, 1, 0, 1, 0, 0, Artifact({}), None)
            place.fill(nothing, facts, apart=self.apart)
            job = place.job(facts, self.path, ("--version",), "", apart=self.apart)
            limits = msgspec.structs.replace(self.limits, wall_s=START_S)
            found = self.sandbox.run_until(job, limits, line.interrupted)
        if found.outcome == "stopped":
            raise Stopped("interrupted", exit_code=130)
        if found.outcome != "exited" or found.exit != 0:
            raise EnvironmentMissing(
                f"{facts.title} at {self.path} does not start: {self._ending(found)}"
                f"{self._last_words(found)}; install it again: {facts.install}"
            )

    def propose_over(self, context: AttemptContext, line: Line) -> Proposal:
        """Return what the program made of the parent's files.

        Raises :class:`Stopped` when it is not logged in or somebody asked to stop, and
        :class:`AgentError` when it failed, changed nothing, or left something that is no artifact.
        """
        facts = self.program.facts
        with workspace() as root:
            place = Place(root)
            place.fill(context, facts, apart=self.apart)
            arguments = self.program.arguments(self.own_model, shell=self.apart)
            text = self._prompt(context, place)
            job = place.job(facts, self.path, arguments, text, apart=self.apart)
            result, told = line.program(
                self.model, self.parallel, lambda stop: self._run(job, stop)
            )
        self._check(result, told)
        files = self._files(result, context)
        notes: dict[str, JsonValue] = {
            "program": facts.name,
            "model": told.model or self.own_model,
            "counted": told.counted,
            "layers": list(result.layers),
        }
        return Proposal(
            artifact=Artifact(files),
            rationale=clean_text(self._safe(told.text), 2_000),
            notes=notes,
        )

    def _run(self, job: Job, stop: Stop) -> tuple[tuple[ExecResult, Told], Usage, bool]:
        result = self.sandbox.run_until(job, self.limits, stop)
        told = self.program.read(list(events_of(result.stdout)))
        return (result, told), told.usage, told.counted

    def _prompt(self, context: AttemptContext, place: Place) -> str:
        names = sorted(context.parent.files)
        return prompt(
            "program",
            **facts_of(context),
            files="\n".join(names[:200]) + ("\n..." if len(names) > 200 else ""),
            history=str(place.history),
            tools=_TOOLS[self.apart],
        )

    def _check(self, result: ExecResult, told: Told) -> None:
        """Raise for a program that did not end well."""
        facts = self.program.facts
        if result.outcome == "stopped":
            raise Stopped("interrupted", exit_code=130)
        if result.outcome == "exited" and result.exit == 0 and not told.error:
            return
        said = f"{told.error}\n{_text(result.stderr)}"
        if not told.counted:
            said += _text(result.stdout[-4_000:])
        refused = result.exit in facts.unauthorised and result.exit is not None
        if refused or re.search(facts.refused, said, re.IGNORECASE):
            raise Stopped(
                f"{facts.title} is not logged in: {self._safe(told.error) or 'it said so'}"
                f"{self._last_words(result)}; {facts.login}, then resume",
                exit_code=3,
            )
        why = f": {clean_text(self._safe(told.error), 1_000)}" if told.error else ""
        raise AgentError(f"{facts.title} {self._ending(result)}{why}{self._last_words(result)}")

    def _ending(self, result: ExecResult) -> str:
        if result.outcome == "wall":
            return (
                f"took over {self.limits.wall_s:g} s and was killed with all it started; give it "
                "more time with cli:timeout=SECONDS:PROGRAM"
            )
        if result.outcome == "memory":
            return "used more memory than it may and was killed; allow more with memory=8GB"
        if result.outcome == "signalled":
            return f"was killed by {signal_name(result.signal)}"
        if result.outcome != "exited":
            return f"ended with the outcome {result.outcome}"
        meaning = self.program.facts.meanings.get(result.exit or 0)
        return f"exited with status {result.exit}" + (f" ({meaning})" if meaning else "")

    def _files(self, result: ExecResult, context: AttemptContext) -> dict[str, bytes]:
        title = self.program.facts.title
        for name, why in result.not_taken.items():
            raise AgentError(f"{title} left a workspace that is no artifact: {name}: {why}")
        files = result.files
        if not files:
            raise AgentError(f"{title} left no file (expected at least one)")
        if files == context.parent.files:
            raise AgentError(f"{title} changed no file{self._last_words(result)}")
        for secret in self._secrets():
            found = next((n for n, data in files.items() if secret.encode() in data), None)
            if found is not None:
                raise AgentError(
                    f"{title} left a key of yours in {self._safe(found)} (expected a file without "
                    "one); the files are not kept"
                )
        try:
            Artifact(files)
        except TaskError as error:
            raise AgentError(f"{title} left no artifact: {error}") from None
        return files

    def _secrets(self) -> list[str]:
        facts = self.program.facts
        known = variables(facts, own=True)
        found = [known[name] for name in facts.keys if name in known]
        home = Path(user_environment().get("HOME", "/nonexistent"))
        found += [text for name in facts.secrets for text in tokens_in(home / name)]
        return [one for one in found if len(one) >= _SHORTEST_SECRET]

    def _safe(self, text: str) -> str:
        """Return ``text`` without a key."""
        for secret in self._secrets():
            text = hide(text, secret)
        return text

    def _last_words(self, result: ExecResult) -> str:
        said = self._safe(_text(result.stderr))[-1_000:].strip()
        return f"; it printed last:\n{said}" if said else ""


_NOBODY: Final = TaskInfo(
    name="none", title="", statement="", evaluator="", policy="", agent="",
)  # fmt: skip


def logged_in(facts: Facts) -> bool:
    """Return whether a login of the program can be found: a key in a variable, or a file."""
    known = user_environment()
    home = Path(known.get("HOME", "/nonexistent"))
    return any(known.get(name, "").strip() for name in (*facts.keys, *facts.variables)) or any(
        (home / name).is_file() for name in facts.secrets
    )


def _text(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


def build(options: str, task: TaskInfo) -> ProgramAgent | ChatAgent:
    """Return the agent ``cli:OPTIONS``; the mock in its place while ``DAYDREAM_MOCK=1`` is set.

    Raises :class:`UsageError` for an unknown program or option, and :class:`EnvironmentMissing`
    when the program is not installed.
    """
    del task
    match = _OPTIONS.fullmatch(options)
    settings, asked = (match[1], match[2]) if match else ("", options)
    name, _, model = asked.partition("/")
    program = PROGRAMS.get(name)
    if program is None:
        raise UsageError(
            f"agent program {name!r} is unknown{suggest(name, sorted(PROGRAMS))}; write such as "
            "cli:claude, cli:codex/MODEL or cli:timeout=900:pi, or take any other program with "
            '--agent command:"CMD"'
        )
    values = dict(part.split("=", 1) for part in settings.split(",") if part)
    limits, parallel, level = _limits(settings, values)
    if mocking():
        return msgspec.structs.replace(chat("mock:"), name=f"cli:{options}")
    path = shutil.which(name)
    if path is None:
        raise EnvironmentMissing(
            f"{program.facts.title} is not installed: no program {name} on PATH; "
            f"{program.facts.install}, or use another model: -m mock: needs nothing"
        )
    sandbox = choose(level, ONLINE)
    if not isinstance(sandbox, BubblewrapSandbox | ProcessSandbox):
        raise EnvironmentMissing(f"agent programs cannot run in {sandbox.layers[0]}")
    return ProgramAgent(f"cli:{options}", program, path, model, limits, sandbox, parallel)


def _limits(settings: str, values: Mapping[str, str]) -> tuple[Limits, int, SandboxLevel]:
    try:
        timeout = float(values.get("timeout", ONLINE.limits.wall_s))
        memory = memory_mb(values["memory"]) if "memory" in values else ONLINE.limits.memory_mb
        parallel = int(values.get("parallel", 16))
        level = msgspec.convert(values.get("sandbox", "auto"), SandboxLevel)
    except (ValueError, msgspec.ValidationError) as error:
        raise UsageError(
            f"agent cli: option {settings!r}: {error} (expected such as timeout=900,memory=4GB,"
            "parallel=2,sandbox=auto before the program)"
        ) from None
    if not 0 < timeout <= 604_800:
        raise UsageError(f"agent cli: timeout={timeout:g} (expected seconds, up to a week)")
    if not 1 <= parallel <= 1_000:
        raise UsageError(f"agent cli: parallel={parallel} (expected 1 to 1000)")
    limits = Limits(
        wall_s=timeout,
        memory_mb=memory,
        output_bytes=OUTPUT_BYTES,
        processes=ONLINE.limits.processes,
    )
    return limits, parallel, level
