"""``daydream wake`` and ``daydream build``."""

import threading
import time
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from daydream.cli import output
from daydream.cli.numbers import Whole
from daydream.cli.progress import PLAIN_EVERY_S, interruptible
from daydream.cli.weights_line import (
    DEPLOYED,
    Answerers,
    HomeFolder,
    Json,
    Many,
    Model,
    contender_of,
    home_flag,
    need_task_names,
    need_threads,
    percent,
)
from daydream.config import environment_layer, resolve
from daydream.errors import UsageError
from daydream.llm.budget import parse_budget
from daydream.sandbox.choose import weakness
from daydream.tasks.load import is_path, load_task
from daydream.weights.bank import Bank
from daydream.weights.corpus_files import MANIFEST, Manifest, build_corpus, corpus_words
from daydream.weights.corpus_selection import BuildSettings
from daydream.weights.episodes import Sampling, Source
from daydream.weights.gate import Gate
from daydream.weights.home import DEFAULT, Home, next_numbered
from daydream.weights.probes import read_probes
from daydream.weights.wake import Around, Plan, Progress, expand
from daydream.weights.wake import wake as wake_up
from daydream.wording import counted


def wake(
    *,
    tasks: Many = [],  # noqa: B006 - never changed
    model: Model,
    samples: Whole = 4,
    adapter: str = "",
    temperature: float = 1.0,
    max_tokens: Whole = 256,
    seed: Whole = 0,
    budget: str = "",
    threads: Whole = 1,
    home: HomeFolder = DEFAULT,
    json: Json = False,
) -> int:
    """Answer tasks several times each, judge every answer, and keep every attempt in the bank.

    What is in the bank already is not asked again, so the same command continues a stopped one.
    What the probe set of the gate asks is left out.

    Parameters
    ----------
    tasks
        Task names; key=A-B takes every value: formula:split=practice,instance=0-99.
    model
        openai/gpt-5-mini, local/NAME@http://HOST:PORT/v1, mock:, or local:PATH with transformers.
    samples
        Answers to each task.
    adapter
        Folder of an adapter on a local: model; deployed takes what the gate deployed.
    temperature
        How answers are drawn; 0 takes the likeliest.
    max_tokens
        Longest answer.
    seed
        Seed of the draws; another one asks anew.
    budget
        Stop, resumably, when so much is spent: 5usd, 2Mtok, 1h, 200calls.
    threads
        Threads of a local model.
    home
        Folder of the weights line.
    json
        Print JSON and nothing else on standard output.
    """
    need_task_names(tasks)
    need_threads(threads)
    sandbox = resolve([environment_layer()]).sandbox
    names, sampling = expand(tasks), sampling_of(temperature, max_tokens, seed)
    plan = Plan(names, _positive(samples), sampling, sandbox)
    folders = [load_task(name, sandbox).info for name in names if is_path(name)]
    for told in {weakness(info.isolation) for info in folders}:
        output.warn(told)
    place = Home(home)
    contender = contender_of(model, model)
    if adapter == DEPLOYED:
        gate = Gate(place.gate, now=time.time)  # noqa: TID251 - the terminal's clock
        contender, judged = gate.deployed(), gate.probes().model
        if model != judged:
            raise UsageError(
                f"--adapter deployed and --model {model}: the gate deploys adapters of {judged} "
                f"(expected --model {judged})"
            )
    elif adapter:
        contender = contender_of(adapter, model)
    probes = read_probes(place.gate)
    with interruptible() as interrupted:
        around = _around(interrupted, budget, as_json=json)
        with (
            Answerers(place, budget=budget, threads=threads, interrupted=interrupted) as answerers,
            Bank(place.bank) as bank,
        ):
            answerer = answerers.open(contender)
            try:
                guard = None if probes is None else probes.guard()
                done = wake_up(plan, contender, answerer, bank, guard, around)
            finally:
                answerer.close()
    return _woken(done, home, as_json=json)


def _positive(samples: Whole) -> int:
    if not 1 <= samples <= 10_000:
        raise UsageError(f"--samples {samples} (expected 1 to 10000)")
    return samples


def sampling_of(temperature: float, max_tokens: int, seed: int) -> Sampling:
    """Return how answers are drawn; raises :class:`UsageError` for a value out of range."""
    if not 0 <= temperature <= 10:
        raise UsageError(f"--temperature {temperature:g} (expected 0 to 10)")
    if not 1 <= max_tokens <= 1_000_000:
        raise UsageError(f"--max-tokens {max_tokens} (expected 1 to 1000000)")
    return Sampling(temperature, max_tokens, seed)


