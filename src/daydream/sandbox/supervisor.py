"""Supervisor of one job of the process sandbox. Runs as a script of its own, outside the package.

It owns the life of one process tree: it starts the job in a new session with its limits, adopts
every process that loses its parent, watches the clock and the resident memory of the whole tree,
kills and reaps all of it, and reports what the kernel counted. When the process that started it
dies, however it dies, the tree is killed too. It imports the standard library alone, so that it
starts in milliseconds.

Linux has all of this. Elsewhere the tree is what ``ps`` shows below the supervisor and in the job's
own process group, and a daemon that left both stays out of reach.
"""

# Without pathlib: it would cost a third of this script's start, and is slow on /proc.
# ruff: noqa: PTH110, PTH123, PTH208
import contextlib
import ctypes
import marshal
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Mapping
from typing import Final, NamedTuple, NoReturn, TypedDict

RESULT_FD: Final = 3
"""Where a job writes its result."""
HAS_PROC: Final = os.path.exists("/proc/self/stat")
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PAGE: Final = resource.getpagesize()
_END_S: Final = 10.0
_TICK_S: Final = (0.02, 0.25)


class Setup(TypedDict):
    """What the supervisor is told."""

    parent: int
    argv: list[str]
    cwd: str
    env: dict[str, str]
    wall_s: float
    cpu_s: int
    file_bytes: int
    memory_bytes: int | None
    processes: int | None


class Process(NamedTuple):
    """One live process."""

    parent: int
    session: int
    start: int
    """Start time in clock ticks since boot; tells a reused number from the process we saw."""
    resident: int
    """Resident bytes."""


def process_table() -> dict[int, Process]:
    """Return every process that can be seen, by number."""
    return _proc_table() if HAS_PROC else _ps_table()


def _proc_table() -> dict[int, Process]:
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            found = read_process(int(name))
            if found is not None:
                table[int(name)] = found
    return table


def read_process(pid: int) -> Process | None:
    """Return the process ``pid`` from ``/proc``; None for no process, and for one to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name may hold spaces and parentheses; the fields start after its last parenthesis.
    fields = text[text.rfind(b")") + 2 :].split()
    # A process whose first thread has ended shows as a zombie too, and its other threads run on.
    if fields[0] in b"ZX" and int(fields[17]) <= 1:
        return None
    return Process(int(fields[1]), int(fields[3]), int(fields[19]), int(fields[21]) * _PAGE)


def _ps_table() -> dict[int, Process]:
    import subprocess  # noqa: PLC0415 - not needed where /proc is

    listing = subprocess.run(
        ["/bin/ps", "-A", "-o", "pid=,ppid=,pgid=,rss="],
        capture_output=True,
        check=False,
        timeout=10,
    )
    return read_ps(listing.stdout)


def read_ps(listing: bytes) -> dict[int, Process]:
    """Return the table in a listing of number, parent, group and resident KiB, one a line."""
    table = {}
    for line in listing.splitlines():
        pid, parent, group, kibibytes = (int(field) for field in line.split())
        table[pid] = Process(parent, group, 0, kibibytes * 1024)
    return table


def below(table: Mapping[int, Process], root: int) -> dict[int, Process]:
    """Return the processes of ``table`` that descend from ``root``, without ``root``."""
    children: dict[int, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    found: dict[int, Process] = {}
    waiting = [root]
    while waiting:
        for pid in children.get(waiting.pop(), []):
            if pid not in found and pid != root:
                found[pid] = table[pid]
                waiting.append(pid)
    return found


def send(pid: int, process: Process, number: int) -> None:
    """Send signal ``number`` to ``pid`` if it is still the process that was seen."""
    try:
        if not hasattr(os, "pidfd_open"):
            os.kill(pid, number)
            return
        handle = os.pidfd_open(pid)
        try:
            now = read_process(pid)
            if now is not None and now.start == process.start:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
    except OSError:
        return


class Watch:
    """The job's tree while it lives: its end, its peak, and the limit that it ran into."""

    def __init__(self, child: int, setup: Setup, told: tuple[int, ...]) -> None:
        self.child = child
        self.status: int | None = None
        self.peak = 0
        self._setup = setup
        self._told = told
        self._poll = select.poll()
        for descriptor in told:
            self._poll.register(descriptor, select.POLLIN | select.POLLHUP)
        if hasattr(os, "pidfd_open"):
            self._poll.register(os.pidfd_open(child), select.POLLIN)

    def run(self, deadline: float) -> str:
        """Return why the job is over: exited, stopped, wall, memory or processes."""
        tick = _TICK_S[0]
        while True:
            events = self._poll.poll(max(0.0, min(deadline - time.monotonic(), tick)) * 1000)
            self.reap()
            if self.status is not None:
                return "exited"
            if any(descriptor in self._told for descriptor, _ in events):
                return "stopped"
            if time.monotonic() >= deadline:
                return "wall"
            before = time.process_time()
            over = self._over()
            if over:
                return over
            # A look costs what the machine's process table costs; keep it near one part in twenty.
            tick = min(max(20 * (time.process_time() - before), _TICK_S[0]), _TICK_S[1])

    def reap(self) -> bool:
        """Collect every ended process; return whether any process of the job is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.child:
                self.status = status

    def _over(self) -> str:
        limit = self._setup["memory_bytes"]
        tree = below(process_table(), os.getpid())
        used = sum(process.resident for process in tree.values())
        self.peak = max(self.peak, used)
        count = self._setup["processes"]
        if count is not None and len(tree) > count:
            return "processes"
        if limit is None or used <= limit:
            return ""
        # Twice: a process that ends between two reads leaves its share to those read later.
        sure = all(shared_once(below(process_table(), os.getpid())) > limit for _ in range(2))
        return "memory" if len(tree) == 1 or sure else ""

    def end(self) -> int:
        """Kill and reap the tree; return how many processes could not be ended."""
        if not self.reap():
            return 0
        me = os.getpid()
        # Stopped first: a tree that forks faster than it is killed would never end.
        seen: set[int] = set()
        for _ in range(100):
            fresh = {p: q for p, q in below(process_table(), me).items() if p not in seen}
            if not fresh:
                break
            for pid, process in fresh.items():
                send(pid, process, signal.SIGSTOP)
            seen |= set(fresh)
        deadline = time.monotonic() + _END_S
        while True:
            tree = below(process_table(), me)
            for pid, process in tree.items():
                send(pid, process, signal.SIGKILL)
            if not HAS_PROC:
                with contextlib.suppress(OSError):
                    os.killpg(self.child, signal.SIGKILL)
            if not self.reap():
                return 0
            if time.monotonic() > deadline:
                return max(1, len(tree))
            time.sleep(0.001)


def shared_once(tree: Mapping[int, Process]) -> int:
    """Return the resident bytes of ``tree`` with shared pages counted once.

    Forked workers share most of their pages, so the plain sum would count a large array once for
    each of them.
    """
    total = 0
    for pid, process in tree.items():
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) << 10 for line in file if line[:4] == "Pss:")
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError:
            total += process.resident
    return total


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _cap(kind: int, soft: int, hard: int) -> None:
    ceiling = resource.getrlimit(kind)[1]
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(kind, (soft, hard))


def _set_limits(setup: Setup) -> None:
    _cap(resource.RLIMIT_CPU, setup["cpu_s"], setup["cpu_s"] + 1)
    _cap(resource.RLIMIT_FSIZE, setup["file_bytes"], setup["file_bytes"])
    _cap(resource.RLIMIT_CORE, 0, 0)
    memory = setup["memory_bytes"]
    if memory is not None and sys.platform == "linux":
        # Data and not address space: CUDA, WASM and JIT compilers reserve terabytes of addresses
        # that never become memory. This only turns an absurd request into a clean MemoryError.
        data = 4 * memory + (2 << 30)
        _cap(resource.RLIMIT_DATA, data, data)


def _become(setup: Setup, result: int, supervisor: int) -> NoReturn:
    """Turn this forked process into the job."""
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(127)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(result, RESULT_FD)
        os.set_inheritable(RESULT_FD, True)
        os.closerange(RESULT_FD + 1, 1 << 16)
        os.chdir(setup["cwd"])
        _set_limits(setup)
        os.execvpe(setup["argv"][0], setup["argv"], setup["env"])  # noqa: S606
    except (OSError, ValueError) as error:
        os.write(2, f"cannot start {setup['argv'][0]}: {error}\n".encode())
    finally:
        os._exit(127)


def _death_of_parent(expected: int) -> int:
    """Return a descriptor that becomes readable when the parent dies, or has died already."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    signal.set_wakeup_fd(theirs)
    signal.signal(signal.SIGTERM, lambda *_: None)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != expected:
        os.write(theirs, b"!")
    return ours


