"""The process sandbox beyond its contract: hostile jobs, a dead parent, a dead supervisor."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from daydream.errors import SandboxError
from daydream.sandbox import supervisor
from daydream.sandbox.base import ExecResult, Job, Limits
from daydream.sandbox.process import ProcessSandbox
from tests.processes import with_word

ENV = {"PATH": "/usr/bin:/bin"}


def run(code: str, *arguments: str, limits: Limits = Limits(wall_s=300)) -> ExecResult:
    job = Job((sys.executable, "-I", "-S", "-c", code, *arguments), "/", ENV)
    return ProcessSandbox().run(job, limits)


def wait_until_gone(mark: str) -> None:
    while with_word(mark):
        os.sched_yield()


PARENT = """
import sys
from daydream.sandbox.base import Job, Limits
from daydream.sandbox.process import ProcessSandbox
code = '''
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
open(sys.argv[2], "w").close()
time.sleep(600)
'''
ProcessSandbox().run(
    Job((sys.executable, "-I", "-S", "-c", code, *sys.argv[1:]), "/", {}), Limits(wall_s=300)
)
"""


def test_a_killed_parent_takes_the_whole_tree_with_it(tmp_path: Path) -> None:
    mark, ready = f"orphan-{os.getpid()}", tmp_path / "ready"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, mark, str(ready)])
    # The parent, the job, and its daemon.
    while not ready.exists() or len(with_word(mark)) < 3:
        assert parent.poll() is None
        os.sched_yield()
    parent.kill()
    parent.wait()
    wait_until_gone(mark)


def test_an_interrupt_in_the_parent_ends_the_job() -> None:
    mark = f"interrupted-{os.getpid()}"
    code = "import os, signal, sys, time\nos.kill(int(sys.argv[2]), signal.SIGINT)\ntime.sleep(600)"
    # A shell that starts the tests in the background has them ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(code, mark, str(os.getpid()))
    finally:
        signal.signal(signal.SIGINT, before)
    assert with_word(mark) == []


def test_a_job_that_kills_its_supervisor_leaves_nothing_and_has_no_result() -> None:
    mark = f"regicide-{os.getpid()}"
    code = (
        "import os, signal, time\nos.write(3, b'forged')\nif os.fork() == 0:\n    os.setsid()\n"
        "    time.sleep(600)\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)"
    )
    found = run(code, mark)
    assert (found.outcome, found.exit, found.result) == ("signalled", None, b"")
    assert b"supervisor" in found.stderr
    assert with_word(mark) == []


@pytest.mark.slow
def test_a_job_that_stops_its_supervisor_ends_after_the_wall() -> None:
    mark = f"stopper-{os.getpid()}"
    code = "import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(600)"
    found = run(code, mark, limits=Limits(wall_s=0.5))
    assert (found.outcome, found.result) == ("wall", b"")
    assert with_word(mark) == []


def test_a_tree_that_keeps_forking_is_ended_by_the_number_of_its_processes() -> None:
    mark = f"forks-{os.getpid()}"
    # Each process starts two more, to a depth that ends at 63 whatever the sandbox does.
    code = (
        "import os, signal, time\nfor _ in range(6):\n    os.fork()\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
    )
    found = run(code, mark, limits=Limits(wall_s=300, processes=20))
    assert found.outcome == "processes"
    assert with_word(mark) == []


def test_forked_workers_that_share_an_array_are_not_counted_twice() -> None:
    code = (
        "import os, time\nheld = bytearray(80 << 20)\nheld[::4096] = b'x' * len(held[::4096])\n"
        "for _ in range(3):\n    if os.fork() == 0:\n        time.sleep(0.6)\n        os._exit(0)\n"
        "for _ in range(3): os.wait()"
    )
    found = run(code, limits=Limits(wall_s=300, memory_mb=150))
    assert (found.outcome, found.exit) == ("exited", 0)


def test_an_absurd_request_for_memory_fails_inside_the_job() -> None:
    found = run("bytearray(1 << 40)", limits=Limits(wall_s=300, memory_mb=100))
    assert (found.outcome, found.exit) == ("exited", 1)
    assert b"MemoryError" in found.stderr


def test_a_flood_of_output_ends_the_job_within_its_bounds() -> None:
    code = "import os\nwhile True: os.write(1, b'x' * 65536)"
    found = run(code, limits=Limits(wall_s=300, output_bytes=1_000))
    assert found.outcome == "output"
    assert len(found.stdout) <= 1_000


def test_a_result_without_end_ends_the_job_and_is_no_result() -> None:
    found = run("import os\nwhile True: os.write(3, b'x' * 65536)")
    assert (found.outcome, found.result) == ("output", b"")


def test_the_first_and_the_last_words_are_kept() -> None:
    code = "print('first'); print('x' * 500_000); print('last')"
    found = run(code, limits=Limits(wall_s=300, output_bytes=1_000))
    assert found.stdout.startswith(b"first\n")
    assert found.stdout.endswith(b"last\n")
    assert b"bytes left out" in found.stdout


def test_files_are_bounded_and_no_core_is_left(tmp_path: Path) -> None:
    code = (
        "import os, resource, sys\nprint(resource.getrlimit(resource.RLIMIT_CORE)[0])\n"
        "os.truncate(os.open(sys.argv[1], os.O_CREAT | os.O_RDWR), 3 << 30)"
    )
    found = run(code, str(tmp_path / "big"))
    assert found.stdout == b"0\n"
    assert (tmp_path / "big").stat().st_size == 0


def test_a_job_has_no_descriptor_but_its_own() -> None:
    code = "import os; print(sorted(int(name) for name in os.listdir('/proc/self/fd')))"
    found = run(code)
    # The fifth is the listing itself.
    assert found.stdout == b"[0, 1, 2, 3, 4]\n"


def test_a_process_whose_first_thread_has_ended_is_still_ended() -> None:
    mark = f"headless-{os.getpid()}"
    code = (
        "import ctypes, os, threading, time\nif os.fork() == 0:\n"
        "    threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "    ctypes.CDLL(None).pthread_exit(0)\ntime.sleep(0.3)"
    )
    job = Job((sys.executable, "-I", "-c", code, mark), "/", ENV)
    assert ProcessSandbox().run(job, Limits(wall_s=300)).exit == 0
    assert with_word(mark) == []


def test_a_job_outlives_a_short_thread_of_the_parent() -> None:
    found: list[ExecResult] = []
    thread = threading.Thread(target=lambda: found.append(run("import time; time.sleep(0.3)")))
    thread.start()
    thread.join()
    assert found[0].exit == 0


def test_a_working_directory_that_does_not_exist_is_a_result() -> None:
    found = ProcessSandbox().run(Job(("true",), "/no/such/place", ENV), Limits())
    assert found.exit == 127
    assert b"/no/such/place" in found.stderr


def test_a_supervisor_that_cannot_start_is_an_error_of_the_sandbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(SandboxError, match="cannot start the supervisor"):
        run("pass")


def test_a_broken_supervisor_is_an_error_of_the_sandbox(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('worn out')")
    monkeypatch.setattr(supervisor, "__file__", str(broken))
    with pytest.raises(SandboxError, match=r"status 1 and no report.*worn out"):
        run("pass")


def test_a_listing_of_ps_makes_the_same_table_as_proc() -> None:
    listing = b"    1     0     1   9000\n  700     1   700    120\n  701   700   700   2048\n"
    table = supervisor.read_ps(listing)
    assert table[701] == supervisor.Process(parent=700, session=700, start=0, resident=2 << 20)
    assert set(supervisor.below(table, 1)) == {700, 701}
    assert set(supervisor.below(table, 700)) == {701}


def test_the_table_of_proc_knows_this_process() -> None:
    table = supervisor.process_table()
    ours = table[os.getpid()]
    assert (ours.parent, ours.session) == (os.getppid(), os.getsid(0))
    assert ours.resident > 1 << 20
    assert os.getpid() in supervisor.below(table, os.getppid())


def test_a_reused_process_number_is_not_signalled() -> None:
    child = subprocess.Popen(["/bin/sleep", "30"])
    try:
        seen = supervisor.process_table()[child.pid]
        supervisor.send(child.pid, seen._replace(start=seen.start - 1), signal.SIGKILL)
        assert child.poll() is None
        supervisor.send(child.pid, seen, signal.SIGKILL)
        assert child.wait(10) == -signal.SIGKILL
    finally:
        child.kill()
