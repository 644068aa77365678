"""The blocking interface of appendix B: what a question offers, and what a probe brings."""

from collections.abc import Callable, Mapping

import pytest

from daydream.canonical import JsonValue
from daydream.errors import PolicyError
from daydream.policies.optimal_policy import GridPlan, Observation, Question, Solving
from daydream.replay import replay
from daydream.search import Rollout
from daydream.testing.worlds import table_tree
from daydream.tree import Tree

TREE = table_tree([[0.1, 0.3, 0.2], [None, None, 0.5], [0.4]])


class Blocking:
    """A policy made of one function."""

    def __init__(self, solve: Callable[[Question], object], plan: GridPlan | None = None) -> None:
        self.config: Mapping[str, JsonValue] = {"beta": 0.5}
        self._solve = solve
        self._plan = plan

    def plan_grid(self, context: object) -> GridPlan | None:
        return self._plan

    def solve(self, question: Question, budget: int | None = None) -> None:
        self._solve(question)


def play(
    solve: Callable[[Question], object],
    *,
    tree: Tree = TREE,
    plan: GridPlan | None = None,
    limit: int = 4,
) -> Rollout:
    return replay(lambda: Solving(Blocking(solve, plan)), tree, limit=limit)


def test_a_probe_reveals_and_says_what_came_of_it() -> None:
    told: list[tuple[int, Observation]] = []

    def solve(question: Question) -> None:
        question.reset()
        assert question.observed() == {}
        assert question.baseline_score is None
        roots = question.legal_roots()
        assert question.legal_actions() == roots
        assert len(roots) == question.max_parallelism == 4
        assert [question.meta(root).branch for root in roots] == [0, 1, 2, 3]
        found = question.probe_batch(roots[:2], on_reveal=lambda i, o: told.append((i, o)))
        assert list(found) == roots[:2]
        assert question.opened_branches() == [0, 1]
        good, bad = found.values()
        assert (good.evaluated, good.valid, good.fail_class, good.error) == (True, True, "ok", None)
        assert (good.branch, good.attempt, good.score, good.n_valid, good.n_total) == (
            0,
            1,
            0.1,
            1,
            1,
        )
        assert (bad.evaluated, bad.valid, bad.fail_class, bad.error) == (
            False,
            False,
            "error",
            "failed",
        )
        following = question.legal_actions()[-2:]
        metas = [question.meta(number) for number in following]
        assert [(m.branch, m.attempt, m.parent_id, m.seq) for m in metas] == [
            (0, 2, roots[0], None),
            (1, 2, roots[1], None),
        ]
        second = question.probe_batch(following)
        assert question.meta(following[0]).seq == 3
        assert second[following[0]].delta_vs_parent == pytest.approx(0.2)
        assert second[following[0]].delta_vs_baseline is None
        assert question.probe_improved_vs_parent(following[0])
        assert not question.probe_improved_vs_baseline(following[0])
        assert question.branch_promising(0)
        assert question.branch_failed_hard(1)
        assert not question.branch_failed_hard(0)

    done = play(solve)
    assert (done.attempts, done.batches) == (4, 2)
    assert [number for number, _ in told] == [0, 1]


def test_a_batch_beyond_the_limit_is_made_in_several() -> None:
    def solve(question: Question) -> None:
        question.probe_batch(question.legal_roots())
        question.probe_batch(list(question.legal_actions()))

    assert play(solve, limit=2).sizes == (2, 2, 2)


def test_roots_open_branches_in_creation_order_whichever_is_named() -> None:
    def solve(question: Question) -> None:
        last = question.legal_roots()[-1]
        found = question.probe_batch([last])
        assert found[last].branch == question.meta(last).branch == 0

    assert play(solve).attempts == 1


def test_what_turned_out_not_to_exist_is_neither_observed_nor_legal() -> None:
    def solve(question: Question) -> None:
        found = question.probe_batch(question.legal_roots())
        assert len(found) == 3
        assert question.legal_roots() == []
        dead_end = next(n for n in question.legal_actions() if question.meta(n).branch == 2)
        assert question.probe_batch([dead_end]) == {}
        assert dead_end not in question.legal_actions()

    assert play(solve).off_record == 2


def test_a_plan_bounds_branches_and_attempts() -> None:
    def solve(question: Question) -> None:
        while question.legal_actions():
            question.probe_batch(question.legal_actions())

    done = play(solve, plan=GridPlan(2, 2))
    assert (done.view.branches, max(node.depth for node in done.view.nodes)) == (2, 2)
    assert play(solve).attempts == TREE.attempts


@pytest.mark.parametrize("wrong", [GridPlan(0, 1), GridPlan(1, 0), "wide"])
def test_a_plan_that_is_none_is_refused(wrong: object) -> None:
    policy = Blocking(lambda question: None)
    policy.plan_grid = lambda context: wrong  # type: ignore[assignment, method-assign, return-value]
    with pytest.raises(PolicyError, match="plan_grid returned"):
        replay(lambda: Solving(policy), TREE)


@pytest.mark.parametrize("ids", [[0, 0], [99], [-1]])
def test_ids_that_are_not_legal_are_refused(ids: list[int]) -> None:
    with pytest.raises(ValueError, match="distinct legal ids"):
        play(lambda question: question.probe_batch(ids))


def test_a_probe_cannot_be_unmade() -> None:
    def solve(question: Question) -> None:
        question.probe_batch(question.legal_roots()[:1])
        question.reset()

    with pytest.raises(RuntimeError, match="reset after a probe"):
        play(solve)


def test_a_rollout_that_ends_leaves_solve_where_it_waits() -> None:
    left: list[str] = []

    def solve(question: Question) -> None:
        try:
            while True:
                question.probe_batch(question.legal_actions())
        finally:
            left.append("gone")

    assert play(solve).attempts == TREE.attempts
    assert left == ["gone"]
