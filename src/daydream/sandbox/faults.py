"""A fault of the sandbox is nobody's result: the work is tried again, and then the run stops.

What a job does wrong is a result and comes back as one. This is about the rest: the sandbox could
not start or end a job, or is not there any more. Recorded as a failed attempt it would put a score
of 0 where nothing was ever tried.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from daydream.errors import EnvironmentMissing, SandboxError, Stopped

TRIES: Final = 3
T = TypeVar("T")


def patiently(work: Callable[[], T]) -> T:
    """Return what ``work`` returns; raises what it raises for anything but a fault of the sandbox.

    Raises :class:`Stopped` after :data:`TRIES` such faults in a row, or at once where the sandbox
    cannot run at all: nothing is recorded then, and a resumed run tries again.
    """
    tried = 0
    while True:
        tried += 1
        try:
            return work()
        except EnvironmentMissing as error:
            raise Stopped(str(error), exit_code=error.exit_code) from error
        except SandboxError as error:
            # The kinds of it are facts about one job, which somebody else has to tell of.
            if type(error) is not SandboxError:
                raise
            if tried == TRIES:
                raise Stopped(
                    f"the sandbox failed {TRIES} times in a row: {error}", exit_code=error.exit_code
                ) from error
