"""What an evaluator's answer is worth: every form, and every way to be no score."""

import json
import math
import signal
from typing import Any

import msgspec
import pytest

from daydream.sandbox.base import ExecResult, Limits
from daydream.tasks.base import Evaluation
from daydream.tasks.folder_settings import FolderSettings
from daydream.tasks.verdict import Reading, judge, read_answer
from daydream.tree import Status

PLACE = "/tmp/daydream-abc"
READING = Reading(FolderSettings(), Limits(wall_s=7, memory_mb=64, processes=9), PLACE, "n0nce")
ENDED = ExecResult("exited", 0, b"", b"", 1.0, 1.0, 10.0, ("process",))


def read(answer: dict[str, Any], **settings: Any) -> Evaluation:
    reading = msgspec.structs.replace(READING, settings=FolderSettings(**settings))
    return read_answer(answer, reading)


def answered(body: object, *, nonce: str = "n0nce", **changes: Any) -> Evaluation:
    data = f"{nonce}{json.dumps(body)}{nonce}".encode()
    return judge(msgspec.structs.replace(ENDED, result=data, **changes), READING)


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ({"combined_score": 0.25}, 0.25),
        ({"score": -3}, -3.0),
        ({"combined_score": 1, "score": 9}, 1.0),
        ({"combined_score": 0.0}, 0.0),
        ({"combined_score": 0.5, "valid": True, "correct": True, "error": None}, 0.5),
        ({"combined_score": 0.5, "error": ""}, 0.5),
        ({"combined_score": 0.5, "error": 0.1}, 0.5),
        ({"combined_score": 0.5, "correct": 0}, 0.5),
        ({"combined_score": 0.5, "timeout": False}, 0.5),
    ],
)
def test_one_finite_number_is_the_score(answer: dict[str, Any], score: float) -> None:
    found = read(answer)
    assert (found.status, found.score, found.error_class) == (Status.OK, score, None)
    assert found.diagnostics["measure"] == score


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (math.nan, "nan_score"),
        (math.inf, "infinite_score"),
        (-math.inf, "infinite_score"),
        (True, "bool_score"),
        (False, "bool_score"),
        ("0.9", "text_score"),
        ("", "text_score"),
        (None, "no_score"),
        ([0.9], "no_score"),
        ({"value": 0.9}, "no_score"),
    ],
)
def test_whatever_is_no_finite_number_fails(value: object, kind: str) -> None:
    found = read({"combined_score": value, "score": 1.0})
    assert (found.status, found.score, found.error_class) == (Status.ERROR, 0.0, kind)
    assert "combined_score is" in found.message


def test_a_missing_score_names_the_keys_that_are_there() -> None:
    found = read({"accuracy": 0.9, "speed": 3})
    assert found.error_class == "no_score"
    assert "accuracy, speed" in found.message
    assert read({"accuracy": 0.9, "speed": 3}, score="speed").score == 3.0


@pytest.mark.parametrize(
    ("answer", "kind", "status"),
    [
        ({"combined_score": 1.0, "valid": False}, "not_valid", Status.INVALID),
        ({"combined_score": 1.0, "valid": 0}, "not_valid", Status.INVALID),
        ({"combined_score": 1.0, "correct": False}, "not_correct", Status.INVALID),
        ({"combined_score": 0.0, "error": "overlap"}, "error", Status.INVALID),
        ({"combined_score": 0.0, "error": True}, "error", Status.INVALID),
        ({"combined_score": 0.5, "timeout": True}, "timeout", Status.TIMEOUT),
        ({"valid": False, "combined_score": math.nan}, "not_valid", Status.INVALID),
    ],
)
def test_a_verdict_of_no_is_kept_with_its_reason(
    answer: dict[str, Any], kind: str, status: Status
) -> None:
    found = read(answer)
    assert (found.status, found.error_class, found.score) == (status, kind, 0.0)
    assert found.message
    if answer.get("error") == "overlap":
        assert found.message == "overlap"


def test_lower_is_better_negates_once_and_keeps_the_users_number() -> None:
    found = read({"combined_score": 3.5}, direction="min")
    assert (found.score, found.diagnostics["measure"]) == (-3.5, 3.5)
    zero = read({"combined_score": 0}, direction="min").score
    assert math.copysign(1.0, zero) == 1.0


