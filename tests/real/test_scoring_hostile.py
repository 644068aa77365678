"""Programs that attack their own scoring: each with its outcome, a score of 0, and nothing left.

The whole way of a program task runs: sandbox, channel, exact check. What a case may not reach is
asserted from the outside: no process is left, and files of the host are as they were.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from daydream.tasks.base import Evaluation, Task
from daydream.tasks.load import load_task
from daydream.tree import Status
from tests.contracts.known_programs import EQUAL_TO_ALL, program
from tests.processes import with_variable

TASK = "circle-packing:artifact=program,seconds=60"
GOOD = "[[(1 + 2 * (i % 4)) / 8, (1 + 2 * (i // 4)) / 8, 0.125] for i in range(8)]"
INVALID, ERROR, TIMEOUT = Status.INVALID, Status.ERROR, Status.TIMEOUT
FORGED_FRAME = """
import os, sys
def construct():
    frame = sys._getframe()
    while "nonce" not in frame.f_locals: frame = frame.f_back
    nonce, channel = frame.f_locals["nonce"], frame.f_locals["channel"]
    os.write(channel, nonce + b'%s' + nonce)
    os._exit(0)
"""


@pytest.fixture
def task() -> Task:
    return load_task(TASK)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a folder for workspaces that the sandbox's own user may enter."""
    with tempfile.TemporaryDirectory(prefix="daydream-hostile-") as name:
        Path(name).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


def judged(task: Task, text: str, place: Path) -> Evaluation:
    """Evaluate ``text``; nothing of it may be left, and a file beside it stays as it is."""
    victim = place / "host.txt"
    victim.write_text("as it was")
    victim.chmod(0o666)
    before = Path(__file__).stat().st_mtime_ns
    found = task.evaluate(program(text.replace("HOST", repr(str(victim)))))
    assert with_variable(str(place)) == []
    assert victim.read_text() == "as it was"
    assert Path(__file__).stat().st_mtime_ns == before
    assert sorted(path.name for path in place.iterdir()) == ["host.txt"]
    return found


