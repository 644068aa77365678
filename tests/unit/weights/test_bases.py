"""A folder that holds no whole model is named with what it lacks, before anything is loaded."""

import json
from pathlib import Path

import pytest

from daydream.errors import UsageError
from daydream.weights.answerers import need_base
from tests.real.commands import call as daydream
from tools import serve_model

WHOLE = {
    "config.json": json.dumps({"model_type": "llama"}),
    "model.safetensors": "weights",
    "tokenizer.json": "{}",
}
LACKING: tuple[tuple[dict[str, str], str], ...] = (
    ({}, "holds no model: config.json is not there"),
    ({"config.json": WHOLE["config.json"]}, "holds no weights"),
    ({**WHOLE, "config.json": '{"model_type":'}, "config.json describes no model"),
    ({**WHOLE, "config.json": "[]"}, "config.json describes no model"),
    ({**WHOLE, "config.json": "{}"}, "config.json describes no model"),
    ({name: WHOLE[name] for name in ("config.json", "model.safetensors")}, "holds no tokenizer"),
    ({name: WHOLE[name] for name in ("config.json", "tokenizer.json")}, "holds no weights"),
)


def _folder(files: dict[str, str]) -> Path:
    folder = Path("model")
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_a_whole_model_is_one() -> None:
    need_base(_folder(WHOLE))


@pytest.mark.parametrize(("files", "said"), LACKING)
def test_what_a_folder_lacks_is_named(files: dict[str, str], said: str) -> None:
    folder = _folder(files)
    with pytest.raises(UsageError, match=said):
        need_base(folder)
    told = daydream("wake", "--tasks", "formula", "-m", f"local:{folder}", code=2).err
    assert said in " ".join(told.split())
    with pytest.raises(SystemExit, match=said):
        serve_model.main([str(folder)])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere holds no model"),
        (["nowhere.gguf"], "nowhere.gguf is no GGUF file"),
        (["text.gguf"], "text.gguf is no GGUF file"),
        (["text.gguf", "--unpack", "."], "text.gguf is no GGUF file"),
        (["nowhere", "--unpack", "text.gguf"], "text.gguf is there already"),
        (["nowhere", "--unpack", "new"], "nowhere holds no model"),
    ],
)
def test_what_cannot_be_served_is_named(arguments: list[str], said: str) -> None:
    Path("text.gguf").write_text("no model")
    with pytest.raises(SystemExit, match=said):
        serve_model.main(arguments)
    assert not Path("new").exists()


@pytest.mark.parametrize("arguments", [["--port", "99999"], ["--threads", "0"], ["--port", "x"]])
def test_a_number_out_of_range_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        serve_model.main(arguments)
    assert f"argument {arguments[0]}: {arguments[1]!r} (expected" in capsys.readouterr().err
