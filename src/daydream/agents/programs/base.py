"""What is known of an agent program: how it is started without a person, and how it reports.

A program here is one that edits files and talks to its model itself: it has its own login and its
own prompts. It is asked on standard input, and answers in JSON, one object a line. What it prints
is data of somebody else: a line that cannot be read is passed over, a number that is none counts
for nothing.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from daydream.canonical import JsonValue
from daydream.llm.base import at, whole_at
from daydream.store.events import Usage


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What does not depend on an attempt."""

    name: str
    """What stands after ``cli:``, and the name of the program on ``PATH``."""
    title: str
    install: str
    """What to do where it is not installed."""
    login: str
    """What to do where it is not logged in."""
    keys: tuple[str, ...]
    """Variables that hold keys; any one of them is a login."""
    variables: tuple[str, ...] = ()
    """Further variables that it needs where they are set: addresses, projects."""
    secrets: tuple[str, ...] = ()
    """Files of its login, below the home folder; any one of them is a login."""
    settings: tuple[str, ...] = ()
    """Files of its settings, below the home folder."""
    quiet: dict[str, str] = {}
    """Variables that keep it from what an attempt does not need: updates, telemetry."""
    states_cost: bool = False
    """Whether it says what its requests cost."""
    refused: str = r"401 Unauthorized|invalid api key|please log ?in|not logged in"
    """Pattern, whatever the case, of its words where the login is missing or no longer valid."""
    unauthorised: tuple[int, ...] = ()
    """Exit statuses that mean the same."""
    meanings: dict[int, str] = {}
    """Exit statuses that say more than that it failed."""


class Told(msgspec.Struct, frozen=True):
    """What a program reported of one attempt."""

    text: str = ""
    """Its last words about what it did."""
    error: str = ""
    """Why it failed, in its own words; empty where it did not."""
    usage: Usage = Usage()
    """``requests`` counts the answers of its model that it tells of."""
    counted: bool = False
    """Whether it said how many tokens there were."""
    model: str = ""


class Program(Protocol):
    """One kind of agent program."""

    @property
    def facts(self) -> Facts:
        """Return what is known of it."""
        ...

    def arguments(self, model: str, *, shell: bool) -> tuple[str, ...]:
        """Return its arguments for one prompt on standard input.

        ``model`` may be empty for its own default. With ``shell`` it may run commands, because a
        sandbox of ours is around it; without, it may only edit files.
        """
        ...

    def read(self, events: Sequence[JsonValue]) -> Told:
        """Return what its events amount to."""
        ...


def events_of(printed: bytes) -> Iterator[JsonValue]:
    """Yield the JSON objects of ``printed``, one a line; other lines are passed over."""
    for line in printed.splitlines():
        if line.lstrip().startswith(b"{"):
            try:
                found: JsonValue = json.loads(line)
            except (ValueError, RecursionError):
                continue
            yield found


def text_at(value: JsonValue, *keys: str | int) -> str:
    """Return the text at the path ``keys``; empty where there is none."""
    found = at(value, *keys)
    return found if isinstance(found, str) else ""


def sum_at(value: JsonValue, *names: str) -> int:
    """Return the sum of the whole numbers called ``names`` in an object."""
    return sum(whole_at(value, name) or 0 for name in names)


def cost_at(value: JsonValue, *keys: str, tokens: int) -> float | None:
    """Return the US dollars at the path ``keys``; None where they are unknown.

    Programs say 0 for a model whose price they do not know, so 0 for tokens is no price.
    """
    found = at(value, *keys)
    known = isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < 1e9
    if not known or (found == 0 and tokens > 0):
        return None
    return float(found) if isinstance(found, int | float) else None


def tokens_in(path: Path) -> Iterator[str]:
    """Yield the texts of a login file that may be secrets: long ones without blanks."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for match in re.finditer(r'"([^"\s]{20,})"', text):
        if "://" not in match[1]:
            yield match[1]
