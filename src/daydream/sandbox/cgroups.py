"""Control groups: memory and process limits on a job as a whole, counted by the kernel.

A group is made below the caller's own, so that limits stay hierarchical, and named after the
process that made it, so that groups of dead ones can be swept. Version 2 is used where the caller's
group hands memory and pids on, or can be made to because the caller is alone in it; else version 1;
else none, and somebody has to watch the job instead.
"""

import contextlib
import functools
import itertools
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, Protocol

from daydream.sandbox.supervisor import read_process

Kind = Literal["cgroup-v2", "cgroup-v1", "watchdog"]
PREFIX: Final = "daydream-"
CONTROLLERS: Final = frozenset({"memory", "pids"})
_MEMORY_V1: Final = "memory"
_COUNTED_V1: Final = ("memory", "pids", "cpuacct")
_numbers = itertools.count()


class Group(Protocol):
    """The group of one job."""

    @property
    def doors(self) -> tuple[str, ...]:
        """Files that take a process into the group when its number is written to them."""
        ...

    def holds(self, pid: int, memory_bytes: int) -> bool:
        """Return whether process ``pid`` is inside and bounded to that much memory."""
        ...

    def killed_for_memory(self) -> bool:
        """Return whether the kernel ended a process of the group for its memory."""
        ...

    def peak_bytes(self) -> int:
        """Return the most memory that the group held at once."""
        ...

    def cpu_s(self) -> float:
        """Return the CPU seconds of all processes that were ever in the group; 0 if unknown."""
        ...

    def close(self) -> None:
        """Remove the group; its processes have ended."""
        ...


class _Places(Protocol):
    def make(self, name: str, memory_bytes: int, processes: int) -> Group: ...

    def parents(self) -> tuple[Path, ...]: ...


class GroupV2:
    """A group of the unified hierarchy."""

    def __init__(self, place: Path, memory_bytes: int, processes: int) -> None:
        self._place = place
        place.mkdir()
        _put(place / "memory.max", memory_bytes)
        _put(place / "pids.max", processes)
        for name, value in (("memory.swap.max", 0), ("memory.oom.group", 1)):
            with contextlib.suppress(OSError):
                _put(place / name, value)

    @property
    def doors(self) -> tuple[str, ...]:
        """See :class:`Group`."""
        return (str(self._place / "cgroup.procs"),)

    def holds(self, pid: int, memory_bytes: int) -> bool:
        """See :class:`Group`."""
        bounded = 0 < _integer(self._place / "memory.max") <= memory_bytes
        return bounded and _has(self.doors, pid)

    def killed_for_memory(self) -> bool:
        """See :class:`Group`."""
        return _table(self._place / "memory.events").get("oom_kill", 0) > 0

    def peak_bytes(self) -> int:
        """See :class:`Group`; 0 before Linux 5.19, which does not keep it."""
        return _integer(self._place / "memory.peak")

    def cpu_s(self) -> float:
        """See :class:`Group`."""
        return _table(self._place / "cpu.stat").get("usage_usec", 0) / 1e6

    def close(self) -> None:
        """See :class:`Group`."""
        _remove([self._place])


class GroupV1:
    """Groups of one name in the separate hierarchies of version 1."""

    def __init__(self, places: Mapping[str, Path], memory_bytes: int, processes: int) -> None:
        self._places = dict(places)
        for place in self._places.values():
            place.mkdir()
        memory = self._places[_MEMORY_V1]
        _put(memory / "memory.limit_in_bytes", memory_bytes)
        with contextlib.suppress(OSError):
            _put(memory / "memory.memsw.limit_in_bytes", memory_bytes)
        _put(self._places["pids"] / "pids.max", processes)

    @property
    def doors(self) -> tuple[str, ...]:
        """See :class:`Group`."""
        return tuple(str(place / "cgroup.procs") for place in self._places.values())

    def holds(self, pid: int, memory_bytes: int) -> bool:
        """See :class:`Group`."""
        limit = _integer(self._places[_MEMORY_V1] / "memory.limit_in_bytes")
        return 0 < limit <= memory_bytes and _has(self.doors, pid)

    def killed_for_memory(self) -> bool:
        """See :class:`Group`."""
        return _table(self._places[_MEMORY_V1] / "memory.oom_control").get("oom_kill", 0) > 0

    def peak_bytes(self) -> int:
        """See :class:`Group`."""
        return _integer(self._places[_MEMORY_V1] / "memory.max_usage_in_bytes")

    def cpu_s(self) -> float:
        """See :class:`Group`."""
        place = self._places.get("cpuacct")
        return 0.0 if place is None else _integer(place / "cpuacct.usage") / 1e9

    def close(self) -> None:
        """See :class:`Group`."""
        _remove(self._places.values())


