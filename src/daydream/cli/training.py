"""``daydream train``, ``daydream night`` and ``daydream cycles``."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from daydream.canonical import JsonValue
from daydream.cli import output
from daydream.cli.charts.loss_curve import loss_svg
from daydream.cli.gates import show_check
from daydream.cli.numbers import Whole
from daydream.cli.waking import checked
from daydream.cli.weights_line import Answerers, HomeFolder, Json, home_flag, percent
from daydream.errors import Stopped, UsageError
from daydream.weights.adapters import LOSSES, MANIFEST, Adapter
from daydream.weights.corpus_files import MANIFEST as CORPUS
from daydream.weights.cycles import cycles_of
from daydream.weights.gate import Gate
from daydream.weights.home import DEFAULT, Home, latest, next_numbered
from daydream.weights.night import NightPlan, play_night
from daydream.weights.train_settings import STAGES, Stage, TrainSettings, read_settings
from daydream.weights.training import plan_of, read_losses
from daydream.weights.training import train as train_adapter
from daydream.wording import counted

Flag = Annotated[bool, Parameter(negative="")]
CURVES = "losses.svg"
TELL_EVERY_S = 5.0


def train(
    *,
    base: Path,
    corpus: Path | None = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    sft: Flag = False,
    dpo: Flag = False,
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    home: HomeFolder = DEFAULT,
    json: Json = False,
) -> int:
    """Train a LoRA adapter on a corpus. The same command goes on after a kill.

    Needs the extra: pip install 'daydream-rsi[weights]'.

    Parameters
    ----------
    base
        Folder of the base model, as transformers saves it.
    corpus
        Folder of the corpus. [default: the last one built]
    out
        Folder of the adapter. [default: the next number below adapters/]
    sft
        Imitate the successes.
    dpo
        Prefer successes to failures, after SFT where both are asked for.
    config
        TOML file with a table [train]; @FILE is short for it.
    home
        Folder of the weights line.
    json
        Print JSON and nothing else on standard output.
    """
    place = Home(home)
    rows = corpus or latest(place.corpora, CORPUS)
    if rows is None:
        raise UsageError(f"{place.corpora} holds no corpus (expected one); make it: daydream build")
    plan = plan_of(base, rows, stages_of(sft=sft, dpo=dpo), read_settings(config))
    folder = out or next_numbered(place.adapters, MANIFEST)
    with stoppable(), _told(folder, as_json=json):
        adapter = train_adapter(plan, folder)
    draw(folder, adapter)
    if json:
        output.emit({"adapter": str(folder), **msgspec.to_builtins(adapter)})
        return 0
    _show(folder, adapter)
    output.next_step(f"daydream gate check {output.shown(folder)}{home_flag(home)}")
    return 0


def stages_of(*, sft: bool, dpo: bool) -> tuple[Stage, ...]:
    """Return the stages that were asked for, in order."""
    asked = {"sft": sft, "dpo": dpo}
    return tuple(stage for stage in STAGES if asked[stage])


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn Ctrl-C into a stop that the same command continues."""
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(
            "interrupted; the same command goes on from the last checkpoint", exit_code=130
        ) from None


@contextmanager
def _told(folder: Path, *, as_json: bool) -> Iterator[None]:
    """Tell how the losses fall while the block runs."""
    done = threading.Event()

    def tell() -> None:
        while not done.wait(TELL_EVERY_S):
            for stage in reversed(STAGES):
                curve = read_losses(folder / stage / LOSSES)
                if curve:
                    last = curve[-1]
                    text = f"{stage}: step {last.step}, loss {last.loss:.4f}"
                    output.err().print(text, style="dim", markup=False)
                    break

    teller = threading.Thread(target=tell, daemon=True)
    if not as_json:
        teller.start()
    try:
        yield
    finally:
        done.set()
        if teller.is_alive():
            teller.join()


def draw(folder: Path, adapter: Adapter) -> None:
    """Write the loss curves of an adapter beside it."""
    curves = {
        stage: [one.loss for one in read_losses(folder / stage / LOSSES)]
        for stage in adapter.stages
    }
    output.write_file(folder / CURVES, loss_svg(f"Training of {folder.name}", curves), "--out")


def warn_left_out(adapter: Adapter) -> None:
    """Warn of rows that were too long to be trained on."""
    for name, stage in adapter.stages.items():
        if stage.left_out:
            output.warn(
                f"{name}: {counted(stage.left_out, 'row')} left out, whose answer lies behind "
                f"train.max_length = {adapter.settings.max_length} tokens; raise it to learn from "
                "all"
            )


