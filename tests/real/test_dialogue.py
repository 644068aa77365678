"""A job that is asked and answers: frozen between its turns, believed in its answers alone.

Both sandboxes keep this. What is asserted is what makes times fair: work after an answer, before a
question and in children is either impossible or counted.
"""

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from daydream.sandbox.base import Job, Limits, Sandbox
from daydream.sandbox.boot import python_job, python_places
from daydream.sandbox.bubblewrap import BubblewrapSandbox
from daydream.sandbox.dialogue import Dialogue, Memory, Silent, converse
from daydream.sandbox.process import ProcessSandbox
from tests.processes import with_word

HEAD = """
import mmap, os, sys, threading, time, types
daydream = sys.modules["daydream"] = types.ModuleType("daydream")
daydream.__path__ = [sys.argv[1]]
from daydream.sandbox.answers import Line
def spin(seconds):
    begun = time.process_time()
    while time.process_time() - begun < seconds: pass
line = Line()
for word, content in line.questions():
"""
SANDBOXES: tuple[Sandbox, ...] = (BubblewrapSandbox(), ProcessSandbox())
NUMBERS = itertools.count()
WIDE = Limits(wall_s=200, memory_mb=300, processes=20)


@contextmanager
def talking(
    sandbox: Sandbox, body: str, limits: Limits = WIDE, memory: Memory | None = None
) -> Iterator[Dialogue]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    argv, mark = python_job("none"), f"dialogue-{os.getpid()}-{next(NUMBERS)}"
    job = Job(
        (*argv[:4], HEAD + lines, argv[5], mark),
        "/",
        {"PATH": "/usr/bin:/bin"},
        readable=python_places(),
    )
    try:
        with converse(sandbox, job, limits, memory) as dialogue:
            yield dialogue
    finally:
        assert with_word(mark) == [], "processes are left"


bubblewrap_first = pytest.mark.parametrize(
    "sandbox",
    [SANDBOXES[0], pytest.param(SANDBOXES[1], marks=pytest.mark.slow)],
    ids=["bubblewrap", "process"],
)
both = pytest.mark.parametrize("sandbox", SANDBOXES, ids=["bubblewrap", "process"])


@both
def test_answers_come_back_and_memory_is_shared(sandbox: Sandbox) -> None:
    body = (
        "shared = mmap.mmap(40, 4096)\n"
        "shared[4:8] = shared[0:4][::-1]\n"
        "print('seen'); sys.stdout.flush()\n"
        "line.answer(word, content.upper())"
    )
    with Memory(4096) as memory, talking(sandbox, body, memory=memory) as job:
        memory.write(0, b"abcd")
        assert job.ask(b"x" * 200_000, wall_s=100) == b"X" * 200_000
        assert memory.read(4, 4) == b"dcba"
        assert job.printed() == b"seen\n"
        assert job.layers == sandbox.layers


@both
def test_the_time_of_an_answer_holds_threads_and_children(sandbox: Sandbox) -> None:
    for how in (
        "spin(0.2)",
        "t = threading.Thread(target=spin, args=(0.2,)); t.start(); t.join()",
        "child = os.fork()\n"
        "if child == 0: spin(0.2); os.kill(os.getpid(), 19)\n"
        "os.waitpid(child, 2)",
    ):
        with talking(sandbox, f"{how}\nline.answer(word, b'done')") as job:
            _, cpu_s, wall_s = job.timed(b"go", wall_s=100)
        # Above, noise alone: nothing that is not in the answer is near ten times of it.
        assert 0.19 <= cpu_s <= 2, how
        assert wall_s >= 0.1


def _threads(job: Dialogue) -> set[str]:
    """Return the states that the threads of ``job`` are in."""
    stats = [
        path.read_text(encoding="utf-8", errors="replace")
        for pid in job._place.members()
        for path in Path(f"/proc/{pid}/task").glob("*/stat")
    ]
    return {text.rpartition(") ")[2][0] for text in stats}


@both
def test_a_job_that_is_not_at_its_turn_does_nothing(sandbox: Sandbox) -> None:
    body = (
        "if content == b'go': threading.Thread(target=spin, args=(60,), daemon=True).start()\n"
        "line.answer(word, b'done')"
    )
    with talking(sandbox, body) as job:
        job.timed(b"go", wall_s=100)
        # A thread that was not running just then stops when its turn comes.
        while _threads(job) != {"T"}:
            os.sched_yield()
        before = job._place.cpu_s()
        own = time.process_time()
        while time.process_time() - own < 0.2:
            assert _threads(job) == {"T"}
        assert job._place.cpu_s() - before < 0.05
        job.thaw()
        # Without the stop the thread would have slowed down whoever was timed meanwhile.
        while job._place.cpu_s() - before < 0.5:
            assert _threads(job) <= set("RSDT")


@bubblewrap_first
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("line.answer(b'0' * 16, b'forged')", "word"),
        ("line.answer(word, b'one'); line.answer(word, b'two'); time.sleep(600)", "word"),
        ("os.write(line._outlet, b'\\xff' * 4 + word); time.sleep(600)", "size"),
        ("os.write(line._outlet, b'\\1'); os._exit(0)", "ended"),
        ("os._exit(0)", "ended"),
        ("os.close(line._outlet); time.sleep(600)", "ended"),
        ("time.sleep(600)", "timeout"),
        ("os.kill(os.getpid(), 19)", "timeout"),
        ("while True: sys.stdout.write('x' * 100_000)", "output"),
        ("held = [bytearray(b'x' * (40 << 20)) for _ in range(40)]; time.sleep(600)", "memory"),
    ],
)
def test_what_is_no_answer_has_its_kind_and_nothing_is_left(
    sandbox: Sandbox, body: str, kind: str
) -> None:
    patience = 1.0 if kind == "timeout" else 150.0

    def asked(job: Dialogue) -> None:
        # A second answer of before shows at the next question at the latest.
        for question in (b"first", b"second"):
            job.ask(question, wall_s=patience)

    with talking(sandbox, body) as job, pytest.raises(Silent) as raised:
        asked(job)
    assert raised.value.kind == kind


@both
def test_the_end_of_a_dialogue_ends_every_process(sandbox: Sandbox) -> None:
    body = (
        "for _ in range(3):\n    if os.fork() == 0: os.setsid(); time.sleep(60)\n"
        "line.answer(word, b'done')"
    )
    with talking(sandbox, body) as job:
        job.ask(b"go", wall_s=100)
        members = job._place.members()
        assert len(members) >= 4
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in members)


def test_two_dialogues_take_turns() -> None:
    with ExitStack() as stack:
        jobs = [
            stack.enter_context(talking(one, "spin(0.02)\nline.answer(word, content)"))
            for one in SANDBOXES
        ]
        times = [[job.timed(b"go", wall_s=100)[1] for job in jobs] for _ in range(3)]
    for one in zip(*times, strict=True):
        assert 0.019 <= min(one) <= 0.2