class PlacesV2:
    """Where groups of version 2 are made."""

    def __init__(self, own: Path) -> None:
        self._own = own

    def parents(self) -> tuple[Path, ...]:
        """Return the folders that groups are made in."""
        return (self._own,)

    def make(self, name: str, memory_bytes: int, processes: int) -> Group:
        """Make a group; raises ``OSError`` or ``ValueError`` where that cannot be."""
        return GroupV2(self._own / name, memory_bytes, processes)

    def opened(self) -> bool:
        """Return whether groups below hand memory and pids on, after trying to make them."""
        try:
            if not set(_words(self._own / "cgroup.controllers")) >= CONTROLLERS:
                return False
            handed_on = self._own / "cgroup.subtree_control"
            if set(_words(handed_on)) >= CONTROLLERS:
                return True
            # A group with processes hands nothing on, and only what is ours alone may be moved.
            if _words(self._own / "cgroup.procs") != [str(os.getpid())]:
                return False
            main = self._own / f"{PREFIX}main"
            main.mkdir(exist_ok=True)
            _put(main / "cgroup.procs", os.getpid())
            handed_on.write_text(" ".join(f"+{name}" for name in sorted(CONTROLLERS)))
        except OSError:
            return False
        return True


class PlacesV1:
    """Where groups of version 1 are made: hierarchy to folder."""

    def __init__(self, own: Mapping[str, Path]) -> None:
        self._own = dict(own)

    def parents(self) -> tuple[Path, ...]:
        """Return the folders that groups are made in."""
        return tuple(self._own.values())

    def make(self, name: str, memory_bytes: int, processes: int) -> Group:
        """Make a group; raises ``OSError`` or ``ValueError`` where that cannot be."""
        places = {kind: path / name for kind, path in self._own.items()}
        try:
            return GroupV1(places, memory_bytes, processes)
        except OSError:
            _remove(place for place in places.values() if place.is_dir())
            raise


def find(mounts: str, membership: str) -> tuple[Kind, _Places | None]:
    """Return the strongest kind in ``/proc/self/mountinfo`` and ``/proc/self/cgroup``, tried out.

    The two are given as text, and the paths in them are looked up as they are.
    """
    own = dict(_memberships(membership))
    points = dict(_mount_points(mounts))
    unified = points.get("")
    if unified is not None and "" in own:
        places = PlacesV2(_below(unified, own[""]))
        if places.opened() and _works(places):
            return "cgroup-v2", places
    found: dict[str, Path] = {
        kind: _below(points[kind], own[kind])
        for kind in _COUNTED_V1
        if kind in points and kind in own
    }
    if set(found) >= CONTROLLERS:
        old = PlacesV1(found)
        if _works(old):
            return "cgroup-v1", old
    return "watchdog", None


@functools.cache
def _here() -> tuple[Kind, _Places | None]:
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "watchdog", None
    kind, places = find(mounts, own)
    if places is not None:
        sweep(places.parents())
    return kind, places


def kind() -> Kind:
    """Return what bounds jobs as a whole in this process; found out once."""
    return _here()[0]


def make(memory_bytes: int, processes: int) -> Group | None:
    """Return a new group for one job; None where somebody has to watch the job instead."""
    places = _here()[1]
    return None if places is None else places.make(_name(), memory_bytes, processes)


def sweep(parents: Iterable[Path]) -> None:
    """Remove the groups that processes left behind which are no more."""
    for parent in parents:
        for place in parent.glob(f"{PREFIX}*-*-*"):
            _, pid, start, _ = (*place.name.split("-"), "")[:4]
            maker = read_process(int(pid)) if pid.isdigit() else None
            if maker is None or str(maker.start) != start:
                with contextlib.suppress(OSError):
                    place.rmdir()


def _name() -> str:
    me = read_process(os.getpid())
    start = 0 if me is None else me.start
    return f"{PREFIX}{os.getpid()}-{start}-{next(_numbers)}"


def _works(places: _Places) -> bool:
    try:
        places.make(_name(), 64 << 20, 16).close()
    except (OSError, ValueError):
        return False
    return True


def _memberships(text: str) -> Iterable[tuple[str, str]]:
    """Yield each hierarchy and the path of the caller's group in it; "" is version 2."""
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            yield name, path


def _mount_points(text: str) -> Iterable[tuple[str, Path]]:
    """Yield each hierarchy and where it is mounted; "" is version 2."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = (*after.split(), "", "", "")[:3]
        point = Path(before.split()[4])
        if kind == "cgroup2":
            yield "", point
        elif kind == "cgroup":
            for option in options.split(","):
                yield option, point


def _below(point: Path, path: str) -> Path:
    return point / path.lstrip("/")


def _put(path: Path, value: int) -> None:
    path.write_text(str(value), encoding="ascii")


def _words(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").split()


def _has(doors: Iterable[str], pid: int) -> bool:
    return all(str(pid) in _words(Path(door)) for door in doors)


def _integer(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _table(path: Path) -> dict[str, int]:
    try:
        pairs = (line.split() for line in path.read_text(encoding="ascii").splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
    except (OSError, ValueError):
        return {}


def _remove(places: Iterable[Path]) -> None:
    """Remove groups. The kernel lets go of one some moments after its last process ended."""
    for place in places:
        for _ in range(200):
            try:
                place.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.005)
