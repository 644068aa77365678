"""How much the command line loads before it does anything; benchmarks/bounds.py takes its time."""

import pytest

from tests.arch.fresh import loaded_after

HELP = """
import contextlib, io
from daydream.cli.main import main
with contextlib.redirect_stdout(io.StringIO()):
    assert main(['--help']) == 0
"""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    return loaded_after(HELP)


def test_help_loads_no_array_library_and_no_plug_in(loaded: set[str]) -> None:
    assert not {name.partition(".")[0] for name in loaded} & {"numpy", "scipy", "sklearn"}
    assert not {name for name in loaded if name.startswith(("daydream.tasks.", "daydream.agents."))}


def test_help_loads_few_modules(loaded: set[str]) -> None:
    ours = {name for name in loaded if name.partition(".")[0] == "daydream"}
    assert len(ours) <= 45, sorted(ours)
    assert len(loaded) <= 450, sorted(loaded)
