"""Driver of the assertions about a function that runs somewhere else: the verifying side.

It loads no code of a candidate. The text of the assertions comes with the first question; in it the
function under test is a proxy that hands its arguments out as plain data and waits for what comes
back. So an object whose methods lie never reaches a comparison.

The body of ``check(candidate)`` is taken apart: each assertion, and each loop or block that holds
some, is a unit of its own, and what lies between runs in order. Assertions that mention no name,
such as ``assert True``, are no units.
"""

import ast
import json
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Final

from daydream.sandbox.answers import Line
from daydream.sandbox.plain import NotPlain, decode, encode

CONSTANTS: Final[tuple[object, ...]] = (0, True, [], "", None)
"""Bodies that know nothing: what they earn is no credit for anybody."""


class Failed(Exception):  # noqa: N818 - a fact about a call
    """The function under test raised, or gave nothing that can be compared."""


class Part:
    """One statement of ``check``."""

    def __init__(self, statement: ast.stmt) -> None:
        self.counts = any(
            isinstance(node, ast.Assert) and _says_something(node) for node in ast.walk(statement)
        )
        module = ast.Module(body=[statement], type_ignores=[])
        self.code: CodeType = compile(module, "check", "exec")


def _says_something(node: ast.Assert) -> bool:
    return any(isinstance(inner, ast.Name) for inner in ast.walk(node.test))


def parts_of(test: str) -> tuple[CodeType, list[Part]]:
    """Return what stands before ``check`` in ``test``, and the statements of its body.

    Raises ``SyntaxError`` or ``ValueError`` where there is no such function.
    """
    module = ast.parse(test)
    found = [
        node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "check"
    ]
    if len(found) != 1:
        raise ValueError(f"the test has {len(found)} functions check(candidate) (expected one)")
    before = [node for node in module.body if node is not found[0] and not _calls_check(node)]
    body = ast.Module(body=before, type_ignores=[])
    skipped = (ast.Return, ast.Global, ast.Nonlocal)
    statements = [node for node in found[0].body if not isinstance(node, skipped)]
    return compile(body, "test", "exec"), [Part(node) for node in statements]


def _calls_check(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and getattr(call.func, "id", "") == "check"


class Checks:
    """The assertions about one function."""

    def __init__(self, source: str, test: str, entry: str) -> None:
        self._source = source
        self._entry = entry
        self._before, self._parts = parts_of(test)
        self.units = sum(part.counts for part in self._parts)

    def run(self, candidate: Callable[..., object]) -> Iterator[str]:
        """Run everything with ``candidate`` and yield the verdict on each unit: empty if it holds.

        The helpers that the test uses come from the problem's own code.
        """
        names: dict[str, object] = {"__name__": "check"}
        exec(compile(self._source, "problem", "exec"), names)  # noqa: S102 - the user's data set
        exec(self._before, names)  # noqa: S102 - the same
        names["candidate"] = names[self._entry] = candidate
        for part in self._parts:
            said = ""
            try:
                exec(part.code, names)  # noqa: S102 - the same
            except AssertionError as error:
                said = f"AssertionError {error}".strip()
            except BaseException as error:  # noqa: BLE001 - a wrong answer may break a test anywhere
                said = f"{type(error).__name__}: {error}"
            if part.counts:
                yield said[:500]


def constant_credit(checks: Checks) -> int:
    """Return the most units that a body without any thought passes."""
    best = 0
    for value in CONSTANTS:

        def constant(*_: object, value: object = value) -> object:
            return value

        best = max(best, sum(said == "" for said in checks.run(constant)))
    return best


class Proxy:
    """The function under test, as the assertions see it."""

    def __init__(self, line: Line, questions: Iterator[tuple[bytes, bytes]]) -> None:
        self._line = line
        self._questions = questions
        self.word = b""
        """Word of the question that waits for an answer."""

    def __call__(self, *arguments: object) -> object:
        """Hand the call out and return what came back; raises :class:`Failed`."""
        try:
            content = encode(list(arguments))
        except NotPlain as error:
            raise Failed(str(error)) from None
        self._line.answer(self.word, b'{"call":' + content + b"}")
        self.word, answer = next(self._questions)
        found: object = json.loads(answer)
        if isinstance(found, dict) and "value" in found:
            return decode(json.dumps(found["value"]).encode())
        raise Failed(str(found.get("raised")) if isinstance(found, dict) else "no answer")


def main() -> None:
    """Say how many units there are; then run them, one line of verdicts at the end."""
    sys.setrecursionlimit(10_000)
    line = Line()
    questions = line.questions()
    word, content = next(questions)
    setup: dict[str, str] = json.loads(content)
    checks = Checks(setup["source"], setup["test"], setup["entry"])
    told = {"units": checks.units, "constant": constant_credit(checks)}
    line.answer(word, json.dumps(told).encode())
    proxy = Proxy(line, questions)
    proxy.word, _ = next(questions)
    verdicts = list(checks.run(proxy))
    line.answer(proxy.word, json.dumps({"verdicts": verdicts}).encode())
    next(questions, None)
