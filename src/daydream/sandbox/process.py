"""The process sandbox: a job in its own session with limits, ended as a whole tree.

It bounds and cleans up; it does not hide. A job runs under the user's own uid, sees his files and
reaches the network, so this is for programs that the user chose to run. It promises that a job over
a limit ends, that nothing it started is left, that what it prints cannot reach its result, and that
it gets exactly the environment of the job. Every result says ``layers: ("process",)``.
"""

import contextlib
import marshal
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import IO, Final, Literal

import msgspec

from daydream.config import cores, user_environment
from daydream.errors import SandboxError
from daydream.sandbox import supervisor
from daydream.sandbox.base import ExecResult, Job, Limits, Outcome, Stop
from daydream.sandbox.collect import open_folder, taken
from daydream.sandbox.pipes import CHUNK, RESULT_BYTES, Capture, feed, flood_limit, take

FILE_BYTES: Final = 2 << 30
"""Largest file that a job may write."""
GRACE_S: Final = 15.0
"""Seconds that the supervisor has, after the wall limit, to end the job and report."""
LOOK_S: Final = 0.1
"""How often somebody is asked whether a job has to end."""
_LOADER: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PATH")


class _Report(msgspec.Struct, frozen=True):
    """What the supervisor says at the end."""

    outcome: Literal["exited", "signalled", "stopped", "wall", "cpu", "memory", "processes"]
    exit: int | None
    signal: int | None
    wall_s: float
    cpu_s: float
    peak_bytes: int
    left: int


class ProcessSandbox:
    """Runs jobs as plain processes. Holds no state, so threads may share one."""

    layers: tuple[str, ...] = ("process",)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def run(self, job: Job, limits: Limits) -> ExecResult:
        """Run ``job`` to its end or its bounds; no process of it is left when this returns.

        A command that cannot be started ends with status 127 and the reason on standard error.
        ``memory_mb`` bounds the resident pages of the tree, shared ones counted once, looked at
        some times a second; ``cpu_s`` of None is what all cores can give within ``wall_s``. A job
        that floods its output or its result is ended with the outcome ``output``.

        Raises :class:`SandboxError` when the supervisor could not start, or could not end the job.
        """
        return self.run_until(job, limits, None)

    def run_until(self, job: Job, limits: Limits, stop: Stop | None) -> ExecResult:
        """Do what :meth:`run` does; end the job, as ``stopped``, once ``stop`` says so.

        It is asked some times a second.
        """
        started = time.monotonic()
        with _started() as exchange:
            exchange.begin(job, limits)
            exchange.follow(job.stdin, limits, started + limits.wall_s + GRACE_S, stop)
            found = exchange.finish(time.monotonic() - started)
        return _with_files(found, job) if job.collect or job.whole else found


@contextlib.contextmanager
def _started() -> "Iterator[_Exchange]":
    """Start a supervisor. Whatever happens inside, it and its job are gone at the end."""
    with contextlib.ExitStack() as stack:

        def pipe() -> tuple[FileIO, FileIO]:
            reader, writer = os.pipe()
            ends = FileIO(reader, "rb"), FileIO(writer, "wb")
            for end in ends:
                stack.callback(end.close)
            return ends

        setup, lifeline, report, result = pipe(), pipe(), pipe(), pipe()
        theirs = (setup[0], lifeline[0], report[1], result[1])
        numbers = [end.fileno() for end in theirs]
        known = user_environment()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, *map(str, numbers)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd="/",
                env={name: text for name, text in known.items() if name in _LOADER},
                pass_fds=numbers,
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(
                f"cannot start the supervisor {sys.executable}: {error.strerror} (expected a "
                "running interpreter); free processes or memory and try again"
            ) from None
        exchange = _Exchange(process, setup[1], lifeline[1], report[0], result[0])
        try:
            for end in theirs:
                end.close()
            yield exchange
        finally:
            exchange.close()


