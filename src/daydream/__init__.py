"""Daydream learns, from searches already paid for, where the next attempt should go.

The public names; everything else may change.

    result = daydream.run("circle-packing:n=26", rounds=2)
    rollout = daydream.replay(policy_spec.build, tree)
"""

import importlib
from typing import TYPE_CHECKING

from daydream.ask_tell import Ask, Study
from daydream.errors import DaydreamError
from daydream.policies.specs import parse_spec
from daydream.replay import replay
from daydream.search import Policy, solve
from daydream.selection import select
from daydream.store.run_folder import read_tree
from daydream.tree import Node, Pool, Status, Tree, TreeView, make_pool

if TYPE_CHECKING:
    from daydream.launch import resume, run

__version__ = "0.1.0"

__all__ = [
    "Ask",
    "DaydreamError",
    "Node",
    "Policy",
    "Pool",
    "Status",
    "Study",
    "Tree",
    "TreeView",
    "__version__",
    "make_pool",
    "parse_spec",
    "read_tree",
    "replay",
    "resume",
    "run",
    "select",
    "solve",
]


def __getattr__(name: str) -> object:
    """Load what starts a run when it is first asked for: replaying brings no agent and no task."""
    if name in {"resume", "run"}:
        return getattr(importlib.import_module("daydream.launch"), name)
    raise AttributeError(f"module 'daydream' has no attribute {name!r}")
