"""What an adapter is: its files, and the manifest that says what it was made of.

adapter_config.json, adapter_model.safetensors   as peft writes them
sft/, dpo/                                       each stage: checkpoints and losses.jsonl
losses.svg                                       the curves
adapter.json                                     the manifest, written last
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from daydream.canonical import content_hash, dumps
from daydream.config import read_toml, suggest
from daydream.errors import ConfigError, StoreError, UsageError
from daydream.store.files import disk_errors, replace_file
from daydream.weights.answerers import WEIGHT_FILES, adapter_hash, base_hash

MANIFEST: Final = "adapter.json"
LOSSES: Final = "losses.jsonl"
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
    warmup: Annotated[int, msgspec.Meta(ge=0)] = 10
    """Steps until the full rate."""
    schedule: Literal["constant_with_warmup", "linear", "cosine"] = "linear"


class TrainSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything about a training that a person can set; the ``[train]`` table of a TOML file."""

    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    threads: Count = 1
    device: WantedDevice = "auto"
    """``auto`` takes the first graphics card, where there is one."""
    dtype: Dtype = "auto"
    """Numbers of the arithmetic: ``auto`` is bfloat16 on a card that has it, else float32."""
    rank: Count = 16
    """Rank of the LoRA matrices."""
    alpha: Count = 32
    dropout: Share = 0.0
    targets: str | tuple[str, ...] = "all-linear"
    """Modules that get matrices."""
    max_length: Count = 1_024
    """Tokens of a row; longer ones are cut."""
    save_every: Count = 50
    """Steps between checkpoints."""
    beta: Rate = 0.1
    """Strength of the pull to the SFT adapter in DPO."""
    sft: StageSettings = StageSettings()
    dpo: StageSettings = StageSettings(steps=100, learning_rate=2e-5)


def read_settings(path: Path | None) -> TrainSettings:
    """Return the settings of the ``[train]`` table of ``path``; defaults without a file.

    Raises :class:`ConfigError` naming the file, the key and the nearest known one.
    """
    if path is None:
        return TrainSettings()
    table = read_toml(path).get("train")
    if not isinstance(table, Mapping):
        raise ConfigError(f"{path} has no table [train] (expected one); see docs/weights.md")
    known = [field.name for field in msgspec.structs.fields(TrainSettings)]
    for key in table:
        if key not in known:
            raise ConfigError(f"{path}: unknown setting train.{key}{suggest(key, known)}")
    try:
        return msgspec.convert(table, TrainSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: [train]: {error}; correct the value") from None


class StageResult(msgspec.Struct, frozen=True):
    """What a stage came to."""

    rows: int
    steps: int
    first_loss: float
    last_loss: float
    """Mean of the last tenth of the steps."""
    seconds: float
    device: str = ""
    """Name of the graphics card, or ``cpu``."""


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of an adapter."""

    id: str
    """Content hash of the adapter's own files."""
    base: str
    """Path of the base model, as it was named."""
    base_hash: str
    corpus: str
    """Id of the corpus."""
    settings: TrainSettings
    stages: Mapping[str, StageResult]
    versions: Mapping[str, str]
    """Name -> version of what could change a number."""
    files: Mapping[str, str]
    """Name -> content hash."""
    schema_version: int = 1


def read_adapter(folder: Path) -> Adapter:
    """Return the manifest of the adapter in ``folder``.

    Raises :class:`UsageError` for a training that is not finished and :class:`StoreError` for a
    manifest that cannot be read.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise UsageError(
            f"{folder} holds no finished adapter (expected {MANIFEST}); name one that daydream "
            "train made, or finish the training with the command that began it"
        )
    with disk_errors("read", path):
        data = path.read_bytes()
    try:
        return msgspec.json.decode(data, type=Adapter)
    except msgspec.MsgspecError as error:
        raise StoreError(f"{path} is no manifest: {error}; train the adapter again") from None


def check_adapter(folder: Path, base: Path) -> Adapter:
    """Return the manifest, its files and its base checked.

    Raises :class:`StoreError` for a changed file and :class:`UsageError` for another base.
    """
    adapter = read_adapter(folder)
    with disk_errors("read", folder):
        for name, digest in adapter.files.items():
            if content_hash((folder / name).read_bytes()) != digest:
                raise StoreError(
                    f"{folder / name} was changed since it was trained (expected the content of "
                    f"its manifest); restore it, or train the adapter again"
                )
    if adapter.base_hash != base_hash(base):
        raise UsageError(
            f"adapter {folder} was trained on {adapter.base} (hash {adapter.base_hash[:12]}), and "
            f"{base} is another model; judge it with its own base"
        )
    return adapter


def write_adapter(folder: Path, adapter: Adapter) -> None:
    """Write the manifest, which finishes the adapter."""
    with disk_errors("write", folder):
        replace_file(folder / MANIFEST, dumps(adapter) + b"\n")


def files_of(folder: Path) -> tuple[str, dict[str, str]]:
    """Return the identity of the adapter in ``folder`` and the content hashes of its files."""
    digest = adapter_hash(folder)
    return digest, {name: content_hash((folder / name).read_bytes()) for name in WEIGHT_FILES}
