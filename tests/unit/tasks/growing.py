"""Worlds of scripted attempts, made through ask and tell without a run folder."""

from functools import lru_cache

from daydream.agents.base import AttemptContext
from daydream.agents.load import load_agent
from daydream.ask_tell import Study
from daydream.canonical import seed_of
from daydream.policies.specs import parse_spec
from daydream.tasks.base import Artifact, Evaluation
from daydream.tasks.load import load_task
from daydream.tree import ROOT, Status, Tree


def grow(
    name: str, *, seed: int = 0, policy: str = "", round_number: int = 1, fresh: bool = False
) -> Tree:
    """Return the tree that the scripted agent makes on task ``name`` under its starting policy."""
    tree, _ = grow_artifacts(name, seed=seed, policy=policy, round_number=round_number, fresh=fresh)
    return tree


@lru_cache(maxsize=64)
def grow_artifacts(
    name: str, *, seed: int = 0, policy: str = "", round_number: int = 1, fresh: bool = False
) -> tuple[Tree, dict[tuple[int, int], Artifact]]:
    """Return the tree and the artifact of each (branch, depth)."""
    task = load_task(name)
    info = task.info
    agent = load_agent("scripted", info)
    root = task.root()
    judged = task.evaluate(root)
    study = Study(
        parse_spec(policy or info.policy),
        task=info.name,
        evaluator=info.evaluator,
        baseline=judged.score,
        scale=info.scale or 1.0,
    )
    known: dict[int, tuple[Artifact, Evaluation]] = {ROOT: (root, judged)}
    places: dict[tuple[int, int], Artifact] = {}
    while asked := study.ask():
        for ask in asked:
            parent, above = known[ask.parent]
            place = (ask.branch, ask.depth)
            attempt_seed = seed_of(seed, round_number, *place)
            proposal = agent.propose(
                AttemptContext(
                    task=info,
                    round=round_number,
                    branch=ask.branch,
                    depth=ask.depth,
                    attempt_seed=attempt_seed,
                    world_seed=attempt_seed if fresh else seed_of(seed, *place),
                    parent=parent,
                    evaluation=above,
                )
            )
            found = task.evaluate(proposal.artifact)
            known[ask.id] = (proposal.artifact, found)
            places[place] = proposal.artifact
            score = found.score if found.status is Status.OK else None
            study.tell(ask.id, score, error_class=found.error_class)
    return study.tree(), places
