"""What evaluations are shown of packages that lie outside of the interpreter's own folders."""

import sys
from pathlib import Path

import pytest

from daydream.sandbox.process import ProcessSandbox
from daydream.tasks.base import failed, ok
from daydream.tasks.folder import open_folder
from daydream.tasks.folder_tools import explained, hidden_modules, tool_paths

LIBRARY = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
EVALUATOR = "import mylib\n\n\ndef evaluate(path):\n    return mylib.SCORE\n"


def _put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def python() -> str:
    """An interpreter of its own, with packages that are installed editable in two ways."""
    home = Path("venv").resolve()
    _put(home / "pyvenv.cfg", f"home = {Path(sys.base_prefix) / 'bin'}\n")
    (home / "bin").mkdir()
    (home / "bin/python").symlink_to(Path(sys.executable).resolve())
    checkout = Path("checkout/src").resolve()
    _put(checkout / "mylib.py", "SCORE = 7.0\n")
    _put(checkout / "mypack/__init__.py")
    _put(checkout / "notes.txt")
    _put(home / LIBRARY / "mine.pth", f"import os\n# a note\n{checkout}\n")
    other = Path("other").resolve()
    _put(other / "second/__init__.py")
    mapping = f"MAPPING: dict[str, str] = {{'second': '{other / 'second'}'}}\n"
    _put(home / LIBRARY / "__editable___second_0_1_finder.py", f"import sys\n{mapping}")
    _put(Path("more/site-packages").resolve() / "third.py")
    _put(home / LIBRARY / "more.pth", f"{Path('more/site-packages').resolve()}\n")
    return str(home / "bin/python")


def test_packages_elsewhere_are_shown_and_checkouts_are_named(python: str) -> None:
    shown = tool_paths(python, {}, ())
    assert str(Path("more/site-packages").resolve()) in shown
    checkout, other = (str(Path(name).resolve()) for name in ("checkout/src", "other"))
    assert hidden_modules(python, shown) == {
        "mylib": checkout, "mypack": checkout, "second": other,
    }  # fmt: skip
    assert hidden_modules(python, (*shown, checkout, "/")) == {}


def test_a_missed_module_of_a_checkout_is_explained_wherever_it_is_told() -> None:
    hidden = {"mylib": "/home/me/src"}
    missed = failed("error", "it raised ModuleNotFoundError: No module named 'mylib.parts'")
    told = explained(missed, hidden).message
    assert told.startswith("module mylib is installed outside of the folders that the sandbox")
    assert "readable = ['/home/me/src']" in told
    weak = explained(ok(0.0, feedback="No module named 'mylib'"), hidden)
    assert "module mylib is installed outside" in weak.feedback
    other = failed("error", "No module named 'numpy'")
    assert explained(other, hidden) == other


def test_an_editable_package_is_one_setting_away(python: str) -> None:
    task = Path("task")
    _put(task / "initial_program.py", "x = 1\n")
    _put(task / "evaluator.py", EVALUATOR)
    _put(task / "daydream.toml", f'[task]\npython = "{python}"\n')
    opened = open_folder(task)
    assert not isinstance(opened.sandbox, ProcessSandbox)
    missed = opened.evaluate(opened.root())
    assert "add readable = [" in missed.message
    assert "No module named 'mylib'" in missed.message
    place = Path("checkout/src").resolve()
    with (task / "daydream.toml").open("a") as settings:
        settings.write(f"readable = ['{place}']\n")
    opened = open_folder(task)
    assert opened.evaluate(opened.root()).score == 7.0
