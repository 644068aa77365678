"""A difference taken apart: files, their hunks, and which reviewer gets what, in bounded pieces."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

import msgspec

SHOWN: Final = 60_000
"""Characters of difference in one question."""
STACKS: Final = {
    "py": "python", "pyi": "python", "ts": "web", "tsx": "web", "js": "web", "jsx": "web",
    "mjs": "web", "vue": "web", "css": "web", "html": "web", "go": "go", "rs": "rust",
    "swift": "swift", "ex": "elixir", "exs": "elixir", "java": "jvm", "kt": "jvm", "scala": "jvm",
    "c": "native", "h": "native", "cc": "native", "cpp": "native", "hpp": "native", "rb": "ruby",
    "php": "php", "cs": "dotnet", "sql": "data", "sh": "shell", "bash": "shell",
}  # fmt: skip
"""Ending of a file -> whose matter it is; everything else is ``general``."""
GENERAL: Final = "general"
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED: Final = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
}
_HUNK: Final = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


class FileDiff(msgspec.Struct, frozen=True):
    """One file of a difference."""

    path: str
    """As it is after the change."""
    text: str
    binary: bool
    deleted: bool
    lines: tuple[tuple[int, int], ...]
    """First and last line of each hunk, after the change."""


class Part(msgspec.Struct, frozen=True):
    """What one reviewer is shown."""

    name: str
    """Such as ``python`` or ``python-2``."""
    stack: str
    files: tuple[FileDiff, ...]

    @property
    def text(self) -> str:
        """The difference, cut to what a question may hold."""
        return "\n".join(cut(one.text, SHOWN) for one in self.files)


def parse_diff(text: str) -> list[FileDiff]:
    """Return the files of a difference as ``git diff`` prints it."""
    found: list[FileDiff] = []
    block: list[str] = []
    # Only a line feed ends a line of git's; other breaks may stand in a file's own text.
    for line in [*text.removesuffix("\n").split("\n"), "diff --git "]:
        if line.startswith("diff --git ") and block:
            one = _file(block)
            if one is not None:
                found.append(one)
            block = []
        block.append(line)
    return found


def _file(block: Sequence[str]) -> FileDiff | None:
    path = _path(block)
    if not path:
        return None
    spans = []
    for line in block:
        hunk = _HUNK.match(line)
        if hunk is not None:
            first, size = int(hunk[1]), int(hunk[2] or 1)
            spans.append((first, first + max(size, 1) - 1))
    return FileDiff(
        path=path,
        text="\n".join(block),
        binary=any(line.startswith(("Binary files ", "GIT binary patch")) for line in block),
        deleted=any(line.startswith("deleted file mode") for line in block),
        lines=tuple(spans),
    )


def _path(block: Sequence[str]) -> str:
    for line in block[1:]:
        if line.startswith("@@ "):
            break
        if line.startswith(("+++ b/", '+++ "b/')):
            return _unquoted(line[4:].removesuffix("\t")).removeprefix("b/")
        if line.startswith("rename to "):
            return _unquoted(line.removeprefix("rename to "))
    names = block[0].removeprefix("diff --git ")
    quoted = _QUOTED.match(names)
    if quoted is not None:
        return _unquoted(quoted[0]).removeprefix("a/")
    # Without a rename both names are the same: "a/NAME b/NAME".
    return names[2 : 2 + max(0, len(names) - 5) // 2]


def _unquoted(name: str) -> str:
    """Return a name that git may have quoted as C does; bytes that are no UTF-8 are replaced."""
    if not name.startswith('"'):
        return name
    found = _ESCAPE.sub(_plain, name[1:].removesuffix('"').encode("utf-8", "replace"))
    return found.decode("utf-8", "replace")


def _plain(match: re.Match[bytes]) -> bytes:
    told = match[1]
    return bytes([int(told, 8) & 0xFF]) if len(told) > 1 else _ESCAPED.get(told, told)


def shown_of(files: Sequence[FileDiff], most: int) -> tuple[str, list[str]]:
    """Return the difference cut to ``most`` characters, and the files that stand in it whole."""
    text = "\n".join(one.text for one in files)
    names: list[str] = []
    size = 0
    for one in files:
        size += len(one.text) + 1
        if size > most + 1:
            break
        names.append(one.path)
    return cut(text, most), names


def stack_of(path: str) -> str:
    """Return whose matter a file is."""
    return STACKS.get(PurePosixPath(path).suffix.lstrip(".").lower(), GENERAL)


def parts_of(files: Sequence[FileDiff], *, most: int) -> tuple[list[Part], list[FileDiff]]:
    """Return at most ``most`` pieces to review, and the files that no piece holds.

    Files of one stack stay together up to the size of a question; the stacks with the most changed
    text come first. Binary and deleted files are nobody's.
    """
    groups: dict[str, list[FileDiff]] = {}
    for one in files:
        if not one.binary and not one.deleted:
            groups.setdefault(stack_of(one.path), []).append(one)
    pieces: list[Part] = []
    for stack in sorted(groups, key=lambda name: (-sum(len(f.text) for f in groups[name]), name)):
        held: list[FileDiff] = []
        size, number = 0, 1
        for one in groups[stack]:
            length = min(len(one.text), SHOWN)
            if held and size + length > SHOWN:
                pieces.append(_part(stack, number, held))
                size, held, number = 0, [], number + 1
            held.append(one)
            size += length
        pieces.append(_part(stack, number, held))
    left_out = [one for piece in pieces[most:] for one in piece.files]
    return pieces[:most], left_out


def _part(stack: str, number: int, files: Sequence[FileDiff]) -> Part:
    return Part(stack if number == 1 else f"{stack}-{number}", stack, tuple(files))


def cut(text: str, most: int) -> str:
    """Return ``text``, or its beginning with a line that says what is left out."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n... {len(text) - most} characters left out: read the file ..."
