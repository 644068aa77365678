"""The bubblewrap sandbox: a job under an unprivileged user, in namespaces of its own.

Layers, from the outside: a user that owns nothing (root becomes it before bubblewrap starts, and
refuses where it cannot), namespaces for users, files, processes, network and names, a root of
minimal read-only files, a filter of system calls, limits on each process, and a control group on
the job as a whole, or a watchdog where there is none to be had. Linux on x86-64 and arm64.

It keeps a job from the user's files, processes, keys and network, and within its limits. It is no
answer to a fault in the kernel itself, nor to what two programs on one machine can measure of each
other.
"""

import contextlib
import dataclasses
import math
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from daydream.config import cores
from daydream.errors import EnvironmentMissing
from daydream.sandbox import cell, cgroups, host, namespaces, seccomp, start_check, supervisor
from daydream.sandbox.base import RESULT_FD, ExecResult, Job, Limits, Outcome, Stop
from daydream.sandbox.collect import taken
from daydream.sandbox.profiles import PROFILES, Profile

_OWN: Final = 3
"""Processes of a job's group that are not the job's: two of bubblewrap, and a spare one."""
_DOOR: Final = (
    'set -e; while [ "$1" != -- ]; do echo 0 >"$1"; shift; done; shift; '
    'while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done; shift; exec "$@"'
)
"""Shell script that enters the groups, shows what the user may not reach, and becomes the rest."""
_ARGS_FD: Final = cell.FIRST_FD
_FILTER_FD: Final = cell.FIRST_FD + 1
FREE_FD: Final = 40
"""First number for descriptors that a caller shares with a job."""
_DOUBTS: Final[dict[tuple[object, ...], str]] = {}
"""What was found out of each kind of sandbox."""


