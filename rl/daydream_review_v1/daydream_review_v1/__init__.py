"""Review, fix and test a pull request with Daydream: a verifiers environment.

The two classes that verifiers looks for are loaded when asked for, so that the fixture, the stub
and the image builder start without it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daydream_review_v1.harness import ReviewHarness
    from daydream_review_v1.taskset import ReviewTaskset

__all__ = ["ReviewHarness", "ReviewTaskset"]


def __getattr__(name: str) -> object:
    if name == "ReviewHarness":
        from daydream_review_v1.harness import ReviewHarness

        return ReviewHarness
    if name == "ReviewTaskset":
        from daydream_review_v1.taskset import ReviewTaskset

        return ReviewTaskset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
