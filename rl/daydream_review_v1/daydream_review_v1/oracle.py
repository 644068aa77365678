"""What a fix may not decide: the files by which passing is judged.

A change to one of them is no part of a fix: it is left out of the tree that is tested, whatever it
was meant for. That can only lower a reward.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

NAMES: Final = frozenset(
    {
        ".coveragerc",
        ".gitattributes",
        ".gitignore",
        ".gitmodules",
        ".noserc",
        "GNUmakefile",
        "Makefile",
        "build.rs",
        "conftest.py",
        "makefile",
        "noxfile.py",
        "package.json",
        "pyproject.toml",
        "pytest.ini",
        "setup.cfg",
        "setup.py",
        "sitecustomize.py",
        "tox.ini",
        "usercustomize.py",
    }
)
"""Names that steer how tests are found and run, wherever they are."""
PATTERNS: Final = re.compile(
    r"(jest|vitest|mocha|karma|ava)\.config\.[a-z]+|.*\.pth|\.?pytest\.ini"
)
FOLDERS: Final = frozenset({".circleci", ".daydream", ".git", ".github", ".gitlab"})
RUNNERS: Final = frozenset(
    {
        "_pytest",
        "coverage",
        "hypothesis",
        "nose",
        "nose2",
        "nox",
        "pluggy",
        "pytest",
        "tox",
        "xdist",
    }
)
SUMMARIES: Final = (
    re.compile(r"^Ran (\d+) tests?\b", re.MULTILINE),
    re.compile(r"(?<![\w.])(\d+) pass(?:ed|ing)\b"),
)
NOT_PASSED: Final = re.compile(r"\b(?:skipped|failures|errors|unexpected successes)=(\d+)")


def is_protected(path: str, protected: Sequence[str], *, added: bool) -> bool:
    """Return whether a change of ``path`` is left out.

    ``protected`` are the paths that the manifest names. A file that is ``added`` is left out as
    well when it would be imported in the place of a test runner or of the standard library.
    """
    parts = PurePosixPath(path).parts
    if not parts or parts[0] in FOLDERS:
        return True
    if any(path == one or path.startswith(one.rstrip("/") + "/") for one in protected):
        return True
    if parts[-1] in NAMES or PATTERNS.fullmatch(parts[-1]):
        return True
    return added and _shadows(parts)


def _shadows(parts: tuple[str, ...]) -> bool:
    if not parts[-1].endswith((".py", ".so", ".pyc")):
        return False
    roots = parts[1:] if parts[0] in {"src", "lib"} and len(parts) > 1 else parts
    name = roots[0].partition(".")[0]
    return name in RUNNERS or name in sys.stdlib_module_names


def passed_count(output: str) -> int | None:
    """Return how many tests a run says that it passed; None when it says nothing known."""
    for summary in SUMMARIES:
        counts = [int(found) for found in summary.findall(output)]
        if counts:
            return sum(counts) - sum(int(found) for found in NOT_PASSED.findall(output))
    return None
