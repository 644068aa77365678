"""The inside of a process that fails as torch does."""

from daydream.errors import UsageError


class OutOfMemoryError(RuntimeError):
    """What torch calls it when a card is full."""


def load() -> None:
    """Load nothing."""


def work(state: None, error: str) -> None:
    """Fail with ``error``."""
    kinds = {"memory": OutOfMemoryError, "package": ModuleNotFoundError, "request": UsageError}
    raise kinds.get(error, ValueError)(error)
