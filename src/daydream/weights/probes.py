"""The frozen probe set: what every adapter is judged by, and never trained on.

``gate/probes.json`` holds the questions in full, their evaluators' versions, the decoding and the
protected strata, under a hash of all of it. Refuses to be used when the file, a question or an
evaluator is no longer what was frozen.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec

from daydream.canonical import dumps, hash_of
from daydream.errors import ModelError, StoreError, UsageError
from daydream.store.files import disk_errors, replace_file
from daydream.tasks.load import load_task
from daydream.weights.answerers import Answerer, Contender, Prompt
from daydream.weights.episodes import Form, Sampling
from daydream.weights.leaks import Fingerprint, LeakGuard
from daydream.weights.questions import Question, Questioner
from daydream.wording import counted

FILE: Final = "probes.json"
EVALUATOR: Final = "gate/1"
"""Version of how the gate asks, judges and decides."""


class ProbeSet(msgspec.Struct, frozen=True, kw_only=True):
    """What was frozen."""

    model: str
    """Model string of the base that adapters are trained on."""
    form: Form
    sampling: Sampling
    chunk: Annotated[int, msgspec.Meta(ge=1)]
    """Prompts asked at once: part of the draws of a local model."""
    probes: tuple[Question, ...]
    protected: tuple[str, ...] = ()
    evaluator: str = EVALUATOR
    schema_version: int = 1

    @property
    def hash(self) -> str:
        """Content hash of everything above, spelled out so that no new field changes it."""
        how = [self.sampling.temperature, self.sampling.max_tokens, self.sampling.seed]
        asked = [
            [
                one.task,
                one.evaluator,
                one.stratum,
                one.form,
                [[message.role, message.text] for message in one.prompt],
                list(one.keys),
            ]
            for one in self.probes
        ]
        return hash_of(
            [self.model, self.form, how, self.chunk, asked, list(self.protected), self.evaluator]
        )

    @property
    def strata(self) -> dict[str, int]:
        """Stratum -> probes."""
        return dict(sorted(Counter(probe.stratum for probe in self.probes).items()))

    def guard(self) -> LeakGuard:
        """Return what recognises these problems."""
        return LeakGuard(Fingerprint(probe.prompt, probe.keys, probe.task) for probe in self.probes)


class _File(msgspec.Struct, frozen=True):
    hash: str
    probe_set: ProbeSet


class Answered(msgspec.Struct, frozen=True):
    """How one contender did on the probe set."""

    contender: Contender
    identity: str
    probes: str
    """Hash of the probe set."""
    answers: tuple[str, ...]
    scores: tuple[float, ...]
    """1 for a solved probe, else 0."""
    tokens: int = 0
    cost_usd: float | None = None


def freeze(
    names: Sequence[str],
    base: Contender,
    answerer: Answerer,
    sampling: Sampling,
    *,
    protected: Sequence[str] = (),
    most: int | None = None,
) -> ProbeSet:
    """Return a probe set of tasks ``names``: each question once, strata in even shares up to most.

    Raises :class:`UsageError` for fewer than two questions and for a protected stratum that no
    question belongs to.
    """
    strata: dict[str, list[Question]] = {}
    seen: set[str] = set()
    for name in names:
        question = Questioner(load_task(name), answerer.form).question
        key = hash_of(question.prompt)
        if key not in seen:
            seen.add(key)
            strata.setdefault(question.stratum, []).append(question)
    probes = _even(strata, most if most is not None else len(seen))
    if len(probes) < 2:
        raise UsageError(
            f"{counted(len(probes), 'different question')} (expected at least 2, and some hundreds "
            "to see a difference); name more tasks, such as formula:split=probe,instance=0-299"
        )
    unknown = sorted(set(protected) - set(strata))
    if unknown:
        raise UsageError(
            f"protected stratum {unknown[0]!r} has no probe (expected some of "
            f"{', '.join(sorted(strata))})"
        )
    return ProbeSet(
        model=base.model,
        form=probes[0].form,
        sampling=sampling,
        chunk=answerer.chunk,
        probes=tuple(probes),
        protected=tuple(protected),
    )


def _even(strata: dict[str, list[Question]], most: int) -> list[Question]:
    taken: list[Question] = []
    rows = {name: list(found) for name, found in sorted(strata.items())}
    while len(taken) < most and any(rows.values()):
        for found in rows.values():
            if found and len(taken) < most:
                taken.append(found.pop(0))
    return taken


def write_probes(folder: Path, probes: ProbeSet) -> Path:
    """Write ``probes`` once; raises :class:`UsageError` when there is a probe set already."""
    path = folder / FILE
    if path.exists():
        raise UsageError(
            f"{path} holds a frozen probe set (expected none); judge with it, or freeze another "
            "for another --home"
        )
    with disk_errors("write", path):
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, dumps(_File(probes.hash, probes)) + b"\n")
    return path


def read_probes(folder: Path) -> ProbeSet | None:
    """Return the probe set of the gate in ``folder``, or None before one was frozen.

    Raises :class:`StoreError` when the file is not what was written.
    """
    path = folder / FILE
    if not path.exists():
        return None
    with disk_errors("read", path):
        data = path.read_bytes()
    try:
        found = msgspec.json.decode(data, type=_File)
    except msgspec.MsgspecError as error:
        raise StoreError(f"{path} is no probe set: {error}; restore it from a copy") from None
    if found.probe_set.hash != found.hash:
        raise StoreError(
            f"{path} was changed since it was frozen: its content has the hash "
            f"{found.probe_set.hash[:12]} (expected {found.hash[:12]}); restore it from a copy"
        )
    return found.probe_set


def need_probes(folder: Path) -> ProbeSet:
    """Return the probe set; raises :class:`UsageError` before one was frozen."""
    probes = read_probes(folder)
    if probes is None:
        raise UsageError(
            f"{folder} has no probe set (expected {FILE}); freeze one: daydream gate init --tasks "
            "TASK... --model MODEL"
        )
    return probes


def questioners(probes: ProbeSet) -> list[Questioner]:
    """Return who judges each probe.

    Raises :class:`StoreError` when the gate, an evaluator or a question changed since the freeze.
    """
    if probes.evaluator != EVALUATOR:
        raise StoreError(
            f"the probe set was frozen for {probes.evaluator} (expected {EVALUATOR}); its results "
            "cannot be compared: freeze a new one for another --home"
        )
    found = []
    for probe in probes.probes:
        asked = Questioner(load_task(probe.task), probes.form)
        if asked.question.evaluator != probe.evaluator:
            raise StoreError(
                f"the evaluator of probe {probe.task} is now {asked.question.evaluator[:12]} "
                f"(expected {probe.evaluator[:12]}, which was frozen); restore it, or freeze a new "
                "probe set for another --home"
            )
        if asked.question.prompt != probe.prompt:
            raise StoreError(
                f"probe {probe.task} now asks something else than was frozen; restore the task, or "
                "freeze a new probe set for another --home"
            )
        found.append(asked)
    return found


def answer_probes(probes: ProbeSet, contender: Contender, answerer: Answerer) -> Answered:
    """Return how ``contender`` does on the frozen questions, at the frozen seed and decoding.

    Raises :class:`StoreError` as :func:`questioners` does, :class:`UsageError` when the model is
    asked in another form than was frozen, :class:`daydream.errors.ModelError` when an answer is
    missing: an unanswered probe is no failure of the weights.
    """
    judges = questioners(probes)
    if answerer.form != probes.form:
        raise UsageError(
            f"{contender.name} is asked as {answerer.form} (expected {probes.form}, as frozen); "
            "serve it with the tokenizer of the base"
        )
    texts: list[str] = []
    scores: list[float] = []
    tokens, cost = 0, None
    for start in range(0, len(judges), probes.chunk):
        part = judges[start : start + probes.chunk]
        prompts = [Prompt(one.question.prompt, start + n) for n, one in enumerate(part)]
        for one, answer in zip(part, answerer.answer(prompts, probes.sampling), strict=True):
            if answer.error:
                raise ModelError(f"probe {one.question.task} has no answer: {answer.error}")
            texts.append(answer.text)
            scores.append(1.0 if one.judge(answer.text).solved else 0.0)
            tokens += answer.usage.input_tokens + answer.usage.output_tokens
            if answer.usage.cost_usd is not None:
                cost = (cost or 0.0) + answer.usage.cost_usd
    return Answered(
        contender=contender,
        identity=contender.identity(),
        probes=probes.hash,
        answers=tuple(texts),
        scores=tuple(scores),
        tokens=tokens,
        cost_usd=cost,
    )
