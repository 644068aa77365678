"""The inside of a process that fails as torch does."""


class OutOfMemoryError(RuntimeError):
    """What torch calls it when a card is full."""


def load() -> None:
    """Load nothing."""


def work(state: None, error: str) -> None:
    """Fail with ``error``."""
    raise {"memory": OutOfMemoryError, "package": ModuleNotFoundError}.get(error, ValueError)(error)
