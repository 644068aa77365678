"""The leak guard: what the probe set asks never enters a corpus, under other names or in another
order either.

Owns the fingerprints of a problem. A task that can tell its own problems apart gives keys that no
renaming changes; for all others the text decides: as it is, with the names that code binds
numbered by their first use, and with its lines, statements and sentences sorted.
"""

import builtins
import keyword
import re
from collections.abc import Iterable, Sequence
from typing import Final

from daydream.canonical import hash_of
from daydream.llm.base import Message

_TOKEN: Final = re.compile(r"[^\W\d]\w*|\d+(?:\.\d+)?|\S")
_NAME: Final = re.compile(r"[^\W\d]\w*")
_CLAUSE: Final = re.compile(r"\n|;|(?<=[.!?])\s+")
_BOUND: Final = re.compile(
    r"\b(?:def|class|for|lambda|as|let|var|const)\s+([^\W\d]\w*)|([^\W\d]\w*)\s*=(?!=)"
)
_PARAMETERS: Final = re.compile(r"\bdef\s+\w+\s*\(([^)]*)\)")
_CODE: Final = re.compile(r"[=()\[\]{}]|^\s|:\s*$")
_MARK: Final = "\0"
"""Stands before a name; no text of a prompt has it."""
_KEPT: Final = frozenset({*keyword.kwlist, *dir(builtins)})


class Fingerprint:
    """What a problem looks like, at every distance at which it is still the same problem."""

    def __init__(self, prompt: Sequence[Message], keys: Iterable[str], task: str) -> None:
        text = "\n".join(message.text for message in prompt if message.role == "user")
        clauses = _masked(text)
        tokens = [token for clause in clauses for token in clause]
        self.task = task
        self.keys = frozenset(keys)
        self.exact = hash_of(_TOKEN.findall(text))
        self.renamed = hash_of(_numbered(tokens))
        self.sorted = hash_of(sorted(map(_numbered, clauses)))
        self.bag = hash_of(sorted(_numbered([token]) for token in tokens))


def text_keys(text: str) -> tuple[str, ...]:
    """Return what ``text`` has in common with its copies under other names or in another order."""
    found = Fingerprint((Message("user", text),), (), "")
    kinds = {"renamed": found.renamed, "sorted": found.sorted, "bag": found.bag}
    return tuple(f"text-{kind}-{digest[:32]}" for kind, digest in kinds.items())


def _bound(text: str) -> frozenset[str]:
    """Return the names that stand for something: single letters, and what code binds."""
    found = {name for name in _NAME.findall(text) if len(name) == 1 or "_" in name}
    found.update(name for pair in _BOUND.findall(text) for name in pair if name)
    found.update(name for some in _PARAMETERS.findall(text) for name in _NAME.findall(some))
    return frozenset(found) - _KEPT


def _masked(text: str) -> list[list[str]]:
    """Return the clauses of ``text`` as tokens, each name that stands for something marked.

    A word that code binds is marked in lines of code alone: in prose it is a word, and stays.
    """
    names = _bound(text)
    letters = frozenset(name for name in names if len(name) == 1)
    found = []
    for clause in _CLAUSE.split(text):
        marked = names if _CODE.search(clause) else letters
        tokens = [_MARK + one if one in marked else one for one in _TOKEN.findall(clause)]
        if tokens:
            found.append(tokens)
    return found


def _numbered(tokens: Sequence[str]) -> list[str]:
    numbers: dict[str, str] = {}
    return [
        numbers.setdefault(one, f"{_MARK}{len(numbers)}") if one.startswith(_MARK) else one
        for one in tokens
    ]


class LeakGuard:
    """Recognises the problems of a probe set."""

    def __init__(self, probes: Iterable[Fingerprint]) -> None:
        self._tasks: set[str] = set()
        self._keys: dict[str, str] = {}
        self._texts: dict[tuple[str, str], str] = {}
        for probe in probes:
            self._tasks.add(probe.task)
            for key in probe.keys:
                self._keys.setdefault(key, probe.task)
            for kind in ("exact", "renamed", "sorted"):
                self._texts.setdefault((kind, str(getattr(probe, kind))), probe.task)
            if not probe.keys:
                self._texts.setdefault(("bag", probe.bag), probe.task)

    def caught(self, problem: Fingerprint) -> str | None:
        """Return why ``problem`` is one of the probe set, or None when it is none."""
        if problem.task in self._tasks:
            return f"is probe {problem.task}"
        for kind, why in _KINDS:
            probe = self._texts.get((kind, str(getattr(problem, kind))))
            if probe is not None and not (kind == "bag" and problem.keys):
                return f"{why} of probe {probe}"
        for key in sorted(problem.keys):
            if key in self._keys:
                return f"is the same problem as probe {self._keys[key]}, renamed or reordered"
        return None


_KINDS: Final = (
    ("exact", "is an exact copy"),
    ("renamed", "is a copy with other names"),
    ("sorted", "is a reordered copy"),
    ("bag", "is a reordered copy"),
)