def supervise(setup: Setup, lifeline: int, result: int) -> dict[str, str | float | None]:
    """Run the job to its end and return the report."""
    me = os.getpid()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # The lifeline tells of a dead parent as well, but another fork of the parent may hold it open.
    died = _death_of_parent(setup["parent"])
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _become(setup, result, me)
    os.close(result)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    watch = Watch(child, setup, (lifeline, died))
    outcome = watch.run(started + setup["wall_s"])
    wall_s = time.monotonic() - started
    left = watch.end()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 1024
    number = os.WTERMSIG(watch.status or 0) if os.WIFSIGNALED(watch.status or 0) else None
    if outcome == "exited" and number is not None:
        spent = used.ru_utime + used.ru_stime >= setup["cpu_s"]
        over = number == signal.SIGXCPU or (number == signal.SIGKILL and spent)
        outcome = "cpu" if over else "signalled"
    return {
        "outcome": outcome,
        "exit": os.WEXITSTATUS(watch.status or 0) if outcome == "exited" else None,
        "signal": number if outcome == "signalled" else None,
        "wall_s": wall_s,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_bytes": max(watch.peak, used.ru_maxrss * unit),
        "left": left,
    }


def as_json(report: Mapping[str, str | float | None]) -> str:
    """Return a flat report as JSON; its texts are words of ours, with nothing to escape."""

    def written(value: str | float | None) -> str:
        if value is None:
            return "null"
        return f'"{value}"' if isinstance(value, str) else repr(value)

    return "{" + ",".join(f'"{key}":{written(value)}' for key, value in report.items()) + "}"


def main() -> None:
    """Read the setup, run the job, write the report; the descriptors come as arguments."""
    setup_fd, lifeline, report, result = (int(text) for text in sys.argv[1:5])
    with open(setup_fd, "rb") as file:
        # From the parent alone, before the job exists. Importing json would double the start.
        setup: Setup = marshal.load(file)  # noqa: S302
    answer = supervise(setup, lifeline, result)
    with open(report, "w") as file:
        file.write(as_json(answer))


if __name__ == "__main__":
    main()
