"""``daydream gate``: freeze a probe set, judge adapters by it, deploy and take back."""

import threading
import time
from pathlib import Path
from typing import Annotated

import cyclopts
import msgspec
from cyclopts import Parameter

from daydream.canonical import JsonValue
from daydream.cli import output
from daydream.cli.numbers import Whole
from daydream.cli.progress import interruptible
from daydream.cli.waking import sampling_of
from daydream.cli.weights_line import (
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
from daydream.errors import UsageError
from daydream.weights.answerers import Contender
from daydream.weights.bank import Bank
from daydream.weights.gate import Entry, Gate
from daydream.weights.home import DEFAULT, Home
from daydream.weights.paired_test import Trial
from daydream.weights.probes import freeze, write_probes
from daydream.weights.wake import expand
from daydream.wording import counted

app = cyclopts.App(
    name="gate", help="Judge adapters by a frozen probe set.", help_format="plaintext"
)


def _gate(home: Path) -> Gate:
    return Gate(Home(home).gate, now=time.time)  # noqa: TID251 - the terminal's clock


@app.command(usage="daydream gate init --tasks TASK... --model MODEL [OPTIONS]")
def init(
    *,
    tasks: Many = [],  # noqa: B006 - never changed
    model: Model,
    protect: Annotated[list[str], Parameter(negative="")] = [],  # noqa: B006 - never changed
    most: Whole | None = None,
    temperature: float = 1.0,
    max_tokens: Whole = 256,
    seed: Whole = 0,
    threads: Whole = 1,
    home: HomeFolder = DEFAULT,
    json: Json = False,
) -> int:
    """Freeze a probe set: its questions, their evaluators, the decoding and the base model.

    Parameters
    ----------
    tasks
        Task names; key=A-B takes every value: formula:split=probe,instance=0-299.
    model
        The base that adapters are trained on: local:PATH, or a model string of an endpoint.
    protect
        A stratum in which no adapter may be significantly worse; may be given again.
    most
        Probes at most, taken evenly from the strata.
    temperature
        How answers are drawn; 0 takes the likeliest.
    max_tokens
        Longest answer.
    seed
        Seed of the draws.
    threads
        Threads of a local model.
    home
        Folder of the weights line.
    json
        Print JSON and nothing else on standard output.
    """
    need_task_names(tasks)
    need_threads(threads)
    if most is not None and most < 2:
        raise UsageError(f"--most {most} (expected at least 2)")
    names, sampling = expand(tasks), sampling_of(temperature, max_tokens, seed)
    place, base = Home(home), contender_of(model, model)
    with Answerers(place, budget="", threads=threads, interrupted=threading.Event()) as answerers:
        answerer = answerers.open(base)
        try:
            probes = freeze(names, base, answerer, sampling, protected=protect, most=most)
        finally:
            answerer.close()
    path = write_probes(place.gate, probes)
    if json:
        output.emit(
            {
                "probes": len(probes.probes),
                "hash": probes.hash,
                "strata": dict(probes.strata),
                "protected": list(probes.protected),
                "file": str(path),
            }
        )
        return 0
    rows = [
        (name, str(count), "protected" if name in probes.protected else "")
        for name, count in probes.strata.items()
    ]
    frozen = (
        f"{counted(len(probes.probes), 'probe')} frozen in {output.shown(path)}, {probes.hash[:12]}"
    )
    output.out().print(frozen, markup=False)
    output.out().print(output.table("", ("stratum", ">probes", ""), rows))
    flag = home_flag(home)
    output.next_step(
        f"daydream wake --tasks TASK... --model {model}{flag}", f"daydream gate check ADAPTER{flag}"
    )
    return 0


@app.command(usage="daydream gate check ADAPTER [OPTIONS]")
def check(
    adapter: str,
    *,
    budget: str = "",
    anew: Annotated[bool, Parameter(negative="")] = False,
    threads: Whole = 1,
    home: HomeFolder = DEFAULT,
    json: Json = False,
) -> int:
    """Judge an adapter against what is deployed, on the frozen probes; deploy it when promoted.

    A check that was stopped or killed changed nothing, and the same command goes on with it.

    Parameters
    ----------
    adapter
        Folder of an adapter, or the model string under which one is served.
    budget
        Stop, changing nothing, when so much is spent: 5usd, 2Mtok.
    anew
        Ask an endpoint again what it answered in a stopped check, for it serves something else now.
    threads
        Threads of a local model.
    home
        Folder of the weights line.
    json
        Print JSON and nothing else on standard output.
    """
    need_threads(threads)
    gate = _gate(home)
    candidate = contender_of(adapter, gate.probes().model)
    with (
        interruptible() as interrupted,
        Answerers(Home(home), budget=budget, threads=threads, interrupted=interrupted) as answerers,
    ):
        with Bank(Home(home).bank) as bank:
            attempts = len(bank.ids())
        asked = answerers.for_check(gate, anew=anew)
        entry = gate.check(candidate, asked, attempts=attempts)
    if json:
        output.emit(msgspec.to_builtins(entry))
    else:
        show_check(entry)
        output.next_step(f"daydream gate history{home_flag(home)}")
    return 0


def show_check(entry: Entry) -> None:
    """Show what the gate decided, over all and by stratum."""
    verdict = entry.verdict
    if verdict is None:
        return
    style = {"promoted": "bold green", "rejected": "bold red", "undecided": "bold yellow"}
    console = output.out()
    console.print(
        f"{entry.candidate.name}: {verdict.decision}", style=style[verdict.decision], markup=False
    )
    console.print(verdict.reason, markup=False)
    rows = [("all", *_cells(verdict.trial))]
    rows += [(name, *_cells(one)) for name, one in verdict.strata.items()]
    columns = (
        "stratum",
        ">probes",
        ">incumbent",
        ">candidate",
        ">won",
        ">lost",
        ">p better",
        ">difference",
    )
    console.print(output.table("", columns, rows))


def _cells(trial: Trial) -> tuple[str, ...]:
    interval = f"{100 * trial.low:+.1f} to {100 * trial.high:+.1f} points"
    return (
        str(trial.probes),
        percent(trial.incumbent),
        percent(trial.candidate),
        str(trial.wins),
        str(trial.losses),
        f"{trial.p_better:.2g}",
        interval,
    )


@app.command(usage="daydream gate rollback [OPTIONS]")
def rollback(*, home: HomeFolder = DEFAULT, json: Json = False) -> int:
    """Deploy what was deployed before the last promotion.

    Parameters
    ----------
    home
        Folder of the weights line.
    json
        Print JSON and nothing else on standard output.
    """
    entry = _gate(home).rollback()
    if json:
        output.emit(msgspec.to_builtins(entry))
    else:
        output.out().print(f"deployed: {_shown(entry.candidate)}", markup=False)
        output.next_step(f"daydream gate history{home_flag(home)}")
    return 0


@app.command(usage="daydream gate history [OPTIONS]")
def history(*, home: HomeFolder = DEFAULT, json: Json = False) -> int:
    """Show every check and rollback, and what is deployed now.

    Parameters
    ----------
    home
        Folder of the weights line.
    json
        Print JSON and nothing else on standard output.
    """
    gate = _gate(home)
    deployed, entries = gate.deployed(), gate.history()
    if json:
        rows: list[JsonValue] = [msgspec.to_builtins(entry) for entry in entries]
        output.emit({"deployed": msgspec.to_builtins(deployed), "history": rows})
        return 0
    cells = []
    for entry in entries:
        verdict = entry.verdict
        decision = "rolled back" if verdict is None else verdict.decision
        reason = f"from {entry.incumbent.name}" if verdict is None else verdict.reason
        cells.append((entry.at[:19], entry.candidate.name, decision, reason))
    output.out().print(output.table("Gate", ("when", "candidate", "decision", "reason"), cells))
    output.out().print(f"deployed: {_shown(deployed)}", markup=False)
    output.next_step(f"daydream wake --adapter deployed --tasks TASK...{home_flag(home)}")
    return 0


def _shown(contender: Contender) -> str:
    return f"{contender.adapter} on {contender.model}" if contender.adapter else contender.model
