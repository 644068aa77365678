"""formula: exact verdicts, disjoint splits, answers as models give them."""

import random

import pytest

from daydream.errors import TaskError
from daydream.tasks.asked import AskedTask, ShownTask
from daydream.tasks.base import json_artifact
from daydream.tasks.formula import (
    LANGUAGES,
    SHOWN,
    SPLITS,
    Apply,
    Formula,
    infix,
    inline,
    run_stack,
    templates,
)
from daydream.tasks.load import load_task
from daydream.weights.questions import Questioner


def _value(text: str, at: dict[str, int]) -> int:
    """Work a formula out by Python itself, which shares nothing with the task."""
    found: int = eval(text, {}, dict(at))  # our own formula
    return found


def _machine(program: str, at: dict[str, int]) -> int:
    stack: list[int] = []
    for one in program:
        if one in "+-*":
            b, a = stack.pop(), stack.pop()
            stack.append({"+": a + b, "-": a - b, "*": a * b}[one])
        else:
            stack.append(at[one] if one in at else int(one))
    [value] = stack
    return value


@pytest.mark.parametrize("split", SPLITS)
def test_worked_answers_compute_their_formula_in_both_languages(split: str) -> None:
    rng = random.Random(1)
    for instance in range(60):
        at = {name: rng.randint(-50, 50) for name in "uvwxyz"}
        stack, python = (Formula(split, instance, language) for language in LANGUAGES)
        wanted = _value(infix(stack.expression), at)
        assert _machine(stack.solution(), at) == wanted
        assert _value(python.solution(), at) == wanted
        for task in (stack, python):
            assert task.evaluate(task.read_answer(task.solution())).score == task.target


def test_a_program_is_right_exactly_when_its_values_are() -> None:
    rng = random.Random(2)
    right = 0
    for instance in range(300):
        task = Formula("train", instance % 20, "stack")
        letters = list(task.solution())
        places = rng.sample(range(len(letters)), 2)
        letters[places[0]], letters[places[1]] = letters[places[1]], letters[places[0]]
        verdict = task.evaluate(json_artifact({"program": "".join(letters)}))
        if verdict.error_class is not None:
            continue
        points = [{name: rng.randint(-999, 999) for name in "uvwxyz"} for _ in range(8)]
        same = all(
            _machine("".join(letters), at) == _value(infix(task.expression), at) for at in points
        )
        assert (verdict.score == 1.0) is same
        right += same
    assert 0 < right < 300


def test_no_template_is_in_two_splits_and_no_problem_of_one_is_a_copy_of_another() -> None:
    kinds = {split: set(templates(split)) for split in SPLITS}
    assert sum(map(len, kinds.values())) == len(set.union(*kinds.values())) == 153
    keys = {
        split: {key for i in range(300) for key in Formula(split, i, "stack").keys}
        for split in SPLITS
    }
    assert not keys["train"] & keys["probe"]
    assert not keys["practice"] & keys["probe"]
    assert not keys["train"] & keys["practice"]


def test_behaviour_tells_what_a_program_computes_not_how() -> None:
    task = Formula("train", 0, "stack")
    same = {task.behaviour(json_artifact({"program": p})) for p in ("yzwx-++", "wx-z+y+")}
    assert len(same) == 1
    assert task.behaviour(json_artifact({"program": "yz+"})) not in same
    assert task.behaviour(json_artifact({"program": "+"})) == ""
    assert run_stack("xx-") == {}


def test_a_chat_answer_gives_its_last_line_that_is_a_program() -> None:
    task = Formula("train", 0, "stack")
    assert isinstance(task, AskedTask)
    answer = "Sure! First w and x.\n```\nyzwx-++\n```\nThat is it."
    assert task.evaluate(task.read_answer(answer)).score == 1.0
    with pytest.raises(ValueError, match="no line that is a program"):
        task.read_answer("I cannot do that.")


def test_a_name_holds_what_is_not_usual_and_builds_the_same_problem_again() -> None:
    name = "formula:instance=7,language=python,split=probe"
    assert load_task(name).info.name == name
    assert load_task("formula:instance=0").info.name == "formula"


def test_inline_words_say_the_formula_and_nothing_else() -> None:
    for instance in range(60):
        task = Formula("practice", instance, "python", "inline")
        said = task.question()
        for word, sign in (("plus", "+"), ("minus", "-"), ("times", "*")):
            said = said.replace(word, sign)
        assert task.evaluate(task.read_answer(said)).score == task.target


def test_inline_words_are_asked_behind_a_worked_example_that_no_gate_asks() -> None:
    name = "formula:instance=3,language=python,split=probe,words=inline"
    task = load_task(name)
    assert task.info.name == name
    assert isinstance(task, ShownTask)
    turns = Questioner(task, "chat").question.prompt
    assert [one.role for one in turns] == ["system", "user", "assistant", "user"]
    assert [one.text for one in turns[1:]] == [*SHOWN, task.question()]
    assert inline(Apply("-", "u", Apply("+", "v", "3"))) == SHOWN[0]
    assert Apply("-", "L", Apply("+", "L", "L")) in templates("train")
    # Bare text has no turns to show it in, and other wordings need none.
    assert len(Questioner(task, "text").question.prompt) == 1
    assert len(Questioner(load_task("formula"), "chat").question.prompt) == 2


def test_words_belong_to_the_language_that_is_asked_in_words() -> None:
    with pytest.raises(TaskError, match="expected language=python"):
        load_task("formula:words=inline")
    with pytest.raises(TaskError, match="expected one of nested, inline"):
        load_task("formula:language=python,words=loud")
