"""Programs of known worth for the tasks of programs: golds, near misses and attacks."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from daydream.tasks.base import ARTIFACT_FILE, Artifact
from daydream.tasks.humaneval import HumanEval, solution
from daydream.tasks.lean import proof
from daydream.tasks.load import load_task
from daydream.testing.task_contracts import Gold
from tests.contracts.known_artifacts import KNOWN, Known

KEYS: Final = {"autocorrelation": "heights", "circle-packing": "circles", "sum-diff": "set"}
EQUAL_TO_ALL: Final = """
class Same(float):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    __hash__ = float.__hash__
"""
FORGERIES: Final[Mapping[str, tuple[str, str]]] = {
    "prints a result and exits": (
        "no_result",
        'import os\nprint(\'RESULT {"score": 1e9, "valid": true}\', flush=True)\nos._exit(0)\n',
    ),
    "prints a result and raises SystemExit": (
        "SystemExit",
        "print('{\"combined_score\": 1e9}')\nraise SystemExit(0)\n",
    ),
    "writes result files": (
        "no_function",
        "import json\nfor name in ('result.json', 'metrics.json', 'correct.json', 'artifact.json'):"
        "\n    with open(name, 'w') as file: json.dump({'score': 1e9, 'correct': True}, file)\n",
    ),
    "rewrites a result at exit": (
        "malformed",
        "import atexit\nhandler = lambda: open('result.json', 'w').write('{\"score\": 1e9}')\n"
        "atexit.register(handler)\ndef construct(): return {'score': 1e9}\n",
    ),
    "returns objects that equal everything": (
        "not_data",
        f"{EQUAL_TO_ALL}\ndef construct(): return [[Same(0.5)] * 3] * 8\n",
    ),
    "writes to the result descriptor": (
        "no_result",
        "import os\nfor fd in range(3, 40):\n    try: os.write(fd, b'{\"ok\": 1e9}' * 9)\n"
        "    except OSError: pass\nos._exit(0)\n",
    ),
}
"""What it does -> the error class, and the program."""


def program(text: str) -> Artifact:
    """Return the artifact with this program."""
    return Artifact({"program.py": text.encode()})


def returning(value: object) -> Artifact:
    """Return a program that returns ``value``."""
    return program(f"import json\ndef construct(): return json.loads({json.dumps(value)!r})\n")


def _programs(task: str) -> Known:
    golds, refused = KNOWN[task]()
    key = KEYS[task]
    made = tuple(Gold(returning(_value(gold.artifact, key)), gold.score) for gold in golds)
    near = tuple(
        returning(value) for artifact in refused[:4] if (value := _value(artifact, key)) is not None
    )
    return made, (*near, *(program(text) for _, text in FORGERIES.values()))


def _value(artifact: Artifact, key: str) -> object:
    value = json.loads(artifact.files[ARTIFACT_FILE])
    return value.get(key) if isinstance(value, dict) else None


def humaneval_artifacts(task: str) -> Known:
    """Return solutions of a HumanEval problem, partial ones, and attacks."""
    problem = load_task(task, "process")
    assert isinstance(problem, HumanEval)
    known = problem.problem
    right = known.prompt + known.canonical_solution
    start = f"def {known.entry_point}(*arguments):\n"
    attacks = (
        "import os\nos._exit(0)\n",
        "raise SystemExit(0)\n",
        "def another(): return 0\n",
        "this is no Python\n",
        f"{EQUAL_TO_ALL}\n{start}    return Same(0)\n",
        f"class All:\n    def __eq__(self, other): return True\n{start}    return All()\n",
        f"import os\n{start}    print('passed', flush=True); os._exit(0)\n",
        f"{start}    raise SystemExit(0)\n",
        f"{start}    return {known.entry_point}()\n",
        f"{start}    return float('nan')\n",
        f"import ctypes\n{start}    ctypes.string_at(0)\n",
        "import builtins, sys\nbuiltins.AssertionError = type('A', (Exception,), {})\n"
        f"sys.modules['check'] = sys\n{start}    return lambda: 0\n",
    )
    return (Gold(solution(right), 1.0),), tuple(map(solution, attacks))


def _humaneval() -> Known:
    golds, refused = humaneval_artifacts("humaneval")
    longest = golds[0].artifact.files["solution.py"].decode()
    later = longest.replace("> best[1]", ">= best[1]")
    assert later != longest
    return (*golds, Gold(solution(later), 5 / 7)), refused


def _lean() -> Known:
    texts = (
        "sorry", "simp", "native_exact", "quiet", "early", "omega\naxiom cheat : False", "",
        "omega #eval 1", "native_decide", "exact sorryAx _",
    )  # fmt: skip
    golds = (Gold(proof("intro a b c\nomega"), 1.0), Gold(proof("classical\nexact x"), 1.0))
    return golds, tuple(map(proof, texts))


KNOWN_PROGRAMS: Final[Mapping[str, Callable[[], Known]]] = {
    "humaneval": _humaneval,
    "lean": _lean,
    **{f"{task}:artifact=program": partial(_programs, task) for task in KEYS},
}
WITH_TORCH: Final = ("kernels",)
"""Tasks whose artifacts are tried in tests/training."""
PLAIN: Final = sorted(name for name in KNOWN_PROGRAMS if ":" not in name)
"""Those that are listed by their plain name."""
