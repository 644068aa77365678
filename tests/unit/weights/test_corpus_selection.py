"""What enters a corpus: caps, duplicates, diversity, contrasts, leaks."""

import json
from pathlib import Path

import msgspec
import pytest

from daydream.errors import LeakError, StoreError, UsageError
from daydream.llm.base import Message
from daydream.tree import Status
from daydream.weights.corpus_files import read_manifest, write_corpus
from daydream.weights.corpus_selection import BuildSettings, Corpus, select
from daydream.weights.episodes import Episode
from daydream.weights.leaks import Fingerprint, LeakGuard
from tests.unit.weights.samples import episode

PLAIN = BuildSettings()


def _answers(corpus: Corpus) -> list[str]:
    return [one.answer for one in corpus.sft]


def test_the_same_program_of_a_task_enters_once_and_failures_do_not() -> None:
    found = [
        episode(answer="xy+", number=1),
        episode(answer="xy+", number=2),
        episode(answer="x", solved=False, number=3),
        episode(answer="yx+", number=4),
    ]
    corpus = select(found, PLAIN, None)
    assert _answers(corpus) == ["xy+", "yx+"]
    assert corpus.left_out == {"same program": 1}


def test_the_same_prompt_and_program_under_two_task_names_enters_once() -> None:
    corpus = select([episode("a", number=1), episode("b", number=2)], PLAIN, None)
    assert len(corpus.sft) == 1
    assert corpus.left_out == {"same prompt and program": 1}


def test_the_cap_takes_every_behaviour_before_any_comes_again() -> None:
    found = [
        episode(answer=text, behaviour=does)
        for text, does in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"))
    ]
    corpus = select(found, BuildSettings(per_task=3), None)
    assert _answers(corpus) == ["a1", "b1", "c1"]
    assert corpus.left_out == {"over the cap of a task": 2}


def test_limits_filters_and_copied_steps_leave_out_with_their_reason() -> None:
    found = [
        episode(answer="x" * 11, number=1),
        episode(prompt="p" * 21, number=2),
        episode(answer=" ", number=3),
        episode(copied=True, number=4),
        episode(model="other", number=5),
        episode(source="run", number=6),
        episode("another:n=1", number=7),
        episode(answer="kept", number=8),
    ]
    settings = BuildSettings(
        longest_answer=10,
        longest_prompt=20,
        models=("mock:",),
        sources=("wake",),
        families=("formula",),
    )
    corpus = select(found, settings, None)
    assert _answers(corpus) == ["kept"]
    assert corpus.left_out == {
        "another family": 1,
        "another model": 1,
        "another source": 1,
        "copied context": 1,
        "empty answer": 1,
        "too long": 2,
    }


def test_scores_of_two_evaluator_versions_never_meet() -> None:
    found = [episode(number=1), episode(answer="x", solved=False, evaluator="formula/2")]
    assert select(found, PLAIN, None).dpo == ()


def test_contrasts_are_success_against_failure_of_one_task_with_a_gap() -> None:
    graded = [
        episode(answer="good", score=0.9),
        episode(answer="close", score=0.88, solved=False),
        episode(answer="far", score=0.2, solved=False),
        episode(answer="broken", score=0.0, status=Status.INVALID, solved=False),
        episode("other", answer="elsewhere", score=0.1, solved=False),
    ]
    corpus = select(graded, PLAIN, None)
    pairs = {(good.answer, bad.answer) for good, bad in corpus.dpo}
    assert pairs == {("good", "far"), ("good", "broken")}


def test_a_graded_task_prefers_a_success_to_one_that_is_worse_by_the_gap() -> None:
    graded = [
        episode(answer="best", score=0.9),
        episode(answer="close", score=0.87),
        episode(answer="good", score=0.5),
        episode(answer="failed", score=0.1, solved=False),
    ]
    pairs = {(one.answer, two.answer) for one, two in select(graded, PLAIN, None).dpo}
    failures = {("best", "failed"), ("close", "failed"), ("good", "failed")}
    assert pairs >= failures
    assert pairs - failures <= {("best", "good"), ("close", "good")}
    assert len(pairs) == PLAIN.pairs_per_task
    assert ("best", "close") not in pairs


