"""Tasks that word their own question and read their own answer: what weights are trained on.

A task that does not is asked as a discovery agent is asked, by its statement and its files.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from daydream.tasks.base import Artifact, Task


@runtime_checkable
class AskedTask(Task, Protocol):
    """One problem of a family, small enough to be answered in one go."""

    @property
    def target(self) -> float:
        """The score from which on an answer counts as solved."""
        ...

    @property
    def stratum(self) -> str:
        """Part of the family that the problem belongs to, for tables and protected strata."""
        ...

    @property
    def keys(self) -> tuple[str, ...]:
        """Identities of the problem that renaming and reordering do not change."""
        ...

    def question(self) -> str:
        """Return the problem as short as a model trained on the family needs it."""
        ...

    def instructions(self) -> str:
        """Return what a model that does not know the family has to be told besides."""
        ...

    def read_answer(self, text: str) -> Artifact:
        """Return the artifact in a model's answer; raises ``ValueError`` where there is none."""
        ...

    def behaviour(self, artifact: Artifact) -> str:
        """Return what the artifact does, equal for equal behaviour; empty where it does nothing."""
        ...


@runtime_checkable
class ShownTask(AskedTask, Protocol):
    """One that shows a chat how answers look, by turns that stand before its question."""

    def examples(self) -> Sequence[tuple[str, str]]:
        """Return worked (question, answer) pairs, none of them of a problem that is asked."""
        ...
