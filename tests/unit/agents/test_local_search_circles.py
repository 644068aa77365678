"""Local search on circle packings: same context, same bytes; a child goes on from its parent."""

import hashlib
import os
import subprocess
import sys

import msgspec
import pytest

from daydream.agents.base import Ancestor, AttemptContext, Proposal
from daydream.agents.load import load_agent
from daydream.agents.local_search.circle_packing import EFFORT, RESTART, propose
from daydream.canonical import seed_of
from daydream.errors import UsageError
from daydream.tasks.base import Artifact, Evaluation, json_artifact
from daydream.tasks.circle_packing import CirclePacking, build, read_packing, repair
from daydream.tasks.load import load_task
from daydream.tree import Status


def opening(n: int, seed: int = 0, tolerance: str = "0") -> AttemptContext:
    task = build({"n": str(n), "tolerance": tolerance})
    return AttemptContext(
        task=task.info,
        round=1,
        branch=0,
        depth=1,
        attempt_seed=seed,
        world_seed=99,
        parent=task.root(),
        evaluation=task.evaluate(task.root()),
    )


def below(context: AttemptContext, proposal: Proposal, seed: int) -> AttemptContext:
    found = judge(context, proposal)
    ancestor = Ancestor(context.depth, found.status.value, found.score, found.error_class, "")
    return msgspec.structs.replace(
        context,
        depth=context.depth + 1,
        attempt_seed=seed,
        parent=proposal.artifact,
        evaluation=found,
        lineage=(*context.lineage, ancestor),
    )


def judge(context: AttemptContext, proposal: Proposal) -> Evaluation:
    task = load_task(context.task.name)
    assert isinstance(task, CirclePacking)
    return task.evaluate(proposal.artifact)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10])
def test_every_proposal_is_exactly_feasible(n: int) -> None:
    context = opening(n)
    for depth in range(4):
        proposal = propose(context, 5)
        assert judge(context, proposal).status is Status.OK
        context = below(context, proposal, depth + 1)


def test_two_circles_reach_the_known_optimum() -> None:
    assert judge(opening(2), propose(opening(2), 10)).score == pytest.approx(0.585786437, abs=1e-9)


def test_eight_circles_reach_the_best_known_sum() -> None:
    scores = [judge(opening(8, seed), propose(opening(8, seed), 24)).score for seed in range(4)]
    assert max(scores) >= 1.4238


def test_equal_contexts_give_equal_bytes_and_the_seed_matters() -> None:
    first, second, other = (propose(opening(9, seed), 8) for seed in (1, 1, 2))
    assert first == second
    assert first.artifact != other.artifact


def test_only_the_attempt_seed_moves_an_attempt() -> None:
    context = opening(6)
    changed = msgspec.structs.replace(context, round=7, branch=3, world_seed=4)
    assert propose(context, 6) == propose(changed, 6)


def test_a_child_is_never_worse_than_the_parent_it_continues_and_branches_do_gain() -> None:
    gains = 0
    for seed in range(3):
        context, scores = opening(14, seed), []
        for depth in range(5):
            proposal = propose(context, 8)
            scores.append(judge(context, proposal).score)
            context = below(context, proposal, seed_of(seed, depth))
        assert scores == sorted(scores)
        gains += scores[-1] > scores[0]
    assert gains >= 2


def test_a_child_that_finds_nothing_better_is_the_parent_itself() -> None:
    context = opening(2)
    best = propose(context, 20)
    assert propose(below(context, best, 5), 3).artifact == best.artifact


def test_a_parent_that_overlaps_is_repaired_and_continued() -> None:
    context = opening(4)
    circles = [(0.25, 0.25, 0.26), (0.75, 0.25, 0.25), (0.25, 0.75, 0.25), (0.75, 0.75, 0.25)]
    broken = Proposal(json_artifact({"circles": [list(circle) for circle in circles]}))
    proposal = propose(below(context, broken, 1), 1)
    assert proposal.rationale.startswith("continued")
    least = sum(radius for _, _, radius in repair(circles))
    assert judge(context, proposal).score >= least


@pytest.mark.parametrize("text", [b"not JSON", b"[]", b'{"circles": [[0.5, 0.5, 0.5]]}'])
def test_a_parent_that_cannot_be_read_is_replaced_by_a_start(text: bytes) -> None:
    context = opening(4)
    child = below(context, Proposal(Artifact({"artifact.json": text})), 1)
    proposal = propose(child, 3)
    assert proposal.rationale.startswith("started afresh")
    assert len(read_packing(proposal.artifact)) == 4


def test_a_branch_that_stays_flat_for_long_starts_afresh() -> None:
    context = below(opening(5), propose(opening(5), 30), 1)
    score = context.lineage[-1].score
    root = Ancestor(0, "ok", 0.1, None, "")

    def flat(attempts: int) -> AttemptContext:
        same = tuple(Ancestor(d, "ok", score, None, "") for d in range(1, attempts + 1))
        return msgspec.structs.replace(context, lineage=(root, *same))

    short, long = flat(RESTART // EFFORT), flat(RESTART // EFFORT + 1)
    assert propose(short, EFFORT).rationale.startswith("continued")
    assert propose(long, EFFORT).rationale.startswith("started afresh")


def test_the_effort_is_what_an_attempt_spends() -> None:
    for effort in (1, 4, 9):
        assert propose(opening(4), effort).notes["solves"] == effort


def test_a_tolerance_is_not_spent() -> None:
    context = opening(6, tolerance="1e-6")
    assert judge(context, propose(context, 6)).diagnostics["exactly_feasible"] is True


def test_the_agent_is_named_with_its_effort_and_runs_in_a_process() -> None:
    info = build({"n": "26"}).info
    plain, long = load_agent("local_search", info), load_agent("local_search:solves=3", info)
    assert (plain.name, long.name) == ("local_search", "local_search:solves=3")
    assert (plain.where, plain.deterministic) == ("process", True)
    assert long.propose(opening(26)) == propose(opening(26), 3)
    assert info.attempt_cost.startswith(str(EFFORT))


@pytest.mark.parametrize("options", ["solves", "solves=", "solves=-1", "solves=0", "moves=3", "x"])
def test_an_option_that_does_not_exist_is_refused(options: str) -> None:
    with pytest.raises(UsageError, match="solves"):
        load_agent(f"local_search:{options}", build({}).info)


def test_a_task_without_a_searcher_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"no searcher for task 'lasso'.*circle-packing"):
        load_agent("local_search", load_task("lasso").info)


CHILD = """
from tests.unit.agents.test_local_search_circles import digest
print(digest())
"""


def digest() -> str:
    proposal = propose(opening(26, seed_of(3)), 4)
    return hashlib.sha256(proposal.artifact.files["artifact.json"]).hexdigest()


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_number_of_threads_of_linear_algebra_changes_nothing(
    threads: str, pytestconfig: pytest.Config
) -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
    environment["PYTHONPATH"] = os.pathsep.join(
        [environment["PYTHONPATH"], str(pytestconfig.rootpath)]
    )
    done = subprocess.run(
        [sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == digest()