class _Exchange:
    """The parent's side of one job."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        setup: FileIO,
        lifeline: FileIO,
        report: FileIO,
        result: FileIO,
    ) -> None:
        self._process = process
        self._setup = setup
        self._lifeline = lifeline
        self._report = (report, Capture(CHUNK))
        self._result = (result, Capture(RESULT_BYTES))
        self._outputs: list[tuple[IO[bytes], Capture]] = []
        self._flooded = False
        self._late = False
        self._stopped = False

    def begin(self, job: Job, limits: Limits) -> None:
        """Tell the supervisor what to run."""
        memory = None if limits.memory_mb is None else limits.memory_mb << 20
        cpu_s = limits.wall_s * cores() if limits.cpu_s is None else limits.cpu_s
        setup: supervisor.Setup = {
            "parent": os.getpid(),
            "argv": list(job.argv),
            "cwd": job.cwd,
            "env": job.env,
            "wall_s": limits.wall_s,
            "cpu_s": math.ceil(cpu_s) + (limits.cpu_s is None),
            "file_bytes": FILE_BYTES,
            "memory_bytes": memory,
            "processes": limits.processes,
        }
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                self._outputs.append((stream, Capture(limits.output_bytes)))
        with contextlib.suppress(BrokenPipeError):
            _write(self._setup, marshal.dumps(dict(setup)))
        self._setup.close()

    def follow(
        self, stdin: bytes, limits: Limits, deadline: float, stop: Stop | None = None
    ) -> None:
        """Feed and read the job until the supervisor has reported, or ``deadline`` has passed."""
        poll = select.poll()
        sinks = {file.fileno(): (file, sink) for file, sink in self._streams()}
        for number in sinks:
            os.set_blocking(number, False)
            poll.register(number, select.POLLIN)
        inlet = -1 if self._process.stdin is None else self._process.stdin.fileno()
        os.set_blocking(inlet, False)
        poll.register(inlet, select.POLLOUT)
        report = self._report[0].fileno()
        flood = flood_limit(limits.output_bytes)
        left = memoryview(stdin)
        while report in sinks:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                self._late = True
                return
            if stop is not None:
                remaining = min(remaining, LOOK_S)
                if not self._stopped and stop():
                    self._stopped = True
                    self._lifeline.close()
            for number, _ in poll.poll(remaining * 1000):
                if number == inlet:
                    left = feed(inlet, left)
                    if not left and self._process.stdin is not None:
                        poll.unregister(inlet)
                        self._process.stdin.close()
                elif not take(*sinks[number]):
                    poll.unregister(number)
                    del sinks[number]
            self._stop_flood(flood)
        for file, sink in sinks.values():
            # Nothing of the job is left, so what can be read at once is all there is.
            while select.select([file], [], [], 0)[0] and take(file, sink):
                pass

    def _stop_flood(self, flood: int) -> None:
        printed = sum(sink.total for _, sink in self._outputs)
        if printed > flood or self._result[1].total > RESULT_BYTES:
            self._flooded = True
            self._lifeline.close()

    def finish(self, wall_s: float) -> ExecResult:
        """Return what became of the job."""
        self.close()
        stdout, stderr = (sink.kept() for _, sink in self._outputs)
        try:
            report = msgspec.json.decode(self._report[1].kept(), type=_Report)
        except msgspec.DecodeError:
            return self._without_report(stdout, stderr, wall_s)
        if report.left:
            raise SandboxError(
                f"{report.left} processes of the job could not be ended (expected none left); "
                "see what they wait for, and end them by hand"
            )
        outcome: Outcome = "output"
        if report.outcome != "stopped" and not self._flooded:
            outcome = report.outcome
        elif self._stopped:
            outcome = "stopped"
        return ExecResult(
            outcome=outcome,
            exit=report.exit if outcome == "exited" else None,
            stdout=stdout,
            stderr=stderr,
            wall_s=report.wall_s,
            cpu_s=report.cpu_s,
            peak_mb=report.peak_bytes / (1 << 20),
            layers=ProcessSandbox.layers,
            result=b"" if outcome == "output" else self._result[1].kept(),
            signal=report.signal if outcome == "signalled" else None,
        )

    def _without_report(self, stdout: bytes, stderr: bytes, wall_s: float) -> ExecResult:
        """Judge a supervisor that said nothing: broken itself, or killed by the job."""
        code = self._process.returncode
        if code >= 0:
            tail = stderr[-500:].decode("utf-8", "replace").strip()
            raise SandboxError(
                f"the supervisor ended with status {code} and no report (expected one): {tail}; "
                "this is a fault of the sandbox, please report it"
            )
        note = b"\n[the supervisor of this job was stopped or killed]\n"
        return ExecResult(
            outcome="wall" if self._late else "signalled",
            exit=None,
            stdout=stdout,
            stderr=stderr + note,
            wall_s=wall_s,
            cpu_s=0.0,
            peak_mb=0.0,
            layers=ProcessSandbox.layers,
            signal=None if self._late else signal.SIGKILL,
        )

    def close(self) -> None:
        """End the job if it still runs, and the supervisor."""
        process = self._process
        self._lifeline.close()
        self._setup.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0 if self._late else GRACE_S)
        if process.returncode is None or process.returncode < 0:
            _sweep(process, [file for file, _ in self._outputs])
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def _streams(self) -> list[tuple[IO[bytes] | FileIO, Capture]]:
        return [self._report, self._result, *self._outputs]


def _with_files(found: ExecResult, job: Job) -> ExecResult:
    folder = open_folder(job.cwd)
    try:
        files, not_taken = taken(folder, job)
    finally:
        if folder is not None:
            os.close(folder)
    return msgspec.structs.replace(found, files=files, not_taken=not_taken)


def _write(file: FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) or 0 :]


def _sweep(process: subprocess.Popen[bytes], outputs: list[IO[bytes]]) -> None:
    """End what a killed or stopped supervisor left behind.

    Without it the tree has no common ancestor any more. What is still the job's: what descends from
    the supervisor, what holds the job's output open for writing, and the sessions of both. Our own
    session is never touched.
    """
    pipes = {f"pipe:[{os.fstat(file.fileno()).st_ino}]" for file in outputs if not file.closed}
    ours = os.getsid(0)
    deadline = time.monotonic() + GRACE_S
    sessions: set[int] = set()
    while time.monotonic() < deadline:
        table = supervisor.process_table()
        tree = set(supervisor.below(table, process.pid)) if process.returncode is None else set()
        tree |= {pid for pid, found in table.items() if found.session in sessions}
        for pid in set(table) - tree:
            if table[pid].session != ours and _writes_to(pid, pipes):
                tree.add(pid)
        tree -= {process.pid}
        if process.returncode is None:
            process.kill()
            process.wait()
        if not tree:
            return
        sessions |= {table[pid].session for pid in tree} - {ours}
        for pid in tree:
            supervisor.send(pid, table[pid], signal.SIGKILL)
        time.sleep(0.005)
    raise SandboxError(
        "processes of a job outlived their supervisor and could not be ended (expected none left); "
        "look for processes in the state D"
    )


def _writes_to(pid: int, pipes: set[str]) -> bool:
    """Return whether process ``pid`` holds one of ``pipes`` open for writing."""
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            if str(entry.readlink()) in pipes:
                info = Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text(encoding="ascii")
                if any(
                    line.startswith("flags:") and int(line[6:], 8) & 3 for line in info.split("\n")
                ):
                    return True
    except OSError:
        return False
    return False
