"""Timing two programs against each other so that neither can help itself.

Each plays in a sandbox of its own. Inputs are fresh in every repetition, made here after the
programs started, and are in a program's memory before its clock runs. The time of a call is the CPU
time that the kernel counted for all processes of its sandbox from the question to the moment when
they have been stopped and the result has been written; what a program does outside of that, it does
frozen. The two take turns, and the one that is not at its turn is frozen. The least of at least
nine repetitions counts, and the least time of a program that does nothing is subtracted.

CPU time and not wall time: on a busy machine the ratio of wall times of equal code varies by half,
that of CPU times by a tenth.
"""

import contextlib
import json
import statistics
import threading
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from daydream.errors import SandboxError
from daydream.sandbox.base import Job, Limits, Sandbox
from daydream.sandbox.dialogue import Dialogue, Memory, Silent, converse
from daydream.tasks.candidate import shown_text

REPETITIONS: Final = 9
SLACK: Final = 1.5
"""Times the price of a delivery that a program may spend on one before it counts as work."""
SLACK_S: Final = 0.0005
LEAST_S: Final = 2e-6
"""CPU seconds below which nothing is told apart."""
TURN: Final = threading.Lock()
"""Held by the one evaluation of this process that is being timed."""


class Faulted(Exception):  # noqa: N818 - a fact about one program
    """A program answered that it failed; ``kind`` is the class of what it raised."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(f"{kind}: {words}")
        self.kind = kind


class Player:
    """One program with the memory that it gets its inputs in and leaves its result in."""

    def __init__(self, dialogue: Dialogue, memory: Memory, call_s: float) -> None:
        self.dialogue = dialogue
        self.question = b"G"
        """What makes it work."""
        self.ours = False
        """It is no candidate, so its silence is a fault of the sandbox and nobody's verdict."""
        self.by_wall = False
        """Its work is done by a device whose time no CPU counts."""
        self._memory = memory
        self._call_s = call_s
        self._place = (0, 0)

    def deliver(self, told: bytes, inputs: Sequence[memoryview], result_bytes: int) -> float:
        """Give the inputs and room for a result; return the seconds that taking them took.

        Raises :class:`Faulted` as :meth:`play` does.
        """
        offset = 0
        for part in inputs:
            self._memory.write(offset, part)
            offset += part.nbytes
        self._place = (offset, result_bytes)
        return self._asked(b"L" + told)

    def play(self, question: bytes = b"") -> float:
        """Let the program work; return the seconds. It is frozen afterwards.

        Raises :class:`Faulted` when it says that it failed, :class:`Silent` when a candidate gives
        no answer, and :class:`daydream.errors.SandboxError` when one of ours gives none.
        """
        return self._asked(question or self.question)

    def result(self) -> bytes:
        """Return a copy of what stands in the place of the result."""
        return self._memory.read(*self._place)

    def _asked(self, content: bytes) -> float:
        try:
            answer, cpu_s, wall_s = self.dialogue.timed(content, wall_s=self._call_s)
        except Silent as error:
            if not self.ours:
                raise
            raise SandboxError(
                f"the reference gave no answer: {error} (expected one); free memory and cores, and "
                "try again"
            ) from None
        if answer != b"ok":
            raise _fault(answer)
        return wall_s if self.by_wall else cpu_s


def _fault(answer: bytes) -> Faulted:
    """Return the fault that a program tells of; its words are the program's own."""
    try:
        found = json.loads(answer)
        kind, words = found["raised"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return Faulted("malformed", "an answer that nobody asked for")
    parts = (shown_text(str(part).encode("utf-8", "replace")) for part in (kind, words))
    return Faulted(*parts)


@contextlib.contextmanager
def player(
    sandbox: Sandbox, job: Job, limits: Limits, *, size: int, call_s: float
) -> Iterator[Player]:
    """Give a started program, with ``size`` bytes of memory, that is gone at the end.

    ``call_s`` bounds one answer in wall seconds. Raises as :func:`converse` does.
    """
    with Memory(size) as memory, converse(sandbox, job, limits, memory) as dialogue:
        yield Player(dialogue, memory, call_s)


class Times(msgspec.Struct):
    """CPU seconds of all repetitions of one instance."""

    candidate: list[float] = msgspec.field(default_factory=list)
    reference: list[float] = msgspec.field(default_factory=list)
    floor: list[float] = msgspec.field(default_factory=list)
    """Of a program that does nothing."""
    reference_floor: list[float] = msgspec.field(default_factory=list)
    delivery: list[float] = msgspec.field(default_factory=list)
    """What the candidate spent on taking its inputs."""
    floor_delivery: list[float] = msgspec.field(default_factory=list)

    def net_candidate(self) -> float:
        """Return the candidate's least time above the floor.

        What it spends on a delivery beyond the price of one is work, and is added.
        """
        # The middle price and not the least: a busy machine must not turn into work of his.
        allowed = SLACK * statistics.median(self.floor_delivery) + SLACK_S
        spent = (
            call + max(0.0, delivery - allowed)
            for call, delivery in zip(self.candidate, self.delivery, strict=True)
        )
        return max(LEAST_S, min(spent) - min(self.floor))

    def net_reference(self) -> float:
        """Return the reference's least time above its floor."""
        return max(LEAST_S, min(self.reference) - min(self.reference_floor))

    def speed_up(self) -> float:
        """Return how many times faster than the reference the candidate was."""
        return self.net_reference() / self.net_candidate()
