"""Every error that Daydream raises on purpose, one class for each boundary a failure can cross.

    DaydreamError
    ├── UsageError            the person asked for something that does not exist (exit code 2)
    │   ├── ConfigError       a setting, a key or a file of settings
    │   ├── RegistryError     a name of a task, policy, proposer or agent
    │   └── TaskError         a task, its parameters or its folder cannot be used
    ├── EnvironmentMissing    something has to be installed or started first (exit code 3)
    ├── TreeError             a tree, a view or a pool breaks its own rules
    ├── PolicyError           a policy raised, or named parents that it may not name
    │   └── PolicyFault       what a policy file did wrong in one of many worlds
    ├── SelectionError        no candidate can be deployed
    ├── AgentError            a discovery agent produced nothing that can be evaluated
    │   └── ModelError        a model brought no answer
    ├── SandboxError          the sandbox itself failed (a failing command is no error)
    ├── LeakError             a corpus would hold what the probe set asks
    ├── StoreError            a run folder cannot be read or written
    ├── CorpusError           a corpus of pull requests cannot be made or used
    └── Stopped               the run was asked to stop; what was paid for is kept

A message says what failed, what was found, what was expected, and what to do. Three places catch
broadly: the attempt boundary (a bad attempt is data), the drivers inside a sandbox, and the
command line.
"""


class DaydreamError(Exception):
    """Base of every error above. ``exit_code`` is what the command line returns for it."""

    exit_code = 1


class UsageError(DaydreamError):
    """The request itself cannot be served; nothing was started."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration key, value or file is wrong."""


class RegistryError(UsageError):
    """A plug-in name is unknown; the message lists the nearest known names."""


class EnvironmentMissing(DaydreamError):  # noqa: N818 - reads as a condition, as design asks
    """A program, package or key is absent that this command needs; it says how to get it."""

    exit_code = 3


class TreeError(DaydreamError):
    """A tree, node, view or pool violates an invariant of :mod:`daydream.tree`."""


class PolicyError(DaydreamError):
    """A policy raised, or returned a batch that no world accepts."""


class PolicyFault(PolicyError):  # noqa: N818 - what voids a version, with its place
    """A policy file broke a rule: ``world`` is a position in the pool, ``batch`` counts from 1."""

    def __init__(self, reason: str, *, world: int = 0, batch: int = 1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.world = world
        self.batch = batch


class SelectionError(DaydreamError):
    """Selection ended without a policy that can be deployed."""


class TaskError(UsageError):
    """A task cannot be built as named, or its folder or evaluator cannot be used."""


class AgentError(DaydreamError):
    """A discovery agent could not make an artifact; the attempt becomes a failed node."""


class ModelError(AgentError):
    """A model brought no answer: unreachable, refused, or silent for too long."""


class SandboxError(DaydreamError):
    """The sandbox could not do its own work; a failing or killed command is a result instead."""


class StoreError(DaydreamError):
    """A run folder, journal or blob is unreadable, locked, malformed or cannot be written."""


class CorpusError(DaydreamError):
    """A corpus is incomplete or malformed, or the place that it comes from did not answer."""


class ReviewError(DaydreamError):
    """A review cannot go on: git, a reviewer or the repository refused."""


class LeakError(DaydreamError):
    """A corpus would hold a problem of the probe set; nothing was written."""


class Stopped(DaydreamError):  # noqa: N818 - a request to end, not a fault
    """A budget, a STOP file or an interrupt ended the rollout; the run can be resumed.

    ``reason`` is one short phrase for the screen and the journal.
    """

    exit_code = 0

    def __init__(self, reason: str, *, exit_code: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code
