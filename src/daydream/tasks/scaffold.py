"""A new problem folder that runs as it is: what ``daydream init NAME`` writes.

The problem is the smallest real one: eight points in the unit square, the two closest as far apart
as possible. The best value is (√6 - √2) / 2 = 0.5176 (Schaer and Meir 1965, proved optimal).
"""

from pathlib import Path
from typing import Final

from daydream.errors import UsageError

FILES: Final = ("initial_program.py", "evaluator.py", "propose.py", "daydream.toml")
SOURCE: Final = Path(__file__).parent / "scaffold_problem"


def write_problem(folder: Path) -> list[Path]:
    """Write the files of a new problem into ``folder``, made where needed, and return their paths.

    Raises :class:`UsageError` when one of them exists already, or the folder cannot be made; then
    nothing was written.
    """
    targets = [folder / name for name in FILES]
    taken = [path for path in targets if path.exists() or path.is_symlink()]
    if taken:
        raise UsageError(
            f"{taken[0]} exists already (expected a new folder, or one without it); choose another "
            "name"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in targets:
            path.write_bytes(SOURCE.joinpath(path.name).read_bytes())
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}: {error.strerror} (expected a folder that can be made); choose "
            "another place"
        ) from None
    return targets
