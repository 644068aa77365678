"""``daydream sandbox check`` and ``daydream sandbox exec``."""

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Literal

import cyclopts
import msgspec
from cyclopts import Parameter

from daydream.cli import output
from daydream.config import SandboxLevel, environment_layer, resolve, user_environment
from daydream.errors import EnvironmentMissing, UsageError
from daydream.sandbox import host
from daydream.sandbox.base import ExecResult, Job
from daydream.sandbox.bubblewrap import BubblewrapSandbox
from daydream.sandbox.choose import choose, weakness
from daydream.sandbox.namespaces import closed
from daydream.sandbox.profiles import profile as profile_of
from daydream.sandbox.self_check import Finding
from daydream.sandbox.self_check import check as self_check
from daydream.sandbox.workspace import workspace

FIRST = "what a job is held by is what it should be; else no other job runs"
ProfileName = Literal["candidate", "compile", "policy", "evaluator", "rollout"]

app = cyclopts.App(
    name="sandbox", help="See what isolates untrusted code, and try it.", help_format="plaintext"
)


@app.command(usage="daydream sandbox check [OPTIONS]")
def check(
    *,
    profile: ProfileName = "candidate",
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Let the sandbox try its own limits: exit 0 when all hold, 1 when one does not, 3 without it.

    Parameters
    ----------
    profile
        Kind of job whose limits are tried.
    json
        Print JSON and nothing else on standard output.
    """
    level = _level()
    reason = host.missing()
    if reason and level != "process":
        raise EnvironmentMissing(f"the bubblewrap sandbox cannot run: {reason}")
    sandbox = choose(level, profile_of(profile))
    findings: tuple[Finding, ...] = ()
    if isinstance(sandbox, BubblewrapSandbox):
        doubt = sandbox.doubt()
        findings = (Finding("first job", FIRST, not doubt, doubt or "as promised"),)
        sandbox = dataclasses.replace(sandbox, doubted=True)
    findings = (*findings, *self_check(sandbox))
    good = all(found.ok for found in findings)
    if json:
        output.emit(
            {
                "layers": list(sandbox.layers),
                "profile": profile,
                "ok": good,
                "checks": [msgspec.to_builtins(found) for found in findings],
            }
        )
    else:
        rows = [
            (found.name, "holds" if found.ok else "DOES NOT HOLD", found.promise, found.detail)
            for found in findings
        ]
        title = f"Profile {profile}: {', '.join(sandbox.layers)}"
        output.out().print(output.table(title, ("limit", "state", "promise", "found"), rows))
        output.next_step("daydream sandbox exec --profile candidate -- sh -c 'id; ls -la / /work'")
    return 0 if good else 1


@app.command(name="exec", usage="daydream sandbox exec [OPTIONS] -- COMMAND...")
def exec_(
    *command: str,
    profile: ProfileName = "candidate",
    read: Annotated[list[Path], Parameter(negative="")] = [],  # noqa: B006 - never changed
    gpu: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Run a command as a candidate would run, and show what became of it.

    Put the command after ``--``. It starts in an empty folder. The exit code is 0 when the command
    ran to its end with status 0, and 1 otherwise.

    Parameters
    ----------
    command
        The command and its arguments.
    profile
        Kind of job: its limits, and what it may see.
    read
        A path of yours that the command may read.
    gpu
        Give it the GPUs.
    json
        Print JSON and nothing else on standard output.
    """
    if not "".join(command[:1]).strip():
        raise UsageError(
            "no command to run (expected one after --); try: daydream sandbox exec -- id"
        )
    for path in read:
        if not path.exists():
            raise UsageError(f"--read {path}: there is no such path (expected one of yours)")
        if closed(str(path)):
            raise UsageError(
                f"--read {path}: the sandbox keeps this closed (expected a file or folder of "
                "yours); name what the command needs, and take --gpu for a GPU"
            )
    kind = profile_of(profile)
    sandbox = choose(_level(), kind, devices=gpu)
    told = weakness(sandbox.layers)
    output.warn(told)
    with workspace() as place:
        # A sandbox that hides the disk has its own folders; the others work in a real one.
        home = str(place) if told else "/work"
        job = Job(
            argv=command,
            cwd=home,
            env={**kind.environment(user_environment()), "HOME": home},
            readable=tuple(str(path.absolute()) for path in read),
            scratch=(home,),
        )
        found = sandbox.run(job, kind.limits)
    if json:
        output.emit(msgspec.to_builtins(_shown(found)))
    else:
        _print(found)
    return 0 if (found.outcome, found.exit) == ("exited", 0) else 1


class Shown(msgspec.Struct, frozen=True):
    """A result as people and programs read it."""

    outcome: str
    exit: int | None
    stdout: str
    stderr: str
    wall_s: float
    cpu_s: float
    peak_mb: float
    layers: tuple[str, ...]


def _shown(found: ExecResult) -> Shown:
    return Shown(
        outcome=found.outcome,
        exit=found.exit,
        stdout=found.stdout.decode("utf-8", "replace"),
        stderr=found.stderr.decode("utf-8", "replace"),
        wall_s=round(found.wall_s, 4),
        cpu_s=round(found.cpu_s, 4),
        peak_mb=round(found.peak_mb, 2),
        layers=found.layers,
    )


def _print(found: ExecResult) -> None:
    for stream, data in ((sys.stdout, found.stdout), (sys.stderr, found.stderr)):
        text = data.decode("utf-8", "replace")
        # What a candidate prints must not steer the terminal.
        stream.write("".join(c if c.isprintable() or c in "\n\t" else "�" for c in text))
        stream.flush()
    how = f"status {found.exit}" if found.outcome == "exited" else found.outcome
    output.err().print(
        f"{how}, {found.wall_s:.2f} s, {found.cpu_s:.2f} s of CPU, {found.peak_mb:.0f} MiB, "
        f"isolation: {', '.join(found.layers)}",
        style="dim",
        markup=False,
    )


def _level() -> SandboxLevel:
    return resolve([environment_layer()]).sandbox