def _around(interrupted: threading.Event, budget: str, *, as_json: bool) -> Around:
    allowance = parse_budget(budget)
    began = shown = time.monotonic()
    answered = 0

    def notify(progress: Progress) -> None:
        nonlocal shown, answered
        answered = progress.done + progress.failed
        now = time.monotonic()
        if as_json:
            output.emit({"event": "progress", "done": progress.done, "solved": progress.solved})
        elif now - shown >= PLAIN_EVERY_S:
            shown = now
            left = progress.planned - progress.known - answered
            output.err().print(
                f"{progress.done} answered, {progress.solved} solved, {left} to go", style="dim"
            )

    def stop() -> str:
        if interrupted.is_set():
            return "interrupted"
        if allowance.seconds is not None and time.monotonic() - began >= allowance.seconds:
            return f"the budget of {allowance.seconds:g} s is spent"
        if allowance.calls is not None and answered >= allowance.calls:
            return f"the budget of {counted(allowance.calls, 'call')} is spent"
        return ""

    return Around(time.time, stop, notify)  # noqa: TID251 - the terminal's clock


def _woken(done: Progress, home: Path, *, as_json: bool) -> int:
    if as_json:
        output.emit({"event": "done", **msgspec.to_builtins(done)})
    else:
        rate = f", {percent(done.solved / done.done)}" if done.done else ""
        output.out().print(
            f"{counted(done.done, 'answer')}, {done.solved} solved{rate}; {done.known} of "
            f"{done.planned} in the bank before",
            markup=False,
        )
        if done.probes:
            output.out().print(f"{counted(done.probes, 'task')} left out: in the probe set")
        if done.failed:
            output.warn(
                f"{counted(done.failed, 'attempt')} without an answer; the last: {done.last_error}"
            )
        if done.stopped:
            output.warn(f"stopped: {done.stopped}; the same command goes on from here")
        output.next_step(f"daydream build{home_flag(home)}")
    return done.exit_code or (1 if done.failed and not done.done else 0)


def build(
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    family: Many = [],  # noqa: B006 - never changed
    source: Annotated[list[Source], Parameter(negative="", consume_multiple=True)] = [],  # noqa: B006
    model: Annotated[list[str], Parameter(name=["--model", "-m"], negative="")] = [],  # noqa: B006
    form: Literal["text", "chat"] | None = None,
    per_task: Whole = 4,
    pairs_per_task: Whole = 4,
    gap: float = 0.05,
    leave_out_leaks: Annotated[bool, Parameter(negative="")] = False,
    home: HomeFolder = DEFAULT,
    json: Json = False,
) -> int:
    """Make a corpus of the bank: successes to imitate, and success against failure to prefer.

    Fails, and writes nothing, when a problem of the gate's probe set would enter it.

    Parameters
    ----------
    out
        Folder of the corpus. [default: the next number below corpora/]
    family
        Families of tasks to take, such as formula. [default: all]
    source
        Where episodes may come from: wake, run, review. [default: all]
    model
        Whose answers to take. [default: everybody's]
    form
        Take prompts of this form, where the bank holds both.
    per_task
        Successes of one task at most.
    pairs_per_task
        Contrasts of one task at most.
    gap
        Least difference of two scores that is a contrast.
    leave_out_leaks
        Leave out what the probe set asks instead of failing.
    home
        Folder of the weights line.
    json
        Print JSON and nothing else on standard output.
    """
    settings = checked(
        families=tuple(family),
        sources=tuple(source),
        models=tuple(model),
        form=form,
        per_task=per_task,
        pairs_per_task=pairs_per_task,
        gap=gap,
        leave_out_leaks=leave_out_leaks,
    )
    place = Home(home)
    folder = out or next_numbered(place.corpora, MANIFEST)
    manifest = build_corpus(place, folder, settings)
    if json:
        output.emit({"corpus": str(folder), **msgspec.to_builtins(manifest)})
        return 0
    show_corpus(folder, manifest)
    if not manifest.probes:
        output.warn("no probe set is frozen, so nothing was guarded; see: daydream gate init")
    output.next_step(f"daydream train --base PATH --corpus {output.shown(folder)}{home_flag(home)}")
    return 0


def checked(**values: object) -> BuildSettings:
    """Return the settings; raises :class:`UsageError` naming the one that is out of range."""
    try:
        return msgspec.convert(values, BuildSettings)
    except msgspec.ValidationError as error:
        raise UsageError(f"a corpus cannot be built so: {error}; correct the value") from None


def show_corpus(folder: Path, manifest: Manifest) -> None:
    """Show what a corpus holds."""
    console = output.out()
    console.print(f"{corpus_words(manifest)}: {output.shown(folder)}", markup=False)
    for reason, count in manifest.left_out.items():
        console.print(f"  left out, {reason}: {count}", style="dim", markup=False)
