"""Settings of a run, in layers: defaults < daydream.toml < @file < DAYDREAM_* < flags.

The only module that reads environment variables.
"""

import difflib
import math
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

import msgspec

from daydream.errors import ConfigError

PREFIX = "DAYDREAM_"
MOCK_VARIABLE = "DAYDREAM_MOCK"
DATA_VARIABLE = "DAYDREAM_DATA"
ARCHIVE_VARIABLE = "DAYDREAM_ARCHIVE_DIR"
OTHER_VARIABLES = frozenset({"DAYDREAM_CONTEXT", DATA_VARIABLE, MOCK_VARIABLE, ARCHIVE_VARIABLE})
"""Variables of ours that are no settings."""

Positive = Annotated[int, msgspec.Meta(ge=1)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
SandboxLevel = Literal["auto", "bubblewrap", "process"]
Weight = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=604_800)]
SYMBOLS: Final[Mapping[str, str]] = {
    "w": "max_parallelism",
    "k1": "max_batches",
    "k2": "replay_batches",
    "m": "revisions",
    "beta1": "cost_weight",
    "beta2": "parallel_weight",
}
"""The paper's symbols, which stand for settings of ours in files and variables."""


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model costs, in US dollars for a million tokens."""

    input: Weight
    output: Weight

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of so many tokens, in US dollars."""
        return (self.input * input_tokens + self.output * output_tokens) / 1e6


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a run that a person can set. Stored in ``run.toml``."""

    rounds: Positive = 2
    """Outer cycles: one online rollout, then one selection."""
    seed: Natural = 0
    policy: str = ""
    """Starting policy; empty takes the task's."""
    agent: str = ""
    """Discovery agent; empty takes the task's."""
    dreamer: str = "auto"
    """Who proposes the next policy: auto, system1, grid, none; a model: developer, spec-model."""
    developer: str = ""
    """Model of the dreamers ``developer`` and ``spec-model``; empty takes the agent's."""
    revisions: Positive = 4
    """Policies that a model proposes in one selection."""
    guard: Literal["quality", "none"] | None = None
    """None admits every policy of a ``developer``, and is ``quality`` for other dreamers."""
    objective: Literal["equation1", "sweep"] = "equation1"
    """What a policy is worth in replay."""
    holdout: Natural = 0
    """Newest worlds that a selection leaves out and then judges its choice by."""
    holdout_margin: float | None = None
    """Mean gain in the worlds held out that a choice needs to be deployed; None only reports it."""
    cost_weight: Weight = 0.002
    parallel_weight: Weight = 0.005
    normalised: bool = False
    max_parallelism: Positive = 8
    """Attempts that one batch may hold; part of every score."""
    max_batches: Positive = 1_000
    replay_batches: Positive | None = None
    """Batches of one replay; None takes ``max_batches``."""
    policy_timeout: Seconds = 5.0
    """CPU seconds that a policy file may take for one decision."""
    policy_config: dict[str, object] = {}
    """What a policy file gets as its ``config``."""
    prompts: str = ""
    """Folder with texts of yours for those that models are told; empty takes ours alone."""
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    """Temperature of the model that makes attempts; None sends none."""
    developer_temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    """Temperature of the model that proposes policies; None sends none."""
    max_tokens: Positive | None = None
    """Longest answer of the model that makes attempts; None sends no limit."""
    attempt_timeout: Seconds | None = None
    """Seconds that a model, a program or a command has for one attempt."""
    request_timeout: Seconds | None = None
    """Seconds that one request to a model may take."""
    max_branches: Positive | None = None
    max_depth: Positive | None = None
    explore_margin: Natural = 0
    """How far the deployed width and depth may exceed what replay chose."""
    start: Literal["root", "best"] = "root"
    """Where later rounds start from."""
    fresh: bool = False
    """Give scripted agents a fresh world every round."""
    workers: Natural = 0
    """Concurrent processes; 0 takes the number of cores. Never changes a result."""
    sandbox: SandboxLevel = "auto"
    """What isolates evaluations of a user's folder; part of the evaluator's version."""
    max_calls: Positive | None = None
    max_time: Annotated[float, msgspec.Meta(gt=0, le=1e9)] | None = None
    """Seconds of wall time for one command."""
    budget: str = ""
    """What may be spent, such as ``5usd,2Mtok,1h,200calls``; empty spends without a limit."""
    max_failures: Natural = 5
    """Attempts in a row that a model leaves without an answer before the run stops; 0 never."""
    preflight: bool = True
    """Ask the model one tiny question before the first attempt."""
    cache: Literal["on", "off", "only"] = "on"
    """Whether stored answers of models are used; ``only`` asks no server."""
    prices: dict[str, Price] = {}
    """Model string to US dollars for a million tokens; without one a cost is unknown."""


