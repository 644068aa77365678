"""What a model is told of one attempt."""

from collections.abc import Mapping
from typing import Final

from daydream.agents.base import AttemptContext
from daydream.agents.chat.edits import START
from daydream.canonical import clean_text, dumps
from daydream.llm.base import Message
from daydream.prompting import prompt
from daydream.tasks.base import Artifact, to_measure

FORMS: Final = ("whole", "blocks", "diff", "evolve")
SMALL: Final = 12_000
"""Artifacts of up to so many bytes are asked for in full, larger ones in blocks."""
SHOWN: Final = 60_000
"""Characters of one file that a prompt shows."""
ADVICE: Final = {
    True: "It opens a new branch, so try an approach of its own.",
    False: "It goes on from the files above.",
}


def form_for(artifact: Artifact, asked: str) -> str:
    """Return the form of answer to ask for; ``auto`` chooses by the parent's files."""
    if asked != "auto":
        return asked
    if any(START.encode() in data for data in artifact.files.values()):
        return "evolve"
    size = sum(map(len, artifact.files.values()))
    return "whole" if size <= SMALL else "blocks"


def described_form(artifact: Artifact, form: str) -> str:
    """Return the description of a form of answer, with one of the files as its example."""
    marked = [name for name, data in artifact.files.items() if START.encode() in data]
    example = min(marked or artifact.files, default="program.py")
    return prompt(f"form_{form}", example=example)


def first_messages(context: AttemptContext, form: str) -> tuple[Message, ...]:
    """Return the messages that ask for one child of ``context.parent``."""
    text = prompt(
        "attempt",
        **facts_of(context),
        files=_files(context.parent.files),
        form=described_form(context.parent, form),
    )
    return (Message("system", prompt("system")), Message("user", text))


def facts_of(context: AttemptContext) -> dict[str, str]:
    """Return what every prompt for an attempt says: the problem, the verdict, the place."""
    task = context.task
    told = {"identity": "is", "negate": "is minus", "reciprocal": "is one over"}[task.transform]
    return {
        "title": task.title,
        "statement": task.statement,
        "measure": task.measure,
        "goal": "as large as possible" if task.goal == "max" else "as small as possible",
        "direction": f"the score {told} that number",
        "verdict": _verdict(context),
        "lineage": _lineage(context),
        "branch": str(context.branch),
        "depth": str(context.depth),
        "advice": ADVICE[context.depth == 1],
    }


def repair_messages(
    before: tuple[Message, ...], answer: str, reason: str, form: str
) -> tuple[Message, ...]:
    """Return the messages that ask once more, with the reason why ``answer`` cannot be used."""
    told = prompt("repair", reason=clean_text(reason, 6_000), form=form)
    kept = clean_text(answer, 100_000).strip() or "(nothing)"
    return (*before, Message("assistant", kept), Message("user", told))


def _files(files: Mapping[str, bytes]) -> str:
    parts: list[str] = []
    for name, data in sorted(files.items()):
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            parts.append(f"{name}: {len(data)} bytes that are no text")
            continue
        fence = "```"
        while fence in text:
            fence += "`"
        shown = clean_text(text, SHOWN).rstrip("\n")
        parts.append(f"File: {name}\n{fence}\n{shown}\n{fence}")
    return "\n\n".join(parts)


def _verdict(context: AttemptContext) -> str:
    found, task = context.evaluation, context.task
    if found is None:
        return "They were not scored."
    if found.error_class is not None:
        lines = [f"They failed ({found.status.value}, {found.error_class}): {found.message}"]
    else:
        number = (
            to_measure(task, found.score) if found.score or task.transform != "reciprocal" else 0.0
        )
        lines = [f"Score {found.score:.10g}; {task.measure}: {number:.10g}."]
    if found.diagnostics:
        lines.append(clean_text(dumps(found.diagnostics).decode("utf-8"), 4_000))
    if found.feedback:
        lines.append(f"The evaluator says:\n{clean_text(found.feedback, 6_000)}")
    return "\n".join(lines)


def _lineage(context: AttemptContext) -> str:
    rows = [
        f"depth {one.depth}: "
        + (f"score {one.score:.10g}" if one.error_class is None else f"{one.status}: {one.message}")
        for one in context.lineage[:-1]
    ]
    return clean_text("\n".join(rows), 6_000) or "Nothing."
