"""What evaluations of a user's folder may use of his machine: variables, and where tools lie."""

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from daydream.config import user_environment
from daydream.sandbox.namespaces import holds_home, interpreter_roots
from daydream.sandbox.profiles import PASSED
from daydream.tasks.base import Evaluation
from daydream.tasks.folder_settings import SETTINGS_FILE, FolderSettings

DEFAULTS: Final = {
    "CARGO_HOME": ".cargo",
    "JULIA_DEPOT_PATH": ".julia",
    "PYTHONUSERBASE": ".local",
    "RUSTUP_HOME": ".rustup",
}
"""Variables that say where a language keeps its packages, and their default below HOME."""
WHOLE: Final = ("",)
PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "CARGO_HOME": ("bin", "registry"),
    "CONDA_PREFIX": WHOLE,
    "CUDA_HOME": WHOLE,
    "CUDA_PATH": WHOLE,
    "GOPATH": ("bin", "pkg"),
    "GOROOT": WHOLE,
    "JAVA_HOME": WHOLE,
    "JULIA_DEPOT_PATH": ("artifacts", "compiled", "packages", "registries"),
    "LD_LIBRARY_PATH": WHOLE,
    "PATH": WHOLE,
    "PYTHONPATH": WHOLE,
    "PYTHONUSERBASE": ("bin", "lib"),
    "RUSTUP_HOME": WHOLE,
    "VIRTUAL_ENV": WHOLE,
}
"""Variables that hold folders, and what of each is shown: programs, never a file of credentials."""


SITES: Final = ("site-packages", "dist-packages")
_MISSING: Final = re.compile(r"No module named '([^'.]+)")
_MAPPING: Final = re.compile(r"^MAPPING\b[^=]*= (\{.*\})", re.MULTILINE)
"""Where setuptools keeps which folder an editable package lies in."""


def environment(settings: FolderSettings) -> dict[str, str]:
    """Return the user's variables that an evaluation sees: those that programs need, no key."""
    known = user_environment()
    # HOME moves into the workspace; what the user installed below his own must still be found.
    for name, place in DEFAULTS.items():
        path = Path(known.get("HOME", "/nonexistent"), place)
        if path.is_dir():
            known.setdefault(name, str(path))
    return {
        name: text for name, text in known.items() if PASSED.fullmatch(name) or name in settings.env
    }


def tool_paths(
    python: str, variables: Mapping[str, str], readable: Iterable[str]
) -> tuple[str, ...]:
    """Return what a sandbox shows: the interpreter, what ``variables`` name, and ``readable``.

    A folder that holds the user's home is never shown because a variable names it.
    """
    asked = (str(Path(path).expanduser().absolute()) for path in readable)
    linked = (str(path) for path in _linked(python) if path.name in SITES)
    found = dict.fromkeys((*interpreter_roots(python), *linked, *_named(variables), *asked))
    return tuple(path for path in found if Path(path).exists())


def hidden_modules(python: str, shown: Iterable[str]) -> dict[str, str]:
    """Return the modules that ``python`` finds outside of ``shown``, each with its folder.

    They are those of packages that are installed editable, or through a ``.pth`` file: checkouts of
    the user's, which may hold more than programs, so he says himself whether they are shown.
    """
    places = [Path(path).resolve() for path in shown]
    found: dict[str, str] = {}
    for folder in _linked(python):
        real = folder.resolve()
        if not any(real.is_relative_to(place) for place in places):
            found |= dict.fromkeys(_modules(folder), str(folder)) | found
    return found


def _modules(folder: Path) -> Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        name, _, kind = entry.name.partition(".")
        if name.isidentifier() and (entry.is_dir() if not kind else kind.endswith(("py", "so"))):
            yield name


def explained(found: Evaluation, hidden: Mapping[str, str]) -> Evaluation:
    """Return ``found`` with what to do where a module was missed that the sandbox does not show."""
    said = f"{found.message}\n{found.feedback}"
    name = next((one for one in _MISSING.findall(said) if one in hidden), None)
    if name is None:
        return found
    place = hidden[name]
    hint = (
        f"module {name} is installed outside of the folders that the sandbox shows: it lies in "
        f"{place} (expected below the interpreter's own); add readable = [{place!r}] to [task] in "
        f"{SETTINGS_FILE}"
    )
    if _MISSING.search(found.message):
        return msgspec.structs.replace(found, message=f"{hint}\n{found.message}")
    return msgspec.structs.replace(found, feedback=f"{hint}\n{found.feedback}")


def _linked(python: str) -> Iterator[Path]:
    """Yield the folders that ``.pth`` files and editable packages add to what ``python`` imports.

    They are read, not run.
    """
    homes = interpreter_roots(python) or ("/usr", "/usr/local")
    found = (Path(home).glob(f"lib/python3*/{name}") for home in homes for name in SITES)
    for site in dict.fromkeys(path.resolve() for paths in found for path in sorted(paths)):
        for listing in sorted(site.glob("*.pth")):
            for line in _text(listing).splitlines():
                if line.strip() and not line.startswith(("#", "import ", "import\t")):
                    yield site / line.strip()
        for finder in sorted(site.glob("__editable__*finder.py")):
            yield from _mapped(_text(finder))


def _mapped(text: str) -> Iterator[Path]:
    match = _MAPPING.search(text)
    try:
        found = ast.literal_eval(match[1]) if match else {}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return
    if isinstance(found, dict):
        yield from dict.fromkeys(Path(str(path)).parent for path in found.values())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _named(variables: Mapping[str, str]) -> Iterator[str]:
    for name, parts in PARTS.items():
        for place in variables.get(name, "").split(os.pathsep):
            for part in parts if Path(place).is_absolute() else ():
                path = Path(place, part)
                if not holds_home(path):
                    yield from dict.fromkeys((str(path), str(path.resolve())))