CASES = {
    # 25: forged results, in every place where somebody once looked for them.
    "prints a score": (
        "def construct():\n    print('RESULT 1e9'); print('{\"combined_score\": 1e9}')\n",
        INVALID, "malformed",
    ),
    "forges a frame with a score": (
        FORGED_FRAME % '{"ok": 1e9, "score": 1e9}', INVALID, "malformed",
    ),
    "forges a frame with two answers": (
        FORGED_FRAME % '{"ok": [], "ok": 1e9}', INVALID, "malformed",
    ),
    "forges a frame with discs that overlap": (
        FORGED_FRAME % ('{"ok": [' + ",".join(["[0.5, 0.5, 0.5]"] * 8) + "]}"),
        INVALID, "overlap",
    ),
    "forges a frame that leaves the list": (
        FORGED_FRAME % '{"ok": []} , "sum": 1e9}', INVALID, "malformed",
    ),
    # 26: patched clocks, comparisons and checks are those of its own process.
    "patches the check": (
        "import math, time, json, builtins\nmath.isfinite = lambda x: True\n"
        "time.perf_counter = lambda: 0.0\nbuiltins.min = lambda *a, **k: 1e9\n"
        "def construct(): return [[0.5, 0.5, 0.5]] * 8\n",
        INVALID, "overlap",
    ),
    "patches the encoder": (
        "import json\njson.dumps = lambda *a, **k: '1e9'\ndef construct(): return []\n",
        INVALID, "malformed",
    ),
    # 27: objects that are more than they look like.
    "objects equal to all": (
        f"{EQUAL_TO_ALL}\ndef construct(): return [[Same(0.5), Same(0.5), Same(9)]] * 8\n",
        INVALID, "not_data",
    ),
    "a list of its own": (
        "class Long(list):\n    def __len__(self): return 8\ndef construct(): return Long()\n",
        INVALID, "not_data",
    ),
    "an integer of its own": (
        "class Nine(int):\n    def __int__(self): return 9\n"
        "def construct(): return [[0.5, 0.5, Nine(0)]] * 8\n",
        INVALID, "not_data",
    ),
    "a lazy array": (
        "import numpy as np\nclass Lazy(np.ndarray):\n    def tolist(self): return [[0.5] * 3]\n"
        "def construct(): return np.zeros((8, 3)).view(Lazy)\n",
        INVALID, "not_data",
    ),
    # 28: numbers that are none.
    "NaN": ("def construct(): return [[0.5, 0.5, float('nan')]] * 8\n", INVALID, "not_data"),
    "NaN in a forged frame": (
        FORGED_FRAME % ('{"ok": [' + ",".join(["[0.5, 0.5, NaN]"] * 8) + "]}"),
        INVALID, "malformed",
    ),
    "infinity by a large literal": (
        FORGED_FRAME % ('{"ok": [' + ",".join(["[0.5, 0.5, 1e999]"] * 8) + "]}"),
        INVALID, "malformed",
    ),
    "truth values": ("def construct(): return [[True, True, True]] * 8\n", INVALID, "number"),
    "an integer of many digits": (
        "def construct(): return [[0.5, 0.5, 10 ** 1_000_000]] * 8\n", ERROR, "ValueError",
    ),
    "an integer of many digits, forged": (
        FORGED_FRAME % ('{"ok": [[0.5, 0.5, ' + "9" * 5_000 + "]]}"), INVALID, "malformed",
    ),
    "complex numbers": ("def construct(): return [[0.5, 0.5, 0.1j]] * 8\n", INVALID, "not_data"),
    "negative zero and minus": (
        "def construct(): return [[0.5, 0.5, -0.0]] * 7 + [[0.5, 0.5, -1e-300]]\n",
        INVALID, "radius",
    ),
    # 29: work after the answer, in threads and in children.
    "answers and works on": (
        "import os, threading, time\ndef construct():\n    threading.Thread(target=time.sleep, "
        "args=(60,)).start()\n    if os.fork() == 0: time.sleep(600)\n    return []\n",
        INVALID, "count",
    ),
    "answers from a child": (
        f"import os\ndef construct():\n    if os.fork() == 0: return {GOOD}\n    os.wait()\n"
        "    return []\n",
        INVALID, "count",
    ),
    # 31: what the judge keeps is out of reach.
    "writes into the judge and the host": (
        "import os, sys\ndef construct():\n    done = []\n    for name in ['/etc/hosts', HOST, "
        "*(getattr(one, '__file__', '') for one in list(sys.modules.values()))]:\n        try:\n"
        "            with open(name, 'a') as file: file.write('# changed')\n"
        "            done.append(name)\n        except (OSError, TypeError): pass\n"
        "    return done\n",
        INVALID, "count",
    ),
    # 32: data that costs the reader more than the writer.
    "a megabyte of brackets": (FORGED_FRAME % ('{"ok": ' + "[" * 900_000), INVALID, "malformed"),
    "an answer without end": (
        "def construct(): return ['x' * 1000] * 5000\n", ERROR, "output",
    ),
    "an archive that unpacks to a gigabyte": (
        "import io, numpy as np\ndef construct():\n    held = io.BytesIO()\n"
        "    np.savez_compressed(held, np.zeros(1 << 24))\n    return held.getvalue()\n",
        INVALID, "not_data",
    ),
    "an array file with a huge header": (
        "def construct(): return b'\\x93NUMPY\\x02\\x00' + b'\\xff' * 4 + b'{' * 4096\n",
        INVALID, "not_data",
    ),
    "a pickle": (
        "import pickle\ndef construct(): return pickle.dumps([1])\n", INVALID, "not_data",
    ),
    # The rest: ends, times and memory.
    "never returns": ("def construct():\n    while True: pass\n", TIMEOUT, "timeout"),
    "sleeps": ("import time\ndef construct(): time.sleep(600)\n", TIMEOUT, "timeout"),
    "takes all memory": (
        "def construct():\n    held = []\n    while True: held.append(b'x' * (64 << 20))\n",
        TIMEOUT, "memory",
    ),
    "ends its process": ("import os\ndef construct(): os._exit(3)\n", ERROR, "crash"),
    "ends with the status of a kill": (
        "import os\ndef construct(): os._exit(137)\n", ERROR, "crash",
    ),
    "ends its process with 0": ("import os\ndef construct(): os._exit(0)\n", ERROR, "no_result"),
    "kills everyone in reach": (
        "import os\ndef construct():\n    try: os.kill(-1, 9)\n    except OSError: pass\n"
        "    os.kill(0, 9)\n",
        ERROR, "crash",
    ),
    "replaces the modules of its host": (
        "import sys, types\nfor name in list(sys.modules):\n"
        "    if name.startswith('daydream') or name in ('json', 'msgspec'):\n"
        "        sys.modules[name] = types.ModuleType(name)\ndef construct(): return 1e9\n",
        INVALID, "malformed",
    ),
    "crashes": ("import ctypes\ndef construct(): ctypes.string_at(0)\n", ERROR, "crash"),
    "raises what cannot be shown": (
        "class Bad(Exception):\n    def __str__(self): raise self\ndef construct(): raise Bad\n",
        ERROR, "Bad",
    ),
    "paints the terminal": (
        "def construct(): raise ValueError('\\x1b[2J\\x1b]0;owned\\x07' + 'x' * 10_000_000)\n",
        ERROR, "ValueError",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_an_attack_on_the_scoring_has_its_outcome_and_scores_nothing(
    case: str, task: Task, place: Path
) -> None:
    text, status, kind = CASES[case]
    if kind == "timeout":  # Nothing else may end by the clock, however busy the machine is.
        task = load_task(TASK.replace("seconds=60", "seconds=2"))
    found = judged(task, text, place)
    assert (found.status, found.error_class, found.score) == (status, kind, 0.0), found
    assert "\x1b" not in found.message + found.feedback
    assert len(found.message) <= 4_000


@pytest.mark.slow
def test_numbers_that_are_equal_are_one_and_what_is_no_integer_is_none(place: Path) -> None:
    task = load_task("sum-diff:artifact=program,seconds=60")
    kinds = {
        "[0, 1, 1]": "duplicate", "[0, 1, True]": "not_integer", "[0, 1, 1.0]": "not_integer",
        "[0, -0.0, 1]": "not_integer",
    }  # fmt: skip
    for value, kind in kinds.items():
        found = judged(task, f"def construct(): return {value}\n", place)
        assert (found.status, found.error_class, found.score) == (INVALID, kind, 0.0), value


def test_an_honest_program_beside_them_scores(task: Task, place: Path) -> None:
    text = f"def construct(): return {GOOD}\n"
    found = judged(task, text, place)
    assert (found.status, found.score) == (Status.OK, 1.0)
