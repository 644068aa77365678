"""``daydream dream`` and ``daydream replay``: policies judged on what is already paid for."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, cast

import msgspec
from cyclopts import Parameter

from daydream.bookkeeping import Book
from daydream.canonical import JsonObject, JsonValue
from daydream.cli import output, results
from daydream.cli.flags import DreamFlags, ScoreFlags, of_run
from daydream.cli.numbers import Whole
from daydream.cli.progress import interruptible
from daydream.cli.worlds import Worlds, open_worlds
from daydream.config import RunSettings
from daydream.dreams import (
    Asked,
    Dreaming,
    Dreamt,
    check_dreaming,
    deploy,
    dreaming_of,
    first_question,
)
from daydream.dreams import dream as select_next
from daydream.errors import Stopped, UsageError
from daydream.llm.budget import CHARACTERS_A_TOKEN, check_price, parse_budget
from daydream.llm.client import Client
from daydream.policies.base import PolicySpec
from daydream.policies.parallel_refine import ParallelRefine
from daydream.policies.specs import parse_spec, spec_from_json
from daydream.prompting import use_prompts
from daydream.proposers.asked import Question
from daydream.proposers.base import Scored
from daydream.rounds import Surroundings, client_of
from daydream.selection import Scorer, describe_world
from daydream.store.run_folder import RunFolder
from daydream.store.state import RunState
from daydream.summaries import result_of_state, with_rounds
from daydream.wording import counted


def dream(
    run: Path,
    *,
    policy: str | None = None,
    flags: DreamFlags = DreamFlags(),  # noqa: B008 - frozen
    score: ScoreFlags = ScoreFlags(),  # noqa: B008 - frozen
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    trust: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Select the next policy of a run by replaying candidates in its finished trees.

    Replay is free. With --dreamer developer a model rewrites the policy file, and is shown between
    revisions how its versions decided; only its answers cost.

    Parameters
    ----------
    run
        The run folder.
    policy
        The incumbent. [default: the deployed policy]
    dry_run
        Show the choice and write nothing; with a model, what it would be asked.
    trust
        Run policy files in this process, without isolation.
    json
        Print JSON and nothing else on standard output.
    """
    surroundings = Surroundings()
    with (
        interruptible() as interrupted,
        RunFolder.open(run, clock=None if dry_run else surroundings.now) as folder,
    ):
        around = msgspec.structs.replace(surroundings, interrupted=interrupted)
        worlds = open_worlds(run, folder=folder)
        book = Book(folder)
        settings = of_run(worlds.settings, run, flags, score)
        if flags.dreamer is None and settings.dreamer == "none":
            settings = msgspec.structs.replace(settings, dreamer="auto")
        incumbent = (
            deployed_spec(book.state, worlds, trust=trust)
            if policy is None
            else _named(policy, settings, trust=trust)
        )
        dreaming = _judged(settings, worlds)
        asks = _checked(flags, settings, dreaming, worlds)
        number = worlds.pool.trees[-1].round
        with _client(book, settings, around) as asking:
            if dry_run and asks:
                question = first_question(book, number, worlds.pool, incumbent, dreaming, asking)
                return _show_question(question, dreaming, as_json=json)
            try:
                dreamt = select_next(
                    book,
                    number,
                    worlds.pool,
                    incumbent,
                    earlier=_earlier(book.state, incumbent, trust=trust),
                    dreaming=dreaming,
                    asking=asking,
                )
            except Stopped as reason:
                return _stopped(run, reason, as_json=json)
        if not dry_run:
            deploy(book, number, dreamt)
            summary = folder.summary()
            if summary is not None:
                folder.write_summary(with_rounds(summary, result_of_state(run, book.state)))
        imported = "source" not in folder.config()
    _show(run, dreamt, dry_run=dry_run, as_json=json)
    if not json:
        _show_next(run, dry_run=dry_run, imported=imported)
    return 0


def _checked(flags: DreamFlags, settings: RunSettings, dreaming: Dreaming, worlds: Worlds) -> bool:
    """Return whether a model is asked; raises for what cannot be, and takes the run's texts."""
    check_holdout(flags.holdout or 0, len(worlds.pool.trees))
    asked = check_dreaming(dreaming)
    if asked is not None:
        check_price(parse_budget(settings.budget), asked.model, settings.prices)
        use_prompts(settings.prompts)
    elif flags.model:
        raise UsageError(
            f"--model {flags.model} is for a dreamer that asks one, and --dreamer is "
            f"{dreaming.dreamer} (expected developer or spec-model); name one of them"
        )
    return asked is not None


def _named(policy: str, settings: RunSettings, *, trust: bool) -> PolicySpec:
    """Return the policy that a person named; a file gets the run's ``policy_config``."""
    return parse_spec(policy, trust=trust, config=cast("JsonObject", settings.policy_config))


