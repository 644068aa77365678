"""What a job in bubblewrap sees, as the command line that makes it so.

bubblewrap is a set of tools; the policy is here. A root of its own with the system's programs and
libraries, the paths that the job names, and file systems in memory of limited size; nothing else of
the disk, no home, no other process, no network. Everything but those file systems is read-only,
bubblewrap's own root and ``/dev`` included, which it would leave writable without a limit.
"""

import resource
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from daydream.sandbox.base import Job, Limits
from daydream.sandbox.profiles import Profile

GPU_DEVICES: Final = ("nvidia*", "nvidia-caps/*", "kfd", "dri/*", "dxg")
"""Patterns of the device files of accelerators, below :data:`DEVICES`."""
DEVICES: Final = Path("/dev")
INSIDE_ID: Final = "1000"
"""Number of the user and group inside; outside it is an unprivileged one too."""
_LINKS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SYSTEM: Final = ("/nix/store", "/gnu/store")
_ETC: Final = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime")
_NETWORK: Final = ("resolv.conf", "nsswitch.conf", "gai.conf", "ssl", "pki", "ca-certificates")
"""What of ``/etc`` a job with a network needs: where names are looked up, whom to trust."""
_COVERED: Final = ("/usr", *(f"/{name}" for name in _LINKS), *_SYSTEM)
"""Places that every job sees."""
ETC_FILES: Final = {
    "/etc/passwd": f"job:x:{INSIDE_ID}:{INSIDE_ID}:job:/tmp:/bin/sh\n",
    "/etc/group": f"job:x:{INSIDE_ID}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
}
"""Files of the system that programs ask, without anything of this machine in them."""


class Numbers(NamedTuple):
    """Descriptors that bubblewrap reads and writes."""

    filter: int
    info: int
    files: dict[str, int]
    """Path inside to a descriptor with its content."""


def view(
    job: Job,
    profile: Profile,
    numbers: Numbers,
    *,
    moved: dict[str, str],
    devices: bool,
) -> list[str]:
    """Return the arguments of bubblewrap, up to the command.

    ``moved`` says where a path is found by the one who starts bubblewrap, when not where it is.
    """
    arguments = [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts"),
        *(() if profile.network else ("--unshare-net",)),
        *("--unshare-cgroup-try", "--uid", INSIDE_ID, "--gid", INSIDE_ID, "--disable-userns"),
        *("--new-session", "--die-with-parent", "--clearenv", "--hostname", "sandbox"),
        *("--cap-drop", "ALL", "--ro-bind", "/usr", "/usr", "--dir", "/etc"),
    ]
    for name in _LINKS:
        place = Path("/", name)
        if place.is_symlink():
            arguments += ["--symlink", str(place.readlink()), str(place)]
        elif place.is_dir():
            arguments += ["--ro-bind", str(place), str(place)]
    etc = (*_ETC, *(_NETWORK if profile.network else ()))
    for path in (*_SYSTEM, *(f"/etc/{name}" for name in etc)):
        arguments += ["--ro-bind-try", path, path]
    for path, number in numbers.files.items():
        arguments += ["--perms", "0444", "--file", str(number), path]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    if devices:
        for inside, path in gpus().items():
            arguments += ["--dev-bind-try", path, inside]
    arguments += [*_memory("/dev/shm", profile.shared_mb), *_memory("/tmp", profile.space_mb)]  # noqa: S108 - inside
    arguments += _mounts(job, profile, moved)
    return [
        *arguments,
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--seccomp", str(numbers.filter), "--info-fd", str(numbers.info)),
        *(word for name, text in job.env.items() for word in ("--setenv", name, text)),
        *("--chdir", job.cwd),
    ]


def gpus() -> dict[str, str]:
    """Return the device files of accelerators: the path inside to the one on this machine."""
    found = sorted(path for pattern in GPU_DEVICES for path in DEVICES.glob(pattern))
    return {f"/dev/{path.relative_to(DEVICES)}": str(path) for path in found}


def closed(path: str) -> bool:
    """Return whether showing ``path`` to a job would open what the sandbox keeps closed.

    The root with everything below it, and what the kernel shows of processes and devices.
    """
    place = str(Path(path).resolve())
    if place.startswith("/dev/shm/"):  # noqa: S108 - plain files of the user's
        return False
    return place == "/" or any(_within(place, kept) for kept in ("/proc", "/sys", "/dev"))


def _memory(path: str, size_mb: int) -> list[str]:
    return ["--size", str(size_mb << 20), "--tmpfs", path]


