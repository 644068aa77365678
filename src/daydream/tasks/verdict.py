"""From what a user's evaluator answered to an evaluation: the one place that decides what counts.

The answer comes from a process that also ran a candidate, so nothing of it is believed beyond its
form: a score is one finite number and nothing else. Texts are cleaned of control characters and of
the name of the temporary workspace, which differs between evaluations.
"""

import json
import math
import re
import signal
from collections.abc import Mapping
from typing import Final

import msgspec

from daydream.canonical import JsonObject, JsonValue, clean_json
from daydream.sandbox.base import ExecResult, Limits
from daydream.sandbox.frames import between
from daydream.tasks.base import Evaluation, failed, ok
from daydream.tasks.folder_settings import FolderSettings
from daydream.tree import Status

SCORES: Final = ("combined_score", "score")
TEXTS: Final = ("text_feedback", "feedback")
JUDGED: Final = ("valid", "correct")
"""Keys of a verdict: False says no. A number in ``correct`` is a count, and no verdict."""
MARKS: Final = (*JUDGED, "error", "timeout")
HIDDEN: Final = ("private", "extra_data")
"""Keys whose content no proposer may see. It is kept nowhere."""
TAIL: Final = 2_000
"""Characters of a traceback or log in a message."""
_CONTROL: Final = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


class Reading(msgspec.Struct, frozen=True):
    """How to read the answers of one evaluation."""

    settings: FolderSettings
    limits: Limits
    workspace: str
    nonce: str


def judge(result: ExecResult, reading: Reading) -> Evaluation:
    """Return the evaluation that ``result`` amounts to; never raises for what a job did."""
    log = _clean(_tail(result), reading)
    if result.outcome != "exited":
        return _ended(result, reading, log)
    answer = _unframe(result.result, reading.nonce)
    if answer is None:
        what = f"ended with status {result.exit} before it gave a score"
        kind = "crash" if result.exit else "no_result"
        return failed(kind, f"the evaluator {what}{_after(log)}", status=Status.ERROR, feedback=log)
    if answer.get("ok") is not True:
        return _raised(answer, reading, log)
    found = answer.get("answer")
    if not isinstance(found, Mapping):
        return failed("no_score", "the evaluator's answer is no mapping", status=Status.ERROR)
    return read_answer(found, reading)


def _ended(result: ExecResult, reading: Reading, log: str) -> Evaluation:
    limits = reading.limits
    status = Status.TIMEOUT
    kind: str = result.outcome
    if kind == "wall":
        kind = "timeout"
        message = (
            f"the evaluation took over {limits.wall_s:g} s and was killed; [task] timeout sets it"
        )
    elif kind == "cpu":
        message = "the evaluation used more CPU time than its limit and was killed"
    elif kind == "memory":
        message = (
            f"the evaluation used over {limits.memory_mb} MiB of memory and was killed; "
            "[task] memory sets it"
        )
    elif kind == "signalled":
        status, kind = Status.ERROR, "crash"
        message = f"the evaluator was killed by {signal_name(result.signal)}"
    elif kind == "processes":
        status = Status.ERROR
        message = f"the evaluation ran over {limits.processes} processes and was killed"
    else:
        status = Status.ERROR
        message = "the evaluation printed without end and was killed"
    return failed(kind, message + _after(log), status=status, feedback=log)


def _raised(answer: JsonObject, reading: Reading, log: str) -> Evaluation:
    kind = _text(answer.get("kind")) or "error"
    message = _clean(_text(answer.get("message")), reading)
    trace = _clean(_text(answer.get("traceback")), reading)
    if kind == "MemoryError":
        return failed("memory", f"out of memory: {message}", status=Status.TIMEOUT, feedback=trace)
    if not trace:
        return failed(kind, message, status=Status.ERROR, feedback=log)
    return failed(
        kind,
        f"the evaluator raised {message}\n{trace[-TAIL:]}",
        status=Status.ERROR,
        feedback=f"{trace}\n{log}".strip(),
    )


