"""What a review is given, and what it comes to."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from daydream.review.diff import FileDiff
from daydream.review.records import Item, TestVerdict, Verdict
from daydream.store.events import Usage


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a review was asked to do."""

    base: str
    """Commit to compare with, as the user names it; empty finds the main branch."""
    fix: bool = True
    in_place: bool = False
    """Move what is checked out to the fix, where it is clean."""
    push: bool = False
    test_command: str = ""
    test_s: float = 1_800.0
    fanout: int = 4
    reviewers: int = 12
    """Reviewers of parts at most; what they are not shown is swept, and the rest is counted."""


class Phase(msgspec.Struct, frozen=True):
    """A phase began or ended."""

    name: str
    detail: str = ""
    ended: bool = False


Notify: TypeAlias = Callable[[Phase], None]


class Surroundings(msgspec.Struct, frozen=True):
    """What a review gets from outside."""

    clock: Callable[[], float]
    """Seconds since 1970."""
    confirm: Callable[[Sequence[Item], Sequence[Verdict]], bool]
    """Asks a person whether to fix; the answer where there is none."""
    notify: Notify
    interrupted: threading.Event
    version: str


class Reviewed(msgspec.Struct, frozen=True, kw_only=True):
    """What a review came to."""

    archive: Path
    base: str
    head: str
    files: tuple[FileDiff, ...]
    items: tuple[Item, ...]
    verdicts: tuple[Verdict, ...] = ()
    tests: TestVerdict | None = None
    fix_failures: dict[str, str] = {}
    reviewers_failed: dict[str, str] = {}
    commit: str | None = None
    branch: str | None = None
    patch: str = ""
    usage: Usage = Usage()
    stopped: str | None = None
    """Why it ended early."""

    @property
    def failed(self) -> bool:
        """Whether something that was to be done could not be."""
        red = self.tests is not None and not self.tests.passed
        return red or bool(self.fix_failures) or bool(self.reviewers_failed)
