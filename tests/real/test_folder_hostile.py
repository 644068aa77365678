"""Evaluators and candidates that misbehave: each is a failed attempt with its status and reason.

Every case is bounded: seconds, 300 MiB, a handful of processes.
"""

import os
import threading
from pathlib import Path

import pytest

from daydream.tasks.base import Artifact, Evaluation
from daydream.tasks.folder import open_folder
from daydream.testing import task_contracts as contracts
from daydream.testing.task_contracts import Gold, TaskUnderTest
from daydream.tree import Status
from tests.processes import with_variable
from tests.real.problems import HONEST, PROGRAM, problem, scored

ERROR, TIMEOUT, INVALID = Status.ERROR, Status.TIMEOUT, Status.INVALID
SHORT = '[task]\ntimeout = 1\nmemory = "150MB"\n'


def evaluated(body: str, *, settings: str = "[task]\ntimeout = 300\n") -> Evaluation:
    """Evaluate with an evaluator of this body; it may use a few modules and ``program_path``."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    modules = "import ctypes, json, os, signal, sys, threading, time\n"
    return scored(problem(f"{modules}def evaluate(program_path):\n{lines}", settings=settings))


@pytest.mark.parametrize(
    ("body", "status", "kind", "said"),
    [
        ("return float('nan')", ERROR, "nan_score", "combined_score is NaN"),
        ("return float('inf')", ERROR, "infinite_score", "inf"),
        ("return {'combined_score': -1e400}", ERROR, "infinite_score", "-inf"),
        ("return True", ERROR, "bool_score", "truth value True"),
        ("return '0.9'", ERROR, "text_score", "the text '0.9'"),
        ("return {'combined_score': '0.9'}", ERROR, "text_score", "the text '0.9'"),
        ("return {'accuracy': 0.9}", ERROR, "no_score", "found accuracy"),
        ("return {}", ERROR, "no_score", "no key"),
        ("return None", ERROR, "no_score", "returned NoneType"),
        ("return [0.9]", ERROR, "no_score", "returned list"),
        ("return 1, 2, 3", ERROR, "no_score", "returned tuple"),
        ("return 10 ** 400", ERROR, "no_score", "1329"),
        ("return 1 + 2j", ERROR, "no_score", "complex"),
        ("raise ValueError('over the top')", ERROR, "ValueError", "over the top"),
        ("return 1 / 0", ERROR, "ZeroDivisionError", "line 3, in evaluate"),
        ("raise SystemExit(0)", ERROR, "SystemExit", "SystemExit"),
        ("raise KeyboardInterrupt", ERROR, "KeyboardInterrupt", "KeyboardInterrupt"),
        ("def f(): f()\nf()", ERROR, "RecursionError", "recursion"),
        ("return {'score': 0.0, 'error': 'not sorted'}", INVALID, "error", "not sorted"),
        ("return {'score': 1.0, 'valid': False}", INVALID, "not_valid", "not valid"),
        ("os._exit(0)", ERROR, "no_result", "before it gave a score"),
        ("os._exit(37)", ERROR, "crash", "status 37"),
        ("ctypes.string_at(0)", ERROR, "crash", "SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", ERROR, "crash", "SIGKILL"),
        ("os.kill(0, signal.SIGTERM)\ntime.sleep(20)", ERROR, "crash", "SIGTERM"),
        ("while True: print('x' * 1_000_000)", ERROR, "output", "without end"),
    ],
)
def test_each_way_to_give_no_score_has_its_status_and_reason(
    body: str, status: Status, kind: str, said: str
) -> None:
    found = evaluated(body)
    assert (found.status, found.error_class, found.score) == (status, kind, 0.0)
    assert said in found.message


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("while True: pass", "timeout"),
        ("time.sleep(600)", "timeout"),
        ("signal.pause()", "timeout"),
        ("os.kill(os.getpid(), signal.SIGSTOP)", "timeout"),
        (
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsys.stdin.read()\ntime.sleep(600)",
            "timeout",
        ),
        (
            "held = bytearray(250 << 20)\nheld[::4096] = b'x' * len(held[::4096])\ntime.sleep(600)",
            "memory",
        ),
        ("held = bytearray(1 << 44)", "memory"),
    ],
)
def test_each_way_to_take_too_much_ends_at_the_limit(body: str, kind: str) -> None:
    # Only a hang has to wait for its limit; memory runs out at once on an idle machine.
    settings = SHORT if kind == "timeout" else SHORT.replace("= 1", "= 300")
    found = evaluated(body, settings=settings)
    assert (found.status, found.error_class) == (TIMEOUT, kind)


@pytest.mark.parametrize(
    "body",
    [
        "print(json.dumps({'combined_score': 999}))",
        "print('x' * 3_000_000, file=sys.stderr)",
        "sys.stdout.close(); sys.stderr.close()",
        "os.close(0); os.close(1); os.close(2)",
        "sys.stdout = sys.stderr = None",
        "os.write(1, b'\\xff\\xfe\\x00' * 1000)",
        "try: os.write(3, b'forged')\nexcept OSError: pass",
        "for n in range(3, 20):\n    try: os.write(n, b'forged') if os.fstat(n).st_size else 0\n"
        "    except OSError: pass",
        "sys.modules.clear()",
        "import builtins; builtins.open = None",
        "threading.Thread(target=time.sleep, args=(60,)).start()",
        "import atexit; atexit.register(lambda: os._exit(3))",
        "os.chdir('/')",
        "sys.path.clear()",
        "sys.setrecursionlimit(50)",
    ],
)
def test_what_an_evaluator_does_beside_its_answer_changes_nothing(body: str) -> None:
    found = evaluated(f"{body}\nreturn 0.25")
    assert (found.status, found.score) == (Status.OK, 0.25)


def test_a_fork_that_comes_back_gives_no_second_answer() -> None:
    found = evaluated("return 1.0 if os.fork() else 999.0")
    assert (found.status, found.score) == (Status.OK, 1.0)
    found = evaluated("if os.fork() == 0: raise ValueError\ntime.sleep(0.2)\nreturn 1.0")
    assert (found.status, found.score) == (Status.OK, 1.0)


@pytest.mark.parametrize(
    "ending", ["return 1.0", "os._exit(1)", "time.sleep(600)", "ctypes.string_at(0)"]
)
def test_no_process_of_an_evaluation_is_left(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"left-over-{os.getpid()}-{len(ending)}"
    monkeypatch.setenv("MARK", mark)
    body = (
        "import subprocess\n"
        "subprocess.Popen(['/bin/sleep', '600'])\n"
        "subprocess.Popen(['/bin/sleep', '600'], start_new_session=True)\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(600)\n"
        "    os._exit(0)\n" + ending
    )
    # Only a hang has to wait for its limit.
    seconds = 2 if "sleep" in ending or "while" in ending else 300
    settings = f'[task]\ntimeout = {seconds}\nenv = ["MARK"]\n'
    found = evaluated(body, settings=settings)
    assert (found.status is Status.OK) == (ending == "return 1.0")
    assert mark in os.environ["MARK"]
    assert with_variable(mark) == []


def test_the_evaluators_environment_holds_no_key_of_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "NVIDIA_API_KEY", "AWS_SECRET_ACCESS_KEY", "GH_TOKEN"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("WANTED", "yes")
    body = (
        "return {'score': 1.0, 'feedback': '\\n'.join(f'{k}={v}' for k, v in os.environ.items())}"
    )
    told = evaluated(body, settings='[task]\nenv = ["WANTED"]\n').feedback
    assert "secret" not in told
    assert "WANTED=yes" in told
    assert "PYTHONHASHSEED=0" in told
    lines = dict(line.split("=", 1) for line in told.splitlines())
    assert (lines["HOME"], lines["TMPDIR"]) == ("home", "tmp")


def test_a_candidate_that_changes_a_protected_file_fails() -> None:
    evaluator = HONEST.replace("def evaluate", "import expected\ndef evaluate")
    task = problem(
        evaluator,
        {"expected.py": "BEST = 1\n"},
        settings='[task]\nprotected = ["exp*"]\n',
        sandbox="process",
    )
    honest = scored(task)
    assert honest.status is Status.OK
    for target in ("expected.py", "evaluator.py"):
        program = PROGRAM + f"open({target!r}, 'a').write('# changed')\n"
        found = scored(task, program)
        assert (found.status, found.error_class) == (INVALID, "tampered")
        assert target in found.message
        original = Path("task", target).resolve()
        before = original.read_text()
        found = scored(task, PROGRAM + f"open({str(original)!r}, 'a').write('# changed')\n")
        assert (found.status, found.error_class) == (INVALID, "tampered")
        original.write_text(before)
    assert scored(task, PROGRAM + "open('expected.py', 'a').close()\n").status is Status.OK
    replaced = PROGRAM + "import os\nos.remove('expected.py')\nos.mkfifo('expected.py')\n"
    assert scored(task, replaced).error_class == "tampered"
    assert scored(task) == honest


def test_in_bubblewrap_a_candidate_cannot_change_a_file_of_the_evaluator() -> None:
    evaluator = HONEST.replace("def evaluate", "import expected\ndef evaluate")
    task = problem(evaluator, {"expected.py": "BEST = 1\n"}, sandbox="bubblewrap")
    honest = scored(task)
    original = Path("task/expected.py").resolve()
    for target in ("expected.py", "evaluator.py", "../driver/evaluator_driver.py"):
        found = scored(task, PROGRAM + f"open({target!r}, 'a').write('# changed')\n")
        # Another user's file to who was root, a read-only one to its owner.
        assert (found.status, found.score) == (ERROR, 0.0)
        assert found.error_class in {"OSError", "PermissionError"}
        found = scored(task, PROGRAM + f"import os\nos.remove({target!r})\n")
        assert found.status is ERROR
    found = scored(task, PROGRAM + f"open({str(original)!r})\n")
    assert (found.status, found.error_class) == (ERROR, "FileNotFoundError")
    assert original.read_text() == "BEST = 1\n"
    assert scored(task) == honest


def test_what_one_candidate_leaves_behind_no_other_one_finds() -> None:
    evaluator = HONEST.replace(
        "return load",
        "import os, tempfile\n    assert os.listdir(tempfile.gettempdir()) == []\n"
        "    assert not os.path.exists('left'); assert os.listdir(os.environ['HOME']) == []\n"
        "    return load",
    )
    task = problem(evaluator)
    dirty = PROGRAM + (
        "import os, tempfile\n"
        "home, beside = os.environ['HOME'], os.path.dirname(__file__)\n"
        "for place in (os.getcwd(), tempfile.gettempdir(), home, beside):\n"
        "    open(os.path.join(place, 'left'), 'w').close()\n"
    )
    before = sorted(str(path) for path in Path("task").rglob("*"))
    assert scored(task, dirty).status is Status.OK
    assert scored(task, dirty).status is Status.OK
    assert sorted(str(path) for path in Path("task").rglob("*")) == before


def test_files_that_no_folder_can_hold_are_refused() -> None:
    task = problem()
    files = {"initial_program.py": PROGRAM.encode(), "/".join(["x" * 200] * 30): b""}
    assert task.evaluate(Artifact(files)).error_class == "bad_files"


def test_a_candidate_with_hostile_bytes_is_only_a_failed_one() -> None:
    task = problem()
    for data in (b"", b"\x00", b"\xff\xfe", b"def f(", b"x" * 200_000, "é".encode("latin-1")):
        found = task.evaluate(Artifact({"initial_program.py": data}))
        assert found.status is ERROR
        assert found.message.isprintable() or "\n" in found.message


def test_an_exception_that_cannot_be_shown_is_still_an_answer() -> None:
    body = (
        "class Odd(Exception):\n    def __str__(self): raise Odd\n    __repr__ = __str__\nraise Odd"
    )
    found = evaluated(body)
    assert (found.status, found.error_class) == (ERROR, "Odd")


def test_several_threads_evaluate_at_once_without_meeting() -> None:
    task = problem()
    found: dict[int, float] = {}

    def work(number: int) -> None:
        found[number] = scored(task, f"def value(): return {number}.0\n").score

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: float(number) for number in range(4)}


def test_a_candidate_that_forges_an_answer_and_leaves_has_no_score() -> None:
    forger = (
        "import json, os, sys\nprint(json.dumps({'combined_score': 999}), flush=True)\n"
        "for name in ('metrics.json', 'correct.json'):\n"
        "    for place in (sys.argv[-1], os.path.join(os.path.dirname(os.getcwd()), 'results')):\n"
        "        try: open(os.path.join(place, name), 'w').write(\n"
        "            json.dumps({'combined_score': 999, 'correct': True}))\n"
        "        except OSError: pass\nos._exit(0)\n"
    )
    task = problem()
    assert scored(task, forger).error_class == "no_result"
    Path("task/evaluator.py").unlink()
    script = (
        "import runpy, sys\nif __name__ == '__main__':\n    '--results_dir'\n"
        "    runpy.run_path(sys.argv[2])\n"
    )
    Path("task/evaluate.py").write_text(script)
    assert scored(open_folder(Path("task")), forger).error_class == "no_result"


def test_a_candidate_that_patches_the_evaluator_changes_no_other_score() -> None:
    patcher = (
        "import sys\nsys.modules['evaluator'].load = lambda path: None\ndef value(): return 0.1\n"
    )
    task = problem()
    scored(task, patcher)
    assert scored(task).score == 0.5


SUBJECT = TaskUnderTest(
    supply=problem,
    gold=(Gold(Artifact({"initial_program.py": b"def value(): return 2.25\n"}), 2.25),),
    refused=(
        Artifact({"initial_program.py": b"def value(): return 'high'\n"}),
        Artifact({"initial_program.py": b"def value(): return float('nan')\n"}),
        Artifact({"other.py": b"def value(): return 1\n"}),
    ),
)


@pytest.mark.parametrize(
    "check",
    [
        contracts.check_starts_from_an_artifact_that_it_can_judge,
        contracts.check_scores_gold_as_known,
        contracts.check_refuses_near_misses_with_a_reason,
        contracts.check_refuses_garbage_with_a_reason,
        contracts.check_gives_equal_verdicts_on_equal_artifacts,
        contracts.check_leaves_artifacts_alone,
    ],
)
def test_a_folder_keeps_what_every_task_promises(check: contracts.Check) -> None:
    check(SUBJECT)
