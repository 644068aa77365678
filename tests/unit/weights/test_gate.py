"""What the gate decides: three verdicts, protected strata, one pointer, a history."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from daydream.errors import ModelError, StoreError, UsageError
from daydream.tasks.formula import Formula
from daydream.weights import probes as probe_sets
from daydream.weights.answerers import Answer, Answerer, Contender, Prompt
from daydream.weights.episodes import Form, Sampling
from daydream.weights.gate import Gate
from daydream.weights.probes import freeze, write_probes

NAMES = [f"formula:instance={n},split=probe" for n in range(120)]
TASKS = {task.question(): task for task in (Formula("probe", n, "stack") for n in range(120))}
BASE = Contender("local/base@http://127.0.0.1:9/v1")


class Solver:
    """Solves what it is told to solve: a real answerer without a model."""

    form: Form = "text"
    chunk = 50

    def __init__(self, solves: set[str], *, silent: bool = False) -> None:
        self._solves = solves
        self._silent = silent

    def answer(self, prompts: Sequence[Prompt], sampling: Sampling) -> Iterator[Answer]:
        for prompt in prompts:
            question = prompt.messages[-1].text
            good = question in self._solves
            error = "unreachable" if self._silent else ""
            yield Answer(TASKS[question].solution() if good else "uv+", error=error)

    def close(self) -> None:
        pass


def _short() -> set[str]:
    return {question for question, task in TASKS.items() if task.stratum == "3 leaves"}


def _gate(folder: Path, *, protected: tuple[str, ...] = ()) -> Gate:
    made = freeze(NAMES, BASE, Solver(set()), Sampling(), protected=protected)
    write_probes(folder, made)
    return Gate(folder, now=lambda: 0.0)


def _check(gate: Gate, name: str, skills: dict[str, set[str]]) -> str:
    def answerer(contender: Contender) -> Answerer:
        return Solver(skills[contender.model])

    entry = gate.check(Contender(name), answerer)
    assert entry.verdict is not None
    return f"{entry.verdict.decision}: {entry.verdict.reason}"


def test_better_is_promoted_the_same_is_undecided_and_worse_is_rejected(tmp_path: Path) -> None:
    gate = _gate(tmp_path)
    questions = sorted(TASKS)
    skills = {
        BASE.model: set(questions[:40]),
        "openai/better": set(questions[:60]),
        "openai/same": set(questions[1:61]),
        "openai/worse": set(questions[:30]),
    }
    assert _check(gate, "openai/better", skills).startswith("promoted: better")
    assert _check(gate, "openai/same", skills).startswith("undecided: no clear difference")
    assert _check(gate, "openai/worse", skills).startswith("rejected: worse")
    assert gate.deployed() == Contender("openai/better")
    assert [one.candidate.model for one in gate.history()] == [
        "openai/better",
        "openai/same",
        "openai/worse",
    ]
    with pytest.raises(UsageError, match="is what is deployed already"):
        _check(gate, "openai/better", skills)


def test_a_candidate_that_is_better_in_all_and_worse_in_a_protected_stratum_is_rejected(
    tmp_path: Path,
) -> None:
    short = _short()
    long = sorted(set(TASKS) - short)
    assert len(short) >= 5
    skills = {BASE.model: short, "openai/long": set(long[:60])}
    plain, strict = _gate(tmp_path / "a"), _gate(tmp_path / "b", protected=("3 leaves",))
    assert _check(plain, "openai/long", skills).startswith("promoted")
    assert "rejected: protected stratum '3 leaves' is worse" in _check(
        strict, "openai/long", skills
    )
    assert strict.deployed() == BASE


def test_rollback_goes_back_one_promotion_at_a_time(tmp_path: Path) -> None:
    gate = _gate(tmp_path)
    questions = sorted(TASKS)
    skills = {BASE.model: set(), "openai/a": set(questions[:20]), "openai/b": set(questions[:50])}
    for name in ("openai/a", "openai/b"):
        assert _check(gate, name, skills).startswith("promoted")
    assert gate.rollback().candidate.model == "openai/a"
    assert gate.rollback().candidate == BASE
    with pytest.raises(UsageError, match="nothing to go back to"):
        gate.rollback()
    assert _check(gate, "openai/b", skills).startswith("promoted")
    assert gate.rollback().candidate == BASE


def test_a_missing_answer_changes_nothing(tmp_path: Path) -> None:
    gate = _gate(tmp_path)
    with pytest.raises(ModelError, match="has no answer: unreachable"):
        gate.check(Contender("openai/x"), lambda contender: Solver(set(), silent=True))
    assert gate.history() == []
    assert gate.deployed() == BASE


def test_another_version_of_the_gate_or_of_an_evaluator_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = _gate(tmp_path)
    skills = {BASE.model: set[str](), "openai/x": set(TASKS)}
    monkeypatch.setattr(probe_sets, "EVALUATOR", "gate/2")
    with pytest.raises(StoreError, match="was frozen for gate/1"):
        _check(gate, "openai/x", skills)
    monkeypatch.undo()
    old = msgspec.structs.replace(
        gate.probes(),
        probes=tuple(
            msgspec.structs.replace(one, evaluator="formula/0") for one in gate.probes().probes
        ),
    )
    write_probes(tmp_path / "old", old)
    with pytest.raises(StoreError, match="the evaluator of probe formula"):
        _check(Gate(tmp_path / "old", now=lambda: 0.0), "openai/x", skills)


def test_the_hash_of_a_probe_set_is_pinned_and_sees_every_part(tmp_path: Path) -> None:
    made = freeze(NAMES[:3], BASE, Solver(set()), Sampling())
    assert made.hash == "6061db95da24400d10f5dc641163249085145cbf342b3224ef9f488fb619792d"
    first = made.probes[0]
    changes: tuple[dict[str, object], ...] = (
        {"model": "local:other"},
        {"sampling": Sampling(temperature=0.5)},
        {"chunk": 3},
        {"protected": ("3 leaves",)},
        {"evaluator": "gate/2"},
        {"probes": made.probes[1:]},
        {"probes": (msgspec.structs.replace(first, evaluator="x"), *made.probes[1:])},
        {"probes": (msgspec.structs.replace(first, stratum="x"), *made.probes[1:])},
        {"probes": (msgspec.structs.replace(first, prompt=()), *made.probes[1:])},
    )
    hashes = {msgspec.structs.replace(made, **change).hash for change in changes}
    assert len(hashes | {made.hash}) == len(changes) + 1


def test_the_probes_of_strata_are_even_and_asked_once(tmp_path: Path) -> None:
    made = freeze([*NAMES, *NAMES], BASE, Solver(set()), Sampling(), most=10)
    assert made.strata == {"3 leaves": 5, "4 leaves": 5}
    assert len({one.prompt for one in made.probes}) == 10


def test_a_check_that_was_made_stands_where_it_is_asked_for_once(tmp_path: Path) -> None:
    gate = _gate(tmp_path)
    better = Contender("openai/better")
    asked: list[str] = []

    def answerer(contender: Contender) -> Answerer:
        asked.append(contender.model)
        return Solver(set(TASKS) if contender == better else set())

    made = gate.check(better, answerer, once=True)
    assert gate.check(better, answerer, once=True) == made
    # A promotion that was taken back since is not made again either.
    gate.rollback()
    assert gate.check(better, answerer, once=True) == made
    assert gate.deployed() == BASE
    assert asked == [BASE.model, better.model]
    assert gate.checks() == 1
