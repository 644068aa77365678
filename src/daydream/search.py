"""The one search loop: a policy picks parents, a world answers. Live and replay share it whole.

:func:`play` is the loop; :func:`solve` asks a policy that is at hand. A policy that runs elsewhere
is asked by whoever holds many games at once (:mod:`daydream.isolation`).
"""

from collections.abc import Generator, Sequence
from typing import Final, Protocol

import msgspec

from daydream.errors import PolicyError
from daydream.tree import ROOT, Batch, Frontier, TreeView, VisibleNode

DEFAULT_LIMIT = 8
DEFAULT_MAX_BATCHES = 1_000


class Policy(Protocol):
    """Chooses the next attempts. Built once for a rollout, so it may keep state."""

    def select_batch(self, view: TreeView, limit: int) -> Batch:
        """Return at most ``limit`` ids of ``view.frontier``, in slot order.

        The root may stand there any number of times, others once. An empty batch ends the rollout.
        """
        ...


class Revealed(msgspec.Struct, frozen=True):
    """What one batch brought."""

    nodes: Sequence[VisibleNode]
    """The new nodes, in slot order; shorter than the batch where slots stayed empty."""
    empty: int
    """Slots that stayed empty."""
    ended: bool
    """No further batch can bring anything in this world."""


NOTHING: Final = Revealed((), 0, ended=False)
"""What is revealed before the first batch."""


class World(Protocol):
    """Where a policy acts: :class:`~daydream.online.OnlineWorld` or ``ReplayWorld``."""

    def view(self) -> TreeView:
        """Return the window on the revealed prefix; the same object for the whole rollout."""
        ...

    def advance(self, batch: Batch) -> Revealed:
        """Make or reveal one child for each parent in ``batch``; :func:`check_batch` passed it."""
        ...


class Outcome(msgspec.Struct, frozen=True):
    """What a score needs to know of one policy in one world, ended."""

    attempts: int
    batches: int
    off_record: int
    """Picks that came back empty."""
    best: float | None
    """Greatest ``ok`` score among attempts."""


class Rollout(Outcome, frozen=True):
    """One policy in one world, ended."""

    view: TreeView
    sizes: tuple[int, ...]
    """Size of each batch, as decided."""


def check_batch(view: TreeView, batch: Batch, limit: int) -> None:
    """Raise :class:`PolicyError` unless ``batch`` may be played on ``view``."""
    size = len(batch)
    if size > limit:
        raise PolicyError(
            f"policy named {size} parents in batch {view.batches + 1} (expected at most {limit}); "
            "return fewer ids"
        )
    frontier: Frontier = view.frontier
    if frontier.accepts(batch):
        return
    seen: set[int] = set()
    for parent in batch:
        if type(parent) is not int or parent not in frontier:
            raise PolicyError(
                f"policy named parent {parent!r} in batch {view.batches + 1} (expected ids from "
                f"view.frontier, {len(frontier)} nodes); pick the root or a revealed leaf"
            )
        if parent != ROOT:
            if parent in seen:
                raise PolicyError(
                    f"policy named node {parent} twice in batch {view.batches + 1} (expected each "
                    "node but the root at most once); name the root to open branches"
                )
            seen.add(parent)


def play(
    world: World, *, limit: int = DEFAULT_LIMIT, max_batches: int = DEFAULT_MAX_BATCHES
) -> Generator[Revealed | Rollout, Batch, None]:
    """Play ``world`` with the batches that are sent, until one is empty or no more may come.

    Yields what the last batch revealed while the next is awaited, and at the end the rollout.
    Raises :class:`PolicyError` for a batch that no world accepts.
    """
    view = world.view()
    off_record = 0
    sizes: list[int] = []
    revealed = NOTHING
    while view.batches < max_batches:
        batch = yield revealed
        if not batch:
            break
        check_batch(view, batch, limit)
        revealed = world.advance(batch)
        sizes.append(len(batch))
        off_record += revealed.empty
        if revealed.ended:
            break
    yield Rollout(
        view=view,
        attempts=view.attempts,
        batches=view.batches,
        off_record=off_record,
        best=view.best,
        sizes=tuple(sizes),
    )


def solve(
    policy: Policy,
    world: World,
    *,
    limit: int = DEFAULT_LIMIT,
    max_batches: int = DEFAULT_MAX_BATCHES,
) -> Rollout:
    """Run ``policy`` in ``world`` until an empty batch, the world's end, or ``max_batches``.

    Raises :class:`PolicyError` for a batch that no world accepts, and whatever the policy raises.
    """
    view, select_batch = world.view(), policy.select_batch
    game = play(world, limit=limit, max_batches=max_batches)
    found = next(game)
    while type(found) is not Rollout:
        found = game.send(select_batch(view, limit))
    return found
