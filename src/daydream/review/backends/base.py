"""Who answers in a review: one conversation with tools, to its last words."""

from typing import Protocol

import msgspec

from daydream.review.tools import Tools
from daydream.review.trajectory import Fork


class Ask(msgspec.Struct, frozen=True):
    """One conversation to be had."""

    phase: str
    """Name of the fork, such as ``review-python``."""
    system: str
    user: str
    shown_files: tuple[str, ...] = ()
    """Files of which the question shows the difference."""


class Backend(Protocol):
    """Holds conversations; serves several threads."""

    @property
    def name(self) -> str:
        """``chat``, ``claude``, ``codex`` or ``pi``."""
        ...

    @property
    def model(self) -> str:
        """The model string; empty where the program chooses."""
        ...

    def converse(self, ask: Ask, tools: Tools, fork: Fork) -> str:
        """Return the last words of a conversation, which is taken down in ``fork``.

        Raises :class:`daydream.errors.ModelError` when there is no answer to be had and
        :class:`daydream.errors.Stopped` when the budget does not allow to ask.
        """
        ...
