"""A sandbox that fails is nobody's result: tried again, then the run stops; no score is kept."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daydream.errors import EnvironmentMissing, SandboxError, Stopped
from daydream.sandbox import host
from daydream.sandbox.faults import TRIES, patiently
from daydream.sandbox.workers import WorkerFailed
from daydream.tasks.load import load_task
from daydream.weights.questions import Questioner
from tests.real.commands import call, history
from tests.real.test_folder_runs import folder, nodes_of

BREAKS = """#!/bin/sh
[ "$1" = --args ] || exec {real} "$@"
n=$(cat {count}); echo $((n + 1)) >{count}
for broken in {broken}; do
    [ "$n" -lt "$broken" ] || [ "$n" -ge $((broken + {times})) ] || {{
        echo "broken on purpose" >&2; exit 1; }}
done
exec {real} "$@"
"""


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Give a function that has bubblewrap fail from its start number ``broken`` on, some times."""
    real = shutil.which("bwrap", path=host.PATH)
    with tempfile.TemporaryDirectory(prefix="daydream-breaking-") as name:
        place = Path(name)
        place.chmod(0o755)
        (count := place / "count").write_text("0")
        count.chmod(0o666)
        program = place / "bwrap"

        def breaks(*broken: int, times: int) -> None:
            count.write_text("0")
            words = " ".join(map(str, broken))
            text = BREAKS.format(real=real, count=count, broken=words or "9999", times=times)
            program.write_text(text)
            program.chmod(0o755)

        breaks(times=0)
        found = host.programs()._replace(bwrap=str(program))
        monkeypatch.setattr(host, "programs", lambda: found)
        yield breaks


@pytest.mark.slow
def test_a_sandbox_that_fails_now_and_then_changes_nothing_of_a_run(
    breaking: Callable[..., None],
) -> None:
    place = str(folder())
    call("run", place, "--out", "whole", "--json", "--workers", "1")
    breaking(0, 4, times=TRIES - 1)
    call("run", place, "--out", "shaken", "--json", "--workers", "1")
    assert history(Path("shaken")) == history(Path("whole"))
    assert {node["status"] for node in nodes_of("shaken")} == {"ok"}


@pytest.mark.parametrize(
    "start",
    [pytest.param(0, id="the root", marks=pytest.mark.slow), pytest.param(3, id="an attempt")],
)
def test_a_sandbox_that_keeps_failing_stops_the_run_and_no_score_is_stored(
    start: int, breaking: Callable[..., None]
) -> None:
    place = str(folder())
    call("run", place, "--out", "whole", "--json", "--workers", "1")
    breaking(start, times=1_000)
    done = call("run", place, "--out", "cut", "--json", "--workers", "1", code=1).json
    assert f"the sandbox failed {TRIES} times in a row" in done["stopped"]
    assert "broken on purpose" in done["stopped"]
    journal = Path("cut/journal.jsonl").read_text()
    assert "SandboxError" not in journal
    assert journal.count('"event":"attempt_finished"') == max(0, start - 1)
    breaking(times=0)
    call("resume", "cut", "--json")
    assert history(Path("cut")) == history(Path("whole"))


def test_an_answer_that_no_sandbox_could_judge_has_no_verdict(
    breaking: Callable[..., None],
) -> None:
    asked = Questioner(load_task("circle-packing:artifact=program,seconds=60"), "chat")
    answer = "```python\ndef construct(): return [[0.5, 0.5, 0.5]]\n```"
    assert asked.judge(answer).evaluation.error_class == "count"
    breaking(0, times=TRIES)
    with pytest.raises(Stopped, match="broken on purpose"):
        asked.judge(answer)
    assert asked.judge(answer).evaluation.error_class == "count"


def test_only_a_fault_of_the_sandbox_itself_is_tried_again() -> None:
    asked: list[Exception] = []

    def failing(error: Exception) -> Callable[[], None]:
        def work() -> None:
            asked.append(error)
            raise error

        return work

    for error, kind, times, code in (
        (SandboxError("gone"), Stopped, TRIES, 1),
        (EnvironmentMissing("no bwrap"), Stopped, 1, 3),
        (WorkerFailed("ValueError", "bad"), WorkerFailed, 1, 1),
        (ValueError("bad"), ValueError, 1, None),
    ):
        asked.clear()
        with pytest.raises(kind) as caught:
            patiently(failing(error))
        assert len(asked) == times
        assert getattr(caught.value, "exit_code", None) == code
