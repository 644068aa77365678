"""The table of hostile inputs in docs/sandbox.md: every row has tests, and every test is there."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "sandbox.md"
HEADING = "## What is tried against it\n"
ROWS = 42
"""Inputs that the sandbox has to survive, and four faults of its own."""
NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)(?:\[([^`]+)\])?`")
WHOLE = ("test_sandbox_hostile.py", "test_sandbox_sight.py", "test_compile_hostile.py")
"""Files whose every test is about hostile jobs."""
HONEST = {
    "test_an_honest_program_compiles_and_a_mistake_is_shown_without_our_paths",
    "test_what_lies_below_a_link_is_shown_through_it",
}


class Named(NamedTuple):
    """A test that a row names."""

    file: str
    test: str
    cases: tuple[str, ...]
    """None stands for all of them."""


def rows() -> Iterator[tuple[int, list[Named]]]:
    """Yield the number of each row with its tests."""
    table = PAGE.read_text(encoding="utf-8").partition(HEADING)[2]
    for line in re.findall(r"^\| \d+ \|.*$", table, re.MULTILINE):
        _, number, tried, outcome, tests, _ = re.split(r"\s*\|\s*", line)
        assert tried
        assert outcome
        found = [
            Named(file, test, tuple(cases.split("; ")) if cases else ())
            for file, test, cases in NAMED.findall(tests)
        ]
        assert ", ".join(f"`{name}`" for name in re.findall(r"`([^`]+)`", tests)) == tests
        assert tests.count("::") == len(found), line
        yield int(number), found


def where(file: str) -> Path:
    """Return the one test file of this name."""
    (found,) = (
        path
        for top in ("tests", "rl/daydream_review_v1/tests")
        for path in (ROOT / top).rglob(file)
    )
    return found


def test_every_row_has_tests_and_none_is_missing() -> None:
    table = list(rows())
    assert [number for number, _ in table] == list(range(1, ROWS + 1))
    assert [number for number, tests in table if not tests] == []


def test_every_test_of_the_table_is_there() -> None:
    for _, tests in rows():
        for one in tests:
            text = where(one.file).read_text(encoding="utf-8")
            tree = ast.parse(text)
            functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert one.test in functions, one
            if not where(one.file).is_relative_to(ROOT / "tests"):
                words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
                assert words >= set(one.cases), one


def test_every_test_of_hostile_jobs_is_in_the_table() -> None:
    named = {one.test for _, tests in rows() for one in tests}
    for file in WHOLE:
        tree = ast.parse(where(file).read_text(encoding="utf-8"))
        tests = {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        }
        assert sorted(tests - named - HONEST) == [], file


@pytest.mark.slow
def test_every_case_of_the_table_is_run() -> None:
    mine = [
        one
        for _, tests in rows()
        for one in tests
        if where(one.file).is_relative_to(ROOT / "tests")
    ]
    files = sorted({str(where(one.file).relative_to(ROOT)) for one in mine})
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "--slow", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    known = {re.sub(r"^.*?(test_\w+\.py::)", r"\1", line) for line in done.stdout.splitlines()}
    for one in mine:
        start = f"{one.file}::{one.test}"
        for case in one.cases:
            assert f"{start}[{case}]" in known, one
        assert any(line == start or line.startswith(f"{start}[") for line in known), one