def test_numbers_are_metrics_and_private_ones_are_kept_nowhere() -> None:
    found = read(
        {
            "combined_score": 1.0,
            "speed": 2,
            "error": 0.5,
            "fast": True,
            "public": {"width": 3.5, "note": "wide"},
            "private": {"secret": 7},
            "extra_data": [1],
        }
    )
    assert found.diagnostics["metrics"] == {"speed": 2, "error": 0.5, "width": 3.5}
    assert found.diagnostics["details"] == {"fast": True, "note": "wide"}
    assert "secret" not in str(found)


def test_texts_become_feedback_without_control_characters_and_places() -> None:
    found = read(
        {
            "combined_score": 1.0,
            "text_feedback": "\x1b[31mred\x1b[0m\x00 \u202eab",
            "feedback": f"see {PLACE}/program/a.py",
            "artifacts": {"stderr": "warning", "profile": {"f": 1}, "private": "no"},
        }
    )
    assert found.feedback == (
        'red ab\n\nsee program/a.py\n\nstderr:\nwarning\n\nprofile:\n{"f": 1}'
    )


@pytest.mark.parametrize(
    ("changes", "kind", "status", "said"),
    [
        ({"outcome": "wall"}, "timeout", Status.TIMEOUT, "over 7 s"),
        ({"outcome": "cpu"}, "cpu", Status.TIMEOUT, "CPU time"),
        ({"outcome": "memory"}, "memory", Status.TIMEOUT, "64 MiB"),
        ({"outcome": "processes"}, "processes", Status.ERROR, "9 processes"),
        ({"outcome": "output"}, "output", Status.ERROR, "without end"),
        ({"outcome": "signalled", "signal": signal.SIGSEGV}, "crash", Status.ERROR, "SIGSEGV"),
        ({"exit": 3}, "crash", Status.ERROR, "status 3"),
        ({"exit": 0}, "no_result", Status.ERROR, "before it gave a score"),
    ],
)
def test_every_end_without_an_answer_has_its_status_and_reason(
    changes: dict[str, Any], kind: str, status: Status, said: str
) -> None:
    found = judge(msgspec.structs.replace(ENDED, stderr=b"last words", **changes), READING)
    assert (found.status, found.error_class, found.score) == (status, kind, 0.0)
    assert said in found.message
    assert "last words" in found.message


def test_an_answer_in_its_frame_is_read() -> None:
    assert answered({"ok": True, "answer": {"score": 2.0}}).score == 2.0


@pytest.mark.parametrize(
    "data",
    [
        b'{"ok": true, "answer": {"score": 2.0}}',
        b'n0nce{"ok": true, "answer": {"score": 2.0}}',
        b'n0nce{"ok": true, "answer": {"score": 2.0}}n0ncejunk',
        b'wrong{"ok": true, "answer": {"score": 2.0}}wrong',
        b"n0nce",
        b"n0ncen0nce",
        b"n0nce[1]n0nce",
        b"n0nce" + b"[" * 100_000 + b"n0nce",
        b"n0nce\xff\xfen0nce",
    ],
)
def test_a_frame_that_is_not_whole_is_no_answer(data: bytes) -> None:
    found = judge(msgspec.structs.replace(ENDED, result=data), READING)
    assert found.error_class == "no_result"


@pytest.mark.parametrize("body", [{}, {"ok": 1}, {"ok": True, "answer": 3}, {"ok": True}])
def test_a_forged_answer_of_another_form_is_an_error(body: object) -> None:
    assert answered(body).status is Status.ERROR


def test_an_answer_after_a_crash_does_not_count() -> None:
    body = {"ok": True, "answer": {"score": 2.0}}
    assert answered(body, outcome="signalled", signal=9).error_class == "crash"


def test_an_exception_keeps_its_name_its_words_and_the_end_of_its_trace() -> None:
    found = answered(
        {
            "ok": False,
            "kind": "ValueError",
            "message": "ValueError: bad",
            "traceback": f'File "{PLACE}/program/a.py", line 3\n' + "x" * 5_000 + " the end",
        }
    )
    assert (found.status, found.error_class) == (Status.ERROR, "ValueError")
    assert found.message.startswith("the evaluator raised ValueError: bad")
    assert found.message.endswith("the end")
    assert PLACE not in found.feedback


def test_running_out_of_memory_is_a_limit_that_was_reached() -> None:
    found = answered({"ok": False, "kind": "MemoryError", "message": "x", "traceback": "t"})
    assert (found.status, found.error_class) == (Status.TIMEOUT, "memory")
