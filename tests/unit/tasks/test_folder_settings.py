"""The [task] table of daydream.toml: what it may say, and how it is refused."""

from pathlib import Path

import pytest

from daydream.errors import ConfigError
from daydream.tasks.folder_settings import FolderSettings, load_settings, memory_mb


def settings_of(text: str) -> FolderSettings:
    Path("daydream.toml").write_text(text)
    return load_settings(Path())


def test_a_folder_without_a_file_has_the_defaults() -> None:
    found = load_settings(Path())
    assert found == FolderSettings()
    assert (found.timeout, found.direction, found.repeats) == (60.0, "max", 1)
    assert (found.thresholds, found.memory_mb) == (None, None)


def test_every_key_is_read() -> None:
    found = settings_of(
        """
        [task]
        timeout = 5
        memory = "2GiB"
        direction = "min"
        repeats = 3
        protected = ["tests/**"]
        cascade = [0.1, 0.2]
        python = "python3"
        name = "mine"
        statement = "make it fast"
        env = ["CUDA_VISIBLE_DEVICES"]
        noisy = true
        scale = 0.01
        [run]
        agent = "command:true"
        """
    )
    assert (found.timeout, found.memory_mb, found.repeats) == (5.0, 2048, 3)
    assert (found.thresholds, found.protected) == ((0.1, 0.2), ("tests/**",))


def test_cascade_true_takes_the_thresholds_of_openevolve() -> None:
    assert settings_of("[task]\ncascade = true").thresholds == (0.5, 0.75, 0.9)
    assert settings_of("[task]\ncascade = false").thresholds is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[task]\ntimeou = 3", "did you mean 'timeout'"),
        ("[tasks]\ntimeout = 3", "did you mean 'task'"),
        ('[task]\ntimeout = "3"', "timeout = '3'"),
        ("[task]\ntimeout = true", "timeout = True"),
        ("[task]\ntimeout = 0", "timeout = 0"),
        ("[task]\ntimeout = nan", "timeout = nan"),
        ("[task]\ntimeout = inf", "timeout = inf"),
        ("[task]\nrepeats = 1.5", "repeats = 1.5"),
        ("[task]\nrepeats = 0", "repeats = 0"),
        ('[task]\ndirection = "up"', "direction = 'up'"),
        ('[task]\nprotected = "tests"', "protected = 'tests'"),
        ("[task]\nscale = 0.0", "scale = 0.0"),
        ("[task]\ncascade = []", r"cascade = \[\]"),
        ('[task]\nmemory = "lots"', "cannot use 'lots'"),
        ('[task]\nmemory = "3 bytes"', "cannot use '3 bytes'"),
        ('[task]\ndirection = "min"\ncascade = true', "give thresholds"),
        ("[task\n", "no valid TOML"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        settings_of(text)
    assert "daydream.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1GiB", 1024),
        ("1GB", 953),
        ("2g", 1907),
        ("512 MB", 488),
        ("1.5GiB", 1536),
        ("2048KiB", 2),
        ("1048576", 1),
    ],
)
def test_amounts_of_memory_are_read_in_their_units(text: str, expected: int) -> None:
    assert memory_mb(text) == expected
