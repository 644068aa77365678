"""Settings of a training: what is read, and how a wrong one is named."""

from pathlib import Path

import msgspec
import pytest

from daydream.errors import ConfigError
from daydream.weights.train_settings import TrainSettings, read_settings


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


def test_a_stage_that_says_a_part_is_as_usual_for_the_rest(tmp_path: Path) -> None:
    found = read_settings(_toml(tmp_path, "[train]\ndpo = { batch = 4 }\n[train.sft]\nbatch = 2\n"))
    usual = TrainSettings()
    assert found.dpo == msgspec.structs.replace(usual.dpo, batch=4)
    assert found.sft == msgspec.structs.replace(usual.sft, batch=2)
    assert found.dpo.learning_rate != found.sft.learning_rate


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rank = 8\n", r"has no table \[train\]"),
        ("[train]\nrnk = 8\n", "unknown setting train.rnk; did you mean 'rank'"),
        ("[train]\nrank = 0\n", "train.rank: Expected `int` >= 1; correct"),
        ("[train]\ndropout = 1.0\n", "dropout"),
        ("[train]\nsft = { stps = 3 }\n", "unknown setting train.sft.stps; did you mean 'steps'"),
        ("[train]\nsft = { batch = 0 }\n", "train.sft.batch: Expected `int` >= 1"),
        (
            '[train]\ndevice = "gpu"\n',
            "train.device: .* 'gpu' .expected one of auto, cpu, cuda.; correct",
        ),
        ('[train]\ndtype = "bf16"\n', "train.dtype: .*expected one of auto, float32, bfloat16"),
        ("[train\n", "no valid TOML"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_settings(_toml(tmp_path, text))
