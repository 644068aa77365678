"""What the import contracts cannot see: run-time imports, public names, declared packages."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import daydream
from tests.arch.fresh import loaded_after
from tests.conftest import ROOT

SOURCE = ROOT / "src" / "daydream"
PACKAGES = {name: name for name in ("cyclopts", "greenlet", "httpx2", "msgspec", "numpy", "rich")}
DISTRIBUTIONS = {"sklearn": "scikit-learn"}
EXTRA_PACKAGES = {
    "sklearn": "lasso",
    "datasets": "weights",
    "hypothesis": "dev",
    "peft": "weights",
    "pytest": "dev",
    "scipy": "tasks",
    "torch": "weights",
    "transformers": "weights",
    "trl": "weights",
}
"""Import name -> the extra that brings it."""


def _trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE), ast.parse(path.read_text(encoding="utf-8"))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module.partition(".")[0]


def test_public_names_are_sorted_and_there() -> None:
    assert daydream.__all__ == sorted(daydream.__all__)
    for name in daydream.__all__:
        assert getattr(daydream, name) is not None
    assert daydream.replay.__module__ == "daydream.replay", "the function, not the module"


def test_the_version_is_the_one_that_is_packaged() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert daydream.__version__ == project["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {daydream.__version__}\n" in citation


def test_the_init_files_of_families_are_empty() -> None:
    # The import contracts do not follow what an __init__ imports.
    inits = [path for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE]
    assert inits
    assert [str(path) for path in inits if path.stat().st_size] == []


def test_replay_loads_no_agent_task_or_process() -> None:
    loaded = loaded_after("import daydream.replay, daydream.selection, daydream.closed_form")
    for family in ("agents", "tasks", "sandbox", "online", "llm"):
        assert f"daydream.{family}" not in loaded
    assert "daydream.search" in loaded


def test_importing_the_package_loads_no_array_library() -> None:
    loaded = loaded_after("import daydream; daydream.run; daydream.select")
    assert "daydream.launch" in loaded
    assert not loaded & {"numpy", "scipy", "sklearn", "rich", "httpx2"}


def test_every_imported_package_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = " ".join(project["dependencies"])
    extras = project["optional-dependencies"]
    for path, tree in _trees():
        for name in set(_imported(tree)) - sys.stdlib_module_names - {"daydream"}:
            where = f"{path} imports {name}"
            if name in PACKAGES:
                assert PACKAGES[name] in core, where
            else:
                assert name in EXTRA_PACKAGES, where
                declared = " ".join(extras[EXTRA_PACKAGES[name]])
                assert DISTRIBUTIONS.get(name, name) in declared, where


def test_nothing_prints_outside_the_command_line() -> None:
    printing = [
        f"{path}:{node.lineno}"
        for path, tree in _trees()
        if path.parts[0] != "cli"
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "print"
    ]
    assert printing == []


def test_the_supervisor_of_a_job_imports_the_standard_library_alone() -> None:
    tree = ast.parse((SOURCE / "sandbox" / "supervisor.py").read_text(encoding="utf-8"))
    assert set(_imported(tree)) <= sys.stdlib_module_names


def test_pins_are_exact_and_within_the_bounds_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins: dict[str, Version] = {}
    for name in ("build", "run", "dev", "bench", "weights", "model"):
        for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines():
            if not line.startswith(("#", "-r ")):
                pin = re.fullmatch(r"([\w.-]+)==([\w.]+)", line, re.ASCII)
                assert pin is not None, line
                pins[canonicalize_name(pin[1])] = Version(pin[2])
    extras = project["optional-dependencies"]
    families = ("tasks", "dev", "bench", "weights", "local-model")
    for text in (*project["dependencies"], *(text for name in families for text in extras[name])):
        wanted = Requirement(text)
        if wanted.name != "daydream-rsi":
            assert pins[canonicalize_name(wanted.name)] in wanted.specifier, text
