"""Monotone selection: the incumbent is re-scored beside every candidate and ties keep it.

Candidates come from a proposer in stages. A candidate that breaks a rule in one world is out as a
whole. The guard admits only candidates that keep, in every world, the quality that the incumbent
reaches there; the report always shows the choice with and without it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from daydream.canonical import JsonValue
from daydream.errors import PolicyError, PolicyFault, SelectionError
from daydream.manifests import Archive
from daydream.objective import BETAS, MARGIN, Objective, mean, sweep
from daydream.policies.base import PolicySpec
from daydream.policies.python_file import PythonFileSpec, runs_apart
from daydream.proposers.base import BetaPoint, Disqualified, Proposer, Scored, Swept
from daydream.replay import Gauge, Record, ReplayWorld, WorldScore
from daydream.search import DEFAULT_LIMIT, DEFAULT_MAX_BATCHES, Outcome, Policy, solve
from daydream.tree import Pool

Guard: TypeAlias = Literal["quality", "none"]
PolicyFactory: TypeAlias = Callable[[PolicySpec, float], Policy]
"""Builds a fresh policy from a spec and the score scale."""


class Apart(Protocol):
    """Plays code that may not run in this process in every world; rounds brings one."""

    def __call__(
        self,
        spec: PythonFileSpec,
        records: Sequence[Record],
        *,
        limit: int,
        max_batches: int,
    ) -> Sequence[Outcome]:
        """Return the outcomes in order; raises :class:`PolicyFault` with the world's position."""
        ...


NOTHING = "reveals nothing"
MANY = 24
"""Candidates from which the closed form pays for loading numpy."""


def build_policy(spec: PolicySpec, scale: float) -> Policy:
    """Return ``spec.build(scale)``: the factory for specs that run in this process."""
    return spec.build(scale)


class Settings(msgspec.Struct, frozen=True):
    """What fixes a selection beside the pool and the candidates."""

    objective: Objective = Objective()
    sweep: bool = False
    """Score the curve over beta instead; worlds then show the policy's own beta."""
    guard: Guard = "quality"
    limit: int = DEFAULT_LIMIT
    max_batches: int = DEFAULT_MAX_BATCHES


class Selection(msgspec.Struct, frozen=True):
    """What was scored and what was chosen."""

    incumbent: Scored
    """The policy that candidates had to beat; a fallback when the deployed one was disqualified."""
    candidates: tuple[Scored, ...]
    """Every candidate, in the order proposed."""
    chosen: Scored
    """The choice under the guard that was asked for."""
    guarded: Scored
    """The choice under the quality guard."""
    plain: Scored
    """The plain argmax."""
    replaced: Disqualified | None
    """Why the deployed policy gave way, when it did."""

    @property
    def changed(self) -> bool:
        """Whether another policy than the incumbent was chosen."""
        return self.chosen is not self.incumbent


def records_of(pool: Pool) -> list[Record]:
    """Return the worlds of ``pool`` in order; each shows the rollouts of earlier rounds in short.

    A part of a run shows what the whole run had seen by then.
    """
    archive = Archive(pool.known or pool.trees)
    return [
        Record(tree, pool.eligibility, archive.before(tree.round, tree.grid)) for tree in pool.trees
    ]


