"""Driver of a user's evaluator: runs inside the sandbox, in a process of its own.

It is copied beside the job and started as a script with the user's interpreter, so it imports
nothing of this package and keeps to what Python 3.8 understands. It reads one JSON request from
standard input, calls the evaluator, and writes one framed JSON answer to descriptor 3. What the
evaluator prints goes to standard output and error and cannot reach that descriptor: it is moved to
another number before any foreign code runs, and the frame carries a nonce that only the request
held. Whatever the evaluator raises becomes the answer; this is one of the places that catch
everything on purpose.

Foreign code in this very process could still look for the nonce. Only a sandbox that keeps
evaluator and program apart stops that.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from types import ModuleType
from typing import Dict, TypedDict  # noqa: UP035 - evaluated by Python 3.8

# A rarely needed module is imported where it is: this starts anew for every evaluation.
# ruff: noqa: PLC0415

RESULT_FD = 3
TEXT = 20_000
"""Characters kept of one text."""
ITEMS = 200
"""Items kept of one container."""
DEPTH = 6
STAGES = ("evaluate_stage1", "evaluate_stage2", "evaluate_stage3")

Answer = Dict[str, object]  # noqa: UP006


class Request(TypedDict):
    """What the parent asks for; every path is absolute."""

    nonce: str
    style: str
    """``function`` for ``evaluate(program_path)``, ``script`` for a command with two arguments."""
    folder: str
    """Working directory and first place of imports: a copy of the evaluator's folder."""
    evaluator: str
    program: str
    results: str
    standins: str
    thresholds: list[float] | None
    """Thresholds of a cascade; None calls ``evaluate``."""
    sign: int
    """-1 where lower numbers are better, else 1."""


class Refused(Exception):  # noqa: N818 - a fact about the answer
    """The evaluator answered with something that holds no score."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def plain(value: object, depth: int = DEPTH) -> object:
    """Return ``value`` as JSON data: numbers and texts as they are, all else cut or described."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        fits = abs(value) < 1 << 63
        return int(value) if fits else {"type": "int", "bits": value.bit_length()}
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes):
        return value[:TEXT].decode("utf-8", "replace")
    if isinstance(value, str):
        return value[:TEXT].encode("utf-8", "replace").decode("utf-8")
    if depth == 0:
        return described(value)
    if isinstance(value, dict):
        pairs = list(value.items())[:ITEMS]
        return {str(key)[:200]: plain(item, depth - 1) for key, item in pairs}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, depth - 1) for item in list(value)[:ITEMS]]
    return _scalar(value, depth)


def _scalar(value: object, depth: int) -> object:
    if type(value).__module__ in ("fractions", "decimal"):
        return float(str(value)) if type(value).__name__ == "Decimal" else _ratio(value)
    # Arrays and tensors of one number, whatever library they come from.
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "ndim", None) == 0:
        return plain(item(), depth - 1)
    return described(value)


def _ratio(value: object) -> object:
    top, bottom = getattr(value, "numerator", None), getattr(value, "denominator", None)
    return top / bottom if isinstance(top, int) and isinstance(bottom, int) else described(value)


def described(value: object) -> object:
    """Return the description of a value that JSON cannot hold; no text, which might be meant."""
    kind, _, text = short(value).partition(": ")
    return {"type": kind, "value": text}


def short(value: object) -> str:
    """Return a value in words, for messages."""
    text = str(value)[:500].encode("utf-8", "replace").decode("utf-8")
    return f"{type(value).__name__}: {text}"


def answer_of(value: object) -> Answer:
    """Return the answer of an evaluator, in any of its forms, as one mapping."""
    metrics = getattr(value, "metrics", None)
    if isinstance(metrics, dict):
        artifacts = getattr(value, "artifacts", None)
        return {**metrics, "artifacts": artifacts} if artifacts else dict(metrics)
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, tuple) and len(value) == 2:
        score, extra = value
        info = extra if isinstance(extra, dict) else {"feedback": extra}
        return {**info, "combined_score": score}
    if value is None or isinstance(value, (list, tuple, set)):
        raise Refused(
            "no_score",
            f"the evaluator returned {short(value)} (expected a number, a pair, a dict with "
            "combined_score, or an object with metrics)",
        )
    return {"combined_score": value}


def gate(answer: Answer) -> float | None:
    """Return the number that a cascade compares with its threshold; None where there is none.

    That is ``combined_score``, else ``score``, else the mean of the numbers, ``error`` left out.
    """
    for key in ("combined_score", "score"):
        if key in answer:
            return number(answer[key])
    found = [number(value) for key, value in answer.items() if key not in ("error", "stage")]
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if known else None


def number(value: object) -> float | None:
    """Return ``value`` as a float when it is a number, and no truth value."""
    simple = plain(value)
    return (
        None if isinstance(simple, bool) or not isinstance(simple, (int, float)) else float(simple)
    )


