"""What an adapter is: its files, and the manifest that says what it was made of.

adapter_config.json, adapter_model.safetensors   as peft writes them
sft/, dpo/                                       each stage: checkpoints and losses.jsonl
losses.svg                                       the curves
adapter.json                                     the manifest, written last
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from daydream.canonical import content_hash, dumps
from daydream.errors import StoreError, UsageError
from daydream.store.files import disk_errors, replace_file
from daydream.weights.answerers import WEIGHT_FILES, adapter_hash, base_hash
from daydream.weights.train_settings import TrainSettings

MANIFEST: Final = "adapter.json"
LOSSES: Final = "losses.jsonl"


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
    left_out: int = 0
    """Rows that were not trained on, because nothing of their answer lay within max_length."""


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
