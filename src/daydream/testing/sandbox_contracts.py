"""What every sandbox must keep, as checks that a plug-in author runs on his own.

Each check takes a :class:`SandboxUnderTest` and raises ``AssertionError`` saying which promise is
broken. Jobs are shell and Python one-liners; no check takes more than some seconds, 300 MiB or 20
processes. The sandboxes in :mod:`daydream.testing.fakes_sandboxes` break one promise each.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from daydream.sandbox.base import RESULT_FD, ExecResult, Job, Limits, Sandbox


class SandboxUnderTest(msgspec.Struct, frozen=True):
    """A sandbox and what its jobs may use."""

    supply: Callable[[], Sandbox]
    python: str = sys.executable
    """An interpreter that jobs can reach."""
    shell: str = "/bin/sh"
    cwd: str = "/"
    """A working directory that exists inside."""
    path: str = "/usr/bin:/bin"

    def shell_job(self, script: str, *, stdin: bytes = b"") -> Job:
        """Return a job that runs a shell script."""
        return Job((self.shell, "-c", script), self.cwd, {"PATH": self.path}, stdin)

    def python_job(self, code: str, *arguments: str) -> Job:
        """Return a job that runs Python code."""
        argv = (self.python, "-I", "-S", "-c", code, *arguments)
        return Job(argv, self.cwd, {"PATH": self.path})


def check_returns_the_status_and_both_outputs(subject: SandboxUnderTest) -> None:
    """Exit status, standard output and standard error come back as the job gave them."""
    found = _run(subject, subject.shell_job("echo out; echo err >&2; exit 7"))
    _require((found.outcome, found.exit) == ("exited", 7), f"exit 7 is {_told(found)}")
    _require(found.stdout == b"out\n", f"'out' on standard output came back as {found.stdout!r}")
    _require(found.stderr == b"err\n", f"'err' on standard error came back as {found.stderr!r}")


def check_gives_the_job_its_environment_and_no_other(subject: SandboxUnderTest) -> None:
    """The job sees the variables of the job and none of the parent's."""
    job = subject.shell_job("env")
    job = msgspec.structs.replace(job, env={**job.env, "GIVEN": "yes"})
    lines = _run(subject, job).stdout.decode().splitlines()
    names = {line.partition("=")[0] for line in lines}
    extra = names - {"PATH", "GIVEN", "PWD", "OLDPWD", "SHLVL", "_"}
    _require("GIVEN=yes" in lines, "a variable of the job is missing inside")
    _require(not extra, f"the job sees variables that are not its own: {sorted(extra)}")


def check_starts_in_the_working_directory(subject: SandboxUnderTest) -> None:
    """The job starts where it asks to."""
    job = msgspec.structs.replace(subject.shell_job("pwd -P"), cwd="/usr")
    found = _run(subject, job).stdout
    _require(found == b"/usr\n", f"a job for /usr started in {found!r}")


def check_feeds_all_of_standard_input(subject: SandboxUnderTest) -> None:
    """Input larger than a pipe arrives whole, and a job that reads nothing does no harm."""
    found = _run(subject, subject.shell_job("wc -c", stdin=b"x" * 300_000)).stdout.strip()
    _require(found == b"300000", f"300000 bytes of input arrived as {found!r}")
    ignored = _run(subject, subject.shell_job("exit 0", stdin=b"x" * 300_000))
    _require(ignored.exit == 0, f"a job that ignores its input is {_told(ignored)}")


def check_keeps_the_result_apart_from_what_is_printed(subject: SandboxUnderTest) -> None:
    """Only what goes to the result descriptor is the result."""
    script = f"echo printed; echo result >&{RESULT_FD}; echo more; echo error >&2"
    found = _run(subject, subject.shell_job(script))
    _require(found.result == b"result\n", f"the result 'result' came back as {found.result!r}")
    _require(b"result" not in found.stdout + found.stderr, "the result shows among the output")


def check_bounds_what_it_keeps_of_the_output(subject: SandboxUnderTest) -> None:
    """A job that prints 40 times the limit runs to its end, and no more than the limit is kept."""
    code = "import sys; sys.stdout.write('x' * 4_000_000); sys.stderr.write('y' * 4_000_000)"
    found = _run(subject, subject.python_job(code), output_bytes=100_000)
    _require((found.outcome, found.exit) == ("exited", 0), f"a wordy job is {_told(found)}")
    for name, data in (("output", found.stdout), ("error", found.stderr)):
        _require(0 < len(data) <= 100_000, f"{len(data)} bytes of standard {name} were kept")


def check_ends_a_hang_at_the_wall(subject: SandboxUnderTest) -> None:
    """A job that sleeps on ends near its wall limit with the outcome ``wall``."""
    begun = time.monotonic()
    found = _run(subject, subject.shell_job("echo before; sleep 8; echo after"), wall_s=0.5)
    took = time.monotonic() - begun
    _require(found.outcome == "wall" and found.exit is None, f"a hang is {_told(found)}")
    _require(
        b"after" not in found.stdout and took < 50, f"a hang of 0.5 s went on for {took:.1f} s"
    )
    _require(b"before" in found.stdout, "what a job printed before its end is lost")


def check_ends_a_job_over_its_cpu_time(subject: SandboxUnderTest) -> None:
    """A busy loop over its CPU limit ends with the outcome ``cpu``."""
    found = _run(subject, subject.python_job("while True: pass"), wall_s=300, cpu_s=1)
    _require(found.outcome == "cpu", f"a busy loop over 1 CPU second is {_told(found)}")


