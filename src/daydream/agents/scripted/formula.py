"""The scripted method of formula: a translation that gets one more thing right at each depth.

It knows the worked answer, spoils as many of its characters as the depth leaves open, and so is
wrong at first and right from depth 4 on; branch and world decide which characters.
"""

import random

from daydream.agents.base import AttemptContext, Proposal
from daydream.agents.scripted.agent import parameters
from daydream.tasks.base import json_artifact
from daydream.tasks.formula import DIGITS, VARIABLES, build

MOST = 3
"""Characters that the first attempt of a branch spoils."""


def propose(context: AttemptContext) -> Proposal:
    """Return the worked answer with ``MOST`` + 1 - depth leaves spoilt."""
    task = build(parameters(context.task))
    rng = random.Random(context.world_seed)
    answer = list(task.solution())
    leaves = [place for place, one in enumerate(answer) if one in VARIABLES + DIGITS]
    spoilt = max(0, MOST + 1 - context.depth)
    for place in rng.sample(leaves, min(spoilt, len(leaves))):
        answer[place] = rng.choice([one for one in VARIABLES if one != answer[place]])
    return Proposal(
        json_artifact({"program": "".join(answer)}), rationale=f"{spoilt} leaves are not right yet"
    )