def _judged(settings: RunSettings, worlds: Worlds, *, limit: int | None = None) -> Dreaming:
    """Return what a selection does under ``settings``, by the trees' own limit unless told."""
    dreaming = dreaming_of(settings)
    replayed = msgspec.structs.replace(
        dreaming.settings, limit=worlds.pool.trees[-1].limit if limit is None else limit
    )
    return msgspec.structs.replace(dreaming, settings=replayed)


def _at_least(least: int, name: str, value: int) -> int:
    if value < least:
        raise UsageError(f"{name} is {value} (expected at least {least})")
    return value


def check_holdout(holdout: int, trees: int) -> None:
    """Raise :class:`UsageError` unless so many worlds can be held out and one is left."""
    if holdout >= trees and holdout > 0:
        raise UsageError(
            f"--holdout {holdout} leaves no world to choose by: the run has {trees} finished "
            f"tree{'s' if trees > 1 else ''} (expected at least {holdout + 1}); explore more "
            "rounds, or hold out fewer"
        )


@contextmanager
def _client(book: Book, settings: RunSettings, around: Surroundings) -> Iterator[Asked]:
    """Yield how models are reached; connections are opened when asked and closed at the end."""
    parse_budget(settings.budget)
    opened: list[Client] = []

    def client() -> Client:
        if not opened:
            opened.append(client_of(book, settings, around))
        return opened[0]

    try:
        yield Asked(client, around.interrupted)
    finally:
        for one in opened:
            one.close()


def _stopped(run: Path, reason: Stopped, *, as_json: bool) -> int:
    if as_json:
        output.emit({"stopped": reason.reason, "exit": reason.exit_code})
    output.err().print(
        f"daydream: stopped before a choice: {reason.reason}; what was paid for is kept",
        markup=False,
    )
    if not as_json:
        output.next_step(f"daydream dream {output.shown(run)} with the same flags goes on")
    return reason.exit_code


def _show_question(asked: Question | None, dreaming: Dreaming, *, as_json: bool) -> int:
    size = 0 if asked is None else len(asked.system) + len(asked.user)
    tokens = size // CHARACTERS_A_TOKEN
    if as_json:
        text = None if asked is None else {"system": asked.system, "user": asked.user}
        output.emit({"questions": dreaming.revisions, "first_tokens": tokens, "first": text})
        return 0
    console = output.out()
    if asked is not None:
        console.print(asked.user, markup=False)
    console.print(
        f"{dreaming.developer} would be asked {counted(dreaming.revisions, 'time')}, first "
        f"with about {tokens:,} tokens; later questions are somewhat longer",
        style="bold",
        markup=False,
    )
    output.next_step("the same command without --dry-run")
    return 0


def _show(run: Path, dreamt: Dreamt, *, dry_run: bool, as_json: bool) -> None:
    selection = dreamt.selection
    told = dreamt.report(most=20)
    if as_json:
        usage = msgspec.to_builtins(dreamt.usage)
        output.emit({**told, "usage": usage, "dry_run": dry_run})
        return
    console = output.out()
    ranked = sorted(selection.candidates, key=lambda one: -one.mean)[:8]
    rows = [_row("incumbent", selection.incumbent), *(_row("", one) for one in ranked)]
    columns = ("", "policy", ">replay score", ">attempts", "quality kept", ">off record")
    console.print(output.table(counted(len(selection.candidates), "candidate"), columns, rows))
    if selection.chosen.sweep is not None:
        pair = (("incumbent", selection.incumbent), ("chosen", selection.chosen))
        console.print(_curve(pair))
    for note in dreamt.revisions:
        if note.get("problem"):
            line = f"version {note['number']} is no policy: {note['problem']}"
            console.print(line, style="yellow", markup=False)
    console.print(results.learned(told), markup=False)
    if dreamt.held_out is not None:
        console.print(results.held_out(told), markup=False)
    spent = results.usage_text([dreamt.usage])
    if spent:
        console.print(f"Models: {spent}", markup=False)
    verb = "would deploy" if dry_run else "deployed"
    console.print(f"{verb} {dreamt.deployed.spec.name}", style="bold", markup=False)


def _show_next(run: Path, *, dry_run: bool, imported: bool) -> None:
    name = output.shown(run)
    # Trees from elsewhere have no task here that could be explored.
    later = f"daydream replay {name} --policy SPEC" if imported else f"daydream explore {name}"
    output.next_step(f"daydream dream {name}" if dry_run else later)


def _curve(shown: Sequence[tuple[str, Scored]]) -> object:
    """The table of a sweep: what each beta attains, for which share of the record."""
    rows = [
        (
            who,
            "-" if point.beta is None else f"{point.beta:g}",
            output.number(point.attained, 4),
            output.number(point.share, 4),
        )
        for who, scored in shown
        if scored.sweep is not None
        for point in scored.sweep.points
    ]
    return output.table("Sweep", ("", ">beta", ">attained", ">share of record"), rows)


