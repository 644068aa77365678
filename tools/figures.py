"""Tables of measured figures for the README, made from the result files of ``benchmarks/``.

Every number shown comes from a file that a benchmark wrote; a file that is not there shows nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TypeAlias, TypeVar

import msgspec

from daydream.intervals import interval

Rows: TypeAlias = Sequence[Sequence[str]]
Kind = TypeVar("Kind")


class Round(msgspec.Struct, frozen=True):
    """One round of one arm."""

    cum: int
    best: float | None
    policy: str
    calls: int = 0
    off_record: int | None = None


class Compared(msgspec.Struct, frozen=True):
    """One task of ``compare --all``."""

    task: str
    fixed: tuple[Round, ...]
    dream: tuple[Round, ...]


class Comparison(msgspec.Struct, frozen=True):
    """What ``compare --all --json`` prints."""

    tasks: tuple[Compared, ...]
    total: dict[str, int]


class Interval(msgspec.Struct, frozen=True):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float


class Summary(msgspec.Struct, frozen=True):
    """Paired differences over seeds."""

    calls_saved: Interval
    quality_lost: Interval
    last_round_lost: Interval
    calls_to_fixed_best: Interval
    best_at_equal_calls: Interval
    reached: int
    wins: int
    ties: int
    losses: int


class Paired(msgspec.Struct, frozen=True):
    """One task over many seeds."""

    summary: Summary
    seeds: tuple[dict[str, object], ...]


class PolicyLine(msgspec.Struct, frozen=True):
    """benchmarks/results/policy_line.json."""

    six: Comparison | None = None
    fresh: dict[str, Paired] = {}
    margin: dict[str, tuple[Round, ...]] = {}
    real: dict[str, Paired] = {}


class Replayed(msgspec.Struct, frozen=True):
    """Replay of one world."""

    nodes: int
    limit: int
    reveals_per_cpu_s: float
    peak_mb: float


class Closed(msgspec.Struct, frozen=True):
    """The closed form on one world."""

    nodes: int
    limit: int
    pairs_per_s: float


class Loaded(msgspec.Struct, frozen=True):
    """Reading one history file."""

    nodes: int
    seconds: float


class Peer(msgspec.Struct, frozen=True):
    """Another package on the same world, and this one at the peer's batch size."""

    name: str
    version: str = ""
    nodes: int = 0
    limit: int = 0
    reveals_per_cpu_s: float = 0.0
    daydream_reveals_per_cpu_s: float = 0.0
    times: float = 0.0


class Replays(msgspec.Struct, frozen=True):
    """benchmarks/results/replay.json."""

    replay: tuple[Replayed, ...]
    replay_adaptive: tuple[Replayed, ...] = ()
    closed_form: tuple[Closed, ...] = ()
    load: tuple[Loaded, ...] = ()
    peers: tuple[Peer, ...] = ()


class Searched(msgspec.Struct, frozen=True):
    """One line of benchmarks/results/search.jsonl: one run of one case."""

    case: str
    task: str
    goal: str
    target: float
    reached: bool
    calls: int
    cpu_s: float
    measure: float | None = None


