"""System 1: the smallest adaptive controller that still uncovers every stored world's best node."""

from collections.abc import Sequence

from daydream.objective import MARGIN
from daydream.policies.adaptive import Adaptive
from daydream.policies.base import PolicySpec
from daydream.proposers.base import Scored
from daydream.tree import Node, Pool, Status, Tree

MIN_GAIN = 0.02


class System1:
    """Proposes one spec and never searches."""

    def propose(
        self, pool: Pool, incumbent: PolicySpec, evidence: Sequence[Scored]
    ) -> Sequence[PolicySpec]:
        """Return the fast proposal once, or nothing where no attempt ever succeeded."""
        spec = None if evidence else fast_proposal(pool)
        return [] if spec is None else [spec]


def fast_proposal(pool: Pool) -> Adaptive | None:
    """Return the System 1 spec of ``pool``; None when no world holds an ``ok`` attempt.

    In each world the target is the ``ok`` node equal to the world's best with the least
    (branch + 1) * depth, then the least depth. Width and depth are maxima over worlds, patience is
    1 + the longest run of flat steps before a target, and the minimal gain is 0.02.
    """
    width = depth = 0
    patience = 1
    for tree in pool.trees:
        target = _target(tree)
        if target is not None:
            width = max(width, target.branch + 1)
            depth = max(depth, target.depth)
            patience = max(patience, 1 + _longest_flat(tree, target, MIN_GAIN * pool.scale))
    return Adaptive(width, depth, patience, MIN_GAIN) if width else None


def _target(tree: Tree) -> Node | None:
    best = tree.best
    if best is None:
        return None
    equal = [n for n in tree.nodes[1:] if n.status is Status.OK and n.score == best.score]
    return min(equal, key=lambda node: ((node.branch + 1) * node.depth, node.depth))


def _longest_flat(tree: Tree, target: Node, threshold: float) -> int:
    path: list[Node] = []
    node = target
    while node.parent:
        node = tree.nodes[node.parent]
        path.append(node)
    longest = run = 0
    best: float | None = None
    for step, node in enumerate(reversed(path)):
        ok = node.status is Status.OK
        gain = max(0.0, node.score - best) if ok and best is not None else 0.0
        first = ok and best is None
        flat = step > 0 and not first and gain < threshold - MARGIN
        run = run + 1 if flat else 0
        longest = max(longest, run)
        if ok and (best is None or node.score > best):
            best = node.score
    return longest