def cascade(module: ModuleType, program: str, thresholds: list[float], sign: int) -> Answer:
    """Run the stages in order, each only if the answer so far reaches the next threshold."""
    merged: Answer = {}
    texts: Answer = {}
    for index, name in enumerate(STAGES):
        stage = getattr(module, name, None)
        if stage is None:
            break
        answer = answer_of(stage(program))
        artifacts = answer.pop("artifacts", None)
        if isinstance(artifacts, dict):
            texts.update(artifacts)
        merged.update(answer, stage=index + 1)
        score = gate(merged)
        if index >= len(thresholds) or score is None:
            break
        if not sign * score >= sign * thresholds[index]:
            break
    return {**merged, "artifacts": texts} if texts else merged


def load(path: str) -> ModuleType:
    """Return the Python file ``path`` as a module under its own name, so that its parts pickle."""
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refused("evaluator", f"{os.path.basename(path)} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def call(request: Request) -> Answer:
    """Return the answer of an evaluator with an ``evaluate`` function, or with stages of one."""
    module = load(request["evaluator"])
    thresholds = request["thresholds"]
    if thresholds is not None and hasattr(module, STAGES[0]):
        return cascade(module, request["program"], thresholds, request["sign"])
    evaluate = getattr(module, "evaluate", None)
    if not callable(evaluate):
        name = os.path.basename(request["evaluator"])
        raise Refused("evaluator", f"{name} has no function evaluate(program_path)")
    return answer_of(evaluate(request["program"]))


def script(request: Request) -> Answer:
    """Return the answer of an evaluator that runs as a script and leaves two files of results."""
    import runpy

    results = request["results"]
    sys.argv = [request["evaluator"], "--program_path", request["program"]]
    sys.argv += ["--results_dir", results]
    try:
        runpy.run_path(request["evaluator"], run_name="__main__")
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
    answer = read(os.path.join(results, "metrics.json"))
    correct = read(os.path.join(results, "correct.json"))
    if answer is None:
        raise Refused("no_score", "the evaluator wrote no metrics.json in its --results_dir")
    if correct is not None:
        answer["correct"] = correct.get("correct")
        if correct.get("error"):
            answer["error"] = correct["error"]
    return answer


def read(path: str) -> Answer | None:
    """Return the JSON object in ``path``; None where there is no such file."""
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        value = json.load(file)
    if not isinstance(value, dict):
        raise Refused("no_score", f"{os.path.basename(path)} holds no JSON object")
    return value


class StandIns:
    """Finds the stand-ins for other tools' packages, when nothing else finds a real one."""

    def __init__(self, path: str) -> None:
        self._path = path

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Return the spec of a stand-in; None for any other module."""
        if name.partition(".")[0] not in ("openevolve", "shinka", "skydiscover"):
            return None
        return load(self._path).find(name)


def run(request: Request) -> Answer:
    """Return the answer to ``request``; whatever the evaluator raises is an answer too."""
    try:
        os.chdir(request["folder"])
        sys.path.insert(0, request["folder"])
        sys.meta_path.append(StandIns(request["standins"]))  # type: ignore[arg-type]
        found = script(request) if request["style"] == "script" else call(request)
        return {"ok": True, "answer": plain(found)}
    except Refused as error:
        return {"ok": False, "kind": error.kind, "message": str(error), "traceback": ""}
    except BaseException as error:  # noqa: BLE001 - the evaluator may raise anything
        return {"ok": False, "kind": type(error).__name__, **_words(error)}


def _words(error: BaseException) -> Answer:
    """Return the words of ``error``, whose own methods may raise as well."""
    try:
        import traceback

        trace = error.__traceback__
        # The frames of this driver and of the import machinery tell the user nothing.
        while trace and trace.tb_next and _ours(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        text = "".join(traceback.format_exception(type(error), error, trace))
        return {"message": plain(short(error)), "traceback": plain(text[-TEXT:])}
    except BaseException as second:  # noqa: BLE001 - foreign __str__
        return {"message": f"an exception that raises {type(second).__name__}", "traceback": ""}


def _ours(path: str) -> bool:
    return path == __file__ or path.startswith("<frozen ")


def main() -> None:
    """Read the request, run it, write the answer, and leave without further foreign code."""
    # The folder of this script: nothing in it is meant to be imported by the evaluator.
    sys.path.pop(0)
    channel = os.dup(RESULT_FD)
    os.close(RESULT_FD)
    request: Request = json.loads(sys.stdin.buffer.read())
    nonce = request["nonce"].encode()
    request["nonce"] = ""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    owner = os.getpid()
    answer = run(request)
    if os.getpid() != owner:
        # A fork of the evaluator came back here; only the first process may answer.
        os._exit(1)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    data = nonce + json.dumps(answer).encode() + nonce
    while data:
        data = data[os.write(channel, data) :]
    os._exit(0)


if __name__ == "__main__":
    main()