BUDGETS = frozenset({"budget", "max_calls", "max_time"})
OPERATIONAL = BUDGETS | {"workers", "rounds", "max_failures", "preflight", "cache", "prices"}
"""Settings that a resume may change: they are no part of what a finished attempt means."""


TABLES: Final = ("run", "task", "tasks")
"""What a settings file may hold: settings of runs, of a problem folder, of tasks by name."""
PATHS: Final = frozenset({"policy", "prompts"})
"""Settings that may be paths."""


class Layer(msgspec.Struct, frozen=True):
    """Settings from one place."""

    origin: str
    """Where they come from, for messages."""
    values: Mapping[str, object]
    textual: bool = False
    """Values are text to be read as numbers and booleans."""


def resolve(layers: Sequence[Layer]) -> RunSettings:
    """Return the settings of ``layers``, later ones winning.

    Raises :class:`ConfigError` naming the origin, the key, what was found and the nearest key.
    """
    merged: dict[str, object] = {}
    fields = {field.name: field.type for field in msgspec.structs.fields(RunSettings)}
    for layer in layers:
        seen: dict[str, str] = {}
        for key, value in layer.values.items():
            name = SYMBOLS.get(key.lower(), key.replace("-", "_"))
            if name in seen:
                raise ConfigError(
                    f"{layer.origin}: {seen[name]} and {key} are the same setting (expected one of "
                    "them)"
                )
            seen[name] = key
            if name not in fields:
                raise ConfigError(
                    f"{layer.origin}: unknown setting {key!r}{suggest(name, sorted(fields))}"
                )
            merged[name] = _typed(layer, key, value, fields[name])
    return msgspec.convert(merged, RunSettings)


def _typed(layer: Layer, key: str, value: object, wanted: object) -> object:
    if not _finite(value):
        raise ConfigError(f"{layer.origin}: {key} is {value!r} (expected a finite number)")
    try:
        converted: object = msgspec.convert(value, wanted, strict=not layer.textual)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{layer.origin}: {key} is {value!r} ({expected(error, wanted)}); correct the value"
        ) from None
    return converted


def _finite(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def expected(error: msgspec.ValidationError, wanted: object) -> str:
    """Return what was expected, in the words of this project's messages."""
    text = str(error)
    if text.startswith("Invalid enum value"):
        return f"expected one of {', '.join(_names(wanted))}"
    return text[0].lower() + text[1:] if text.startswith("Expected") else text


def _names(wanted: object) -> Iterator[str]:
    """Yield the words that a setting of this type may be."""
    for part in get_args(wanted):
        yield from (part,) if isinstance(part, str) else _names(part)


def suggest(name: str, known: Sequence[str]) -> str:
    """Return `` (did you mean ...?)`` or the list of what is known."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else f" (known: {', '.join(known)})"


def read_toml(path: Path) -> Mapping[str, object]:
    """Return the tables of a TOML file; raises :class:`ConfigError` with the place of a mistake."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}; name an existing TOML file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no valid TOML: {error}; correct the file") from None