def table(columns: Sequence[str], rows: Rows) -> str:
    """Return a Markdown table; ``|`` in a cell is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", r"\|").replace("\n", " ") for cell in line) + " |\n"
        for line in lines
    )


def figures(results: Path) -> str:
    """Return every table that the files in folder ``results`` allow."""
    line = _read(results / "policy_line.json", PolicyLine)
    replays = _read(results / "replay.json", Replays)
    parts: list[str] = []
    if line is not None:
        if line.six is not None:
            parts += [_titled("Six tasks, two rounds, scripted agent", *_six(line.six))]
        for found, title, shape in (
            (line.fresh, "The same on fresh worlds", _fresh),
            (line.real, "Full size, offline, `local_search`", _real),
        ):
            if found:
                parts += [_titled(f"{title}, {_pairs(found)} paired seeds a task", *shape(found))]
        if line.margin:
            parts += [_titled("Recovery from a policy that is too narrow", *_margin(line.margin))]
    searched = results / "search.jsonl"
    if searched.exists():
        runs = msgspec.json.Decoder(Searched).decode_lines(searched.read_bytes())
        parts += [_titled("Full size with `local_search`", *_searched(runs))]
    if replays is not None:
        parts += [_titled("Replay, per CPU second of one core", *_replay(replays))]
        if measured := [peer for peer in replays.peers if peer.version]:
            parts += [_titled("The same world and policy in other packages", *_peers(measured))]
    weights = _read(results / "weights.json", Weights)
    if weights is not None and weights.seeds:
        count, probes = len(weights.seeds), weights.seeds[0].probes
        title = f"The weights line: a tiny model, {count} seeds, {probes} held-out problems each"
        parts += [_titled(title, *_weights(weights))]
    return "\n".join(parts)


class Judged(msgspec.Struct, frozen=True):
    """What the gate decided on one adapter against the base."""

    decision: str
    trial: dict[str, float]


class WeightsSeed(msgspec.Struct, frozen=True):
    """One seed of ``benchmarks/weights_line.py``."""

    probes: int
    decisions: dict[str, Judged]
    greedy: dict[str, float]


class Weights(msgspec.Struct, frozen=True):
    """What ``benchmarks/weights_line.py`` writes."""

    shuffled: float
    seeds: tuple[WeightsSeed, ...]


def _weights(found: Weights) -> tuple[Sequence[str], Rows]:
    """Return how often the model is right, drawn as the gate draws and at its likeliest."""
    names = {
        "base": "base, taught by worked examples",
        "sft": "SFT on its own verified answers",
        "dpo": "the same, then DPO",
        "shuffled": f"SFT with {found.shuffled:.0%} of the labels shuffled",
    }
    rows = []
    for name, told in names.items():
        if name == "base":
            drawn = [one.decisions["sft"].trial["incumbent"] for one in found.seeds]
        else:
            drawn = [one.decisions[name].trial["candidate"] for one in found.seeds]
        likeliest = [one.greedy[name] for one in found.seeds if name in one.greedy]
        promoted = sum(
            one.decisions[name].decision == "promoted" for one in found.seeds if name != "base"
        )
        rows.append(
            (
                told,
                _percent(drawn),
                _percent(likeliest) if likeliest else "",
                "" if name == "base" else f"{promoted} of {len(found.seeds)}",
            )
        )
    return ("model", "solved, drawn", "solved, likeliest", "promoted"), rows


def _percent(shares: Sequence[float]) -> str:
    found = interval([100 * share for share in shares])
    return f"{found.mean:.1f} % ({found.low:.1f} to {found.high:.1f})"


class LassoPath(msgspec.Struct, frozen=True):
    """What ``benchmarks/lasso_path.py`` writes."""

    score: float
    initial: float
    itself: float
    milliseconds: dict[str, tuple[float, float]]
    """Shape to CPU milliseconds of our solver and of scikit-learn."""


def lasso_path(results: Path) -> str:
    """Return the table of our solver against scikit-learn; nothing without its file."""
    found = _read(results / "lasso_path.json", LassoPath)
    if found is None:
        return ""
    rows = [
        (shape, f"{ours:.3g}", f"{theirs:.3g}", f"{theirs / ours:.2f}")
        for shape, (ours, theirs) in found.milliseconds.items()
    ]
    rows += [
        ("geometric mean", "", "", f"{found.score:.2f}"),
        ("the initial solver", "", "", f"{found.initial:.2f}"),
        ("scikit-learn against itself, three shapes", "", "", f"{found.itself:.3f}"),
    ]
    return table(("shape", "ours, CPU ms", "scikit-learn, CPU ms", "speed-up"), rows)


class Rated(msgspec.Struct, frozen=True):
    """Decision rounds of one form of one policy."""

    rounds_per_cpu_s: float
    wall_s: float


class Apart(msgspec.Struct, frozen=True):
    """One policy here and in a process of its own."""

    in_process: Rated
    isolated: Rated
    ratio: float
    work_us: float = 0.0


class Isolation(msgspec.Struct, frozen=True):
    """What ``benchmarks/isolation.py`` writes."""

    worlds: int
    rounds_a_world: int
    light: Apart
    busy: Apart


def isolation(results: Path) -> str:
    """Return the table of what isolation costs; nothing without its file."""
    found = _read(results / "isolation.json", Isolation)
    if found is None:
        return ""
    rows = [
        (
            f"{one.work_us:g} µs" if one.work_us else "next to none",
            f"{one.in_process.rounds_per_cpu_s:,.0f}",
            f"{one.isolated.rounds_per_cpu_s:,.0f}",
            f"{one.ratio:.2f}",
            f"{one.isolated.wall_s:.1f} s",
        )
        for one in (found.light, found.busy)
    ]
    title = f"{found.worlds:,} worlds of {found.rounds_a_world} rounds"
    columns = (
        "work in a round",
        "trusted, here",
        "isolated",
        "ratio",
        "wall, start and all passes",
    )
    return f"{title}, decision rounds per CPU second of both processes:\n\n{table(columns, rows)}"


def _read(path: Path, kind: type[Kind]) -> Kind | None:
    return msgspec.json.decode(path.read_bytes(), type=kind) if path.exists() else None


def _titled(title: str, columns: Sequence[str], rows: Rows) -> str:
    return f"**{title}**\n\n{table(columns, rows)}"


def _six(found: Comparison) -> tuple[Sequence[str], Rows]:
    rows = [
        (
            f"`{one.task}`",
            str(one.fixed[-1].cum),
            str(one.dream[-1].cum),
            _number(one.fixed[-1].best),
            _number(one.dream[-1].best),
            f"`{one.dream[-1].policy}`",
        )
        for one in found.tasks
    ]
    rows.append(("total", str(found.total["fixed"]), str(found.total["dream"]), "", "", ""))
    columns = ("task", "calls, fixed", "calls, dream", "best, fixed", "best, dream", "round 2 ran")
    return columns, rows


def _fresh(found: Mapping[str, Paired]) -> tuple[Sequence[str], Rows]:
    shown: Mapping[str, Callable[[Summary], str]] = {
        "calls saved": lambda one: _interval(one.calls_saved, 1),
        "best score lost": lambda one: _interval(one.quality_lost),
        "best of round 2 lost": lambda one: _interval(one.last_round_lost),
        "won, tied, lost": _contest,
    }
    return _paired(found, shown)


def _real(found: Mapping[str, Paired]) -> tuple[Sequence[str], Rows]:
    shown: Mapping[str, Callable[[Summary], str]] = {
        "calls saved": lambda one: _interval(one.calls_saved, 1),
        "best at equal calls": lambda one: _interval(one.best_at_equal_calls, 7),
        "reached fixed's best": lambda one: str(one.reached),
        "extra calls to it": lambda one: _interval(one.calls_to_fixed_best, 1),
        "won, tied, lost": _contest,
    }
    return _paired(found, shown)


def _paired(
    found: Mapping[str, Paired], shown: Mapping[str, Callable[[Summary], str]]
) -> tuple[Sequence[str], Rows]:
    rows = [
        (f"`{task}`", *(tell(one.summary) for tell in shown.values()))
        for task, one in sorted(found.items())
    ]
    return ("task", *shown), rows


def _margin(found: Mapping[str, Sequence[Round]]) -> tuple[Sequence[str], Rows]:
    rows = [
        (
            f"`--explore-margin {margin}`",
            ", ".join(str(one.calls) for one in rounds),
            ", ".join(_number(one.best) for one in rounds),
            ", ".join("-" if one.off_record is None else str(one.off_record) for one in rounds),
        )
        for margin, rounds in sorted(found.items())
    ]
    return ("five rounds from `parallel_refine-w1-d1`", "calls", "best so far", "off record"), rows


def _searched(runs: Sequence[Searched]) -> tuple[Sequence[str], Rows]:
    cases: dict[str, list[Searched]] = {}
    for run in runs:
        cases.setdefault(run.case, []).append(run)
    rows = []
    for found in cases.values():
        first = found[0]
        best = (min if first.goal == "min" else max)(
            (run.measure for run in found if run.measure is not None), default=None
        )
        rows.append(
            (
                f"`{first.task}`",
                "none" if best is None else f"{best:.9f}",
                f"{'at most' if first.goal == 'min' else 'at least'} {first.target:g}",
                f"{sum(run.reached for run in found)} of {len(found)}",
                f"{median(run.calls for run in found):g}",
                f"{median(run.cpu_s for run in found):.0f}",
            )
        )
    columns = ("task", "best", "target", "seeds that reach it", "calls", "CPU seconds")
    return columns, rows


def _replay(found: Replays) -> tuple[Sequence[str], Rows]:
    adaptive = {(one.nodes, one.limit): one for one in found.replay_adaptive}
    closed = {(one.nodes, one.limit): one for one in found.closed_form}
    load = {one.nodes: one for one in found.load}
    rows = []
    for one in found.replay:
        key = (one.nodes, one.limit)
        rows.append(
            (
                f"{one.nodes:,}",
                str(one.limit),
                f"{one.reveals_per_cpu_s:,.0f}",
                f"{adaptive[key].reveals_per_cpu_s:,.0f}" if key in adaptive else "",
                f"{closed[key].pairs_per_s:,.0f}" if key in closed else "",
                f"{one.peak_mb:.0f} MB",
                f"{load[one.nodes].seconds:.2f} s" if one.nodes in load else "",
            )
        )
    columns = (
        "nodes",
        "limit",
        "revealed nodes, `parallel_refine`",
        "revealed nodes, `adaptive`",
        "(spec, world) pairs in closed form",
        "peak memory",
        "load",
    )
    return columns, rows


def _peers(found: Sequence[Peer]) -> tuple[Sequence[str], Rows]:
    rows = [
        (
            f"{one.name} {one.version}",
            f"{one.nodes:,}",
            str(one.limit),
            f"{one.reveals_per_cpu_s:,.0f}",
            f"{one.daydream_reveals_per_cpu_s:,.0f}",
            f"{one.times:,.0f}",
        )
        for one in found
    ]
    return ("package", "nodes", "batch", "its reveals per CPU second", "ours", "times"), rows


def _contest(one: Summary) -> str:
    return f"{one.wins}, {one.ties}, {one.losses}"


def _pairs(found: Mapping[str, Paired]) -> str:
    counts = sorted({len(one.seeds) for one in found.values()})
    return " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"


def _interval(value: Interval, digits: int = 4) -> str:
    return f"{value.mean:.{digits}f} ({value.low:.{digits}f} to {value.high:.{digits}f})"
