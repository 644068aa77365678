"""branch-world: a didactic world whose score depends on branch and depth alone.

Owns the published table and the rule that continues it. An artifact names a place, as JSON
``{"branch": b, "depth": d}``; the score is looked up here, whatever the artifact says beside it.
Refuses anything but two whole numbers.

Provenance: the world follows the first public implementation of Dream-RSI's local loop, of which
branch 3 (0.20 for three attempts, 0.95 from the fourth) and the replay scores 0.884 and 0.938 are
known. The other branches are ours. Branch b waits for b attempts and pays with the next, so that
a search that is one wider and one deeper than before always finds something better, up to 0.95,
and a branch is worth nothing to a controller that loses patience before depth b + 1.
"""

from collections.abc import Mapping

from daydream.canonical import hash_of
from daydream.tasks.base import (
    Args,
    Artifact,
    Evaluation,
    Record,
    TaskInfo,
    failed,
    json_artifact,
    ok,
    only,
    read_json,
)

EVALUATOR = "branch-world/1"
WINNER = 3
TOP = 0.95
"""What branch 3 pays from depth 4 on; nothing pays more."""
PUBLISHED_WIDTH, PUBLISHED_DEPTH = 6, 8
LARGEST = 1_000_000
"""Greatest branch or depth that is looked up."""

_FIRST_PAYS = (10, 35, 60, 95, 70)
"""Hundredths paid at depth b + 1 by branches 0-4."""
_LATER_PAYS = 80
_STEP = 5
_CAP = 90
"""No branch but the winner climbs above 0.90."""


def score_at(branch: int, depth: int) -> float:
    """Return the score of attempt ``depth`` (from 1) in ``branch`` (from 0), in [0.1, 0.95].

    In hundredths: branch b >= 1 shows min(40, 14 + 2b) at depths 1 to b. At depth b + 1 it pays
    10, 35, 60, 95, 70 for b = 0 to 4 and 80 from there on. After that each attempt adds 5 up to
    90, except in branch 3, which stays at 95.
    """
    if depth <= branch:
        return min(40, 14 + 2 * branch) / 100
    pays = _FIRST_PAYS[branch] if branch < len(_FIRST_PAYS) else _LATER_PAYS
    if branch == WINNER:
        return pays / 100
    return min(_CAP, pays + _STEP * (depth - branch - 1)) / 100


TABLE: tuple[tuple[float, ...], ...] = tuple(
    tuple(score_at(branch, depth) for depth in range(1, PUBLISHED_DEPTH + 1))
    for branch in range(PUBLISHED_WIDTH)
)
"""The published world: ``TABLE[branch][depth - 1]``, 6 branches of 8 attempts."""

STATEMENT = """\
A didactic world. Every attempt stands at a place: branch b (from 0) and depth d (from 1). Its
score depends on the place alone and is looked up in a fixed table.

Write artifact.json holding {"branch": b, "depth": d}, two whole numbers. An attempt that opens a
new branch has depth 1; one that continues a branch has the depth of its parent plus 1. The initial
artifact is {"branch": -1, "depth": 0} and scores 0. Higher is better; no place scores above 0.95.
Some branches stay low for several attempts before they pay."""


class BranchWorld:
    """The task. Stateless."""

    def __init__(self) -> None:
        self.info = TaskInfo(
            name="branch-world",
            title="A didactic world of branch and depth",
            statement=STATEMENT,
            evaluator=hash_of({"evaluator": EVALUATOR, "table": TABLE}),
            policy="parallel_refine-w6-d8",
            agent="scripted",
            measure="score",
            attempt_cost="one table lookup",
            records=(Record(TOP, "greatest value of the table, by construction", exact=True),),
        )

    def root(self) -> Artifact:
        """Return the place above all branches."""
        return json_artifact({"branch": -1, "depth": 0})

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Return the score of the place that ``artifact`` names; ``invalid`` for no place."""
        try:
            value = read_json(artifact, limit=10_000)
        except ValueError as error:
            return failed("unreadable", str(error))
        if not isinstance(value, Mapping):
            return failed("shape", f"artifact.json is {type(value).__name__} (expected an object)")
        branch, depth = value.get("branch"), value.get("depth")
        if type(branch) is not int or type(depth) is not int:
            return failed(
                "shape",
                f"branch is {branch!r} and depth is {depth!r} (expected two whole numbers)",
            )
        if (branch, depth) == (-1, 0):
            return ok(0.0)
        if not (0 <= branch <= LARGEST and 1 <= depth <= LARGEST):
            return failed(
                "place",
                f"no place at branch {branch}, depth {depth} (expected branch from 0 and depth "
                f"from 1, both at most {LARGEST})",
            )
        return ok(score_at(branch, depth), branch=branch, depth=depth)


def build(args: Args) -> BranchWorld:
    """Return the task; it has no parameters.

    Raises :class:`TaskError` for any.
    """
    only("branch-world", args)
    return BranchWorld()
