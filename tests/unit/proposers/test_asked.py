"""What is played to show a developer how its versions decided, counted play by play."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from daydream.objective import Objective
from daydream.policies.base import PolicySpec
from daydream.policies.parallel_refine import ParallelRefine
from daydream.proposers.asked import Decision, Question, Revision, Terms
from daydream.proposers.base import Disqualified, Scored
from daydream.proposers.developer import Developer
from daydream.selection import Scorer, Settings
from daydream.testing.worlds import table_tree
from daydream.tree import Pool, make_pool

INCUMBENT = ParallelRefine(2, 2)
SLOW = "```python\ndef select_batch(view, limit):\n    return [0] * limit  # {}\n```"
ANSWERS = [SLOW.format(number) for number in range(3)]


class Counting:
    """A studio where every version of the developer's is out for its time."""

    def __init__(self, pool: Pool, out: Disqualified) -> None:
        self._scorer = Scorer(pool, Settings(objective=Objective()))
        self._out = out
        self.questions: list[Question] = []
        self.scored = 0
        self.watched: list[tuple[int, int | None]] = []
        """World and bound of each play of a version."""

    def ask(self, question: Question, number: int) -> str:
        """Return the next version."""
        self.questions.append(question)
        return ANSWERS[number - 1]

    def kept(self) -> Sequence[Revision]:
        """Return nothing: this is a new dream."""
        return ()

    def keep(self, revision: Revision) -> None:
        """Keep nothing."""

    def judged(self, number: int, scored: Scored) -> None:
        """Take no note."""

    def score(self, spec: PolicySpec) -> Scored:
        """Return what the policy in use is worth; a version is out."""
        if spec == INCUMBENT:
            return self._scorer.score([spec])[0]
        self.scored += 1
        return Scored(spec, (), 0.0, 0, self._out, admitted=False)

    def watch(self, spec: PolicySpec, world: int, batches: int | None = None) -> Sequence[Decision]:
        """Count a play of a version."""
        if spec != INCUMBENT:
            self.watched.append((world, batches))
        return ()


def _worlds(count: int) -> Pool:
    trees = [table_tree([[0.1 * n, 0.2 * n], [0.3, 0.4]]) for n in range(1, count + 1)]
    return make_pool([replace(tree, round=n) for n, tree in enumerate(trees, 1)])


@pytest.mark.parametrize(
    ("batch", "played"), [(1, []), (3, [(3, 2), (3, 2)])], ids=["at once", "later"]
)
def test_a_version_that_took_too_long_is_played_no_further(
    batch: int, played: list[tuple[int, int]]
) -> None:
    pool = _worlds(5)
    studio = Counting(pool, Disqualified(world=4, batch=batch, reason="time: too slow"))
    developer = Developer(studio, Terms("worth", limit=4, max_batches=10, revisions=3))
    evidence = [studio.score(INCUMBENT)]
    while specs := developer.propose(pool, INCUMBENT, evidence):
        evidence.append(studio.score(specs[0]))
    assert studio.scored == 3
    assert studio.watched == played
    told = studio.questions[-1].user
    assert f"disqualified in world 4, batch {batch}: time: too slow." in told
    # The policy in use is shown where the version went wrong.
    assert "The policy in use, world 4:" in told
    assert ("Version 2, world 4:" in told) is (batch > 1)
