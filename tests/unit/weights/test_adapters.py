"""Settings of a training, and adapters that are not what they say."""

from pathlib import Path

import msgspec
import pytest

from daydream.errors import ConfigError, StoreError, UsageError
from daydream.weights.adapters import (
    Adapter,
    TrainSettings,
    check_adapter,
    files_of,
    read_settings,
    write_adapter,
)
from daydream.weights.answerers import base_hash


def _toml(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


def test_settings_are_read_and_what_is_not_given_is_usual(tmp_path: Path) -> None:
    found = read_settings(_toml(tmp_path, "[train]\nrank = 8\n[train.sft]\nsteps = 7\n"))
    assert (found.rank, found.sft.steps) == (8, 7)
    assert found.dpo == TrainSettings().dpo
    assert read_settings(None) == TrainSettings()
    card = read_settings(_toml(tmp_path, '[train]\ndevice = "cuda"\ndtype = "bfloat16"\n'))
    assert (card.device, card.dtype) == ("cuda", "bfloat16")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rank = 8\n", r"has no table \[train\]"),
        ("[train]\nrnk = 8\n", "unknown setting train.rnk; did you mean 'rank'"),
        ("[train]\nrank = 0\n", "rank"),
        ("[train]\ndropout = 1.0\n", "dropout"),
        ("[train]\nsft = { stps = 3 }\n", "stps"),
        ("[train]\nsft = { batch = 0 }\n", "batch"),
        ('[train]\ndevice = "gpu"\n', "device"),
        ('[train]\ndtype = "bf16"\n', "dtype"),
        ("[train\n", "no valid TOML"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_settings(_toml(tmp_path, text))


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
