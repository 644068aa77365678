"""The scripted method of branch-world: each attempt names the place where it stands."""

from daydream.agents.base import AttemptContext, Proposal
from daydream.tasks.base import json_artifact


def propose(context: AttemptContext) -> Proposal:
    """Return the place of the attempt."""
    place = {"branch": context.branch, "depth": context.depth}
    return Proposal(json_artifact(place), rationale="go where the policy points")
