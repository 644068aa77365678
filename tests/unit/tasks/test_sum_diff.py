"""sum-diff counts exactly, refuses what is no set, and knows its identity."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daydream.errors import TaskError
from daydream.tasks.base import Artifact, json_artifact
from daydream.tasks.sum_diff import CONWAY, SumDiff, build, counts, gamma, set_artifact
from daydream.tree import Status

sets = st.sets(st.integers(-60, 60), min_size=2, max_size=20).map(sorted)


def _twin(values: list[int]) -> float:
    sums = {a + b for a in values for b in values}
    differences = {a - b for a in values for b in values}
    return math.log(len(sums) / len(values)) / math.log(len(differences) / len(values))


def _task(text: str = "") -> SumDiff:
    return build(dict(part.split("=") for part in text.split(",") if part))


@given(sets)
def test_the_score_is_that_of_a_count_by_brute_force(values: list[int]) -> None:
    found = _task("cap=64").evaluate(set_artifact(values))
    assert found.status is Status.OK
    assert found.score == pytest.approx(_twin(values), abs=1e-12)


@given(sets, st.integers(-1000, 1000), st.integers(1, 9), st.booleans())
def test_translation_dilation_and_negation_change_no_score(
    values: list[int], shift: int, factor: int, negate: bool
) -> None:
    sign = -1 if negate else 1
    assert gamma([sign * factor * v + shift for v in values]) == gamma(values)


def test_conways_set_has_the_published_value() -> None:
    found = _task().evaluate(set_artifact(CONWAY))
    assert found.score == pytest.approx(1.0344212156259982, abs=1e-12)
    assert (found.diagnostics["size"], found.diagnostics["sums"]) == (8, 26)
    assert found.diagnostics["differences"] == 25


def test_a_wide_set_of_many_elements_is_counted() -> None:
    values = [4 * i + 1 for i in range(450)] + [1_000_000, -1_000_000]
    assert counts(values)[0] == len({a + b for a in values for b in values})


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ({"set": [1]}, "size"),
        ({"set": []}, "size"),
        ({"set": list(range(25))}, "size"),
        ({"set": [0, 1.0]}, "not_integer"),
        ({"set": [0, True]}, "not_integer"),
        ({"set": [0, "1"]}, "not_integer"),
        ({"set": [0, None]}, "not_integer"),
        ({"set": [0, 65]}, "span"),
        ({"set": [0, -(10**400)]}, "span"),
        ({"set": [0, 1, 1]}, "duplicate"),
        ({"set": "0, 1"}, "malformed"),
        ({"value": 9.9}, "malformed"),
        ([0, 1, 3], "malformed"),
    ],
)
def test_what_is_no_set_is_refused_with_its_reason(content: object, error: str) -> None:
    text = json.dumps(content).encode()
    found = _task().evaluate(Artifact({"artifact.json": text}))
    assert (found.status, found.score, found.error_class) == (Status.INVALID, 0.0, error)
    assert found.message


def test_a_claimed_value_changes_nothing() -> None:
    honest = _task().evaluate(set_artifact(CONWAY))
    claimed = _task().evaluate(json_artifact({"set": list(CONWAY), "gamma": 9.0, "score": 9.0}))
    assert claimed.score == honest.score


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "sum-diff"),
        ("cap=24,span=64", "sum-diff"),
        ("cap=512", "sum-diff:cap=512"),
        ("span=1000000,cap=512", "sum-diff:cap=512"),
        ("cap=512,span=900", "sum-diff:cap=512,span=900"),
    ],
)
def test_the_identity_holds_every_choice_that_changes_a_number(text: str, name: str) -> None:
    assert _task(text).info.name == name


def test_other_caps_are_other_evaluators_and_wrong_parameters_are_named() -> None:
    assert _task("cap=512").info.evaluator != _task("cap=511").info.evaluator
    for text, says in (("cap=1", "cap"), ("cap=x", "cap"), ("size=3", "size"), ("span=1", "span")):
        with pytest.raises(TaskError, match=says):
            _task(text)


def test_records_are_those_that_the_cap_allows() -> None:
    assert [record.value for record in _task("cap=8").info.records] == [1.0344212156259982]
    checked = [record.value for record in _task("cap=512").info.records if record.exact]
    assert max(checked) == 1.1448868597133133
