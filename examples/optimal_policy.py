"""A policy in the blocking style of the paper's appendix B.

    daydream run branch-world --policy examples/optimal_policy.py

`solve` probes until nothing more is worth it. `question` names what can be probed: legal roots
open a branch, the other legal actions are the next attempts of open branches. `beta` in [0, 1] is
the one knob: wider and more patient towards 1.
"""


class OptimalPolicy:
    """Open some branches, refine those that are promising or still young, drop the hopeless."""

    NAME = "patient-branches"

    def __init__(self, config):
        self.config = {"beta": 0.6, **config}

    def solve(self, question, budget=None):
        """Probe batch after batch; returning ends the rollout."""
        question.reset()
        beta = self.config["beta"]
        width, patience = 2 + round(4 * beta), 1 + round(4 * beta)
        question.probe_batch(question.legal_roots()[:width])
        while True:
            worth = [
                action
                for action in question.legal_actions()
                if action not in question.legal_roots() and self.go_on(question, action, patience)
            ]
            if not worth:
                return
            question.probe_batch(worth)

    def go_on(self, question, action, patience):
        """Return whether the branch of `action` deserves another attempt."""
        branch = question.meta(action).branch
        if question.branch_failed_hard(branch):
            return False
        scores = [o.score for o in question.observed().values() if o.branch == branch and o.valid]
        recent = scores[-patience:]
        rose = len(scores) <= patience or max(recent) > max(scores[:-patience])
        return rose and len(scores) < 12
