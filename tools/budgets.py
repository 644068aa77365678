"""Size and habit limits that no linter holds: run by ``make check``, exits 1 on any breach.

A file has at most 500 lines, a function 80, a signature 7 parameters, a command 12. ``src`` holds
no ``assert``, no unfinished marks, and a broad ``except`` only where a failure of somebody else's
code becomes data, or where it cleans up and raises again. Builders in tests may take more.
"""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeGuard

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80
MAX_PARAMETERS = 7
MAX_OPTIONS = 12
"""Parameters of a command, whose parameters are its flags."""
SIGNATURES_ALLOWED = {"run_shinka_eval": "stands in for a function of another tool"}
"""Function -> why it may take more parameters."""
RL = "rl/daydream_review_v1"
FOLDERS = (
    *("src", "tests", "tools", "benchmarks", "examples"),
    *(f"{RL}/{name}" for name in ("daydream_review_v1", "images", "tests")),
)

BROAD_EXCEPT_ALLOWED = {
    "src/daydream/policies/python_file.py": "a policy file that a person wrote may raise anything",
    "src/daydream/policy_child.py": "code that is not ours may raise anything",
    "src/daydream/online.py": "the attempt boundary: a bad attempt is data",
    "src/daydream/tasks/kernel_host.py": "code that is not ours may raise anything",
    "src/daydream/sandbox/producer.py": "code that is not ours may raise anything",
    "src/daydream/sandbox/asserter.py": "the user's data set may raise anything",
    "src/daydream/sandbox/callee.py": "code that is not ours may raise anything",
    "src/daydream/sandbox/evaluator_driver.py": "code that is not ours may raise anything",
    "src/daydream/sandbox/standins.py": "code that is not ours may raise anything",
    "src/daydream/sandbox/worker_child.py": "code that is not ours may raise anything",
    "src/daydream/cli/main.py": "the last line of defence: an exit code, never a traceback",
}
"""File -> why it may catch everything."""

BROAD = {"Exception", "BaseException"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


class Breach(NamedTuple):
    """One limit that one place breaks."""

    path: str
    line: int
    problem: str


def breaches(path: str, text: str) -> Iterator[Breach]:
    """Yield what the Python source ``text`` of file ``path`` breaks, in no particular order."""
    lines = text.count("\n")
    if lines > MAX_FILE_LINES:
        yield Breach(path, lines, f"file has {lines} lines (at most {MAX_FILE_LINES})")
    in_source = path.startswith("src/")
    if in_source:
        for number, line in enumerate(text.splitlines(), start=1):
            if found := UNFINISHED.search(line):
                yield Breach(path, number, f"{found.group()} (finish it, or file an issue)")
    for node in ast.walk(ast.parse(text, filename=path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _function(path, node)
        elif in_source and isinstance(node, ast.Assert):
            yield Breach(path, node.lineno, "assert in src (raise one of daydream.errors)")
        elif in_source and not _may_catch_all(path) and _swallows_all(node):
            yield Breach(path, node.lineno, "broad except (name the errors you expect)")


def _function(path: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Breach]:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if lines > MAX_FUNCTION_LINES:
        problem = f"{node.name} has {lines} lines (at most {MAX_FUNCTION_LINES})"
        yield Breach(path, node.lineno, problem)
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    count = len(names) - (names[:1] in (["self"], ["cls"]))
    most = MAX_OPTIONS if path.startswith("src/daydream/cli/") else MAX_PARAMETERS
    free = node.name in SIGNATURES_ALLOWED or path.startswith(("tests/", f"{RL}/tests/"))
    if count > most and not free:
        problem = f"{node.name} takes {count} parameters (at most {most})"
        yield Breach(path, node.lineno, problem)


def _may_catch_all(path: str) -> bool:
    """Contract suites try plug-ins that may do anything."""
    return path in BROAD_EXCEPT_ALLOWED or path.startswith("src/daydream/testing/")


def _swallows_all(node: ast.AST) -> TypeGuard[ast.ExceptHandler]:
    """Whether this handler catches everything and does not simply clean up and raise it again."""
    if not isinstance(node, ast.ExceptHandler) or not _is_broad(node.type):
        return False
    last = node.body[-1]
    return not (isinstance(last, ast.Raise) and last.exc is None)


def _is_broad(kind: ast.expr | None) -> bool:
    if kind is None:
        return True
    if isinstance(kind, ast.Tuple):
        return any(_is_broad(part) for part in kind.elts)
    return isinstance(kind, ast.Name) and kind.id in BROAD


def sources(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (path relative to ``root``, text) of every Python file that the limits hold for."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Print every breach below the folder named, by default this repository; return the status."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    found = sorted(breach for path, text in sources(root) for breach in breaches(path, text))
    for breach in found:
        print(f"{breach.path}:{breach.line}: {breach.problem}")
    print(f"budgets: {len(found)} breaches" if found else "budgets: kept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
