"""A task from a user's own folder: his program, his evaluator, run in a process of its own.

Each evaluation happens in a new workspace that holds a copy of the evaluator's files, as they were
when the task was opened, beside the candidate's files; it is gone afterwards, and the user's folder
is never written to. What the evaluator answered is judged in :mod:`daydream.tasks.verdict`. Its
version is the hash of its files and of the settings that change numbers.
"""

import os
import re
import secrets
import shutil
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from daydream.canonical import content_hash, dumps, hash_of
from daydream.config import SandboxLevel
from daydream.errors import ConfigError, TaskError
from daydream.sandbox import evaluator_driver, standins
from daydream.sandbox.base import Job, Limits, Sandbox
from daydream.sandbox.choose import choose, strength
from daydream.sandbox.namespaces import closed
from daydream.sandbox.process import ProcessSandbox
from daydream.sandbox.profiles import PROFILES
from daydream.sandbox.workspace import let_others_read, workspace, write_files
from daydream.tasks import verdict
from daydream.tasks.base import Artifact, Evaluation, TaskInfo, failed
from daydream.tasks.folder_settings import SETTINGS_FILE, FolderSettings, load_settings
from daydream.tasks.folder_tools import environment, explained, hidden_modules, tool_paths
from daydream.tasks.problem_files import (
    Evaluator,
    Program,
    file_hash,
    find_evaluator,
    find_program,
    find_statement,
    linked_listing,
    snapshot,
)
from daydream.tree import Status

CONTRACT: Final = 1
"""Raised when this module or the driver changes what an answer is worth."""
POLICY: Final = "parallel_refine-w4-d4"
PROCESSES: Final = 512
OUTPUT_BYTES: Final = 1 << 18
SHOWN: Final = ("program", "evaluator", "driver")
"""Folders of the workspace whose content an evaluation reads."""
WRITABLE: Final = ("program", "evaluator", "home", "tmp", "results")
"""Folders of the workspace that it writes in."""


