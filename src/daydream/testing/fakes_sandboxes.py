"""Sandboxes for trying the sandbox contracts: each is a real one with one promise broken.

``KNOWN_BAD`` says which check must find each out.
"""

import os
from collections.abc import Mapping
from typing import Final

import msgspec

from daydream.config import user_environment
from daydream.errors import SandboxError
from daydream.sandbox import base
from daydream.sandbox.base import ExecResult, Job, Limits
from daydream.sandbox.process import ProcessSandbox
from daydream.testing import sandbox_contracts as contracts

changed = msgspec.structs.replace


class LosesErrors(ProcessSandbox):
    """Drops standard error."""

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job``."""
        return changed(super().run(job, limits), stderr=b"")


class LeaksEnvironment(ProcessSandbox):
    """Passes the parent's variables on."""

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job``."""
        env = {"SECRET_KEY": "k", **user_environment(), **job.env}
        return super().run(changed(job, env=env), limits)


class StaysAtHome(ProcessSandbox):
    """Ignores the working directory."""

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job``."""
        return super().run(changed(job, cwd="/"), limits)


class CutsInput(ProcessSandbox):
    """Feeds what fits into a pipe at once."""

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job``."""
        return super().run(changed(job, stdin=job.stdin[:65_536]), limits)


class ReadsResultsFromOutput(ProcessSandbox):
    """Takes what was printed for the result."""

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job``."""
        found = super().run(job, limits)
        return changed(found, result=found.stdout)


class KeepsAllOutput(ProcessSandbox):
    """Keeps ten times what it was allowed."""

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job``."""
        return super().run(job, changed(limits, output_bytes=10 * limits.output_bytes))


class WaitsForHangs(ProcessSandbox):
    """Gives a job a hundred times its wall limit."""

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job``."""
        return super().run(job, changed(limits, wall_s=100 * limits.wall_s))


class HasNoCpuLimit(ProcessSandbox):
    """Lets the wall end a busy loop."""

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job``."""
        if limits.cpu_s is not None:
            limits = changed(limits, cpu_s=None, wall_s=limits.cpu_s)
        return super().run(job, limits)


class LimitsMemoryOfEachProcess(ProcessSandbox):
    """Allows every process what the tree may have."""

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job``."""
        if limits.memory_mb is not None:
            limits = changed(limits, memory_mb=2 * limits.memory_mb, wall_s=2.0)
        return super().run(job, limits)


class LeavesDaemons(ProcessSandbox):
    """Ends the process that it started, and nothing that this one started."""

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job``."""
        env: Mapping[str, str] = job.env
        os.waitpid(os.posix_spawn(job.argv[0], job.argv, env), 0)
        return super().run(job, limits)


class ReadsSignalsAsSuccess(ProcessSandbox):
    """Takes a job without a status for one that ended well."""

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job``."""
        found = super().run(job, limits)
        return changed(found, outcome="exited", exit=found.exit or 0)


class RaisesForMissingCommands(ProcessSandbox):
    """Takes a command that does not exist for its own failure."""

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job``."""
        found = super().run(job, limits)
        if found.exit == 127:
            raise SandboxError(f"cannot run {job.argv[0]} (expected a command)")
        return found


class CountsOnlyTheFirstProcess(ProcessSandbox):
    """Reports nothing of what children used."""

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job``."""
        return changed(super().run(job, limits), cpu_s=0.02, peak_mb=9.0)


class ClaimsIsolation(ProcessSandbox):
    """States a layer that was not in force."""

    layers: tuple[str, ...] = ("bubblewrap", "seccomp")


class RemembersOneJob(ProcessSandbox):
    """Keeps its last result where another thread finds it."""

    def __init__(self) -> None:
        self._last: list[ExecResult] = []

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job``."""
        self._last.append(super().run(job, limits))
        return self._last[0]


KNOWN_BAD: Final[Mapping[type[base.Sandbox], contracts.Check]] = {
    LosesErrors: contracts.check_returns_the_status_and_both_outputs,
    LeaksEnvironment: contracts.check_gives_the_job_its_environment_and_no_other,
    StaysAtHome: contracts.check_starts_in_the_working_directory,
    CutsInput: contracts.check_feeds_all_of_standard_input,
    ReadsResultsFromOutput: contracts.check_keeps_the_result_apart_from_what_is_printed,
    KeepsAllOutput: contracts.check_bounds_what_it_keeps_of_the_output,
    WaitsForHangs: contracts.check_ends_a_hang_at_the_wall,
    HasNoCpuLimit: contracts.check_ends_a_job_over_its_cpu_time,
    LimitsMemoryOfEachProcess: contracts.check_ends_a_job_over_its_memory,
    LeavesDaemons: contracts.check_leaves_no_process,
    ReadsSignalsAsSuccess: contracts.check_reports_the_signal_that_ended_a_job,
    RaisesForMissingCommands: contracts.check_takes_a_missing_command_for_a_result,
    CountsOnlyTheFirstProcess: contracts.check_counts_what_a_job_used,
    ClaimsIsolation: contracts.check_states_its_layers,
    RemembersOneJob: contracts.check_keeps_the_jobs_of_threads_apart,
}