class Scorer:
    """Scores specs over one pool; indexes each tree once."""

    def __init__(
        self,
        pool: Pool,
        settings: Settings,
        factory: PolicyFactory = build_policy,
        *,
        apart: Apart | None = None,
    ) -> None:
        self.pool = pool
        self.settings = settings
        self._factory = factory
        self._apart = apart
        self.records = records_of(pool)
        self._gauges = [
            Gauge(pool, tree, settings.objective, limit=settings.limit) for tree in pool.trees
        ]

    def score(self, specs: Sequence[PolicySpec]) -> list[Scored]:
        """Return the scores of ``specs``, in order."""
        found = self._at_one_beta(specs)
        return [self._swept(one) for one in found] if self.settings.sweep else found

    def _swept(self, scored: Scored) -> Scored:
        """Return ``scored`` by its curve; a file is played at each beta, other specs have none."""
        spec = scored.spec
        if scored.disqualified is not None:
            return scored
        curve: list[tuple[float | None, Scored]] = [(None, scored)]
        if isinstance(spec, PythonFileSpec):
            curve = []
            for beta in BETAS:
                knob = msgspec.structs.replace(spec, config={**spec.config, "beta": beta})
                played = self._at_one_beta([knob])[0]
                if played.disqualified is not None:
                    return msgspec.structs.replace(played, spec=spec)
                curve.append((beta, played))
        points = [
            [gauge.point(row) for gauge, row in zip(self._gauges, one.worlds, strict=True)]
            for _, one in curve
        ]
        found = sweep(points)
        rows = [
            BetaPoint(beta, mean([p.attained for p in row]), mean([p.share for p in row]))
            for (beta, _), row in zip(curve, points, strict=True)
        ]
        told = Swept(tuple(rows), found.area, found.penalty, found.reward)
        return msgspec.structs.replace(scored, mean=found.reward, sweep=told)

    def _at_one_beta(self, specs: Sequence[PolicySpec]) -> list[Scored]:
        if len(specs) >= MANY and self.pool.eligibility == "chain":
            from daydream.closed_form import covers, score_specs

            if all(covers(spec) for spec in specs):
                rows = score_specs(
                    specs,
                    self.pool,
                    self.settings.objective,
                    limit=self.settings.limit,
                    max_batches=self.settings.max_batches,
                )
                return [self._scored(spec, row) for spec, row in zip(specs, rows, strict=True)]
        return [
            self.step_by_step(spec)
            if self._apart is None or not runs_apart(spec)
            else self._played(spec, self._apart)
            for spec in specs
        ]

    def step_by_step(self, spec: PolicySpec) -> Scored:
        """Return the score of ``spec`` by replaying it batch by batch in every world."""
        rows: list[WorldScore] = []
        for tree, record, gauge in zip(self.pool.trees, self.records, self._gauges, strict=True):
            world = ReplayWorld(record)
            try:
                rollout = solve(
                    self._factory(spec, self.pool.scale),
                    world,
                    limit=self.settings.limit,
                    max_batches=self.settings.max_batches,
                )
            except PolicyError as error:
                return _out(spec, tree.round, world.view().batches + 1, str(error))
            if rollout.attempts == 0 and tree.attempts > 0:
                return _out(spec, tree.round, rollout.batches, NOTHING)
            rows.append(gauge.score(rollout))
        return self._scored(spec, rows)

    def _played(self, spec: PythonFileSpec, apart: Apart) -> Scored:
        settings = self.settings
        try:
            outcomes = apart(
                spec, self.records, limit=settings.limit, max_batches=settings.max_batches
            )
        except PolicyFault as fault:
            world = self.pool.trees[fault.world].round
            return _out(spec, world, fault.batch, fault.reason)
        rows: list[WorldScore] = []
        for tree, outcome, gauge in zip(self.pool.trees, outcomes, self._gauges, strict=True):
            if outcome.attempts == 0 and tree.attempts > 0:
                return _out(spec, tree.round, outcome.batches, NOTHING)
            rows.append(gauge.score(outcome))
        return self._scored(spec, rows)

    def _scored(self, spec: PolicySpec, rows: Sequence[WorldScore]) -> Scored:
        return Scored(
            spec=spec,
            worlds=tuple(rows),
            mean=mean([row.breakdown.score for row in rows]),
            attempts=sum(row.breakdown.attempts for row in rows),
        )


def _out(spec: PolicySpec, world: int, batch: int, reason: str) -> Scored:
    return Scored(
        spec=spec,
        worlds=(),
        mean=0.0,
        attempts=0,
        disqualified=Disqualified(world, batch, reason),
        admitted=False,
    )


