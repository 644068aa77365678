"""A policy of your own: open a few branches, then follow the two best.

    daydream run branch-world --policy examples/narrow_policy.py

Daydream builds one `Policy` for each rollout, online and in replay alike. The view grows from batch
to batch: `nodes[id]` tells parent, branch, depth, status, score and whether the node is exhausted;
`frontier` lists the ids that may be named. An empty list ends the rollout.
"""


class Policy:
    """Four branches, then at most two leaves a batch, each branch no deeper than four."""

    def __init__(self, config):
        self.width = int(config.get("width", 4))
        self.depth = int(config.get("depth", 4))
        self.keep = int(config.get("keep", 2))

    def select_batch(self, view, limit):
        """Return the ids of the parents to extend next."""
        root = view.nodes[view.root]
        missing = self.width - view.branches
        if missing > 0 and not root.exhausted:
            return [view.root] * min(missing, limit)
        leaves = [view.nodes[number] for number in view.frontier if number != view.root]
        open_leaves = [leaf for leaf in leaves if leaf.depth < self.depth and not leaf.exhausted]
        best_first = sorted(open_leaves, key=lambda leaf: (not leaf.ok, -leaf.score, leaf.id))
        return [leaf.id for leaf in best_first[: min(self.keep, limit)]]
