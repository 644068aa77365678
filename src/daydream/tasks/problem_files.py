"""What a problem folder holds: its program, its evaluator, and the evaluator's own files.

Understands the folders of OpenEvolve and SkyDiscover (``initial_program.*`` with ``evaluator.py``
or ``evaluator/evaluator.py``), SimpleTES (``init_program.*``) and ShinkaEvolve (``initial.*`` with
``evaluate.py``). Reads only: nothing of the folder is imported, run or written.
"""

import ast
import hashlib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Literal

import msgspec

from daydream.canonical import clean_text, content_hash
from daydream.errors import ConfigError, TaskError
from daydream.sandbox.workspace import Unreadable, read_files
from daydream.tasks.folder_settings import SETTINGS_FILE, FolderSettings

PROGRAMS: Final = ("initial_program", "initial", "init_program")
EVALUATORS: Final = (
    "evaluator.py",
    "evaluate.py",
    "evaluator/evaluator.py",
    "evaluator/evaluate.py",
)
STATEMENTS: Final = ("instruction.md", "{folder}.txt", "README.md", "readme.md")
OUTPUTS: Final = frozenset({"runs", "openevolve_output", ".daydream", ".ipynb_checkpoints"})
"""What tools leave behind in a folder: not copied, no part of the version."""
MAX_STATEMENT: Final = 20_000
"""Characters of a statement that a file gives; a long README is no prompt."""
MAX_EVALUATOR_BYTES: Final = 64 << 20
MAX_EVALUATOR_FILES: Final = 5_000

Style = Literal["function", "script"]


class Program(msgspec.Struct, frozen=True):
    """The initial program."""

    files: dict[str, bytes]
    entry: str
    """The file whose path the evaluator gets; empty for the folder itself."""
    place: str
    """Where it lies in the folder."""


class Evaluator(msgspec.Struct, frozen=True):
    """The evaluator with the files that it may read, as they were when the task was opened."""

    name: str
    """File name of the evaluator within ``home``."""
    home: str
    """Its folder within the problem folder; empty for the problem folder itself."""
    style: Style
    files: dict[str, bytes]
    """Path below ``home`` to content."""
    linked: tuple[str, ...]
    """Entries below ``home`` that evaluations reach through a link."""
    protected: tuple[str, ...]
    """Files that no evaluation may change."""

    def listing(self, hidden: str) -> dict[str, str]:
        """Return path to content hash of all files but ``hidden`` and what people alone read."""
        return {
            name: content_hash(data)
            for name, data in sorted(self.files.items())
            if not _inside(name, hidden) and not _for_people(name)
        }


def find_program(folder: Path, settings: FolderSettings) -> Program:
    """Return the initial program of ``folder``.

    Raises :class:`TaskError` when there is none, or more than one that could be meant.
    """
    path = _program_path(folder, settings)
    place = path.relative_to(folder).as_posix()
    if path.is_file():
        return Program({path.name: path.read_bytes()}, path.name, place)
    try:
        files = read_files(path)
    except Unreadable as error:
        raise TaskError(
            f"{path} cannot be the initial program: {error}; clean the folder"
        ) from None
    if not files:
        raise TaskError(f"{path} is empty (expected the files of the initial program)")
    if settings.entry and settings.entry not in files:
        raise ConfigError(
            f"[task] entry names {settings.entry!r} (expected a file of {place}: "
            f"{', '.join(sorted(files)[:8])})"
        )
    return Program(files, settings.entry, place)


def _program_path(folder: Path, settings: FolderSettings) -> Path:
    if settings.program:
        path = _inner(folder, settings.program, "program")
        if path.exists():
            return path
        raise TaskError(f"{path} does not exist (expected the program that [task] program names)")
    for stem in PROGRAMS:
        found = sorted(
            path
            for path in folder.iterdir()
            if path.stem == stem and (path.is_file() or path.name == stem)
        )
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise TaskError(f"{folder} has {names} (expected one); name one as [task] program")
        if found:
            return found[0]
    raise TaskError(
        f"{folder} has no initial program (expected initial_program.*, initial.* or "
        "init_program.*, a file or a folder); add one, or name it as [task] program in "
        f"{SETTINGS_FILE}"
    )


def find_evaluator(folder: Path, settings: FolderSettings, program: Program) -> Evaluator:
    """Return the evaluator of ``folder`` with its files read.

    Raises :class:`TaskError` when there is none or its folder is too large to copy,
    :class:`ConfigError` for a pattern that matches nothing.
    """
    if settings.evaluator:
        path = _inner(folder, settings.evaluator, "evaluator")
    else:
        found = [folder / name for name in EVALUATORS if (folder / name).is_file()]
        path = found[0] if found else folder / EVALUATORS[0]
    if not path.is_file():
        raise TaskError(
            f"{path} does not exist (expected an evaluator.py with evaluate(program_path), or an "
            "evaluate.py that takes --program_path and --results_dir); add one, or name it as "
            "[task] evaluator in daydream.toml"
        )
    home = path.parent
    style = _style(path)
    if style == "script" and settings.cascade is not False:
        raise ConfigError(
            f"[task] cascade is set (expected a function evaluator; {path.name} is a script)"
        )
    linked = _linked(home, settings)
    files = _read_home(home, settings, linked)
    protected = _protected(files, path.name, settings)
    return Evaluator(
        name=path.name,
        home="" if home == folder else home.relative_to(folder).as_posix(),
        style=style,
        files=files,
        linked=linked,
        protected=protected,
    )