def _row(label: str, scored: Scored) -> tuple[str, ...]:
    if scored.disqualified is not None:
        why = f"disqualified in world {scored.disqualified.world}: {scored.disqualified.reason}"
        return (label, scored.spec.name, "-", "-", why, "-")
    return (
        label,
        scored.spec.name,
        output.number(scored.mean),
        str(scored.attempts),
        "yes" if scored.admitted else "no",
        str(sum(world.off_record for world in scored.worlds)),
    )


def deployed_spec(state: RunState, worlds: Worlds, *, trust: bool) -> PolicySpec:
    """Return the policy that a run would deploy next: the last selection's, else what ran last."""
    tree = worlds.pool.trees[-1]
    last = state.rounds.get(tree.round)
    if last is not None and last.selection is not None:
        return spec_from_json(dict(last.selection.spec), trust=trust)
    if last is not None and last.started.spec:
        return spec_from_json(dict(last.started.spec), trust=trust)
    try:
        return parse_spec(tree.policy)
    except UsageError:
        # A record from elsewhere names no policy of ours: stand in what reveals all of it.
        return ParallelRefine(
            max(1, *(node.branch + 1 for node in tree.nodes)),
            max(1, *(node.depth for node in tree.nodes)),
        )


def _earlier(state: RunState, incumbent: PolicySpec, *, trust: bool) -> Sequence[PolicySpec]:
    found = [
        spec_from_json(dict(state.rounds[number].started.spec), trust=trust)
        for number in sorted(state.rounds, reverse=True)
        if state.rounds[number].started.spec
    ]
    return [spec for spec in found if spec != incumbent]


def replay(
    run: Path,
    *,
    policy: str,
    limit: Whole | None = None,
    score: ScoreFlags = ScoreFlags(),  # noqa: B008 - frozen
    trust: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Score a policy in every world of a run. Calls no agent and no evaluator.

    Parameters
    ----------
    run
        A run folder, a tree file (history/001.json) or a trees.jsonl.
    policy
        A spec such as adaptive-w4-d4-p3-g0.02, its JSON, or a .py file.
    limit
        Attempts that one batch may hold. [default: that of the last tree]
    trust
        Run a policy file of yours in this process, without isolation.
    json
        Print JSON and nothing else on standard output.
    """
    worlds = open_worlds(run)
    own = of_run(worlds.settings, run, score)
    given = None if limit is None else _at_least(1, "--limit", limit)
    judged = _judged(own, worlds, limit=given)
    settings = judged.settings
    if settings.sweep and settings.objective.normalised:
        raise UsageError("--objective sweep is normalised by itself (expected no --normalised)")
    scorer = Scorer(worlds.pool, settings, apart=judged.apart)
    scored = scorer.score([_named(policy, own, trust=trust)])[0]
    if scored.disqualified is not None:
        out = scored.disqualified
        if json:
            output.emit({"disqualified": msgspec.to_builtins(out)})
        output.err().print(
            f"daydream: {scored.spec.name} is disqualified in world {out.world}, "
            f"batch {out.batch}: {out.reason}",
            markup=False,
        )
        return 1
    if json:
        rows: list[JsonValue] = [describe_world(world) for world in scored.worlds]
        swept = {} if scored.sweep is None else {"sweep": msgspec.to_builtins(scored.sweep)}
        output.emit({"policy": scored.spec.name, "worlds": rows, "mean": scored.mean, **swept})
        return 0
    columns = (
        ">tree", ">quality", ">attempts", ">batches", ">parallelism", ">- cost", ">+ bonus",
        ">score", ">off record",
    )  # fmt: skip
    body = [
        (
            str(world.tree),
            output.number(world.breakdown.quality),
            f"{world.breakdown.attempts} of {world.recorded}",
            str(world.breakdown.batches),
            output.number(world.breakdown.parallelism, 2),
            output.number(world.breakdown.cost),
            output.number(world.breakdown.bonus),
            output.number(world.breakdown.score),
            str(world.off_record),
        )
        for world in scored.worlds
    ]
    console = output.out()
    console.print(output.table(scored.spec.name, columns, body))
    if scored.sweep is not None:
        terms = scored.sweep
        console.print(_curve([("", scored)]))
        console.print(f"area {output.number(terms.area)}, penalty {output.number(terms.penalty)}")
    name = "mean replay score" if scored.sweep is None else "reward"
    console.print(f"{name} {output.number(scored.mean)}", style="bold")
    output.next_step(f"daydream dream {output.shown(run)} --dry-run")
    return 0
