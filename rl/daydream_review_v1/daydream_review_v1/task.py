"""One pull request as a task: what is kept of a rollout, and what it is worth.

When a rollout has ended, and before anything of the repository is run again, its archive and the
fix that it committed are copied to the host and sealed with digests. Both rewards read that copy.
"""

import asyncio
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar, Literal

import verifiers.v1 as vf

from daydream_review_v1 import archive, rewards, verify
from daydream_review_v1.places import Places
from daydream_review_v1.shell import Shell

logger = logging.getLogger(__name__)


class ReviewData(vf.TaskData):
    """One pull request."""

    repo_slug: str
    clone_url: str
    pr_number: int
    base_sha: str
    head_sha: str
    base_ref: str
    test_command: str
    protected_test_paths: list[str] = []
    golden_comments: list[dict[str, Any]] = []


class ReviewTaskConfig(vf.TaskConfig):
    """Weights of the rewards."""

    w_composite: float = 1.0
    w_tests: float = 1.0
    no_fix_reward: float = 0.0
    score: Literal["strict", "seed"] = "strict"
    """``strict`` takes the lower of the two versions of the trajectory score."""


class ReviewState(vf.State):
    """What one rollout left behind, on the host."""

    kept: str = ""
    """Folder with the copy of the archived run."""
    fix: str = ""
    """Tree of the fix, as an object of the pristine repository; empty without one."""
    places: dict[str, Any] = {}


class ReviewTask(vf.Task[ReviewData, ReviewState, ReviewTaskConfig]):
    """Review, fix and test one pull request."""

    NEEDS_CONTAINER: ClassVar[bool] = False

    async def validate(self, runtime: vf.Runtime) -> bool:
        """Return whether the commits are there and the tests pass before anything is changed."""
        shell, places = Shell(runtime), Places.in_image()
        if not await verify.at_head(shell, places.repo, self.data.head_sha):
            return False
        if not await verify.has_commit(shell, places.repo, self.data.base_sha):
            return False
        return (await verify.baseline(shell, places, self.data)).passed

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Copy the archive and the fix out of the runtime and seal them."""
        recorded = trace.info.get("places")
        if not isinstance(recorded, dict):
            return
        shell, places = Shell(runtime), Places(**recorded)
        trace.state.places = dict(recorded)
        kept = Path(tempfile.mkdtemp(prefix="daydream-rollout-"))
        trace.state.kept = str(kept)
        run = await archive.fetch(shell, places.archive)
        await asyncio.to_thread(archive.keep, run, kept)
        fix = await verify.take_fix(shell, places, self.data)
        trace.state.fix = fix.tree
        trace.info["seal"] = archive.seal(run, fix.diff)
        trace.info["fix"] = fix.summary()

    async def score(self, trace: vf.Trace, runtime: vf.Runtime | None = None) -> None:
        """Score the kept copy, and remove it."""
        try:
            await super().score(trace, runtime)
        finally:
            if trace.state.kept:
                shutil.rmtree(trace.state.kept, ignore_errors=True)
                trace.state.kept = ""

    @vf.metric
    async def review_shape(self, trace: vf.Trace) -> dict[str, float]:
        """How much was found, and how much of the reference was met. Never part of the reward."""
        run = archive.Run.read(trace.state.kept, trace.info)
        return {
            **rewards.shape(run, self.data.golden_comments),
            "daydream_exit_code": float(trace.info.get("daydream_exit_code", -1)),
            "captured_turns": float(trace.num_turns),
            "captured_branches": float(trace.num_branches),
        }

    @vf.reward(weight=1.0)
    async def intrinsic_composite(self, trace: vf.Trace) -> float:
        """The trajectory score of the archived run; a missing one is worth 0."""
        run = archive.Run.read(trace.state.kept, trace.info)
        said = [str(message.content or "") for message in trace.assistant_messages]
        found = rewards.intrinsic(run, said, strict=self.config.score == "strict")
        trace.info["reward_breakdown"] = found.breakdown
        return self.config.w_composite * found.value

    @vf.reward(weight=1.0)
    async def fix_tests_pass(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        """Whether the tests pass after the fix, in a pristine checkout."""
        run = archive.Run.read(trace.state.kept, trace.info)
        claim = rewards.claimed(run)
        if not trace.state.fix:
            trace.record_metric("fixes_applied", 0.0)
            if claim is not None:
                trace.record_metric("test_claim_passed_without_fix", float(claim))
            return self.config.no_fix_reward
        places = Places(**trace.state.places)
        found = await verify.judge(Shell(runtime), places, self.data, trace.state.fix)
        trace.info["tests"] = found.summary()
        trace.record_metric("fixes_applied", 1.0)
        if claim is not None:
            trace.record_metric("test_claim_mismatch", float(claim is not found.passed))
        return self.config.w_tests * float(found.passed)
