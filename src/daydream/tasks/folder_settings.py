"""The ``[task]`` table of a problem folder's ``daydream.toml``: its keys and what they mean."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from daydream.config import TABLES, expected, read_toml, suggest
from daydream.errors import ConfigError

SETTINGS_FILE: Final = "daydream.toml"
Thresholds = Annotated[tuple[float, ...], msgspec.Meta(min_length=1, max_length=3)]
OPENEVOLVE_THRESHOLDS: Final = (0.5, 0.75, 0.9)
"""Default of OpenEvolve's ``cascade_thresholds`` (0.3.2); the third is never compared."""
_UNITS: Final = {
    "": 1,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "KI": 1 << 10,
    "MI": 1 << 20,
    "GI": 1 << 30,
}


class FolderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a problem folder is run and scored."""

    name: str = ""
    """Name of the task; empty takes the folder's."""
    statement: str = ""
    """The problem for a proposer; empty takes instruction.md, <folder>.txt or README.md."""
    program: str = ""
    """The initial program, a file or a folder; empty looks for initial_program.* and its like."""
    entry: str = ""
    """For a folder of a program: the file whose path the evaluator gets; empty gives the folder."""
    evaluator: str = ""
    """The evaluator; empty looks for evaluator.py, evaluate.py, evaluator/evaluator.py."""
    python: str = ""
    """Interpreter of the evaluator; empty takes the one that runs Daydream."""
    timeout: Annotated[float, msgspec.Meta(gt=0, le=604_800)] = 60.0
    """Seconds of wall time for one evaluation."""
    memory: str = ""
    """Resident memory of an evaluation, such as ``2GB``; empty allows half of the machine's."""
    direction: Literal["max", "min"] = "max"
    """Which way the evaluator's number improves."""
    score: str = ""
    """Key of the number in the evaluator's answer; empty takes combined_score, then score."""
    measure: str = ""
    """What people call the number."""
    scale: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Difference in score that matters; None takes the spread of the first finished tree."""
    repeats: Annotated[int, msgspec.Meta(ge=1, le=101)] = 1
    """Evaluations of one artifact; the score is the median of the valid ones."""
    noisy: bool | None = None
    """Whether scores vary between evaluations; None says so when ``repeats`` is over 1."""
    cascade: bool | Thresholds = False
    """Run evaluate_stage1 to evaluate_stage3, each if the score so far reaches its threshold."""
    protected: tuple[str, ...] = ()
    """Globs of files that no evaluation may change; the evaluator itself always is."""
    ignore: tuple[str, ...] = ()
    """Globs of entries that are no part of the evaluator: not copied, not in its version."""
    link: tuple[str, ...] = ()
    """Globs of large data that evaluations read in place, through a link, instead of in a copy."""
    readable: tuple[str, ...] = ()
    """Paths outside the folder that evaluations may read, such as ``/data/sets``."""
    gpu: bool = False
    """Let evaluations use the GPUs."""
    env: tuple[str, ...] = ()
    """Names of environment variables that the evaluator may see, beside those of any program."""

    @property
    def thresholds(self) -> tuple[float, ...] | None:
        """Thresholds of the cascade; None when there is none."""
        if isinstance(self.cascade, bool):
            return OPENEVOLVE_THRESHOLDS if self.cascade else None
        return self.cascade

    @property
    def memory_mb(self) -> int | None:
        """The memory limit in MiB; None where none is set."""
        return memory_mb(self.memory) if self.memory else None


def load_settings(folder: Path) -> FolderSettings:
    """Return the settings of ``folder``: its ``daydream.toml``, or the defaults without one.

    Raises :class:`ConfigError` for an unknown key, with the nearest one, and for a wrong value.
    """
    path = folder / SETTINGS_FILE
    if not path.exists():
        return FolderSettings()
    tables = {name: value for name, value in read_toml(path).items() if isinstance(value, Mapping)}
    for name in tables:
        if name not in TABLES:
            raise ConfigError(f"{path}: unknown table [{name}]{suggest(name, TABLES)}")
    for name, value in tables.get("tasks", {}).items():
        if not isinstance(value, Mapping):
            raise ConfigError(
                f"{path}: [tasks] {name} is {value!r} (expected tables such as "
                "[tasks.circle-packing]); did you mean 'task'?"
            )
    return settings_from(tables.get("task", {}), str(path))


def settings_from(table: Mapping[str, object], origin: str) -> FolderSettings:
    """Return the settings in ``table``; ``origin`` names its place in messages.

    Raises :class:`ConfigError` as :func:`load_settings` does.
    """
    fields = {field.name: field.type for field in msgspec.structs.fields(FolderSettings)}
    for key, value in table.items():
        if key not in fields:
            raise ConfigError(f"{origin}: [task] has no key {key!r}{suggest(key, sorted(fields))}")
        try:
            msgspec.convert(value, fields[key])
        except msgspec.ValidationError as error:
            raise ConfigError(
                f"{origin}: [task] {key} = {value!r} ({expected(error, fields[key])}); correct the "
                "value"
            ) from None
    settings = msgspec.convert(table, FolderSettings)
    if settings.memory:
        try:
            memory_mb(settings.memory)
        except ValueError as error:
            raise ConfigError(f"{origin}: [task] memory: {error}") from None
    if settings.direction == "min" and settings.cascade is True:
        raise ConfigError(
            f"{origin}: [task] cascade = true has thresholds for scores that grow (found direction "
            '= "min"); give thresholds that a stage must stay below, such as cascade = [10.0, 2.0]'
        )
    return settings


def memory_mb(text: str) -> int:
    """Return an amount of memory in MiB, rounded down; raises ``ValueError`` with the reason.

    K, M and G are powers of 1000, with or without a B; KiB, MiB and GiB are powers of 1024.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]I?)?B?\s*", text.upper())
    mebibytes = 0 if match is None else int(float(match[1]) * _UNITS[match[2] or ""]) >> 20
    if not 1 <= mebibytes <= 1 << 24:
        raise ValueError(f"cannot use {text!r} (expected 1MiB to 16TiB, such as 512MB or 2GB)")
    return mebibytes
