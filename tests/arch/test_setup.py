"""tools/setup.sh says what is missing, and does nothing when nothing is to be done."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

OLD_PYTHON = """#!/bin/sh
[ "$1" = --version ] && echo "Python 3.9.2" && exit 0
exit 1
"""
PYTHON_WITHOUT_VENV = """#!/bin/sh
case "$2" in
    *ensurepip*) exit 1 ;;
    *"%d.%d"*) echo 3.11 ;;
esac
exit 0
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Return a folder of commands for a PATH that has no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "cat", "dirname", "sha256sum"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    _write(folder / "id", "#!/bin/sh\necho 1000\n")
    return folder


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _set_up(tools: Path, venv: Path) -> subprocess.CompletedProcess[str]:
    command = [str(tools / "bash"), str(ROOT / "tools" / "setup.sh"), str(venv), "run"]
    return subprocess.run(
        command, env={"PATH": str(tools)}, capture_output=True, text=True, timeout=60, check=False
    )


def test_an_old_python_is_named_with_what_to_do(tools: Path, tmp_path: Path) -> None:
    _write(tools / "python3", OLD_PYTHON)
    done = _set_up(tools, tmp_path / "venv")
    assert done.returncode == 3
    assert "no Python 3.11 or newer found (python3 is Python 3.9.2)" in done.stderr
    assert "make run PYTHON=" in done.stderr


def test_a_missing_venv_module_is_named_to_who_is_not_root(tools: Path, tmp_path: Path) -> None:
    _write(tools / "python3", PYTHON_WITHOUT_VENV)
    done = _set_up(tools, tmp_path / "venv")
    assert done.returncode == 3
    assert "apt-get install python3.11-venv" in done.stderr


def test_an_environment_that_is_up_to_date_is_left_alone(tools: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    venv.mkdir()
    names = ["pyproject.toml", *(f"requirements/{name}.txt" for name in ("build", "run", "run"))]
    sums = subprocess.run(
        ["sha256sum", *names], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    (venv / ".installed-run").write_text(sums.stdout)
    done = _set_up(tools, venv)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in venv.iterdir()] == [".installed-run"]