class FolderTask(msgspec.Struct, frozen=True):
    """A task of a folder. Plain data: pickles, and may be used by several threads at once."""

    folder: Path
    settings: FolderSettings
    info: TaskInfo
    program: Program
    evaluator: Evaluator
    python: str
    """Interpreter of the evaluator."""
    limits: Limits
    environment: dict[str, str]
    """Variables passed on from the user."""
    tools: tuple[str, ...] = ()
    """Paths outside the folder that evaluations read."""
    hidden: dict[str, str] = {}
    """Modules that lie outside of ``tools``, each with its folder."""
    sandbox: Sandbox = ProcessSandbox()

    def problem(self) -> dict[str, bytes] | None:
        """Return the files of the whole folder, to be kept with a run; None if it is too large."""
        return snapshot(self.folder, self.evaluator.linked)

    def root(self) -> Artifact:
        """Return the initial program."""
        return Artifact(self.program.files)

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Score ``artifact``: ``repeats`` times, the median of the valid scores.

        Raises :class:`daydream.errors.SandboxError` only when the sandbox itself failed.
        """
        entry = self.program.entry
        if entry and entry not in artifact.files:
            return failed(
                "no_program",
                f"the artifact has no {entry} (found {', '.join(sorted(artifact.files)[:8])})",
            )
        return combined([self._once(artifact) for _ in range(self.settings.repeats)])

    def _once(self, artifact: Artifact) -> Evaluation:
        with workspace() as place:
            try:
                write_files(place / "program", artifact.files)
            except OSError as error:
                return failed(
                    "bad_files", f"the artifact's files cannot be written: {error.strerror}"
                )
            home = self._lay_out(place)
            nonce = secrets.token_urlsafe(24)
            request: evaluator_driver.Request = {
                "nonce": nonce,
                "style": self.evaluator.style,
                "folder": str(home),
                "evaluator": str(home / self.evaluator.name),
                "program": str(place / "program" / self.program.entry),
                "results": str(place / "results"),
                "standins": str(place / "driver" / "standins.py"),
                "thresholds": _listed(self.settings.thresholds),
                "sign": -1 if self.settings.direction == "min" else 1,
            }
            job = Job(
                argv=(self.python, str(place / "driver" / "evaluator_driver.py")),
                cwd=str(home),
                env=self._variables(place),
                stdin=dumps(request),
                readable=self._readable(place),
                scratch=tuple(str(place / name) for name in ("", *WRITABLE)),
            )
            before = self._originals()
            result = self.sandbox.run(job, self.limits)
            changed = self._changed(home, before)
            if changed:
                return failed(
                    "tampered",
                    f"the evaluation changed the protected file {changed}; the artifact may only "
                    "change its own files",
                    status=Status.INVALID,
                )
            reading = verdict.Reading(self.settings, self.limits, str(place), nonce)
            return explained(verdict.judge(result, reading), self.hidden)

    def _lay_out(self, place: Path) -> Path:
        """Fill the workspace and return the copy of the evaluator's folder."""
        home = place / "evaluator"
        original = self.folder / self.evaluator.home
        write_files(home, self.evaluator.files)
        for name in self.evaluator.linked:
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(original / name)
        for name in ("home", "tmp", "results", "driver"):
            (place / name).mkdir()
        for source in (evaluator_driver.__file__, standins.__file__):
            shutil.copyfile(source, place / "driver" / Path(source).name)
        # The workspace itself stays closed to others; the sandbox's user gets what lies in it.
        for name in SHOWN:
            let_others_read(place / name)
        return home

    def _readable(self, place: Path) -> tuple[str, ...]:
        """Return what the evaluation reads: the parts of the workspace, so that it can write beside
        them but not in them, the large data in its own place, and the tools.
        """
        original = self.folder / self.evaluator.home
        inside = (str(path) for name in SHOWN for path in (place / name).iterdir())
        linked = (str((original / name).resolve()) for name in self.evaluator.linked)
        return (*inside, *linked, *self.tools)

    def _variables(self, place: Path) -> dict[str, str]:
        return {
            **self.environment,
            "HOME": str(place / "home"),
            "TMPDIR": str(place / "tmp"),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONIOENCODING": "utf-8",
        } | {name: self.environment[name] for name in self.settings.env if name in self.environment}

    def _originals(self) -> dict[str, str]:
        home = self.folder / self.evaluator.home
        return {name: file_hash(home / name) for name in self.evaluator.protected}

    def _changed(self, home: Path, before: Mapping[str, str]) -> str:
        """Return a protected file that is no longer what it was; empty when all are."""
        after = self._originals()
        for name in self.evaluator.protected:
            held = content_hash(self.evaluator.files[name])
            if after[name] != before[name] or file_hash(home / name) != held:
                return name
        return ""


def combined(evaluations: list[Evaluation]) -> Evaluation:
    """Return one evaluation for several of the same artifact.

    The score is the median of the ``ok`` scores, the rest is of the evaluation nearest to it;
    without an ``ok`` one, the first failure.
    """
    valid = [one for one in evaluations if one.status is Status.OK]
    if len(evaluations) == 1 or not valid:
        return evaluations[0]
    scores = [one.score for one in valid]
    median = statistics.median(scores)
    nearest = min(valid, key=lambda one: abs(one.score - median))
    measures = [one.diagnostics.get("measure") for one in valid]
    numbers = [value for value in measures if isinstance(value, (int, float))]
    diagnostics = {
        **nearest.diagnostics,
        "measure": statistics.median(numbers),
        "repeats": numbers,
        "failed_repeats": len(evaluations) - len(valid),
    }
    return msgspec.structs.replace(nearest, score=median, diagnostics=diagnostics)


def open_folder(path: Path, sandbox: SandboxLevel = "auto") -> FolderTask:
    """Return the task of the folder at ``path``, with the settings of its ``daydream.toml``.

    Raises :class:`TaskError` for a folder without program or evaluator, :class:`ConfigError` for a
    wrong setting, :class:`EnvironmentMissing` where ``sandbox`` cannot run.
    """
    folder = path.resolve()
    if not folder.is_dir():
        raise TaskError(
            f"{path} is no folder (expected one with an initial program and an evaluator); make "
            "one with: daydream init NAME"
        )
    return build_folder(folder, load_settings(folder), sandbox)


