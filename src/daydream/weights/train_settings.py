"""What a training can be told: the table ``[train]`` of a TOML file, checked before a start."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from daydream.config import read_toml, suggest
from daydream.errors import ConfigError

Stage = Literal["sft", "dpo"]
STAGES: Final[tuple[Stage, ...]] = ("sft", "dpo")

WantedDevice = Literal["auto", "cpu", "cuda"]
Dtype = Literal["auto", "float32", "bfloat16"]
Count = Annotated[int, msgspec.Meta(ge=1)]
Rate = Annotated[float, msgspec.Meta(gt=0)]
Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]


class StageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One stage of a training."""

    steps: Count = 200
    """Optimiser steps."""
    batch: Count = 16
    """Rows of one forward pass."""
    accumulate: Count = 1
    """Forward passes of one step."""
    learning_rate: Rate = 2e-4
    """Full rate, reached after the warm-up."""
    warmup: Annotated[int, msgspec.Meta(ge=0)] = 10
    """Steps until the full rate."""
    schedule: Literal["constant_with_warmup", "linear", "cosine"] = "linear"
    """How the rate falls after that: linear, cosine, or constant_with_warmup for not at all."""


class TrainSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything about a training that a person can set; the ``[train]`` table of a TOML file."""

    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Of the matrices, the order of rows and dropout."""
    threads: Count = 1
    """Cores that a processor trains on."""
    device: WantedDevice = "auto"
    """``auto`` takes the first graphics card, where there is one."""
    dtype: Dtype = "auto"
    """Numbers of the arithmetic: ``auto`` is bfloat16 on a card that has it, else float32."""
    rank: Count = 16
    """Rank of the LoRA matrices."""
    alpha: Count = 32
    """Their weight is alpha over rank."""
    dropout: Share = 0.0
    """Share of their inputs that is left out of a step."""
    targets: str | tuple[str, ...] = "all-linear"
    """Modules that get matrices: all linear ones, or their names."""
    max_length: Count = 1_024
    """Tokens of a row, prompt included; answers are cut there, and left out beyond."""
    save_every: Count = 50
    """Steps between checkpoints."""
    beta: Rate = 0.1
    """Strength of the pull to the SFT adapter in DPO."""
    sft: StageSettings = StageSettings()
    dpo: StageSettings = StageSettings(steps=100, learning_rate=2e-5)


def read_settings(path: Path | None) -> TrainSettings:
    """Return the settings of the ``[train]`` table of ``path``; defaults without a file.

    Raises :class:`ConfigError` naming the file, the key, and what it may be.
    """
    if path is None:
        return TrainSettings()
    table = read_toml(path).get("train")
    if not isinstance(table, Mapping):
        raise ConfigError(f"{path} has no table [train] (expected one); see docs/weights.md")
    _only_known(path, table, "train", TrainSettings)
    usual = TrainSettings()
    whole = dict(table)
    for stage in STAGES:
        if isinstance(given := table.get(stage), Mapping):
            _only_known(path, given, f"train.{stage}", StageSettings)
            # What a stage does not say is as usual for that stage, not for any.
            whole[stage] = {**msgspec.structs.asdict(getattr(usual, stage)), **given}
    try:
        return msgspec.convert(whole, TrainSettings)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$.")
        names = place.rstrip("`").split(".")
        allowed = _allowed(names)
        expected = f" (expected one of {', '.join(allowed)})" if allowed else ""
        raise ConfigError(
            f"{path}: train.{'.'.join(names)}: {said}{expected}; correct the value"
        ) from None


def _only_known(
    path: Path, table: Mapping[str, object], name: str, kind: type[msgspec.Struct]
) -> None:
    known = [field.name for field in msgspec.structs.fields(kind)]
    for key in table:
        if key not in known:
            raise ConfigError(f"{path}: unknown setting {name}.{key}{suggest(key, known)}")


def _allowed(names: Sequence[str]) -> tuple[str, ...]:
    """Return the words that the setting may be; empty where it is no word."""
    kind = StageSettings if len(names) > 1 else TrainSettings
    hint = get_type_hints(kind).get(names[-1])
    return get_args(hint) if get_origin(hint) is Literal else ()
