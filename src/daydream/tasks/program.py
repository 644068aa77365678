"""Programs as artifacts: a JSON list of instructions, each a list that starts with a name.

Owns reading and the error that a machine raises; the tasks that count operations share it. Refuses
anything that is not such a list, and programs longer than the task allows.
"""

from collections.abc import Sequence
from typing import TypeAlias

from daydream.canonical import JsonValue
from daydream.tasks.base import Artifact, read_json

Instruction: TypeAlias = Sequence[JsonValue]
Program: TypeAlias = Sequence[Instruction]

MAX_BYTES = 1 << 20


class ProgramError(Exception):
    """A program cannot be read or run; ``kind`` is one word for tables and policies."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def read_program(artifact: Artifact, *, longest: int) -> list[list[JsonValue]]:
    """Return the program in ``artifact``: lists that each start with a text.

    Raises :class:`ProgramError` for anything else and for more than ``longest`` instructions.
    """
    try:
        value = read_json(artifact, limit=MAX_BYTES)
    except ValueError as error:
        raise ProgramError("unreadable", str(error)) from None
    if not isinstance(value, list):
        found = type(value).__name__
        raise ProgramError("shape", f"artifact.json is {found} (expected a list of instructions)")
    if not len(value) <= longest:
        raise ProgramError(
            "length", f"program has {len(value)} instructions (expected at most {longest})"
        )
    program: list[list[JsonValue]] = []
    for number, instruction in enumerate(value):
        if not (isinstance(instruction, list) and instruction and type(instruction[0]) is str):
            raise ProgramError(
                "shape",
                f"instruction {number} is {instruction!r:.80} (expected a list that starts with "
                "the name of an instruction)",
            )
        program.append(instruction)
    return program
