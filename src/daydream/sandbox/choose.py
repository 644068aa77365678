"""Which sandbox runs a job: the strongest that there is, and never a weaker one silently."""

from daydream.config import SandboxLevel
from daydream.errors import EnvironmentMissing
from daydream.sandbox import host
from daydream.sandbox.base import Sandbox
from daydream.sandbox.bubblewrap import BubblewrapSandbox
from daydream.sandbox.process import ProcessSandbox
from daydream.sandbox.profiles import Profile

SETTING = "DAYDREAM_SANDBOX"


def choose(level: SandboxLevel, profile: Profile, *, devices: bool = False) -> Sandbox:
    """Return the sandbox for jobs of ``profile``.

    ``auto`` takes bubblewrap where it can run, and the process sandbox elsewhere; then
    :func:`weakness` says so. As root it falls back to nothing: what root starts without becoming
    another user may do anything, so that has to be asked for by name.

    Raises :class:`EnvironmentMissing` with what to install.
    """
    if level == "process":
        return ProcessSandbox()
    reason = host.missing()
    if not reason:
        return BubblewrapSandbox(profile, devices=devices)
    if level == "bubblewrap":
        raise EnvironmentMissing(f"the bubblewrap sandbox cannot run: {reason}")
    if host.user() is not None:
        raise EnvironmentMissing(
            f"the bubblewrap sandbox cannot run: {reason}. As root nothing else keeps a program "
            "from the machine (expected bubblewrap, or a user other than root); to run programs "
            f"that you trust all the same, set sandbox = process, as {SETTING}=process does"
        )
    return ProcessSandbox()


def weakness(layers: tuple[str, ...]) -> str:
    """Return what a person has to know of jobs run with ``layers``; empty when nothing."""
    if layers[:1] != ("process",):
        return ""
    return (
        "isolation: process limits only. Programs see your files and the network; run what you "
        "trust, or see: daydream sandbox check"
    )


def strength(layers: tuple[str, ...]) -> str:
    """Return the part of ``layers`` that scores depend on: scores of different ones never meet."""
    return layers[0]
