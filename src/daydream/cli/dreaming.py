"""``daydream dream`` and ``daydream replay``: policies judged on what is already paid for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from daydream.bookkeeping import Book
from daydream.canonical import JsonValue
from daydream.cli import output, results
from daydream.cli.flags import ScoreFlags
from daydream.cli.worlds import Worlds, open_worlds
from daydream.errors import UsageError
from daydream.isolation import replay_apart
from daydream.policies.base import PolicySpec
from daydream.policies.parallel_refine import ParallelRefine
from daydream.policies.specs import parse_spec, spec_from_json
from daydream.proposers.base import Scored
from daydream.rounds import Surroundings, deploy, load_proposer, widened
from daydream.selection import Scorer, Selection, Settings, describe_world, report, select
from daydream.store.run_folder import RunFolder
from daydream.store.state import RunState


def dream(
    run: Path,
    *,
    dreamer: str = "auto",
    policy: str | None = None,
    guard: Literal["quality", "none"] = "quality",
    explore_margin: int = 0,
    score: ScoreFlags = ScoreFlags(),  # noqa: B008 - frozen
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    trust: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Select the next policy of a run by replaying candidates in its finished trees, for free.

    Parameters
    ----------
    run
        The run folder.
    dreamer
        Who proposes: auto, system1, grid, none.
    policy
        The incumbent. [default: the deployed policy]
    guard
        quality admits only policies that keep every world's quality.
    explore_margin
        How far the deployed width and depth may exceed what replay chose.
    dry_run
        Show the choice and write nothing.
    trust
        Run policy files in this process, without isolation.
    json
        Print JSON and nothing else on standard output.
    """
    proposer = load_proposer(dreamer)
    clock = None if dry_run else Surroundings().now
    with RunFolder.open(run, clock=clock) as folder:
        worlds = open_worlds(run, folder=folder)
        state = folder.state()
        incumbent = (
            deployed_spec(state, worlds, trust=trust)
            if policy is None
            else parse_spec(policy, trust=trust)
        )
        settings = Settings(
            objective=score.objective(),
            guard=guard,
            limit=worlds.pool.trees[-1].limit,
            max_batches=worlds.max_batches,
        )
        selection = select(
            incumbent,
            proposer,
            worlds.pool,
            settings=settings,
            earlier=_earlier(state, incumbent, trust=trust),
            apart=replay_apart,
        )
        deployed = widened(selection, explore_margin, worlds.pool, settings)
        if not dry_run:
            deploy(Book(folder), worlds.pool.trees[-1].round, selection, deployed)
    _show(run, selection, deployed, dry_run=dry_run, as_json=json)
    return 0


def _show(
    run: Path, selection: Selection, deployed: Scored, *, dry_run: bool, as_json: bool
) -> None:
    if as_json:
        output.emit({**report(selection, deployed=deployed, most=20), "dry_run": dry_run})
        return
    console = output.out()
    ranked = sorted(selection.candidates, key=lambda one: -one.mean)[:8]
    rows = [_row("incumbent", selection.incumbent), *(_row("", one) for one in ranked)]
    columns = ("", "policy", ">replay score", ">attempts", "quality kept", ">off record")
    console.print(output.table(f"{len(selection.candidates)} candidates", columns, rows))
    console.print(results.learned(report(selection)), markup=False)
    verb = "would deploy" if dry_run else "deployed"
    console.print(f"{verb} {deployed.spec.name}", style="bold", markup=False)
    output.next_step(f"daydream resume {output.shown(run)} --rounds N")


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
    limit: int | None = None,
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
    settings = Settings(
        objective=score.objective(),
        limit=limit or worlds.pool.trees[-1].limit,
        max_batches=worlds.max_batches,
    )
    scorer = Scorer(worlds.pool, settings, apart=replay_apart)
    scored = scorer.score([parse_spec(policy, trust=trust)])[0]
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
        output.emit({"policy": scored.spec.name, "worlds": rows, "mean": scored.mean})
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
    console.print(f"mean replay score {output.number(scored.mean)}", style="bold")
    output.next_step(f"daydream dream {output.shown(run)} --dry-run")
    return 0
