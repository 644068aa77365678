"""What evaluations of a user's folder may use of his machine: variables, and where tools lie."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from daydream.config import user_environment
from daydream.sandbox.namespaces import holds_home, interpreter_roots
from daydream.sandbox.profiles import PASSED
from daydream.tasks.folder_settings import FolderSettings

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
    found = dict.fromkeys((*interpreter_roots(python), *_named(variables), *asked))
    return tuple(path for path in found if Path(path).exists())


def _named(variables: Mapping[str, str]) -> Iterator[str]:
    for name, parts in PARTS.items():
        for place in variables.get(name, "").split(os.pathsep):
            for part in parts if Path(place).is_absolute() else ():
                path = Path(place, part)
                if not holds_home(path):
                    yield from dict.fromkeys((str(path), str(path.resolve())))