@dataclasses.dataclass(frozen=True)
class BubblewrapSandbox:
    """Runs jobs of one profile. Holds no state, so threads may share one; pickles."""

    profile: Profile = PROFILES["candidate"]
    readable: tuple[str, ...] = dataclasses.field(default_factory=namespaces.interpreter_roots)
    """Paths that every job reads; by default those of the running interpreter."""
    devices: bool = False
    """Give the accelerators of this machine to every job."""
    doubted: bool = False
    """Run jobs even where a layer does not hold: for trying what does."""

    @property
    def layers(self) -> tuple[str, ...]:
        """The isolation in force."""
        return ("bubblewrap", "user", "namespaces", "seccomp", "rlimits", cgroups.kind())

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job`` to its end or its bounds; no process of it is left when this returns.

        What ``limits`` leaves open is taken from the profile. An exit status above 128 is read as
        the signal that a shell means by it. Files in ``collect`` are read after the end.

        Raises :class:`EnvironmentMissing` where the sandbox cannot run at all, and
        :class:`SandboxError` when it failed.
        """
        return self.run_until(job, limits, None)

    def run_until(self, job: Job, limits: Limits, stop: Stop | None) -> ExecResult:
        """Do what :meth:`run` does; end the job, as ``stopped``, once ``stop`` says so.

        It is asked some times a second.
        """
        with self.opened(job, limits) as (box, watch, bounds):
            folder = box.open_folder(job.cwd) if job.collect or job.whole else None
            begun = time.monotonic()

            def over() -> Outcome | None:
                return "stopped" if stop is not None and stop() else watch.over()

            word = box.follow(job.stdin, bounds.limits, over)
            wall_s = time.monotonic() - begun
            self._end(box)
            return self._result(job, box, watch, _How(word, wall_s, bounds, folder))

    @contextlib.contextmanager
    def opened(
        self, job: Job, limits: Limits, shared: Mapping[int, int] = MappingProxyType({})
    ) -> "Iterator[tuple[cell.Cell, Watch, Bounds]]":
        """Give a started job that still waits at its gate; it is gone at the end in any case.

        ``shared`` gives further descriptors of ours to the job: its number to ours, from
        :data:`FREE_FD`. Raises as :meth:`run` does.
        """
        reason = host.missing()
        if reason:
            raise EnvironmentMissing(f"the bubblewrap sandbox cannot run: {reason}")
        if self.devices and not namespaces.gpus():
            raise EnvironmentMissing(
                f"a GPU was asked for, and this machine has none: found none of "
                f"{', '.join(namespaces.GPU_DEVICES)} below {namespaces.DEVICES} (expected its "
                "device files); load its driver, or do without gpu = true and --gpu"
            )
        if not self.doubted:
            self._believe()
        with self._opened(job, limits, shared) as found:
            yield found

    def doubt(self) -> str:
        """Return which promise does not hold on this machine; empty when all seem to.

        Found out once in a process for each kind of sandbox, by a job that looks at itself. Raises
        as :meth:`run` does.
        """
        key = (type(self), self.profile, self.devices)
        if key not in _DOUBTS:
            _DOUBTS[key] = "; ".join(self._problems())
        return _DOUBTS[key]

    def _believe(self) -> None:
        doubt = self.doubt()
        if doubt:
            raise EnvironmentMissing(
                f"the bubblewrap sandbox does not hold what it promises here: {doubt}. See: "
                "daydream sandbox check. To run programs that you trust all the same, set sandbox "
                "= process, as DAYDREAM_SANDBOX=process does"
            )

    def _problems(self) -> Iterator[str]:
        job = Job(("/bin/sh", "-c", start_check.SCRIPT), "/", {"PATH": "/usr/bin:/bin"})
        limits = Limits(wall_s=cell.SETUP_S, output_bytes=1 << 20)
        with self._opened(job, limits) as (box, watch, bounds):
            yield from start_check.outside_problems(
                box.first_pid, held=watch.held(), network=self.profile.network
            )
            box.follow(b"", bounds.limits, lambda: None)
            box.end()
            said = box.captures[1].kept().decode("utf-8", "replace")
            yield from start_check.problems(said, self.profile, self._promised(bounds))

    @contextlib.contextmanager
    def _opened(
        self, job: Job, limits: Limits, shared: Mapping[int, int] = MappingProxyType({})
    ) -> "Iterator[tuple[cell.Cell, Watch, Bounds]]":
        whole = msgspec.structs.replace(job, readable=(*self.readable, *job.readable))
        bounds = Bounds.of(limits, self.profile)
        with contextlib.ExitStack() as stack:
            group = self._group(bounds)
            if group is not None:
                stack.callback(group.close)
            shown = stack.enter_context(host.shown(whole.readable, self._user()))
            files = _files(stack, namespaces.ETC_FILES, cell.FIRST_FD + 2)
            numbers = namespaces.Numbers(_FILTER_FD, cell.INFO_FD, files.numbers)
            view = self._view(whole, numbers, shown.moved)
            extra = {
                **shared,
                **files.held,
                _ARGS_FD: _memory_file(stack, "".join(f"{word}\0" for word in view).encode()),
                _FILTER_FD: _memory_file(stack, self._filter(bounded=group is not None)),
            }
            argv = self._command(job, bounds, group, shown)
            box = stack.enter_context(cell.started(argv, {"PATH": host.PATH}, extra))
            box.await_gate()
            yield box, Watch(box.first_pid, bounds.memory_bytes, group), bounds

    def _result(self, job: Job, box: cell.Cell, watch: "Watch", how: "_How") -> ExecResult:
        ended = box.end()
        cpu_s = max(ended.cpu_s, watch.cpu_s())
        outcome, code, number = _outcome(ended.status, cpu_s, how)
        if box.result_too_long():
            outcome = "output"
        elif watch.killed_for_memory():
            outcome = "memory"
        files, not_taken = taken(how.folder, job)
        return ExecResult(
            outcome=outcome,
            exit=code if outcome == "exited" else None,
            stdout=box.captures[1].kept(),
            stderr=box.captures[2].kept(),
            wall_s=how.wall_s,
            cpu_s=cpu_s,
            peak_mb=watch.peak_bytes() / (1 << 20),
            layers=self.layers,
            result=b"" if outcome == "output" else box.captures[RESULT_FD].kept(),
            signal=number if outcome == "signalled" else None,
            files=files,
            not_taken=not_taken,
        )

    def _promised(self, bounds: "Bounds") -> list[str]:
        return namespaces.bounds(
            bounds.limits, self.profile, memory_mb=bounds.memory_mb, cpu_s=bounds.cpu_s
        )

    # One method for each layer, so that a test can take one away and see what that lets through.

    def _user(self) -> int | None:
        return host.user()

    def _become(self) -> tuple[str, ...]:
        return host.become()

    def _view(self, job: Job, numbers: namespaces.Numbers, moved: dict[str, str]) -> list[str]:
        return namespaces.view(job, self.profile, numbers, moved=moved, devices=self.devices)

    def _filter(self, *, bounded: bool) -> bytes:
        return seccomp.deny_list(
            loopback=self.profile.loopback,
            bounded_memory=bounded,
            network=self.profile.network,
        )

    def _each(self, bounds: "Bounds") -> list[str]:
        return [host.programs().prlimit, *self._promised(bounds), "--"]

    def _group(self, bounds: "Bounds") -> cgroups.Group | None:
        return cgroups.make(bounds.memory_bytes, (bounds.limits.processes or 1) + _OWN)

    def _end(self, box: cell.Cell) -> None:
        box.end()

    def _command(
        self, job: Job, bounds: "Bounds", group: cgroups.Group | None, shown: host.Shown
    ) -> list[str]:
        found = host.programs()
        own_mounts = [found.unshare, "--mount", "--propagation", "private", "--"]
        return [
            *(own_mounts if shown.binds else ()),
            *("/bin/sh", "-c", _DOOR, "sh", *(() if group is None else group.doors), "--"),
            *(path for pair in shown.binds for path in pair),
            *("--", *self._become(), found.bwrap, "--args", str(_ARGS_FD), "--"),
            *("/bin/sh", "-c", cell.STARTER, "sh", *self._each(bounds), *job.argv),
        ]


class Bounds(msgspec.Struct, frozen=True):
    """The limits of one job with nothing left open."""

    limits: Limits
    memory_mb: int
    cpu_s: int

    @property
    def memory_bytes(self) -> int:
        """Memory of the job as a whole."""
        return self.memory_mb << 20

    @classmethod
    def of(cls, limits: Limits, profile: Profile) -> "Bounds":
        """Return ``limits`` with what they leave open taken from ``profile``."""
        memory_mb = limits.memory_mb or profile.limits.memory_mb or 1024
        processes = limits.processes or profile.limits.processes
        # Without a limit of its own a process may use what all cores can give within the wall.
        cpu_s = limits.wall_s * cores() + 1 if limits.cpu_s is None else limits.cpu_s
        filled = msgspec.structs.replace(limits, memory_mb=memory_mb, processes=processes)
        return cls(filled, memory_mb, math.ceil(cpu_s))


class _How(msgspec.Struct, frozen=True):
    """How a job ended, as the parent saw it."""

    word: Outcome
    wall_s: float
    bounds: Bounds
    folder: int | None


class Watch:
    """The memory of a job as a whole: asked of its group, or added up where it has none."""

    def __init__(self, first_pid: int, memory_bytes: int, group: cgroups.Group | None) -> None:
        self._first_pid = first_pid
        self._limit = memory_bytes
        self._group = group
        self._peak = 0
        self._over = False

    def over(self) -> Outcome | None:
        """Return ``memory`` when the job holds or held too much, else nothing."""
        return "memory" if self.killed_for_memory() or self._holds_too_much() else None

    def _holds_too_much(self) -> bool:
        if self._group is not None:
            return False
        # Every process of the namespace descends from its first one: orphans become its children.
        tree = supervisor.below(supervisor.process_table(), self._first_pid)
        used = sum(process.resident for process in tree.values())
        self._peak = max(self._peak, used)
        self._over = used > self._limit and supervisor.shared_once(tree) > self._limit
        return self._over

    def killed_for_memory(self) -> bool:
        """Return whether the job was, or has to be, ended for its memory."""
        return self._over or (self._group is not None and self._group.killed_for_memory())

    def held(self) -> bool:
        """Return whether the group, where there is to be one, has the job and its limits."""
        if self._group is None:
            return cgroups.kind() == "watchdog"
        return self._group.holds(self._first_pid, self._limit)

    def members(self) -> set[int]:
        """Return the processes of the job, but for the first one, which is bubblewrap's."""
        if self._group is None:
            return set(supervisor.below(supervisor.process_table(), self._first_pid))
        inside = Path(self._group.doors[0]).read_text(encoding="ascii").split()
        return {int(pid) for pid in inside} - {self._first_pid}

    def peak_bytes(self) -> int:
        """Return the most that was seen at once."""
        return max(self._peak, 0 if self._group is None else self._group.peak_bytes())

    def cpu_s(self) -> float:
        """Return what the group counted; 0 without one."""
        return 0.0 if self._group is None else self._group.cpu_s()

    def counts(self) -> bool:
        """Return whether there is a group that counts the CPU time of all processes."""
        return self._group is not None and self._group.cpu_s() > 0