def read_answer(answer: JsonObject, reading: Reading) -> Evaluation:
    """Return the evaluation of an answer in the form of a mapping.

    The score is the number at ``combined_score``, else at ``score``, or at the key that the
    settings name. ``valid`` or ``correct`` of False, ``valid`` of 0, and a text in ``error`` make
    the artifact invalid; ``timeout`` of True makes it a timeout.
    """
    settings = reading.settings
    feedback = _clean(_feedback(answer), reading)
    refusal = _refusal(answer, reading)
    facts = _facts(answer, settings)
    if refusal is not None:
        status, kind, message = refusal
        return failed(kind, message, status=status, feedback=feedback, **facts)
    keys = (settings.score,) if settings.score else SCORES
    key = next((key for key in keys if key in answer), None)
    if key is None:
        found = ", ".join(sorted(answer)[:12]) or "no key"
        return failed(
            "no_score",
            f"the answer has no {' or '.join(keys)} (found {found}); return one, or name the key "
            "as [task] score",
            status=Status.ERROR,
            feedback=feedback,
        )
    value = answer[key]
    problem = _no_number(value)
    if problem or isinstance(value, bool) or not isinstance(value, (int, float)):
        kind, what = problem or ("no_score", f"{value!r}")
        return failed(
            kind,
            f"{key} is {what} (expected one finite number)",
            status=Status.ERROR,
            feedback=feedback,
            **facts,
        )
    measure = float(value)
    score = (-measure if settings.direction == "min" else measure) + 0.0
    return ok(score, feedback=feedback, measure=measure, **facts)


def _no_number(value: JsonValue) -> tuple[str, str] | None:
    """Return why ``value`` is no score, as a word and a description; None for a finite number."""
    if isinstance(value, bool):
        return "bool_score", f"the truth value {value}"
    if isinstance(value, str):
        return "text_score", f"the text {value[:80]!r}"
    if not isinstance(value, (int, float)):
        return "no_score", f"{str(value)[:80]}"
    if math.isfinite(value):
        return None
    return ("nan_score", "NaN") if math.isnan(value) else ("infinite_score", f"{value}")


def _refusal(answer: JsonObject, reading: Reading) -> tuple[Status, str, str] | None:
    error = answer.get("error")
    said = _clean(error, reading).strip() if isinstance(error, str) else ""
    if answer.get("timeout") is True:
        return Status.TIMEOUT, "timeout", said or "the evaluator reports a timeout"
    for key in JUDGED:
        said_no = answer.get(key) is False or (key == "valid" and answer.get(key) == 0)
        if said_no:
            return Status.INVALID, f"not_{key}", said or f"the evaluator says: not {key}"
    if said or error is True:
        return Status.INVALID, "error", said or "the evaluator reports an error"
    return None


def _facts(answer: JsonObject, settings: FolderSettings) -> dict[str, JsonValue]:
    """Return the numbers of ``answer`` as ``metrics`` and its other data as ``details``."""
    known = {*SCORES, *TEXTS, *HIDDEN, "artifacts", "public", settings.score}
    public = answer.get("public")
    shown = {
        key: value
        for key, value in answer.items()
        if key not in known and not (key in MARKS and _no_number(value) is not None)
    }
    shown.update(public if isinstance(public, Mapping) else {})
    metrics = {key: value for key, value in shown.items() if _no_number(value) is None}
    details = {key: value for key, value in shown.items() if key not in metrics}
    facts: dict[str, JsonValue] = {}
    if metrics:
        facts["metrics"] = clean_json(metrics)
    if details:
        facts["details"] = clean_json(details, text_limit=1_000, items=50)
    return facts


def _feedback(answer: JsonObject) -> str:
    """Return the texts for the next proposer, each under its name."""
    parts = [text for key in TEXTS if (text := _text(answer.get(key)))]
    artifacts = answer.get("artifacts")
    if isinstance(artifacts, Mapping):
        for key, value in artifacts.items():
            if key not in HIDDEN:
                text = value if isinstance(value, str) else json.dumps(value)
                parts.append(f"{key}:\n{text}")
    return "\n\n".join(parts)


def _unframe(data: bytes, nonce: str) -> JsonObject | None:
    """Return the object between the two nonces; None when the frame is not whole."""
    inner = between(nonce, data)
    if inner is None:
        return None
    try:
        found = json.loads(inner)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _tail(result: ExecResult) -> str:
    return (result.stderr or result.stdout)[-2 * TAIL :].decode("utf-8", "replace")


def _after(log: str) -> str:
    return f"; it printed last:\n{log[-TAIL:]}" if log else ""


def signal_name(number: int | None) -> str:
    """Return the name of a signal, such as ``SIGSEGV``, or its number in words."""
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"


def _clean(text: str, reading: Reading) -> str:
    """Return ``text`` without control characters and without the path of the workspace."""
    text = text.replace(f"{reading.workspace}/", "").replace(reading.workspace, ".")
    return _CONTROL.sub("", text).strip()
