"""Programs as artifacts: a JSON list of instructions, each a list that starts with a name.

Owns what the tasks that count operations share: reading, the error that a machine raises, and the
parameter ``instance``. Refuses anything that is not such a list, and programs longer than the task
allows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from daydream.canonical import JsonValue
from daydream.tasks.base import Args, Artifact, Evaluation, failed, only, read_json, whole

Instruction: TypeAlias = Sequence[JsonValue]
Program: TypeAlias = Sequence[Instruction]

MAX_BYTES = 1 << 20
MAX_INSTANCE = 999_999


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


def judge_program(
    artifact: Artifact, judge: Callable[[Program], Evaluation], *, longest: int
) -> Evaluation:
    """Return ``judge`` of the program in ``artifact``; ``invalid`` where it cannot be run."""
    try:
        return judge(read_program(artifact, longest=longest))
    except ProgramError as error:
        return failed(error.kind, str(error))


def instance_of(task: str, args: Args) -> int:
    """Return the instance that ``args`` asks for, by default 0.

    Raises :class:`~daydream.errors.TaskError` for another key or a value outside 0 to 999999.
    """
    only(task, args, "instance")
    return whole(args, "instance", 0, low=0, high=MAX_INSTANCE)


def identity(task: str, instance: int) -> str:
    """Return the name of ``task`` on ``instance``; the default is not spelled out."""
    return task if instance == 0 else f"{task}:instance={instance}"


def account(total: int, unit: str, spent: Mapping[str, int]) -> str:
    """Return what a program spent, for the next proposer: the total, then each instruction."""
    return f"{total} {unit}: {', '.join(f'{name} {count}' for name, count in spent.items())}."