def build_folder(
    path: Path, settings: FolderSettings, sandbox: SandboxLevel = "auto"
) -> FolderTask:
    """Return the task of the folder at ``path`` under ``settings``.

    Raises as :func:`open_folder` does.
    """
    folder = path.resolve()
    program = find_program(folder, settings)
    evaluator = find_evaluator(folder, settings, program)
    chosen = choose(sandbox, PROFILES["evaluator"], devices=settings.gpu)
    name = slug(settings.name or folder.name)
    title = settings.name or folder.name
    info = TaskInfo(
        name=name,
        title=title,
        statement=_statement(folder, settings, program),
        evaluator=_version(folder, settings, program, evaluator, strength(chosen.layers)),
        policy=POLICY,
        agent="",
        measure=settings.measure or settings.score or "score",
        goal=settings.direction,
        transform="negate" if settings.direction == "min" else "identity",
        scale=settings.scale,
        noisy=settings.repeats > 1 if settings.noisy is None else settings.noisy,
        attempt_cost=f"{settings.repeats} evaluation{'s' if settings.repeats > 1 else ''}",
        folder=str(folder),
        isolation=chosen.layers,
    )
    python, variables = _interpreter(folder, settings), environment(settings)
    limits = Limits(
        wall_s=settings.timeout,
        memory_mb=settings.memory_mb or _half_of_memory(),
        output_bytes=OUTPUT_BYTES,
        processes=PROCESSES,
    )
    tools = tool_paths(python, variables, _readable(folder, settings))
    return FolderTask(
        folder=folder,
        settings=settings,
        info=info,
        program=program,
        evaluator=evaluator,
        python=python,
        limits=limits,
        environment=variables,
        tools=tools,
        hidden={} if isinstance(chosen, ProcessSandbox) else hidden_modules(python, tools),
        sandbox=chosen,
    )


def slug(text: str) -> str:
    """Return ``text`` as a name for tables and folders: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "folder"


def _version(
    folder: Path,
    settings: FolderSettings,
    program: Program,
    evaluator: Evaluator,
    isolation: str,
) -> str:
    home = folder / evaluator.home
    return hash_of(
        {
            "contract": CONTRACT,
            "files": evaluator.listing("" if evaluator.home else program.place),
            "linked": linked_listing(home, evaluator.linked),
            "name": evaluator.name,
            "style": evaluator.style,
            "entry": program.entry,
            "timeout": settings.timeout,
            "direction": settings.direction,
            "repeats": settings.repeats,
            "cascade": settings.thresholds,
            "score": settings.score,
            "layers": (isolation,),
        }
    )


def _statement(folder: Path, settings: FolderSettings, program: Program) -> str:
    better = "higher" if settings.direction == "max" else "lower"
    what = settings.measure or "score"
    lines = [find_statement(folder, settings) or f"Improve the program of {folder.name}."]
    names = ", ".join(sorted(program.files)[:20])
    lines.append(f"The files to improve: {names}. The evaluator's {what}: {better} is better.")
    if any(b"EVOLVE-BLOCK-START" in data for data in program.files.values()):
        lines.append(
            "Only the code between EVOLVE-BLOCK-START and EVOLVE-BLOCK-END is meant to change; "
            "keep the markers."
        )
    return "\n\n".join(lines)


def _readable(folder: Path, settings: FolderSettings) -> list[str]:
    """Return what evaluations read outside the folder; relative paths count from the folder."""
    found = [str(folder / Path(path).expanduser()) for path in settings.readable]
    for named, path in zip(settings.readable, found, strict=True):
        if closed(path):
            raise TaskError(
                f"{folder}: readable names {named}, which the sandbox keeps closed (expected files "
                "or folders with what the evaluator needs, and gpu = true for a GPU); name those"
            )
    return found


def _interpreter(folder: Path, settings: FolderSettings) -> str:
    if not settings.python:
        return sys.executable
    named = Path(settings.python).expanduser()
    found = str(folder / named) if "/" in settings.python else shutil.which(settings.python)
    if found is None or not os.access(found, os.X_OK):
        raise ConfigError(
            f"[task] python = {settings.python!r} is no program (expected a name on PATH, or a "
            f"path, relative to the folder); correct it in {SETTINGS_FILE}"
        )
    return found


def _half_of_memory() -> int:
    """Return half of the machine's memory in MiB: no candidate may take all of it."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return max(256, pages * size // 2 >> 20)


def _listed(values: tuple[float, ...] | None) -> list[float] | None:
    return None if values is None else list(values)