def check_ends_a_job_over_its_memory(subject: SandboxUnderTest) -> None:
    """Two processes that hold 90 MiB each are over a limit of 128, together."""
    code = (
        "import os, time\nos.fork()\nheld = bytearray(90 << 20)\n"
        "held[::4096] = b'x' * len(held[::4096])\ntime.sleep(60)"
    )
    found = _run(subject, subject.python_job(code), wall_s=50, memory_mb=128)
    _require(found.outcome == "memory", f"180 MiB in two processes under 128 is {_told(found)}")


def check_leaves_no_process(subject: SandboxUnderTest) -> None:
    """Daemons that left the session, and children that hold the output open, are gone at return."""
    mark = f"left-behind-{os.getpid()}-{threading.get_ident()}"
    code = (
        "import os, time\nfor deep in (0, 1, 1):\n    if os.fork() == 0:\n"
        "        os.setsid()\n        if deep and os.fork():\n            os._exit(0)\n"
        "        time.sleep(25)\n        os._exit(0)\ntime.sleep(0.2)"
    )
    begun = time.monotonic()
    found = _run(subject, subject.python_job(code, mark))
    took = time.monotonic() - begun
    left = _marked(mark)
    for pid in left:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    _require(not left, f"{len(left)} processes of a job outlived it")
    _require(found.exit == 0 and took < 20, f"a job with daemons is {_told(found)} in {took:.1f} s")


def check_reports_the_signal_that_ended_a_job(subject: SandboxUnderTest) -> None:
    """A crash is ``signalled`` with its number and no exit status."""
    found = _run(subject, subject.shell_job("kill -SEGV $$"))
    _require(
        (found.outcome, found.exit, found.signal) == ("signalled", None, signal.SIGSEGV),
        f"a segmentation fault is {_told(found)}, signal {found.signal}",
    )


def check_takes_a_missing_command_for_a_result(subject: SandboxUnderTest) -> None:
    """A command that does not exist fails with a reason; it is no error of the sandbox."""
    job = msgspec.structs.replace(subject.shell_job(""), argv=("no-such-command-anywhere",))
    try:
        found = _run(subject, job)
    except Exception as error:
        raise AssertionError(f"a missing command raised {error!r} (expected a result)") from error
    _require(found.outcome == "exited" and found.exit != 0, f"a missing command is {_told(found)}")
    _require(b"no-such-command-anywhere" in found.stderr, "the reason does not name the command")


def check_counts_what_a_job_used(subject: SandboxUnderTest) -> None:
    """CPU seconds and peak memory of the job's whole tree are reported."""
    code = (
        "import os, time\nif os.fork() == 0:\n    held = bytearray(64 << 20)\n"
        "    while time.process_time() < 0.3: pass\n    os._exit(0)\nos.wait()"
    )
    found = _run(subject, subject.python_job(code))
    _require(0.25 <= found.cpu_s <= 5, f"0.3 CPU seconds of a child counted as {found.cpu_s:.2f}")
    _require(60 <= found.peak_mb <= 300, f"64 MiB of a child counted as {found.peak_mb:.0f}")


def check_states_its_layers(subject: SandboxUnderTest) -> None:
    """Each result says what isolation was in force, and it is what the sandbox states."""
    sandbox = subject.supply()
    found = sandbox.run(subject.shell_job("exit 0"), Limits())
    _require(len(found.layers) > 0, "a result states no layer")
    _require(found.layers == sandbox.layers, f"states {sandbox.layers}, ran with {found.layers}")


def check_keeps_the_jobs_of_threads_apart(subject: SandboxUnderTest) -> None:
    """Several threads may share one sandbox; each gets its own result."""
    sandbox = subject.supply()
    results: dict[int, bytes] = {}

    def work(number: int) -> None:
        script = f"sleep 0.1; echo {number}; echo {number} >&{RESULT_FD}"
        found = sandbox.run(subject.shell_job(script), Limits(wall_s=30))
        results[number] = found.stdout + found.result

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {number: f"{number}\n{number}\n".encode() for number in range(4)}
    _require(results == expected, f"four jobs at once came back as {results}")


Check: TypeAlias = Callable[[SandboxUnderTest], None]

CHECKS: Final[tuple[Check, ...]] = (
    check_returns_the_status_and_both_outputs,
    check_gives_the_job_its_environment_and_no_other,
    check_starts_in_the_working_directory,
    check_feeds_all_of_standard_input,
    check_keeps_the_result_apart_from_what_is_printed,
    check_bounds_what_it_keeps_of_the_output,
    check_ends_a_hang_at_the_wall,
    check_ends_a_job_over_its_cpu_time,
    check_ends_a_job_over_its_memory,
    check_leaves_no_process,
    check_reports_the_signal_that_ended_a_job,
    check_takes_a_missing_command_for_a_result,
    check_counts_what_a_job_used,
    check_states_its_layers,
    check_keeps_the_jobs_of_threads_apart,
)


def _run(subject: SandboxUnderTest, job: Job, **limits: float) -> ExecResult:
    return subject.supply().run(job, msgspec.convert({"wall_s": 30.0, **limits}, Limits))


def _told(found: ExecResult) -> str:
    return f"{found.outcome} with status {found.exit}"


def _require(kept: bool, problem: str) -> None:
    if not kept:
        raise AssertionError(f"{problem} (expected the promise in the check's docstring)")


def _marked(mark: str) -> list[int]:
    """Return the processes that have ``mark`` among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found
