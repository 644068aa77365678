"""The bubblewrap sandbox with one layer taken away: what each of them kept from happening."""

import contextlib
import os
import signal
import socket
import tempfile
import uuid
from pathlib import Path

import pytest

from daydream.errors import EnvironmentMissing, SandboxError
from daydream.sandbox import cell, cgroups
from daydream.sandbox.base import Job, Limits
from daydream.sandbox.bubblewrap import BubblewrapSandbox, Watch
from daydream.sandbox.profiles import PROFILES
from tests.processes import with_word
from tests.real.sandbox_jobs import SMALL, WIDE, run, said

FILL = (
    "def fill(path):\n"
    "    for number in range(6):\n"
    "        with open(f'{path}/{number}', 'wb', 0) as file:\n"
    "            for _ in range(4): file.write(bytes(1 << 20))\n"
    "print([tried(fill, path) for path in ('/work', '/tmp')])\n"
)


def shell(script: str, sandbox: BubblewrapSandbox) -> str:
    job = Job(("/bin/sh", "-c", script), "/tmp", {"PATH": "/usr/bin"})
    return sandbox.run(job, WIDE).stdout.decode().strip()


class NoGroup(BubblewrapSandbox):
    """Has no control group."""

    def _group(self, bounds: object) -> None:
        return None


class NoFilter(BubblewrapSandbox):
    """Allows every system call."""

    def _filter(self, *, bounded: bool) -> bytes:
        return bytes.fromhex("0600000000 00ff7f".replace(" ", ""))


class NoEachLimits(BubblewrapSandbox):
    """Sets no limit on a process."""

    def _each(self, bounds: object) -> list[str]:
        return []


class Writable(BubblewrapSandbox):
    """Leaves its own root writable, as bubblewrap does by itself."""

    def _view(self, *arguments: object, **_: object) -> list[str]:
        words = super()._view(*arguments)  # type: ignore[arg-type]
        at = words.index("--remount-ro")
        return words[:at] + words[at + 4 :]


class SeesTheDisk(BubblewrapSandbox):
    """Shows the whole disk, as the usual line of bubblewrap does."""

    def _view(self, *arguments: object, **_: object) -> list[str]:
        words = super()._view(*arguments)  # type: ignore[arg-type]
        at = words.index("--ro-bind")
        options = [*words[:at], "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        rest = words[words.index("--seccomp") : words.index("--chdir")]
        return [*options, "--tmpfs", "/tmp", *rest, "--chdir", "/tmp"]


class StaysRoot(SeesTheDisk):
    """Starts bubblewrap as who is asking."""

    def _become(self) -> tuple[str, ...]:
        return ()

    def _user(self) -> None:
        return None


class SharesTheNetwork(BubblewrapSandbox):
    """Keeps the machine's network."""

    def _view(self, *arguments: object, **_: object) -> list[str]:
        words = super()._view(*arguments)  # type: ignore[arg-type]
        return [word for word in words if word != "--unshare-net"]


class Unsized(BubblewrapSandbox):
    """Gives its file systems in memory no size."""

    def _view(self, *arguments: object, **_: object) -> list[str]:
        words = super()._view(*arguments)  # type: ignore[arg-type]
        sizes = {at + step for at, word in enumerate(words) if word == "--size" for step in (0, 1)}
        return [word for at, word in enumerate(words) if at not in sizes]


class SharesProcesses(BubblewrapSandbox):
    """Keeps the machine's processes in sight."""

    def _view(self, *arguments: object, **_: object) -> list[str]:
        words = super()._view(*arguments)  # type: ignore[arg-type]
        # Without a namespace for processes none needs to be closed to more of them.
        return [word for word in words if word != "--unshare-pid"]


class WritableFiles(BubblewrapSandbox):
    """Lets a job write what it may read."""

    def _view(self, *arguments: object, **_: object) -> list[str]:
        words = super()._view(*arguments)  # type: ignore[arg-type]
        return ["--bind-try" if word == "--ro-bind-try" else word for word in words]


LAYERS: dict[type[BubblewrapSandbox], str] = {
    NoFilter: "refused system calls",
    NoEachLimits: "limits: max open files",
    Writable: "/ can be written",
    Unsized: "/tmp is",
    WritableFiles: "/etc/ld.so.cache can be written",
    SeesTheDisk: "it reaches /etc/shadow",
    SharesTheNetwork: "it shares net with us",
    SharesProcesses: "it shares pid with us",
}
if cgroups.kind() != "watchdog":
    LAYERS[NoGroup] = "control group"
if os.geteuid() == 0:
    LAYERS[StaysRoot] = "it is root on this machine"


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_a_sandbox_without_one_layer_is_closed_before_its_first_job(
    kind: type[BubblewrapSandbox],
) -> None:
    with pytest.raises(EnvironmentMissing, match="does not hold what it promises") as caught:
        run("print('ran')", sandbox=kind(SMALL))
    assert LAYERS[kind] in str(caught.value)
    assert "DAYDREAM_SANDBOX=process" in str(caught.value)
    assert caught.value.exit_code == 3


def test_without_sizes_a_job_fills_memory_with_files() -> None:
    assert said(FILL) == "['ENOSPC', 'ENOSPC']"
    assert said(FILL, Unsized(SMALL, doubted=True)) == "['done', 'done']"


def test_without_the_kill_of_its_first_process_a_job_outlives_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = f"mark-{uuid.uuid4().hex}"
    code = "for _ in range(3): os.fork()\nos.setsid() if os.getpid() > 9 else None\ntime.sleep(300)"
    limits = Limits(wall_s=1, memory_mb=200)
    assert run(code, mark, limits=limits).outcome == "wall"
    assert with_word(mark) == []
    monkeypatch.setattr(cell, "END_S", 0.2)
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda handle, number: None)
    try:
        with pytest.raises(SandboxError, match="could not be ended"):
            run(code, mark, limits=limits)
        assert with_word(mark)
    finally:
        for pid in with_word(mark):
            # With the first one the kernel may have killed the others.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_without_a_cgroup_hidden_memory_is_refused_and_the_watchdog_ends_the_rest() -> None:
    sandbox = NoGroup(SMALL, doubted=True)
    assert said("print(tried(os.memfd_create, 'x'))", sandbox) == "EPERM"
    code = (
        "for _ in range(2): os.fork()\nheld = bytearray(60 << 20)\n"
        "held[::4096] = b'x' * len(held[::4096])\ntime.sleep(600)"
    )
    found = run(code, limits=Limits(wall_s=300, memory_mb=150), sandbox=sandbox)
    assert found.outcome == "memory"
    assert found.peak_mb > 150