def file_layer(path: Path) -> Layer:
    """Return the ``[run]`` table of ``path``, or its top level where there is no table at all.

    Paths in it count from the folder of the file, wherever the command is started.
    """
    data = read_toml(path)
    tables = [key for key, value in data.items() if isinstance(value, Mapping)]
    for key in data if tables else ():
        if key not in TABLES:
            what = f"unknown table [{key}]" if key in tables else f"{key} stands before any table"
            hint = suggest(key, TABLES) if key in tables else " (expected under [run])"
            raise ConfigError(f"{path}: {what}{hint}")
    table = data.get("run", {} if tables else data)
    if not isinstance(table, Mapping):
        raise ConfigError(f"{path}: [run] is {table!r} (expected a table)")
    values = dict(table)
    for key in PATHS & set(values):
        text = values[key]
        if isinstance(text, str) and text and (key != "policy" or text.endswith(".py")):
            values[key] = str(path.parent / Path(text).expanduser())
    return Layer(str(path), values)


def recipe_of(path: Path, task: str) -> dict[str, str]:
    """Return the parameters that ``[tasks.NAME]`` of a settings file gives to the task ``task``.

    Raises :class:`ConfigError` for a table or a value that is none.
    """
    tables = read_toml(path).get("tasks", {})
    if not isinstance(tables, Mapping):
        raise ConfigError(f"{path}: [tasks] is {tables!r} (expected tables such as [tasks.{task}])")
    table = tables.get(task, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{path}: [tasks.{task}] is {table!r} (expected a table)")
    found = {}
    for key, value in table.items():
        if isinstance(value, bool):
            found[key] = str(value).lower()
        elif isinstance(value, str | int | float):
            found[key] = str(value)
        else:
            raise ConfigError(
                f"{path}: [tasks.{task}] {key} is {value!r} (expected a number, a text or a truth "
                "value)"
            )
    return found


def environment_layer(environ: Mapping[str, str] | None = None) -> Layer:
    """Return the settings in ``DAYDREAM_*`` variables; an empty one counts as not set."""
    source = os.environ if environ is None else environ
    values: dict[str, object] = {
        name[len(PREFIX) :].lower(): text
        for name, text in sorted(source.items())
        if name.startswith(PREFIX) and name not in OTHER_VARIABLES and text.strip()
    }
    return Layer("environment", values, textual=True)


def variable(name: str) -> str:
    """Return the environment variable ``name`` without blanks around it; empty when not set."""
    return os.environ.get(name, "").strip()


def data_folder() -> Path | None:
    """Return the folder that ``DAYDREAM_DATA`` names, where a user keeps data sets; None without.

    Raises :class:`ConfigError` when there is no such folder.
    """
    text = variable(DATA_VARIABLE)
    if not text:
        return None
    folder = Path(text).expanduser()
    if not folder.is_dir():
        raise ConfigError(
            f"{DATA_VARIABLE} is {text!r}, which is no folder (expected one with data sets); "
            "correct it or unset it"
        )
    return folder


def mocking() -> bool:
    """Return whether ``DAYDREAM_MOCK`` asks to replace every model by the mock."""
    return variable(MOCK_VARIABLE) not in {"", "0"}


def user_environment() -> dict[str, str]:
    """Return a copy of the whole environment, for programs that are the user's own."""
    return dict(os.environ)


def worker_environment() -> dict[str, str]:
    """Return the environment of a computing worker: ours, with one thread of linear algebra."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(threads, "1"), "PYTHONWARNINGS": "ignore"}


def training_environment(threads: int) -> dict[str, str]:
    """Return the environment of a process that trains or generates.

    It is offline and quiet, has ``threads``, and sees one graphics card: the first of those that
    ``CUDA_VISIBLE_DEVICES`` names, as a second one would change the batches and the losses.
    """
    offline = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
    return {
        **worker_environment(),
        **dict.fromkeys(offline, "1"),
        "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0],
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