def select(
    incumbent: PolicySpec,
    proposer: Proposer,
    pool: Pool,
    *,
    settings: Settings = Settings(),  # noqa: B008 - frozen
    earlier: Sequence[PolicySpec] = (),
    factory: PolicyFactory = build_policy,
    apart: Apart | None = None,
) -> Selection:
    """Return the selection over ``pool``; ``earlier`` are versions to fall back to, newest first.

    ``apart`` plays policy files that are not trusted; without it they are disqualified.

    The chosen mean replay score is never below the incumbent's. Raises :class:`SelectionError`
    when the incumbent and every earlier version are disqualified.
    """
    scorer = Scorer(pool, settings, factory, apart=apart)
    deployed = scorer.score([incumbent])[0]
    standing = deployed if deployed.disqualified is None else _fallback(scorer, deployed, earlier)
    candidates: list[Scored] = []
    while specs := proposer.propose(pool, standing.spec, candidates):
        candidates += [_judge(scored, standing, settings.guard) for scored in scorer.score(specs)]
    guarded = _choose(standing, [c for c in candidates if _keeps_quality(c, standing)])
    plain = _choose(standing, candidates)
    return Selection(
        incumbent=standing,
        candidates=tuple(candidates),
        chosen=guarded if settings.guard == "quality" else plain,
        guarded=guarded,
        plain=plain,
        replaced=deployed.disqualified,
    )


def _fallback(scorer: Scorer, deployed: Scored, earlier: Sequence[PolicySpec]) -> Scored:
    valid = [scored for scored in scorer.score(earlier) if scored.disqualified is None]
    if not valid:
        out = deployed.disqualified
        raise SelectionError(
            f"policy {deployed.spec.name} is disqualified in world {out.world if out else '?'}: "
            f"{out.reason if out else '?'}; none of {len(earlier)} earlier versions is valid "
            "either; deploy another policy with --policy"
        )
    return _best(valid)


def _judge(scored: Scored, standing: Scored, guard: Guard) -> Scored:
    if scored.disqualified is not None:
        return scored
    return msgspec.structs.replace(
        scored,
        admitted=guard == "none" or _keeps_quality(scored, standing),
        better=scored.mean > standing.mean + MARGIN,
    )


def _keeps_quality(scored: Scored, standing: Scored) -> bool:
    return scored.disqualified is None and all(
        mine.breakdown.quality >= theirs.breakdown.quality - MARGIN
        for mine, theirs in zip(scored.worlds, standing.worlds, strict=True)
    )


def _choose(standing: Scored, candidates: Sequence[Scored]) -> Scored:
    better = [scored for scored in candidates if scored.better]
    return _best(better) if better else standing


def _best(scored: Sequence[Scored]) -> Scored:
    """The greatest mean; within the margin fewer attempts, then the order given."""
    top = max(one.mean for one in scored)
    return min((one for one in scored if one.mean >= top - MARGIN), key=lambda one: one.attempts)


def report(
    selection: Selection, *, deployed: Scored | None = None, most: int = 8
) -> Mapping[str, JsonValue]:
    """Return the selection as JSON for the journal and the screen, with the ``most`` best rows.

    ``deployed`` is the replay of what goes online, where that is more than what was chosen.
    """
    ranked = sorted(selection.candidates, key=lambda one: (one.disqualified is not None, -one.mean))
    return {
        "incumbent": describe(selection.incumbent),
        "chosen": describe(selection.chosen),
        "deployed": describe(selection.chosen if deployed is None else deployed),
        "guarded": selection.guarded.spec.name,
        "plain": selection.plain.spec.name,
        "changed": selection.changed,
        "candidates": len(selection.candidates),
        "disqualified": sum(one.disqualified is not None for one in selection.candidates),
        "best": [describe(one) for one in ranked[:most]],
        "replaced": msgspec.to_builtins(selection.replaced),
    }


def describe(scored: Scored) -> Mapping[str, JsonValue]:
    """Return one scored policy as JSON."""
    return {
        "policy": scored.spec.name,
        "mean": scored.mean,
        "attempts": scored.attempts,
        **({} if scored.sweep is None else {"sweep": msgspec.to_builtins(scored.sweep)}),
        "admitted": scored.admitted,
        "better": scored.better,
        "disqualified": msgspec.to_builtins(scored.disqualified),
        "worlds": [describe_world(world) for world in scored.worlds],
    }


def describe_world(world: WorldScore) -> Mapping[str, JsonValue]:
    """Return one world's score as JSON."""
    terms = world.breakdown
    return {
        "tree": world.tree,
        "quality": terms.quality,
        "attempts": terms.attempts,
        "batches": terms.batches,
        "parallelism": terms.parallelism,
        "cost": terms.cost,
        "bonus": terms.bonus,
        "score": terms.score,
        "off_record": world.off_record,
        "recorded": world.recorded,
    }
