"""Adapters that are not what they say."""

from pathlib import Path

import msgspec
import pytest

from daydream.errors import StoreError, UsageError
from daydream.weights.adapters import Adapter, check_adapter, files_of, write_adapter
from daydream.weights.answerers import base_hash
from daydream.weights.train_settings import TrainSettings


def _adapter(folder: Path) -> tuple[Path, Path]:
    base, made = folder / "base", folder / "made"
    base.mkdir()
    made.mkdir()
    (base / "config.json").write_text("{}")
    (made / "adapter_config.json").write_text("{}")
    (made / "adapter_model.safetensors").write_bytes(b"weights")
    digest, files = files_of(made)
    adapter = Adapter(
        id=digest,
        base=str(base),
        base_hash=base_hash(base),
        corpus="c",
        settings=TrainSettings(),
        stages={},
        versions={},
        files=files,
    )
    write_adapter(made, adapter)
    return base, made


def test_an_adapter_is_checked_against_its_files_and_its_base(tmp_path: Path) -> None:
    base, made = _adapter(tmp_path)
    assert check_adapter(made, base).files.keys() == files_of(made)[1].keys()
    (base / "config.json").write_text('{"a": 1}')
    with pytest.raises(UsageError, match="is another model"):
        check_adapter(made, base)
    (base / "config.json").write_text("{}")
    (made / "adapter_model.safetensors").write_bytes(b"Weights")
    with pytest.raises(StoreError, match="was changed since it was trained"):
        check_adapter(made, base)


def test_a_training_that_is_not_finished_is_no_adapter(tmp_path: Path) -> None:
    base, made = _adapter(tmp_path)
    (made / "adapter.json").unlink()
    with pytest.raises(UsageError, match="holds no finished adapter"):
        check_adapter(made, base)
    (made / "adapter.json").write_bytes(msgspec.json.encode({"id": 1}))
    with pytest.raises(StoreError, match="is no manifest"):
        check_adapter(made, base)
