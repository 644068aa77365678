"""A repository of two pull requests, each with one defect that its tests do not see.

    python -m daydream_review_v1.fixture DEST [--red]

Author, dates and contents are fixed, so the commits are the same everywhere; the corpus in
``tests/fixtures/corpus-mini`` names them. With ``--red`` the last commit has a failing test.
"""

import argparse
import sys
from pathlib import Path
from typing import Final, NamedTuple

from daydream_review_v1.repository import git, text

REPO: Final = "daydream/review-fixture"
TEST_COMMAND: Final = "python -m unittest discover -q"
WHEN: Final = "2026-03-01T12:00:00+00:00"
BASE_SHA: Final = "e76c05b27c91bd131fb5b63c52b7ac20b8a12aff"
FIRST_SHA: Final = "95fa94cf80e3577dbb467fd9a4ca9485658a9427"
SECOND_SHA: Final = "ec5ad78785e9f81d07d6b96abf7a077e39dc3ffb"

_README = """\
# Parcels

Prices of parcels by weight in kilograms. Run the tests with `python -m unittest discover -q`.

- A list without parcels has a mean price of 0.
- Every call of `summary` begins a new list of lines.
"""
_RATES = '''\
"""Prices of parcels by weight."""

STEPS = ((1.0, 4.5), (5.0, 7.9), (20.0, 15.0))


def price(weight):
    """Return the price of a parcel of so many kilograms."""
    if not weight > 0:
        raise ValueError("a parcel weighs something")
    for limit, cost in STEPS:
        if weight <= limit:
            return cost
    raise ValueError("too heavy")
'''
_MEAN = '''\


def mean_price(weights):
    """Return the mean price of parcels of these weights."""
    prices = [price(weight) for weight in weights]
    return sum(prices) / len(prices)
'''
_SUMMARY = '''\
"""What is said of a delivery."""

from parcels.rates import price


def summary(weights, lines=[]):
    """Return one line for each parcel, after those in ``lines``."""
    for weight in weights:
        lines.append(f"{weight:g} kg: {price(weight):.2f}")
    return lines
'''
_TESTS = """\
import unittest

from parcels.rates import price


class PriceTest(unittest.TestCase):
    def test_a_step_includes_its_limit(self):
        self.assertEqual(price(1.0), 4.5)
        self.assertEqual(price(1.1), 7.9)

    def test_nothing_weighs_nothing(self):
        with self.assertRaises(ValueError):
            price(0)
"""
_TEST_MEAN = """\
import unittest

from parcels.rates import mean_price


class MeanTest(unittest.TestCase):
    def test_the_mean_of_two(self):
        self.assertAlmostEqual(mean_price([1.0, 3.0]), 6.2)
"""
_TEST_SUMMARY = """\
import unittest

from parcels.report import summary


class SummaryTest(unittest.TestCase):
    def test_one_line_for_each_parcel(self):
        self.assertEqual(summary([1.0, 3.0], []), ["1 kg: 4.50", "3 kg: 7.90"])
"""
_RED = """\


class RedTest(unittest.TestCase):
    def test_that_fails_on_purpose(self):
        self.fail("planted: the baseline is red")
"""

STEPS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    (
        "Price parcels",
        {
            ".gitignore": "__pycache__/\n",
            "README.md": _README,
            "parcels/__init__.py": "",
            "parcels/rates.py": _RATES,
            "tests/__init__.py": "",
            "tests/test_rates.py": _TESTS,
        },
    ),
    (
        "Add the mean price",
        {"parcels/rates.py": _RATES + _MEAN, "tests/test_mean.py": _TEST_MEAN},
    ),
    (
        "Summarise a delivery",
        {"parcels/report.py": _SUMMARY, "tests/test_summary.py": _TEST_SUMMARY},
    ),
)


class Fixture(NamedTuple):
    """The commits of a fixture: base, first and second head."""

    base: str
    first: str
    second: str


def make_fixture(dest: Path, *, red: bool = False) -> Fixture:
    """Make the repository in ``dest``, at the head of the second pull request.

    Raises ``ValueError`` when ``dest`` exists and is not empty.
    """
    if dest.exists() and (not dest.is_dir() or any(dest.iterdir())):
        raise ValueError(f"{dest} is in use (expected a new or empty folder)")
    dest.mkdir(parents=True, exist_ok=True)
    git("init", "--quiet", "--initial-branch", "main", cwd=dest)
    commits = []
    for number, (subject, files) in enumerate(STEPS, start=1):
        for name, content in files.items():
            planted = _RED if red and number == len(STEPS) and name.startswith("tests/") else ""
            path = dest / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content + planted, encoding="utf-8")
            path.chmod(0o644)
        git("add", "--all", cwd=dest)
        git("commit", "--quiet", "--no-gpg-sign", "-m", subject, cwd=dest, env=_identity())
        commits.append(text("rev-parse", "HEAD", cwd=dest))
    return Fixture(*commits)


def _identity() -> dict[str, str]:
    return {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (
            ("NAME", "Review Fixture"),
            ("EMAIL", "fixture@review.invalid"),
            ("DATE", WHEN),
        )
    }


def main(arguments: list[str] | None = None) -> int:
    """Make the fixture and print its path and commits."""
    parser = argparse.ArgumentParser(prog="python -m daydream_review_v1.fixture")
    parser.add_argument("dest", type=Path, help="a new or empty folder")
    parser.add_argument("--red", action="store_true", help="plant a failing test")
    options = parser.parse_args(arguments)
    try:
        made = make_fixture(options.dest, red=options.red)
    except ValueError as error:
        parser.error(str(error))
    print(options.dest)
    for name, sha in made._asdict().items():
        print(f"{name:7}{sha}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