def test_contrasts_use_successes_and_failures_in_turn_up_to_the_cap() -> None:
    good = [episode(answer=f"g{n}") for n in range(3)]
    bad = [episode(answer=f"b{n}", solved=False) for n in range(2)]
    corpus = select([*good, *bad], BuildSettings(pairs_per_task=4), None)
    pairs = [(one.answer, two.answer) for one, two in corpus.dpo]
    assert pairs == [("g0", "b0"), ("g1", "b1"), ("g2", "b0"), ("g0", "b1")]


def test_prompts_of_both_forms_need_a_choice() -> None:
    found = [episode(number=1), episode(answer="yx+", form="chat", number=2)]
    with pytest.raises(UsageError, match="--form text or --form chat"):
        select(found, PLAIN, None)
    assert _answers(select(found, BuildSettings(form="chat"), None)) == ["yx+"]


def _guard() -> LeakGuard:
    prompt = (Message("user", "x+y="),)
    return LeakGuard([Fingerprint(prompt, ("key",), "formula:split=probe")])


@pytest.mark.parametrize(
    "leak",
    [
        episode("formula:split=probe", prompt="another"),
        episode(prompt="x + y ="),
        episode(prompt="u+w="),
        episode(prompt="w+v=", keys=("key",)),
    ],
)
def test_a_leak_fails_the_build_and_can_be_left_out(leak: Episode) -> None:
    kept = episode("formula:instance=3", prompt="x*y=", keys=("free",))
    with pytest.raises(LeakError, match=r"would hold 1 episode that the probe set asks"):
        select([kept, leak], PLAIN, _guard())
    corpus = select([kept, leak], BuildSettings(leave_out_leaks=True), _guard())
    assert [one.task for one in corpus.sft] == ["formula:instance=3"]
    assert corpus.left_out == {"asked by the probe set": 1}


def _rows(path: Path) -> list[object]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _write(folder: Path, found: list[Episode]) -> None:
    write_corpus(folder, select(found, PLAIN, None), PLAIN, bank=found, probes="")


def test_a_corpus_is_written_as_trl_reads_it_with_its_lineage(tmp_path: Path) -> None:
    good, bad = episode(answer="xy+"), episode(answer="x", solved=False)
    _write(tmp_path / "text", [good, bad])
    rows = _rows(tmp_path / "text/sft.jsonl")
    assert rows == [{"prompt": "x+y=", "completion": "xy+"}]
    [pair] = _rows(tmp_path / "text/dpo.jsonl")
    assert pair == {"prompt": "x+y=", "chosen": "xy+", "rejected": "x"}
    lineage = _rows(tmp_path / "text/lineage.jsonl")
    assert lineage == [
        {"completion": good.id, "file": "sft.jsonl"},
        {"chosen": good.id, "file": "dpo.jsonl", "rejected": bad.id},
    ]
    chat = (Message("system", "Be brief."), Message("user", "x+y"))
    _write(tmp_path / "chat", [msgspec.structs.replace(episode(form="chat"), prompt=chat)])
    [row] = _rows(tmp_path / "chat/sft.jsonl")
    assert row == {
        "prompt": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "x+y"},
        ],
        "completion": [{"role": "assistant", "content": "xy+"}],
    }


def test_the_same_bank_gives_the_same_corpus_and_a_changed_file_is_named(tmp_path: Path) -> None:
    found = [episode(answer=f"{n}", number=n) for n in range(9)]
    _write(tmp_path / "a", found)
    _write(tmp_path / "b", found)
    assert (tmp_path / "a/manifest.json").read_bytes() == (
        tmp_path / "b/manifest.json"
    ).read_bytes()
    assert read_manifest(tmp_path / "a").sft == 4
    (tmp_path / "a/sft.jsonl").write_text("{}")
    with pytest.raises(StoreError, match="was changed since it was built"):
        read_manifest(tmp_path / "a")


def test_nothing_to_train_on_and_a_used_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no episode of 1 is a success"):
        _write(tmp_path / "a", [episode(solved=False)])
    _write(tmp_path / "a", [episode()])
    with pytest.raises(UsageError, match="holds a corpus already"):
        _write(tmp_path / "a", [episode()])
