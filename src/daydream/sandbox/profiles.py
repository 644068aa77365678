"""What each kind of job may have: limits, room to write, sockets, and which variables it sees."""

import re
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from daydream.errors import ConfigError
from daydream.sandbox.base import Limits

Name = Literal["candidate", "compile", "policy", "evaluator", "rollout"]

BASIC: Final = re.compile(r"LANG|LC_[A-Z]+|TZ")
PASSED: Final = re.compile(
    r"PATH|LANG|LC_[A-Z]+|TZ|(DY)?LD_LIBRARY_PATH|PYTHONPATH|PYTHONUSERBASE|VIRTUAL_ENV"
    r"|CONDA_PREFIX|CUDA_(HOME|PATH|VISIBLE_DEVICES|DEVICE_ORDER)|NVIDIA_VISIBLE_DEVICES"
    r"|(HIP|ROCR)_VISIBLE_DEVICES|[A-Z]+_NUM_THREADS|(CARGO|RUSTUP|JAVA)_HOME|GO(PATH|ROOT)"
    r"|JULIA_DEPOT_PATH"
)
"""Variables that a user's own program needs to run. No key or token has such a name."""
FIXED: Final[Mapping[str, str]] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""Variables of a job whose profile passes none of the user's tools on."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one kind of job. Sizes are MiB."""

    name: Name
    what: str
    """The kind of job in a few words."""
    limits: Limits
    space_mb: int
    """Room in each folder that a job writes in."""
    shared_mb: int = 16
    """Room in ``/dev/shm``."""
    file_mb: int
    """Largest file."""
    open_files: int = 256
    stack_mb: int = 64
    loopback: bool = False
    """Internet sockets, which reach nothing but the sandbox itself."""
    network: bool = False
    """The machine's own network, for a program that has to reach its model."""
    tools: bool = False
    """The user's own variables that name his tools are passed on."""

    def environment(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a job: fixed ones, and those of ``known`` that are let through.

        Never a key: a variable passes by its name alone, and no name on the list is one of a key.
        """
        allowed = PASSED if self.tools else BASIC
        passed = {name: text for name, text in known.items() if allowed.fullmatch(name)}
        return {**FIXED, **passed}


PROFILES: Final[Mapping[str, Profile]] = {
    profile.name: profile
    for profile in (
        Profile(
            name="candidate",
            what="a program that a model wrote",
            limits=Limits(wall_s=60, memory_mb=1024, processes=32),
            space_mb=64,
            file_mb=64,
        ),
        Profile(
            name="compile",
            what="a compiler on a program that a model wrote",
            limits=Limits(wall_s=120, memory_mb=2048, processes=64),
            space_mb=512,
            file_mb=256,
        ),
        Profile(
            name="policy",
            what="a policy file",
            limits=Limits(wall_s=60, memory_mb=512, processes=4),
            space_mb=1,
            shared_mb=1,
            file_mb=1,
            open_files=32,
        ),
        Profile(
            name="evaluator",
            what="a user's evaluator with a candidate",
            limits=Limits(wall_s=60, memory_mb=4096, processes=512),
            space_mb=1024,
            shared_mb=256,
            file_mb=1024,
            open_files=1024,
            loopback=True,
            tools=True,
        ),
        Profile(
            name="rollout",
            what="an agent at work in a checkout",
            limits=Limits(wall_s=1800, memory_mb=4096, processes=512),
            space_mb=4096,
            shared_mb=256,
            file_mb=2048,
            open_files=4096,
            loopback=True,
        ),
    )
}


ONLINE: Final = msgspec.structs.replace(PROFILES["rollout"], network=True)
"""``rollout`` for an agent that talks to its model itself, over the machine's network."""


def profile(name: str) -> Profile:
    """Return the profile ``name``; raises :class:`ConfigError` with the known names."""
    found = PROFILES.get(name)
    if found is None:
        raise ConfigError(f"no profile {name!r} (expected one of {', '.join(PROFILES)})")
    return found
