"""From the pieces of an answer to the files of a child, or the reason why not."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Final

from daydream.agents.chat.answers import EditFailed, Parsed, Piece
from daydream.canonical import names_problem

MAX_FILES: Final = 500
MAX_BYTES: Final = 8 << 20
START, END = "EVOLVE-BLOCK-START", "EVOLVE-BLOCK-END"
_HUNK: Final = re.compile(r"^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")


def apply(
    parsed: Parsed, files: Mapping[str, bytes], *, evolve_only: bool = False
) -> dict[str, bytes]:
    """Return the files that ``parsed`` makes of ``files``.

    With ``evolve_only`` no line outside the markers changes, whatever the answer says. Raises
    :class:`EditFailed` with the reason: an unknown file, text that is not there or not unique, a
    name that no file can have, too many bytes, or no change at all.
    """
    made = dict(files)
    regions: dict[str, list[str]] = {}
    for piece in parsed.pieces:
        if piece.kind == "diff":
            _patch(piece, made)
            continue
        name = _resolve(piece, made)
        if piece.kind == "delete":
            _existing(made, name)
            del made[name]
        elif piece.kind == "block":
            text = _existing(made, name) if name in made or piece.search.strip() else ""
            made[name] = _like(made.get(name), replace(text, piece.search, piece.text, name))
        elif evolve_only:
            regions.setdefault(name, []).append(piece.text)
        else:
            made[name] = _like(made.get(name), piece.text)
    for name, texts in regions.items():
        made[name] = _like(made.get(name), evolve(_existing(made, name), texts, name))
    if evolve_only:
        _only_regions(files, made)
    _check(files, made)
    return made


def _resolve(piece: Piece, files: Mapping[str, bytes]) -> str:
    name = piece.name.removeprefix("./")
    if not name and len(files) == 1:
        return next(iter(files))
    if not name:
        raise EditFailed(
            f"a part of it names no file (expected a line File: NAME; there are {_names(files)})"
        )
    if name in files or "/" in name:
        return name
    ends = [known for known in files if known.endswith(f"/{name}")]
    return ends[0] if len(ends) == 1 else name


def _names(files: Mapping[str, bytes]) -> str:
    names = sorted(files)
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")


def _existing(files: Mapping[str, bytes], name: str) -> str:
    if name not in files:
        raise EditFailed(f"there is no file {name} (there are {_names(files)})")
    try:
        return files[name].decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise EditFailed(f"the file {name} is no text and cannot be edited") from None


def _like(before: bytes | None, text: str) -> bytes:
    """Encode ``text`` with the line ends of the file that it replaces, and its last one or none."""
    if before is not None and before and not before.endswith(b"\n"):
        text = text.removesuffix("\n")
    data = text.encode("utf-8", "replace")
    return data.replace(b"\n", b"\r\n") if before is not None and b"\r\n" in before else data


def replace(text: str, search: str, new: str, name: str) -> str:
    """Return ``text`` with the one place that reads ``search`` replaced by ``new``.

    Looks for it exactly, then without blanks at line ends, then at another common indentation.
    Raises :class:`EditFailed` when it is not there once, with the nearest lines.
    """
    if not search.strip():
        if text.strip():
            raise EditFailed(f"an empty SEARCH text (expected lines of {name})")
        return new
    lines, wanted = text.splitlines(), search.splitlines()
    for key in (str, str.rstrip, str.strip):
        spots = _spots([key(line) for line in lines], [key(line) for line in wanted])
        if len(spots) > 1:
            raise EditFailed(
                f"the SEARCH text stands {len(spots)} times in {name} (expected once); quote more "
                f"lines of it:\n{search.rstrip()}"
            )
        if spots:
            fresh = new.splitlines()
            if key is str.strip:
                fresh = _reindented(fresh, wanted, lines[spots[0] : spots[0] + len(wanted)])
            changed = [*lines[: spots[0]], *fresh, *lines[spots[0] + len(wanted) :]]
            return "".join(line + "\n" for line in changed)
    raise EditFailed(
        f"the SEARCH text is not in {name}:\n{search.rstrip()}\nThe nearest lines there are:\n"
        f"{_nearest(lines, wanted)}"
    )


def _spots(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    size = len(wanted)
    first = wanted[0]
    return [
        at
        for at in range(len(lines) - size + 1)
        if lines[at] == first and list(lines[at : at + size]) == list(wanted)
    ]


def _indent(lines: Sequence[str]) -> str:
    full = [line for line in lines if line.strip()]
    line = full[0] if full else ""
    return line[: len(line) - len(line.lstrip())]


def _reindented(new: Sequence[str], wanted: Sequence[str], found: Sequence[str]) -> list[str]:
    given, real = _indent(wanted), _indent(found)
    return [real + line.removeprefix(given) if line.strip() else line for line in new]


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    full = next((line for line in wanted if line.strip()), "")
    near = difflib.get_close_matches(full, lines[:5_000], n=1, cutoff=0.3)
    at = lines.index(near[0]) if near else 0
    return "\n".join(lines[at : at + min(12, len(wanted) + 2)])


def evolve(text: str, texts: Sequence[str], name: str) -> str:
    """Return ``text`` with its marked regions replaced by ``texts``, in order.

    A text that holds the markers itself gives its own regions. Raises :class:`EditFailed` when the
    numbers differ or the file has no region.
    """
    spans = regions_of(text)
    if not spans:
        raise EditFailed(f"{name} has no EVOLVE-BLOCK (expected markers in the file)")
    new = [
        part
        for one in texts
        for part in ([one[a:b] for a, b in regions_of(one)] if START in one else [one])
    ]
    if len(new) != len(spans):
        raise EditFailed(
            f"it gives {len(new)} regions of {name} (expected {len(spans)}, one a region)"
        )
    for (start, end), part in zip(reversed(spans), reversed(new), strict=True):
        ended = part if not part or part.endswith("\n") else part + "\n"
        text = text[:start] + ended + text[end:]
    return text


def regions_of(text: str) -> list[tuple[int, int]]:
    """Return where the marked regions of ``text`` begin and end, the marker lines left out."""
    spans: list[tuple[int, int]] = []
    at = 0
    while (start := text.find(START, at)) >= 0:
        begin = text.find("\n", start) + 1
        end = text.find(END, begin)
        if not begin or end < 0:
            break
        spans.append((begin, text.rfind("\n", 0, end) + 1))
        at = end + len(END)
    return spans


def _only_regions(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    for name in sorted(set(before) | set(after)):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if old is None or new is None or _outside(old) != _outside(new):
            raise EditFailed(
                f"it changes {name} outside the EVOLVE-BLOCK markers (expected no change there)"
            )


def _outside(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace")
    parts, at = [], 0
    for start, end in regions_of(text):
        parts.append(text[at:start])
        at = end
    return [*parts, text[at:]]


def _patch(piece: Piece, files: dict[str, bytes]) -> None:
    """Apply a unified diff; the context decides where a hunk goes, for models miscount lines."""
    lines = piece.text.splitlines()
    name, at, hunks = _resolve_or_empty(piece, files), 0, 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith("--- ") and at < len(lines) and lines[at].startswith("+++ "):
            old, name = _side(line), _side(lines[at])
            at += 1
            if not name:
                _existing(files, old)
                del files[old]
                hunks += 1
            elif not old:
                files[name] = b""
        elif match := _HUNK.match(line):
            body: list[str] = []
            while at < len(lines) and not lines[at].startswith(("@@", "--- ", "diff ")):
                body.append(lines[at])
                at += 1
            if not name:
                raise EditFailed("a diff names no file (expected lines --- a/NAME and +++ b/NAME)")
            files[name] = _like(files.get(name), _hunk(_existing(files, name), body, match, name))
            hunks += 1
    if not hunks:
        raise EditFailed("the diff has no hunk (expected lines that start with @@)")


def _resolve_or_empty(piece: Piece, files: Mapping[str, bytes]) -> str:
    return _resolve(piece, files) if piece.name or len(files) == 1 else ""


def _side(line: str) -> str:
    name = line[4:].split("\t", maxsplit=1)[0].strip()
    if name == "/dev/null":
        return ""
    return name[2:] if name.startswith(("a/", "b/")) else name


def _hunk(text: str, body: Sequence[str], match: re.Match[str], name: str) -> str:
    old = [line[1:] for line in body if not line.startswith(("+", "\\"))]
    new = [line[1:] for line in body if not line.startswith(("-", "\\"))]
    lines = text.splitlines()
    if not old:
        at = max(0, min(len(lines), int(match[1])))
        return "".join(line + "\n" for line in [*lines[:at], *new, *lines[at:]])
    for key in (str, str.rstrip):
        spots = _spots([key(line) for line in lines], [key(line) for line in old])
        if spots:
            at = min(spots, key=lambda spot: abs(spot + 1 - int(match[1])))
            changed = [*lines[:at], *new, *lines[at + len(old) :]]
            return "".join(line + "\n" for line in changed)
    quoted = "\n".join(old)
    raise EditFailed(
        f"a hunk does not fit {name}; these lines are not there:\n{quoted}\nThe nearest lines "
        f"there are:\n{_nearest(lines, old)}"
    )


def _check(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    if not after:
        raise EditFailed("it leaves no file (expected at least one)")
    problem = names_problem(after)
    if problem is not None:
        raise EditFailed(problem)
    size = sum(map(len, after.values()))
    if not (len(after) <= MAX_FILES and size <= MAX_BYTES):
        raise EditFailed(
            f"it makes {len(after)} files of {size} bytes (expected at most {MAX_FILES} and "
            f"{MAX_BYTES})"
        )
    if before == after:
        raise EditFailed("it changes nothing")
