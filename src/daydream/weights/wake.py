"""Wake: answer tasks several times each, judge every answer, keep every attempt.

Owns the plan of a wake and its resuming: an attempt is identified by its question, who answers and
how, so what is in the bank is not asked again. Refuses to sample what a probe set asks.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from daydream.config import SandboxLevel
from daydream.errors import Stopped, TaskError
from daydream.store.events import Usage
from daydream.tasks.load import load_task
from daydream.weights.answerers import Answer, Answerer, Contender, Prompt
from daydream.weights.bank import Bank
from daydream.weights.episodes import Episode, Sampling, identity
from daydream.weights.leaks import Fingerprint, LeakGuard
from daydream.weights.questions import Questioner
from daydream.wording import counted

_RANGE: Final = re.compile(r"(\w+)=(\d+)-(\d+)")
MOST_TASKS: Final = 100_000


class Around(msgspec.Struct, frozen=True):
    """What a wake gets from outside."""

    now: Callable[[], float]
    """Seconds since 1970."""
    stop: Callable[[], str]
    """Why to stop now; empty to go on."""
    notify: Callable[["Progress"], None] = lambda progress: None


class Progress(msgspec.Struct, frozen=True):
    """How far a wake is."""

    planned: int
    """Attempts that are asked for, those of earlier wakes included."""
    known: int
    """Of these, in the bank before."""
    done: int = 0
    """Answered now."""
    solved: int = 0
    failed: int = 0
    """Attempts without an answer; they are asked again by the next wake."""
    probes: int = 0
    """Tasks left out because the probe set asks them."""
    usage: Usage = Usage()
    stopped: str = ""
    """Why it ended early."""
    exit_code: int = 0
    last_error: str = ""


class Plan(msgspec.Struct, frozen=True):
    """What to ask."""

    tasks: tuple[str, ...]
    samples: int
    sampling: Sampling
    sandbox: SandboxLevel = "auto"
    """What isolates the evaluations of a user's folder."""


def expand(names: Sequence[str]) -> tuple[str, ...]:
    """Return task names with each ``key=A-B`` replaced by its values: ``formula:instance=0-99``.

    Raises :class:`TaskError` for a range that runs backwards, or for too many tasks.
    """
    found: list[str] = []
    for name in names:
        head, colon, tail = name.partition(":")
        options = [list(_values(part, name)) for part in tail.split(",")] if tail else [[""]]
        count = 1
        for option in options:
            count *= len(option)
        if len(found) + count > MOST_TASKS:
            raise TaskError(
                f"{name} names {counted(count, 'task')} (expected at most {MOST_TASKS} in all)"
            )
        found += [head + colon + ",".join(parts) for parts in itertools.product(*options)]
    return tuple(dict.fromkeys(found))


def _values(part: str, name: str) -> Iterator[str]:
    match = _RANGE.fullmatch(part)
    if match is None:
        yield part
        return
    low, high = int(match[2]), int(match[3])
    if low > high or high - low > MOST_TASKS:
        raise TaskError(f"{name}: range {part!r} (expected such as instance=0-99)")
    for value in range(low, high + 1):
        yield f"{match[1]}={value}"


class _Who(msgspec.Struct, frozen=True):
    contender: Contender
    identity: str

    @property
    def adapter(self) -> str:
        return self.identity if self.contender.adapter else ""


class _Attempt(msgspec.Struct, frozen=True):
    asked: Questioner
    sample: int
    id: str


def wake(
    plan: Plan,
    contender: Contender,
    answerer: Answerer,
    bank: Bank,
    guard: LeakGuard | None,
    around: Around,
) -> Progress:
    """Ask what is not in the bank yet, judge it and append it; return how far that came.

    Raises what :func:`daydream.tasks.load.load_task` raises for a task that does not exist, before
    anything is asked.
    """
    who = _Who(contender, contender.identity())
    attempts, probes = _attempts(plan, who, answerer, guard)
    known = bank.ids()
    todo = [one for one in attempts if one.id not in known]
    progress = Progress(len(attempts), len(attempts) - len(todo), probes=probes)
    around.notify(progress)
    for start in range(0, len(todo), answerer.chunk):
        reason = around.stop()
        if reason:
            code = 130 if reason == "interrupted" else 0
            return msgspec.structs.replace(progress, stopped=reason, exit_code=code)
        chunk = todo[start : start + answerer.chunk]
        prompts = [Prompt(one.asked.question.prompt, one.sample) for one in chunk]
        answers = answerer.answer(prompts, plan.sampling)
        try:
            for one, answer in zip(chunk, answers, strict=True):
                episode = None if answer.error else _episode(one, answer, who, plan, around)
                if episode is not None:
                    bank.append([episode])
                progress = _after(progress, answer, episode)
        except Stopped as stopped:
            return msgspec.structs.replace(
                progress, stopped=stopped.reason, exit_code=stopped.exit_code
            )
        around.notify(progress)
    return progress


def _attempts(
    plan: Plan, who: _Who, answerer: Answerer, guard: LeakGuard | None
) -> tuple[list[_Attempt], int]:
    found: list[_Attempt] = []
    probes = 0
    for name in plan.tasks:
        asked = Questioner(load_task(name, plan.sandbox), answerer.form)
        question = asked.question
        problem = Fingerprint(question.prompt, question.keys, question.task)
        if guard is not None and guard.caught(problem) is not None:
            probes += 1
            continue
        turns = [[message.role, message.text] for message in question.prompt]
        how = [plan.sampling.temperature, plan.sampling.max_tokens, plan.sampling.seed]
        for sample in range(plan.samples):
            asker = [who.contender.model, who.identity]
            made = identity("wake", question.task, question.evaluator, turns, asker, how, sample)
            found.append(_Attempt(asked, sample, made))
    return found, probes


def _episode(attempt: _Attempt, answer: Answer, who: _Who, plan: Plan, around: Around) -> Episode:
    question = attempt.asked.question
    judged = attempt.asked.judge(answer.text)
    verdict = judged.evaluation
    return Episode(
        id=attempt.id,
        at=datetime.fromtimestamp(around.now(), UTC).isoformat(timespec="milliseconds"),
        source="wake",
        task=question.task,
        evaluator=question.evaluator,
        stratum=question.stratum,
        form=question.form,
        prompt=question.prompt,
        answer=answer.text,
        program=judged.program,
        behaviour=judged.behaviour,
        status=verdict.status,
        score=verdict.score,
        solved=judged.solved,
        error_class=verdict.error_class,
        message=verdict.message,
        diagnostics=verdict.diagnostics,
        model=who.contender.model,
        adapter=who.adapter,
        sampling=plan.sampling,
        sample=attempt.sample,
        usage=answer.usage,
        provenance={"finish": answer.finish, **_named(who.contender)},
        keys=question.keys,
    )


def _named(contender: Contender) -> dict[str, str]:
    return {"adapter": contender.name} if contender.adapter else {}


def _after(progress: Progress, answer: Answer, episode: Episode | None) -> Progress:
    return msgspec.structs.replace(
        progress,
        done=progress.done + (episode is not None),
        solved=progress.solved + (episode is not None and episode.solved),
        failed=progress.failed + (episode is None),
        usage=progress.usage + answer.usage,
        last_error=answer.error or progress.last_error,
    )