def _mounts(job: Job, profile: Profile, moved: dict[str, str]) -> Iterator[str]:
    """Yield the arguments that show what the job names, outer paths first."""
    scratch = dict.fromkeys(job.scratch)
    shown = dict.fromkeys(_beyond_links(path for path in job.readable if not _is_covered(path)))
    placed: list[tuple[str, bool]] = []
    for path in sorted({*scratch, *shown}, key=lambda path: (path.count("/"), path)):
        around = next((own for place, own in reversed(placed) if _within(path, place)), None)
        if path in scratch:
            # A folder in a folder of its own needs no second file system.
            yield from ("--dir", path) if around else _memory(path, profile.space_mb)
            placed.append((path, True))
        elif Path(path).is_symlink():
            target = str(Path(path).resolve())
            yield from () if around is False else ("--symlink", target, path)
        elif around is not False:
            yield from ("--ro-bind-try", moved.get(path, path), path)
            placed.append((path, False))


def _beyond_links(paths: Iterable[str]) -> Iterator[str]:
    """Yield ``paths``; one that lies below another one that is a link as it is without links.

    Nothing can be mounted below a link, and what it leads to is reached through it.
    """
    known = list(paths)
    links = [path for path in known if Path(path).is_symlink()]
    for path in known:
        below = any(path != link and _within(path, link) for link in links)
        yield str(Path(path).resolve()) if below else path


def _is_covered(path: str) -> bool:
    return any(_within(path, place) for place in _COVERED)


def _within(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")


def bounds(limits: Limits, profile: Profile, *, memory_mb: int, cpu_s: int) -> list[str]:
    """Return the options of ``prlimit`` for each process of a job, none above what is allowed."""
    # Data and not address space: compilers and accelerators reserve terabytes of addresses that
    # never become memory. This only turns an absurd request into a clean failure.
    data = 4 * (memory_mb << 20) + (2 << 30)
    wanted = {
        "cpu": (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),
        "fsize": (resource.RLIMIT_FSIZE, profile.file_mb << 20, profile.file_mb << 20),
        "nofile": (resource.RLIMIT_NOFILE, profile.open_files, profile.open_files),
        "core": (resource.RLIMIT_CORE, 0, 0),
        "stack": (resource.RLIMIT_STACK, profile.stack_mb << 20, profile.stack_mb << 20),
        "memlock": (resource.RLIMIT_MEMLOCK, 1 << 16, 1 << 16),
        "data": (resource.RLIMIT_DATA, data, data),
    }
    options = ["--msgqueue=0", "--sigpending=256"]
    for name, (kind, soft, hard) in wanted.items():
        ceiling = resource.getrlimit(kind)[1]
        if ceiling == resource.RLIM_INFINITY:
            ceiling = hard
        options.append(f"--{name}={min(soft, ceiling)}:{min(hard, ceiling)}")
    # Counted in the sandbox's own user namespace, whose first process is bubblewrap's.
    if limits.processes is not None:
        options.append(f"--nproc={limits.processes + 1}")
    return options


def hidden_from(paths: Iterable[str], user: int) -> dict[str, str]:
    """Return which of ``paths`` lie below a folder that ``user`` may not enter.

    Each comes with the part of it that lies directly in the innermost such folder: shown to him
    elsewhere, that part gives him all the rest. ``user`` is taken to belong to no group.
    """
    found = {}
    for path in paths:
        parts = Path(path).parts
        for depth in range(len(parts) - 1, 0, -1):
            if not _may_enter(Path(*parts[:depth]), user):
                found[path] = str(Path(*parts[: depth + 1]))
                break
    return found


def _may_enter(folder: Path, user: int) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return True
    return bool(found.st_mode & (0o100 if found.st_uid == user else 0o001))


def interpreter_roots(python: str = sys.executable) -> tuple[str, ...]:
    """Return the folders that the interpreter ``python`` needs: its own, and what it was made of.

    Follows links and the ``home`` of a virtual environment. Never a folder that holds the user's
    home: an interpreter that lies directly below it is shown alone.
    """
    found: dict[Path, None] = {}
    waiting = [Path(python).absolute()]
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        folder = path.parent
        root = folder.parent if folder.name == "bin" else folder
        for place in (root, root.resolve()):
            found[path if holds_home(place) else place] = None
        waiting += [Path(home, path.name).absolute() for home in _homes(root / "pyvenv.cfg")]
        if path.is_symlink():
            waiting.append(folder / path.readlink())
    return tuple(str(path) for path in found if not _is_covered(str(path)))


def _homes(settings: Path) -> Iterator[str]:
    """Yield the folder of the interpreter that a virtual environment was made of."""
    if settings.is_file():
        for line in settings.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "home" and value.strip():
                yield value.strip()


def holds_home(place: Path) -> bool:
    """Return whether ``place`` is the user's home or a folder above it."""
    home = Path.home()
    return place in {home, home.resolve(), *home.parents, *home.resolve().parents}
