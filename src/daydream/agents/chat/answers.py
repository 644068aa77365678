"""What a model wrote, taken apart: blocks of files, SEARCH/REPLACE pairs, diffs, deletions.

Models mix forms and decorate names, so every form is recognised whichever was asked for. Nothing is
executed, and an answer over the size limit is refused unread.
"""

import re
from typing import Final, Literal

import msgspec

MAX_ANSWER: Final = 1 << 20
_NAMED: Final = re.compile(
    r"^[\s#*>`-]*(?:\d+\.\s*)?(?:new\s+|modified\s+)?file(?:name)?\s*:[\s*`]*([^\s`*]+)[\s`*:]*$",
    re.IGNORECASE,
)
_DELETE: Final = re.compile(r"^[\s#*>`-]*delete(?: file)?\s*:[\s*`]*([^\s`*]+)[\s`*]*$", re.I)
_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})\s*([^`]*)$")
_SEARCH: Final = re.compile(r"^<{5,9} ?SEARCH\s*$")
_MIDDLE: Final = re.compile(r"^={5,9}\s*$")
_REPLACE: Final = re.compile(r"^>{5,9} ?REPLACE\s*$")


class EditFailed(ValueError):  # noqa: N818 - becomes the reason of a failed attempt
    """An answer cannot be used; the message tells the model why."""


class Piece(msgspec.Struct, frozen=True):
    """One thing that an answer asks for."""

    kind: Literal["whole", "block", "diff", "delete"]
    name: str
    """The file, as the answer names it; empty where it names none."""
    text: str = ""
    """New content, replacement, or the diff."""
    search: str = ""
    """What a block replaces."""


class Parsed(msgspec.Struct, frozen=True):
    """An answer taken apart."""

    pieces: tuple[Piece, ...]
    prose: str
    """What stands outside of the pieces."""


def parse(answer: str) -> Parsed:
    """Return the pieces of ``answer``.

    Raises :class:`EditFailed` for an empty or too long answer, an unclosed block, or none at all.
    """
    if not answer.strip():
        raise EditFailed("it was empty")
    if not len(answer) <= MAX_ANSWER:
        raise EditFailed(f"it has {len(answer)} characters (expected at most {MAX_ANSWER})")
    reader = _Reader(answer.splitlines())
    reader.run()
    if not reader.pieces:
        raise EditFailed("it holds no file, no SEARCH/REPLACE block and no diff")
    return Parsed(tuple(reader.pieces), "\n".join(reader.prose).strip())


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._name = ""
        self.pieces: list[Piece] = []
        self.prose: list[str] = []

    def run(self) -> None:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            if named := _NAMED.match(line):
                self._name = named[1]
            elif deleted := _DELETE.match(line):
                self.pieces.append(Piece("delete", deleted[1]))
            elif _SEARCH.match(line):
                self._block()
            elif fence := _FENCE.match(line):
                self._fenced(fence[1], fence[2].strip())
            elif line.startswith("--- ") and self._next_is("+++ "):
                self._at -= 1
                self._bare_diff()
            else:
                self.prose.append(line)

    def _next_is(self, prefix: str) -> bool:
        return self._at < len(self._lines) and self._lines[self._at].startswith(prefix)

    def _until(self, end: re.Pattern[str], what: str) -> list[str]:
        taken: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            if end.match(line):
                return taken
            taken.append(line)
        raise EditFailed(f"{what} is not closed; was the answer cut off?")

    def _block(self) -> None:
        search = self._until(_MIDDLE, "a SEARCH block")
        text = self._until(_REPLACE, "a REPLACE block")
        self.pieces.append(Piece("block", self._name, _text(text), _text(search)))

    def _fenced(self, fence: str, info: str) -> None:
        close = re.compile(rf"^ {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}\s*$")
        inside = self._until(close, "a fenced block")
        if any(_SEARCH.match(line) for line in inside):
            self._nested(inside)
            return
        language = info.split(maxsplit=1)[0].lower() if info else ""
        looks = any(line.startswith("@@") for line in inside)
        if language in {"diff", "patch", "udiff"} or (looks and not language):
            self.pieces.append(Piece("diff", self._name, _text(inside)))
            return
        self.pieces.append(Piece("whole", self._name or _name_in(info), _text(inside)))

    def _nested(self, lines: list[str]) -> None:
        """Read SEARCH/REPLACE blocks that stand inside a fence."""
        reader = _Reader(lines)
        reader._name = self._name
        reader.run()
        self.pieces += [piece for piece in reader.pieces if piece.kind == "block"]

    def _bare_diff(self) -> None:
        taken: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line.startswith(("--- ", "+++ ", "@@", " ", "+", "-", "\\")) and line:
                break
            taken.append(line)
            self._at += 1
        self.pieces.append(Piece("diff", self._name, _text(taken)))


def _text(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


def _name_in(info: str) -> str:
    """Return the file name that an info string holds: ``python path/a.py``, ``python:a.py``."""
    for part in re.split(r"[\s:]+", info):
        word = part.removeprefix("path=").removeprefix("file=").strip("\"'{}()")
        if re.fullmatch(r"[\w./-]+\.\w+", word):
            return word
    return ""
