"""The history of a run as a folder, for an agent that reads it: what was tried, what came of it.

    README.md          how to read it
    attempts.jsonl     one attempt a line, oldest first
    attempts/ID/       of each attempt: files/, rationale.md, verdict.md

An attempt sees those that had ended before its batch began, never one of its own batch.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from daydream.agents.base import AttemptContext, Earlier
from daydream.canonical import JsonObject, clean_text, dumps
from daydream.prompting import prompt
from daydream.sandbox.workspace import write_files
from daydream.tasks.base import TaskInfo, to_measure

MAX_BYTES: Final = 64 << 20
"""Files laid out in all: those of the best attempts and of the latest go first."""
BEST: Final = 20
"""So many best attempts keep their files, whatever their age."""


def write_history(folder: Path, context: AttemptContext) -> None:
    """Lay out the earlier attempts of ``context`` in the empty ``folder``."""
    kept = _kept(context.earlier)
    lines: list[bytes] = []
    for one in context.earlier:
        lines.append(dumps(_line(one, context.task, shown=_name(one) in kept)))
        place = folder / "attempts" / _name(one)
        place.mkdir(parents=True)
        place.joinpath("verdict.md").write_text(_verdict(one), encoding="utf-8")
        if one.rationale:
            place.joinpath("rationale.md").write_text(one.rationale + "\n", encoding="utf-8")
        if one.artifact is not None and _name(one) in kept:
            write_files(place / "files", one.artifact.files)
    folder.joinpath("attempts.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    told = prompt("history", attempts=str(len(lines)), best=_best(context))
    folder.joinpath("README.md").write_text(told, encoding="utf-8")


def _name(one: Earlier) -> str:
    return f"r{one.round}-n{one.node:03d}"


def _kept(earlier: Sequence[Earlier]) -> set[str]:
    """Return the attempts whose files are laid out."""
    scored = sorted((one for one in earlier if one.status == "ok"), key=lambda one: -one.score)
    kept: set[str] = set()
    room = MAX_BYTES
    for one in (*scored[:BEST], *reversed(earlier)):
        size = 0 if one.artifact is None else sum(map(len, one.artifact.files.values()))
        if _name(one) not in kept and size <= room:
            kept.add(_name(one))
            room -= size
    return kept


def _line(one: Earlier, task: TaskInfo, *, shown: bool) -> JsonObject:
    good = one.error_class is None
    return {
        "id": _name(one),
        "parent": "root" if one.parent == 0 else f"r{one.round}-n{one.parent:03d}",
        "round": one.round,
        "branch": one.branch,
        "depth": one.depth,
        "status": one.status,
        "score": one.score if good else None,
        "measure": to_measure(task, one.score) if good and one.score else None,
        "error_class": one.error_class,
        "message": clean_text(one.message, 2_000),
        "files": f"attempts/{_name(one)}/files" if shown and one.artifact is not None else None,
    }


def _verdict(one: Earlier) -> str:
    head = f"{one.status}"
    if one.error_class is not None:
        head = f"{one.status} ({one.error_class}): {clean_text(one.message, 6_000)}"
    elif one.score is not None:
        head = f"{one.status}: score {one.score:.10g}"
    feedback = clean_text(one.feedback, 6_000).strip()
    return "\n\n".join(filter(None, (head, feedback))) + "\n"


def _best(context: AttemptContext) -> str:
    good = [one for one in context.earlier if one.status == "ok"]
    if not good:
        return "none was valid yet"
    best = max(good, key=lambda one: one.score)
    return f"{_name(best)} with the score {best.score:.10g}"
