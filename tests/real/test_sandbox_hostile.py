"""Hostile jobs against the whole bubblewrap sandbox: processes, time, memory, output and files.

After each job none of its processes is left, and after each test the machine is as it was.
docs/sandbox.md lists the cases by what is tried.
"""

import os
import resource
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from daydream.sandbox.base import ExecResult, Limits
from daydream.sandbox.collect import FILE_BYTES
from tests.processes import with_word
from tests.real.sandbox_jobs import run, said, unharmed


@pytest.fixture(autouse=True)
def victim() -> Iterator[Path]:
    with unharmed() as file:
        yield file


# ------------------------------------------------------------------ processes, time and memory


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        pytest.param(
            "for _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n"
            "        signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "        if os.fork() == 0: time.sleep(600)\n        os._exit(0)\n",
            "exited",
            id="daemons",
        ),
        pytest.param(
            "for _ in range(7):\n    if os.fork() == 0: break\nwhile True: pass",
            "wall",
            id="spinning children",
        ),
        pytest.param("os.kill(os.getpid(), signal.SIGSTOP)", "wall", id="stops itself"),
        pytest.param("time.sleep(600)", "wall", id="sleeps"),
        pytest.param("os.closerange(0, 3); time.sleep(600)", "wall", id="closes its streams"),
        pytest.param(
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.kill(0, signal.SIGTERM)",
            "exited",
            id="signals its group",
        ),
        pytest.param("os.kill(0, signal.SIGKILL)\ntime.sleep(600)", "signalled", id="kills it"),
        pytest.param("os.kill(-1, signal.SIGKILL)", "exited", id="kills everyone"),
        pytest.param(
            "try: os.kill(1, signal.SIGKILL)\nexcept OSError: pass", "exited", id="kills the first"
        ),
        pytest.param("ctypes.string_at(0)", "signalled", id="segmentation fault"),
        pytest.param("os._exit(137)", "signalled", id="status of a kill"),
        pytest.param("os._exit(0)", "exited", id="ends with 0"),
    ],
)
def test_however_a_job_ends_nothing_of_it_is_left(code: str, outcome: str) -> None:
    found = run(code, limits=Limits(wall_s=1 if outcome == "wall" else 300, processes=20))
    assert found.outcome == outcome, found
    assert found.result == b""


def test_a_child_that_holds_the_output_open_is_not_waited_for() -> None:
    code = "os.write(3, b'whole'); print('said', flush=True)\nif os.fork() == 0: time.sleep(600)"
    found = run(code, limits=Limits(wall_s=300, processes=20))
    assert (found.outcome, found.exit) == ("exited", 0)
    assert (found.result, found.stdout) == (b"whole", b"said\n")


def test_a_fork_bomb_and_a_thread_bomb_end_at_their_limit() -> None:
    code = (
        "made = 0\nwhile made < 200:\n    try: child = os.fork()\n    except OSError: break\n"
        "    if child == 0: time.sleep(600)\n    made += 1\nprint(made)"
    )
    limits = Limits(wall_s=300, processes=20)
    assert 10 <= int(said(code, limits=limits)) <= 20
    code = (
        "made = 0\nwhile made < 200:\n    try: threading.Thread(target=time.sleep, args=(600,),"
        " daemon=True).start()\n    except RuntimeError: break\n    made += 1\n"
        "print(made, flush=True)\nos._exit(0)"
    )
    assert 10 <= int(said(code, limits=limits)) <= 20
    assert subprocess.run(["/bin/true"], check=False).returncode == 0


def test_a_busy_loop_that_ignores_the_warning_is_killed_a_second_later() -> None:
    code = "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    found = run(code, limits=Limits(wall_s=300, cpu_s=1))
    assert found.outcome == "cpu"
    assert 0.9 <= found.cpu_s <= 20


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            "held = [bytearray(16 << 20) for _ in range(24)]\n"
            "for one in held: one[::4096] = b'x' * len(one[::4096])\ntime.sleep(600)",
            id="many blocks",
        ),
        pytest.param(
            "for _ in range(3): os.fork()\nheld = bytearray(40 << 20)\n"
            "held[::4096] = b'x' * len(held[::4096])\ntime.sleep(600)",
            id="several processes",
        ),
        pytest.param(
            "held = [os.memfd_create('x') for _ in range(8)]\n"
            "for one in held * 40: os.write(one, bytes(1 << 20))\ntime.sleep(600)",
            id="files in memory",
        ),
        pytest.param(
            "libc.shmat.restype = ctypes.c_void_p\nfor _ in range(8):\n"
            "    number = libc.shmget(0, 40 << 20, 0o1600)\n"
            "    if number == -1: raise PermissionError\n"
            "    ctypes.memset(libc.shmat(number, None, 0), 1, 40 << 20)\ntime.sleep(600)",
            id="shared memory",
        ),
    ],
)
def test_memory_in_any_form_ends_the_job_and_the_peak_is_known(code: str) -> None:
    found = run(code, limits=Limits(wall_s=300, memory_mb=150))
    if "watchdog" in found.layers and ("memfd" in code or "shmget" in code):
        assert found.outcome == "exited"
        assert b"PermissionError" in found.stderr
        return
    assert found.outcome == "memory", found
    assert found.peak_mb >= 100
    if "watchdog" not in found.layers:
        assert found.peak_mb <= 151