def _outcome(status: int, cpu_s: float, how: _How) -> tuple[Outcome, int | None, int | None]:
    """Return the outcome, the exit status and the signal of a job."""
    if how.word != "exited":
        return how.word, None, None
    number = -status if status < 0 else status - 128 if 128 < status <= 192 else None
    if number is None:
        return "exited", status, None
    spent = number == signal.SIGKILL and cpu_s >= how.bounds.cpu_s
    if number == signal.SIGXCPU or spent:
        return "cpu", None, None
    return "signalled", None, number


class _Held(msgspec.Struct, frozen=True):
    """Contents as descriptors: path to number in the new process, and that number to ours."""

    numbers: dict[str, int]
    held: dict[int, int]


def _files(stack: contextlib.ExitStack, contents: dict[str, str], first: int) -> _Held:
    numbers = {path: first + index for index, path in enumerate(contents)}
    held = {numbers[path]: _memory_file(stack, text.encode()) for path, text in contents.items()}
    return _Held(numbers, held)


def _memory_file(stack: contextlib.ExitStack, data: bytes) -> int:
    """Return a descriptor from which ``data`` can be read."""
    number = os.memfd_create("daydream")
    stack.callback(os.close, number)
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]
    os.lseek(number, 0, os.SEEK_SET)
    return number