def _show(folder: Path, adapter: Adapter) -> None:
    rows = [
        (
            name,
            f"{stage.rows:,}",
            f"{stage.steps:,}",
            f"{stage.first_loss:.4f}",
            f"{stage.last_loss:.4f}",
            output.seconds(stage.seconds),
        )
        for name, stage in adapter.stages.items()
    ]
    warn_left_out(adapter)
    columns = ("stage", ">rows", ">steps", ">first loss", ">last loss", ">time")
    output.out().print(output.table(f"Adapter {output.shown(folder)}", columns, rows))
    output.out().print(f"Loss curves: {output.shown(folder / CURVES)}", markup=False)


def night(
    *,
    base: Path,
    sft: bool = True,
    dpo: bool = True,
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    per_task: Whole = 4,
    pairs_per_task: Whole = 4,
    leave_out_leaks: Flag = False,
    anew: Flag = False,
    home: HomeFolder = DEFAULT,
    json: Json = False,
) -> int:
    """Build a corpus of the bank, train an adapter on it and judge it by the gate.

    The same command goes on with a night that was stopped or killed.

    Parameters
    ----------
    base
        Folder of the base model that the gate was frozen for.
    sft
        Imitate the successes.
    dpo
        Prefer successes to failures, where the corpus has contrasts.
    config
        TOML file with a table [train]; @FILE is short for it.
    per_task
        Successes of one task at most.
    pairs_per_task
        Contrasts of one task at most.
    leave_out_leaks
        Leave out what the probe set asks instead of failing.
    anew
        Drop the corpus and the adapter of a night that was not finished, and begin it again.
    home
        Folder of the weights line.
    json
        Print JSON and nothing else on standard output.
    """
    settings: TrainSettings = read_settings(config)
    plan = NightPlan(
        base=str(base),
        stages=stages_of(sft=sft, dpo=dpo),
        build=checked(
            per_task=per_task, pairs_per_task=pairs_per_task, leave_out_leaks=leave_out_leaks
        ),
        train=settings,
    )
    place = Home(home)
    gate = Gate(place.gate, now=time.time)  # noqa: TID251 - the terminal's clock

    def notify(text: str) -> None:
        if not json:
            output.err().print(text, style="dim", markup=False)

    with (
        stoppable(),
        Answerers(
            place, budget="", threads=settings.threads, interrupted=threading.Event()
        ) as answerers,
    ):
        done = play_night(place, plan, gate, answerers.for_check(gate), notify, anew=anew)
    draw(place.adapters / f"night-{done.number}", done.adapter)
    if json:
        output.emit(msgspec.to_builtins(done))
        return 0
    warn_left_out(done.adapter)
    show_check(done.check)
    output.next_step(f"daydream cycles{home_flag(home)}")
    return 0


def cycles(*, home: HomeFolder = DEFAULT, json: Json = False) -> int:
    """Show, check after check: solve rate, corpus, what the gate decided, and what it cost.

    Parameters
    ----------
    home
        Folder of the weights line.
    json
        Print JSON and nothing else on standard output.
    """
    found = cycles_of(Home(home))
    if json:
        rows: list[JsonValue] = [msgspec.to_builtins(one) for one in found]
        output.emit({"cycles": rows})
        return 0
    if not found:
        output.out().print("no adapter was judged yet", markup=False)
        output.next_step(f"daydream night --base PATH{home_flag(home)}")
        return 0
    cells = [
        (
            one.candidate_name,
            f"{one.attempts:,}",
            percent(one.solved / one.attempts) if one.attempts else "-",
            "-" if one.successes is None else f"{one.successes:,} + {one.contrasts:,}",
            f"{percent(one.incumbent)} to {percent(one.candidate)}",
            one.decision,
            f"{one.tokens:,}",
            "-" if one.cost_usd is None else f"{one.cost_usd:.2f} usd",
            "-" if one.train_seconds is None else output.seconds(one.train_seconds),
        )
        for one in found
    ]
    columns = (
        "candidate",
        ">attempts",
        ">solved",
        ">corpus",
        ">on the probes",
        "gate",
        ">tokens",
        ">cost",
        ">training",
    )
    output.out().print(output.table("Cycles", columns, cells))
    output.next_step(f"daydream gate history{home_flag(home)}")
    return 0
