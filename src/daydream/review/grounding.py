"""Which findings stand on files that were read: recomputed from the tool calls of a trajectory.

A finding is grounded when its reviewer read the cited file, and every file that its rationale
names. A diff that was part of the question counts as read: a reviewer is told not to read again
what it was shown. Reads come from the tools ``read``, ``grep`` and ``ls`` and from the operands of
the usual readers in a shell command.
"""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from daydream.canonical import JsonValue

READERS: Final = frozenset({"cat", "sed", "nl", "head", "tail", "rg", "grep", "awk", "wc", "less"})
NAMED: Final = re.compile(
    r"(?<![\w/.-])[\w./-]+\.(?:md|json|py|pyi|ts|tsx|js|jsx|go|rs|java|c|h|cpp|txt|yaml|yml|in|toml|cfg)\b"
)
MAX_BYTES: Final = 64 << 20


def grounding_of(run: Path) -> float | None:
    """Return the share of grounded records in the archived run ``run``; None without a record.

    Rounded to four places. Only regular files of the archive are read.
    """
    total = grounded = 0
    for path in sorted((run / "deep").glob("stack-*-records.json")):
        stack = path.name.removeprefix("stack-").removesuffix("-records.json")
        rows = _json(path)
        reads: set[str] = set()
        for fork in (f"review-{stack}", stack):
            reads |= reads_of(_json(run / "trajectories" / f"{fork}.json"))
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, Mapping):
                total += 1
                grounded += is_grounded(row, reads)
    return round(grounded / total, 4) if total else None


def is_grounded(record: Mapping[str, JsonValue], reads: Iterable[str]) -> bool:
    """Return whether the files that ``record`` cites are among ``reads``."""
    known = set(reads)
    file, rationale = record.get("file"), record.get("rationale")
    cited = [file] if isinstance(file, str) and file else []
    if not cited:
        return False
    cited += NAMED.findall(rationale) if isinstance(rationale, str) else []
    return all(any(_same(one, read) for read in known) for one in cited)


def _same(cited: str, read: str) -> bool:
    left, right = (path.strip().removeprefix("./").strip("/") for path in (cited, read))
    return bool(left) and (
        left == right or right.endswith("/" + left) or left.endswith("/" + right)
    )


def reads_of(trajectory: JsonValue) -> set[str]:
    """Return the paths that the tool calls of a trajectory read, and those that it was shown."""
    found: set[str] = set()
    steps = trajectory.get("steps") if isinstance(trajectory, Mapping) else None
    for step in steps if isinstance(steps, list) else ():
        if not isinstance(step, Mapping):
            continue
        extra = step.get("extra")
        shown = extra.get("shown_files") if isinstance(extra, Mapping) else None
        if step.get("source") == "user" and isinstance(shown, list):
            found.update(one for one in shown if isinstance(one, str))
        calls = step.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping):
                found.update(_reads_of_call(call))
    return found


def _reads_of_call(call: Mapping[str, JsonValue]) -> Iterable[str]:
    name, arguments = call.get("function_name"), call.get("arguments")
    if not isinstance(arguments, Mapping):
        return ()
    if name in {"read", "grep", "ls", "Read", "Grep", "edit", "Edit"}:
        paths = (arguments.get(key) for key in ("path", "file_path"))
        return [path for path in paths if isinstance(path, str)]
    command = arguments.get("command")
    if name in {"bash", "shell", "Bash"} and isinstance(command, str):
        return list(_operands(command))
    return ()


def _operands(command: str) -> Iterable[str]:
    for part in re.split(r"[|;&\n]+", command):
        try:
            words = shlex.split(part)
        except ValueError:
            continue
        if words and Path(words[0]).name in READERS:
            yield from (word for word in words[1:] if not word.startswith("-"))


def _json(path: Path) -> JsonValue:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        value: JsonValue = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return value