def _style(path: Path) -> Style:
    """Return how an evaluator is called: a script with two options, or a module with a function.

    A file called ``evaluate`` that has the options is a script, whatever functions it has.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, str(path))
    except (SyntaxError, ValueError) as error:
        raise TaskError(f"{path} is no valid Python: {error}; correct it") from None
    script = "results_dir" in text and "__main__" in text
    if script and path.stem == "evaluate":
        return "script"
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    if names & {"evaluate", "evaluate_stage1", "*"}:
        return "function"
    if script:
        return "script"
    raise TaskError(
        f"{path} has neither a function evaluate(program_path) nor an option --results_dir "
        "(expected one of them); see docs/bring-your-own.md"
    )


def _linked(home: Path, settings: FolderSettings) -> tuple[str, ...]:
    found = [path.name for path in sorted(home.iterdir()) if _is_environment(path)]
    for pattern in settings.link:
        matches = [path.relative_to(home).as_posix() for path in sorted(home.glob(pattern))]
        if not matches:
            raise ConfigError(f"[task] link: {pattern!r} matches nothing in {home}; correct it")
        found += matches
    return tuple(dict.fromkeys(found))


def _read_home(home: Path, settings: FolderSettings, linked: Sequence[str]) -> dict[str, bytes]:
    def skip(name: str) -> bool:
        return (
            name == SETTINGS_FILE
            or name in OUTPUTS
            or name in linked
            or any(fnmatchcase(name, pattern) for pattern in settings.ignore)
        )

    try:
        return read_files(
            home, max_files=MAX_EVALUATOR_FILES, max_bytes=MAX_EVALUATOR_BYTES, skip=skip
        )
    except Unreadable as error:
        raise TaskError(
            f"{home} cannot be copied for an evaluation: {error}; keep data that evaluations only "
            "read out of the copy with [task] link, and other entries with [task] ignore"
        ) from None


def snapshot(folder: Path, linked: Sequence[str]) -> dict[str, bytes] | None:
    """Return every file of a problem folder but what is linked, installed or left by tools.

    None where that is too much to keep with a run.
    """

    def skip(name: str) -> bool:
        return name in OUTPUTS or name in linked or _is_environment(folder / name)

    try:
        return read_files(
            folder, max_files=MAX_EVALUATOR_FILES, max_bytes=MAX_EVALUATOR_BYTES, skip=skip
        )
    except Unreadable:
        return None


def _protected(
    files: Mapping[str, bytes], evaluator: str, settings: FolderSettings
) -> tuple[str, ...]:
    names = {evaluator}
    for pattern in settings.protected:
        plain = pattern.removesuffix("/").removesuffix("/**")
        found = {n for n in files if fnmatchcase(n, pattern) or _inside(n, plain)}
        if not found:
            raise ConfigError(
                f"[task] protected: {pattern!r} matches no file of the evaluator (found "
                f"{', '.join(sorted(files)[:8])}); correct it"
            )
        names |= found
    return tuple(sorted(names))


def linked_listing(folder: Path, linked: Sequence[str]) -> dict[str, int]:
    """Return path to size of the data behind ``linked``, without installed packages.

    Sizes, not content: such data may be far too large to read at every start.
    """
    sizes: dict[str, int] = {}
    for name in linked:
        path = folder / name
        if _is_environment(path):
            continue
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in found:
            if file.is_file():
                sizes[file.relative_to(folder).as_posix()] = file.stat().st_size
    return sizes


def file_hash(path: Path) -> str:
    """Return the content hash of a regular file; what it is instead, for anything else."""
    if path.is_symlink() or not path.is_file():
        return "no regular file"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_statement(folder: Path, settings: FolderSettings) -> str:
    """Return the text that says what the problem is; empty when the folder has none."""
    if settings.statement:
        return settings.statement
    for name in STATEMENTS:
        path = folder / name.format(folder=folder.name)
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace").strip()
            return clean_text(text, MAX_STATEMENT)
    return ""


def _inner(folder: Path, name: str, key: str) -> Path:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"[task] {key} = {name!r} (expected a path inside {folder})")
    return path


def _inside(name: str, place: str) -> bool:
    return name == place or name.startswith(f"{place}/")


def _for_people(name: str) -> bool:
    return name == STATEMENTS[0] or name.upper().startswith(("LICENSE", "README"))


def _is_environment(path: Path) -> bool:
    """Return whether ``path`` holds installed packages: used in place, no part of the version."""
    marks = ("pyvenv.cfg", "conda-meta")
    return path.name == "node_modules" or any((path / mark).exists() for mark in marks)