def test_memory_in_pipes_is_bounded_by_their_number() -> None:
    code = (
        "import fcntl\nheld = 0\ntry:\n    while True:\n        _, end = os.pipe()\n"
        "        os.set_blocking(end, False)\n"
        "        tried(fcntl.fcntl, end, 1031, 1 << 20)\n"
        "        try:\n            while True: held += os.write(end, bytes(1 << 16))\n"
        "        except BlockingIOError: pass\n"
        "except OSError as error: print(errno.errorcode[error.errno], held < 64 << 20)"
    )
    assert said(code) == "EMFILE True"


def test_one_job_over_its_memory_ends_alone(tmp_path: Path) -> None:
    (go := tmp_path / "go").write_text("")
    patient = "held = b'x' * (90 << 20)\nwhile not open(sys.argv[1]).read(): time.sleep(0.01)"
    results: list[ExecResult] = []
    limits = Limits(wall_s=300, memory_mb=150)

    def beside() -> None:
        results.append(run(patient, str(go), limits=limits, readable=(str(go),)))

    thread = threading.Thread(target=beside)
    thread.start()
    while not with_word(str(go)):
        os.sched_yield()
    greedy = "held = b'x' * (300 << 20)\ntime.sleep(600)"
    assert run(greedy, limits=limits).outcome == "memory"
    go.write_text("on")
    thread.join()
    assert (results[0].outcome, results[0].exit) == ("exited", 0)


# --------------------------------------------------------------------------- output and files


@pytest.mark.parametrize("descriptor", [1, 2, 3])
def test_a_flood_is_cut_and_ended(descriptor: int) -> None:
    code = f"data = bytes(1 << 20)\nwhile True: os.write({descriptor}, data)"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = run(code, limits=Limits(wall_s=300, output_bytes=1 << 16))
    assert found.outcome == "output"
    assert (len(found.stdout) <= 1 << 16, len(found.stderr) <= 1 << 16) == (True, True)
    assert found.result == b""
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def test_every_place_to_write_is_read_only_or_of_limited_size() -> None:
    code = (
        "def fill(path):\n    with open(path + '/daydream-fill', 'wb', buffering=0) as file:\n"
        "        for _ in range(100): file.write(bytes(1 << 20))\n"
        "places = '/work', '/tmp', '/dev/shm', '/', '/dev', '/etc', '/usr'\n"
        "print([tried(fill, place) for place in places])"
    )
    answers = said(code)
    assert answers == str(["ENOSPC"] * 3 + ["EROFS"] * 4)
    assert not any(Path(place, "daydream-fill").exists() for place in ("/tmp", "/dev/shm", "/"))


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_empty_files_end_with_the_job(count: int) -> None:
    code = f"for n in range({count}): os.close(os.open(f'{{n}}', os.O_CREAT))"
    found = run(code, limits=Limits(wall_s=300, memory_mb=400), collect=("1",))
    assert (found.outcome, found.files) == ("exited", {"1": b""})


def test_descriptors_end_at_their_limit() -> None:
    assert said("print(tried(lambda: [os.dup(1) for _ in range(5000)]))") == "EMFILE"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(
            "os.symlink('/etc/passwd', 'r')",
            "Too many levels of symbolic links",
            id="link to a file",
        ),
        pytest.param(
            "os.symlink('/proc/1/root/etc/passwd', 'r')", "Too many levels", id="link through proc"
        ),
        pytest.param(
            "open('real', 'w').write('x'); os.symlink('real', 'r')",
            "Too many levels",
            id="link beside",
        ),
        pytest.param("os.mkfifo('r')", "no regular file", id="pipe"),
        pytest.param("os.mkdir('r')", "no regular file", id="folder"),
        pytest.param("socket.socket(socket.AF_UNIX).bind('r')", "cannot be opened", id="socket"),
        pytest.param(
            "open('real', 'w').write('x'); os.link('real', 'r')", "2 names", id="hard link"
        ),
        pytest.param("open('r', 'wb').truncate(FILE + 1)", "expected at most", id="too large"),
        pytest.param(
            "os.mkdir('d'); os.chdir('d'); open('r', 'w')", "No such file", id="elsewhere"
        ),
        pytest.param("pass", "No such file", id="nothing"),
    ],
)
def test_a_result_that_is_no_plain_file_is_refused_without_blocking(code: str, reason: str) -> None:
    found = run(code.replace("FILE", str(FILE_BYTES)), collect=("r",))
    assert (found.outcome, found.exit, found.files) == ("exited", 0, {})
    assert reason in found.not_taken["r"]


@pytest.mark.parametrize("name", ["../x", "/etc/hostname", "a/../../x", "", "a//b", "./r"])
def test_a_path_that_leaves_the_folder_is_refused(name: str) -> None:
    found = run("open('r', 'w').write('good')", collect=(name, "r"))
    assert found.files == {"r": b"good"}
    assert "plain path" in found.not_taken[name]


def test_odd_names_depth_and_huge_sparse_files_do_no_harm() -> None:
    code = (
        "print(tried(os.truncate, os.open('sparse', os.O_CREAT | os.O_RDWR), 1 << 40))\n"
        "os.mkdir('x' * 255); open(b'\\xff\\xfe', 'w').close()\n"
        "for _ in range(3000): os.mkdir('d'); os.chdir('d')\n"
        "os.chdir('/work'); open('r', 'w').write('good')"
    ).replace("print", "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nprint")
    found = run(code, collect=("r",))
    assert (found.stdout, found.files) == (b"EFBIG\n", {"r": b"good"})


def test_device_files_cannot_be_made() -> None:
    assert said("print(tried(os.mknod, 'd', stat.S_IFCHR | 0o600, 0x0101))") == "EPERM"