def test_without_the_filter_more_of_the_kernel_can_be_reached() -> None:
    assert said("print(call('personality', 8))", NoFilter(SMALL, doubted=True)) == "done"
    assert said("print(tried(socket.socket, 40))", NoFilter(SMALL, doubted=True)) == "done"


def test_without_limits_on_each_process_a_file_and_the_descriptors_grow() -> None:
    code = "print(tried(lambda: [os.dup(1) for _ in range(200)]))"
    assert said(code, NoEachLimits(SMALL, doubted=True)) == "done"


def test_without_the_last_mounts_the_root_can_be_written() -> None:
    code = (
        "print([tried(os.open, p + '/x', os.O_WRONLY | os.O_CREAT) for p in ('/', '/dev', '/etc')])"
    )
    assert said(code, Writable(SMALL, doubted=True)) == "['done', 'done', 'done']"


def test_without_a_view_of_its_own_a_job_sees_the_disk() -> None:
    script = "grep -c ^root: /etc/passwd"
    assert shell(script, SeesTheDisk(SMALL, doubted=True)) == "1"
    assert shell(script, BubblewrapSandbox(SMALL)) == "0"


def test_without_a_network_namespace_a_job_reaches_the_machine() -> None:
    with socket.socket() as tcp:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        port = tcp.getsockname()[1]
        code = f"print(tried(socket.create_connection, ('127.0.0.1', {port})))"
        assert said(code, SharesTheNetwork(PROFILES["evaluator"], doubted=True)) == "done"


@pytest.mark.parametrize(
    ("kind", "reached"), [(StaysRoot, os.geteuid() == 0), (SeesTheDisk, False)]
)
def test_only_another_user_keeps_root_from_the_kernels_settings(
    kind: type[BubblewrapSandbox], reached: bool
) -> None:
    # Opened for appending and nothing appended.
    script = "if (: >>/proc/sys/kernel/core_pattern) 2>/dev/null; then echo open; else echo no; fi"
    assert shell(script, kind(SMALL, doubted=True)) == ("open" if reached else "no")


def test_without_a_namespace_for_processes_a_job_sees_those_of_the_machine() -> None:
    code = f"print(os.path.exists('/proc/{os.getpid()}'))"
    assert said(code) == "False"
    assert said(code, SharesProcesses(SMALL, doubted=True)) == "True"


def test_without_read_only_binds_a_job_changes_a_file_of_the_machine() -> None:
    with tempfile.TemporaryDirectory(prefix="daydream-binds-") as name:
        Path(name).chmod(0o755)
        (host := Path(name, "host.txt")).write_text("as it was")
        host.chmod(0o666)
        code = "print(tried(lambda: open(sys.argv[1], 'a').write('!')))"
        given = (str(host),)
        assert run(code, str(host), readable=given).stdout == b"EROFS\n"
        assert host.read_text() == "as it was"
        found = run(code, str(host), readable=given, sandbox=WritableFiles(SMALL, doubted=True))
        assert found.stdout == b"done\n"
        assert host.read_text() == "as it was!"


def test_without_group_and_watchdog_a_job_holds_what_it_likes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = "held = bytearray(220 << 20)\nheld[::4096] = b'x' * len(held[::4096])\nprint('held')"
    limits = Limits(wall_s=300, memory_mb=150)
    assert run(code, limits=limits).outcome == "memory"
    monkeypatch.setattr(Watch, "_holds_too_much", lambda self: False)
    assert said(code, NoGroup(SMALL, doubted=True), limits) == "held"


def test_without_the_careful_reader_a_link_shows_a_file_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = "os.symlink('/etc/passwd', 'r')"
    assert run(code, collect=("r",)).files == {}

    def trusting(folder: int | None, job: Job) -> tuple[dict[str, bytes], dict[str, str]]:
        return {
            name: Path(f"/proc/self/fd/{folder}", name).read_bytes() for name in job.collect
        }, {}

    monkeypatch.setattr("daydream.sandbox.bubblewrap.taken", trusting)
    assert run(code, collect=("r",)).files == {"r": Path("/etc/passwd").read_bytes()}
