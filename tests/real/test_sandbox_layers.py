"""Two more layers of the bubblewrap sandbox, taken away: what each of them kept from happening."""

import os
import signal
import uuid

import pytest

from daydream.errors import SandboxError
from daydream.sandbox import cell
from daydream.sandbox.base import Limits
from daydream.sandbox.bubblewrap import BubblewrapSandbox
from tests.processes import with_word
from tests.real.test_sandbox_hostile import SMALL, run, said

FILL = (
    "def fill(path):\n"
    "    for number in range(6):\n"
    "        with open(f'{path}/{number}', 'wb', 0) as file:\n"
    "            for _ in range(4): file.write(bytes(1 << 20))\n"
    "print([tried(fill, path) for path in ('/work', '/tmp')])\n"
)


class Unsized(BubblewrapSandbox):
    """Gives its file systems in memory no size."""

    def _view(self, *arguments: object, **_: object) -> list[str]:
        words = super()._view(*arguments)  # type: ignore[arg-type]
        sizes = {at + step for at, word in enumerate(words) if word == "--size" for step in (0, 1)}
        return [word for at, word in enumerate(words) if at not in sizes]


def test_without_sizes_a_job_fills_memory_with_files() -> None:
    assert said(FILL) == "['ENOSPC', 'ENOSPC']"
    assert said(FILL, Unsized(SMALL)) == "['done', 'done']"


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
        assert len(with_word(mark)) >= 8
    finally:
        for pid in with_word(mark):
            os.kill(pid, signal.SIGKILL)
