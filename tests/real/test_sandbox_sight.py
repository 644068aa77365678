"""Hostile jobs against the whole bubblewrap sandbox: the network, the disk, the kernel, each other.

After each job none of its processes is left, and after each test the machine is as it was.
docs/sandbox.md lists the cases by what is tried.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from daydream.sandbox.base import ExecResult
from daydream.sandbox.bubblewrap import BubblewrapSandbox
from daydream.sandbox.namespaces import interpreter_roots
from daydream.sandbox.profiles import PROFILES
from tests.processes import with_word
from tests.real.sandbox_jobs import run, said, unharmed


@pytest.fixture(autouse=True)
def victim() -> Iterator[Path]:
    with unharmed() as file:
        yield file


def test_no_socket_reaches_the_machine(victim: Path) -> None:
    abstract, path = f"\0daydream-{os.getpid()}", str(victim.with_name("socket"))
    with (
        socket.socket() as tcp,
        socket.socket(type=socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX) as filed,
    ):
        for one in (tcp, udp):
            one.bind(("127.0.0.1", 0))
        tcp.listen()
        udp.setblocking(False)
        for unix, address in ((named, abstract), (filed, path)):
            unix.bind(address)
            unix.listen()
        code = (
            "print([tried(socket.socket, family) for family in (2, 10, 16, 17, 40)],"
            f"[tried(socket.socket(socket.AF_UNIX).connect, a) for a in ({abstract!r}, {path!r})])"
        )
        refused = "['EACCES', 'EACCES', 'EACCES', 'EACCES', 'EACCES'] ['ECONNREFUSED', 'ENOENT']"
        assert said(code) == refused
        wide = BubblewrapSandbox(PROFILES["evaluator"])
        ports = tcp.getsockname()[1], udp.getsockname()[1]
        code = (
            f"print(tried(socket.create_connection, ('127.0.0.1', {ports[0]})),"
            "tried(socket.create_connection, ('192.0.2.1', 80), 2), tried(socket.socket, 40),"
            f"tried(socket.socket(socket.AF_UNIX).connect, {abstract!r}))\n"
            f"socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {ports[1]}))\n"
            "try: print(socket.getaddrinfo('example.org', 80))\n"
            "except socket.gaierror: print('no name')"
        )
        assert said(code, wide) == "ECONNREFUSED ENETUNREACH EACCES ECONNREFUSED\nno name"
        with pytest.raises(BlockingIOError):
            udp.recv(1)
    Path(path).unlink()


def test_the_disk_the_home_and_other_jobs_are_out_of_sight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("key")
    # Of a folder that holds the interpreter, that part is there.
    folders = {str(Path.home()), "/var", "/run", "/home", "/root", "/opt", "/srv", "/mnt"}
    folders -= {str(up) for root in interpreter_roots() for up in (Path(root), *Path(root).parents)}
    places = [str(secret), "/etc/shadow", "/etc/hostname", "/sys", *folders]
    assert said(f"print([os.path.exists(p) for p in {places!r}])") == str([False] * len(places))
    monkeypatch.setenv("SOME_API_KEY", "key-of-the-user")
    code = "print([open(f'/proc/{n}/environ').read().count('key-of') for n in ('1', 'self')])"
    assert said(code) == "[0, 0]"
    names = said("print(sorted(os.environ))")
    assert names == "['HOME', 'LC_CTYPE', 'PATH', 'PWD']"
    shown = run("print(open(sys.argv[1]).read())", str(secret), readable=(str(secret),))
    assert shown.stdout == b"key\n"
    changed = run("print(tried(open, sys.argv[1], 'w'))", str(secret), readable=(str(secret),))
    assert changed.stdout.strip() in {b"EROFS", b"EACCES"}
    assert secret.read_text() == "key"


def test_what_lies_below_a_link_is_shown_through_it(tmp_path: Path) -> None:
    deep = tmp_path / "real" / "deep"
    deep.mkdir(parents=True)
    (deep / "file").write_text("there")
    (link := tmp_path / "link").symlink_to(tmp_path / "real")
    shown = (str(link), str(tmp_path / "real"), str(link / "deep"))
    found = run("print(open(sys.argv[1]).read())", str(link / "deep" / "file"), readable=shown)
    assert found.stdout == b"there\n", found


def test_the_kernels_settings_and_calls_are_out_of_reach() -> None:
    code = (
        "print([tried(os.open, '/proc/sys/' + p, os.O_WRONLY)"
        " for p in ('kernel/core_pattern', 'vm/overcommit_ratio', 'kernel/panic')])"
    )
    assert set(said(code).strip("[]").replace("'", "").split(", ")) <= {"EACCES", "EROFS"}
    code = "print(tried(lambda: os.write(os.open('/proc/self/oom_score_adj', 1), b'-999')))"
    assert said(code) in {"EACCES", "EPERM", "EROFS"}
    before = Path("/proc/sys/vm/overcommit_ratio").read_text()
    code = (
        "calls = ('unshare', 0x10000000), ('setns', 0, 0), ('mount', b'a', b'/tmp', b'b', 0, 0),"
        " ('chroot', b'/tmp'), ('ptrace', 16, 1, 0, 0), ('personality', 8), ('acct', 0),"
        " ('syscall', 321, 0, 0, 0), ('syscall', 425, 1, 0), ('syscall', 250, 0, 0),"
        " ('syscall', 323, 0), ('syscall', 298, 0, 0, -1, -1, 0), ('syscall', 56, 0x10000011, 0)\n"
        "print({call(*c) for c in calls}, call('syscall', 435, 0, 0), os.getuid())\n"
    )
    machine = os.uname().machine
    if machine == "x86_64":
        assert said(code) == "{'EPERM'} ENOSYS 1000"
    assert Path("/proc/sys/vm/overcommit_ratio").read_text() == before


def test_a_job_has_no_capability_and_cannot_gain_one() -> None:
    code = (
        "found = dict(line.split(':\\t', 1) for line in open('/proc/self/status'))\n"
        "print(int(found['CapEff'], 16), int(found['CapBnd'], 16), found['NoNewPrivs'].strip())"
    )
    assert said(code) == "0 0 1"
    assert said("print(tried(os.setuid, 0))") in {"EPERM", "EINVAL"}
    code = "print(os.system('su -c true </dev/null >/dev/null 2>&1') != 0, os.getuid())"
    assert said(code) == "True 1000"


def test_what_one_job_leaves_no_other_one_finds() -> None:
    places = ("/work", "/tmp", "/dev/shm", "/work/.cache")
    leave = f"os.mkdir('/work/.cache')\nfor p in {places}: open(p + '/left', 'w').write('here')"
    assert run(leave).exit == 0
    # The checkout itself may lie below one of these places, and then its path is visible there.
    assert said(f"print([os.path.exists(p + '/left') for p in {places}])") == str([False] * 4)


def test_two_jobs_at_once_neither_see_nor_signal_each_other(tmp_path: Path) -> None:
    mark = f"neighbour-{os.getpid()}"
    results: list[ExecResult] = []
    patient = "while not open(sys.argv[2]).read(): time.sleep(0.01)\nprint('lived')"
    (go := tmp_path / "go").write_text("")

    def wait() -> None:
        results.append(run(patient, mark, str(go), readable=(str(go),)))

    thread = threading.Thread(target=wait)
    thread.start()
    while not with_word(mark):
        os.sched_yield()
    code = (
        "seen = [open(f'/proc/{n}/cmdline').read() for n in os.listdir('/proc') if n.isdigit()]\n"
        "tried(os.kill, -1, signal.SIGTERM)\nprint(any('neigh' + 'bour' in one for one in seen))"
    )
    answer = said(code)
    go.write_text("on")
    thread.join()
    assert answer == "False"
    assert (results[0].exit, results[0].stdout) == (0, b"lived\n")


def test_nothing_that_the_parent_holds_open_is_passed_on(tmp_path: Path) -> None:
    held = os.open(tmp_path / "held", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(held, True)
    try:
        assert said("print(sorted(os.listdir('/proc/self/fd'), key=int)[:-1])") == str(
            ["0", "1", "2", "3"]
        )
    finally:
        os.close(held)


def test_a_module_in_the_working_folder_is_not_imported() -> None:
    code = (
        "for name in ('json', 'numpy', 'sitecustomize', 'usercustomize'):\n"
        "    open(name + '.py', 'w').write('raise SystemExit(7)')\n"
        "import json\nprint(json.dumps(1), flush=True)\n"
        "again = 'import json; print(json.dumps(2))'\n"
        "os.execv(sys.executable, [sys.executable, '-I', '-c', again])"
    )
    assert said(code) == "1\n2"


def test_escapes_and_binary_output_are_kept_as_bytes() -> None:
    found = run("os.write(2, b'\\x1b]0;x\\x07\\xff' * 10)\nraise ValueError('y' * 10_000_000)")
    assert found.stderr.startswith(b"\x1b]0;x\x07\xff")
    assert len(found.stderr) <= 1 << 20


PARENT = """
import sys
from daydream.sandbox.base import Job, Limits
from daydream.sandbox.bubblewrap import BubblewrapSandbox
code = "import os, time\\nif os.fork() == 0: os.setsid()\\ntime.sleep(600)"
BubblewrapSandbox().run(
    Job((sys.executable, "-I", "-S", "-c", code, sys.argv[1]), "/", {}), Limits(wall_s=300)
)
"""


def test_a_killed_parent_takes_the_whole_job_with_it_and_its_group_is_swept() -> None:
    mark = f"orphan-{os.getpid()}"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, mark])
    while len(with_word(mark)) < 4:
        assert parent.poll() is None
        os.sched_yield()
    parent.kill()
    parent.wait()
    while with_word(mark):
        os.sched_yield()
    name = f"daydream-{parent.pid}-"
    # Any later process that runs a job sweeps what dead ones left.
    code = PARENT.replace("time.sleep(600)", "pass")
    assert subprocess.run([sys.executable, "-c", code, mark], check=False).returncode == 0
    groups = Path("/sys/fs/cgroup").glob(f"**/{name}*")
    assert [place for place in groups if place.is_dir()] == []
