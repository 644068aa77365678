"""Ask and tell: the search loop turned inside out, for people who make the attempts themselves."""

from collections.abc import Sequence

import msgspec

from daydream.errors import PolicyError, UsageError
from daydream.policies.base import PolicySpec
from daydream.search import DEFAULT_LIMIT, Policy, check_batch
from daydream.tree import ROOT, GrowingView, Node, Status, Tree, TreeView, check_tree


class Ask(msgspec.Struct, frozen=True):
    """One attempt to make: a child of ``parent``, which tells under ``id``."""

    id: int
    parent: int
    branch: int
    depth: int


class Told(msgspec.Struct, frozen=True):
    """What came of one attempt."""

    status: Status
    score: float
    error_class: str | None


class Study:
    """One rollout that the caller drives.

    ``ask`` hands out attempts of the policy's current batch, ``tell`` takes their results in any
    order; the next batch is decided when every result of the current one is in. ``tree`` returns
    the record, ready to be replayed.
    """

    def __init__(
        self,
        policy: PolicySpec,
        *,
        task: str = "study",
        evaluator: str = "study",
        baseline: float | None = None,
        limit: int = DEFAULT_LIMIT,
        scale: float = 1.0,
    ) -> None:
        self._spec = policy
        self._policy: Policy = policy.build(scale)
        self._names = (task, evaluator)
        self._limit = limit
        self._scale = scale
        self._view = GrowingView(
            status=None if baseline is None else Status.OK,
            score=0.0 if baseline is None else baseline,
            eligibility="chain",
        )
        self._nodes = [
            Node(
                ROOT, None, -1, 0, 0, 0, self._view.nodes[ROOT].status, self._view.nodes[ROOT].score
            )
        ]
        self._batch: list[Ask] = []
        self._handed = 0
        self._told: dict[int, Told] = {}
        self._ended = False

    @property
    def view(self) -> TreeView:
        """The revealed prefix; results of an unfinished batch are not in it."""
        return self._view

    @property
    def done(self) -> bool:
        """Whether the policy ended the rollout."""
        return self._ended

    def ask(self, most: int | None = None) -> Sequence[Ask]:
        """Return up to ``most`` attempts not handed out yet; none while results are missing or at
        the end (see ``done``).

        Raises :class:`PolicyError` when the policy breaks a rule.
        """
        if not self._batch and not self._ended:
            self._decide()
        end = len(self._batch) if most is None else min(len(self._batch), self._handed + most)
        handed, self._handed = self._batch[self._handed : end], max(end, self._handed)
        return handed

    def tell(
        self, number: int, score: float | None = None, *, error_class: str | None = None
    ) -> None:
        """Give the result of attempt ``number``: a finite ``score``, or None for a failure.

        Telling the same result again changes nothing. Raises :class:`UsageError` for an id that was
        not asked, a second and different result, or a score that is not finite.
        """
        if score is not None and not abs(float(score)) < float("inf"):
            raise UsageError(
                f"tell({number}): score is {score!r} (expected a finite number or None)"
            )
        told = (
            Told(Status.ERROR, 0.0, error_class or "failed")
            if score is None
            else Told(Status.OK, float(score), None)
        )
        handed = {ask.id for ask in self._batch[: self._handed]}
        past = self._past(number)
        if number not in handed and past is None:
            raise UsageError(
                f"tell({number}): no such attempt was asked (expected one of {handed})"
            )
        before = past if past is not None else self._told.get(number)
        if before is not None and before != told:
            raise UsageError(f"tell({number}): already told {before} (expected one result each)")
        if past is None:
            self._told[number] = told
            if len(self._told) == len(self._batch):
                self._reveal()

    def tree(self, number: int = 1) -> Tree:
        """Return the record so far as the tree of round ``number``."""
        task, evaluator = self._names
        return check_tree(
            Tree(
                task=task,
                evaluator=evaluator,
                round=number,
                policy=self._spec.name,
                limit=self._limit,
                scale=self._scale,
                seed=0,
                nodes=tuple(self._nodes),
            )
        )

    def _past(self, number: int) -> Told | None:
        if not 0 < number < len(self._nodes):
            return None
        node = self._nodes[number]
        if node.status is None:
            raise PolicyError(f"node {number} has no status (expected a revealed attempt)")
        return Told(node.status, node.score, node.error_class)

    def _decide(self) -> None:
        view = self._view
        batch = self._policy.select_batch(view, self._limit)
        check_batch(view, batch, self._limit)
        self._ended = not batch
        opened = view.branches
        for parent in batch:
            above = view.nodes[parent]
            branch = opened if parent == ROOT else above.branch
            opened += parent == ROOT
            number = len(view.nodes) + len(self._batch)
            self._batch.append(Ask(number, parent, branch, above.depth + 1))

    def _reveal(self) -> None:
        view = self._view
        for slot, ask in enumerate(self._batch):
            told = self._told[ask.id]
            node = view.reveal(ask.parent, told.status, told.score, told.error_class)
            self._nodes.append(
                Node(
                    id=node.id,
                    parent=ask.parent,
                    branch=node.branch,
                    depth=node.depth,
                    batch=view.batches + 1,
                    slot=slot,
                    status=told.status,
                    score=told.score,
                    error_class=told.error_class,
                )
            )
        view.batches += 1
        self._batch, self._handed, self._told = [], 0, {}
