"""The tables of a comparison page: everything that the charts show, as text."""

from collections import Counter
from collections.abc import Callable, Sequence

from daydream.cli.charts.canvas import Markup, join, tag, words
from daydream.cli.charts.curves import (
    ARMS,
    ToMeasure,
    comparison_curves,
    middle_curve,
    pick_arm,
)
from daydream.cli.charts.plot import Curve
from daydream.cli.charts.scales import count, drawable, number, ticks
from daydream.compare import Arm, Summary, TaskComparison
from daydream.intervals import Interval
from daydream.objective import mean
from daydream.wording import counted

NOTHING = "\N{EN DASH}"
"""Stands for a value that does not exist."""


def table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, text: str | None = None
) -> Markup:
    """Return a table whose first column names its rows; it scrolls sideways where it must.

    The other columns hold numbers, but for the one headed ``text``.
    """
    kinds = ["text" if name == text else None for name in head]
    titles = join(
        tag("th", words(name), scope="col", class_=kind)
        for name, kind in zip(head, kinds, strict=True)
    )
    body = join(
        tag(
            "tr",
            tag("th", words(row[0]), scope="row"),
            *(
                tag("td", words(cell), class_=kind)
                for cell, kind in zip(row[1:], kinds[1:], strict=True)
            ),
        )
        for row in rows
    )
    return tag(
        "div",
        tag(
            "table",
            tag("caption", words(caption)),
            tag("thead", tag("tr", titles)),
            tag("tbody", body),
        ),
        class_="scroll",
        role="region",
        tabindex="0",
        aria_label=caption,
    )


def overview(tasks: Sequence[TaskComparison], to_measure: ToMeasure) -> Markup:
    """Return one row a task: calls, best, best of the last round, deployed policy."""
    head = (
        "Task", "Calls, fixed", "Calls, dream", "Saved", "Best, fixed", "Best, dream",
        "Last-round best, fixed", "Last-round best, dream", "Deployed in the last round",
    )  # fmt: skip
    several = any(len(task.pairs) > 1 for task in tasks)
    rows = [_overview_row(task, to_measure) for task in tasks]
    if len(tasks) > 1:
        fixed = sum(mean([pair.fixed.calls for pair in task.pairs]) for task in tasks)
        dream = sum(mean([pair.dream.calls for pair in task.pairs]) for task in tasks)
        rows.append(["Total", count(fixed), count(dream), count(fixed - dream), *[""] * 5])
    caption = "Calls and best measure of every task" + (", means over seeds" if several else "")
    return table(caption, head, rows, text=head[-1])


def _overview_row(task: TaskComparison, to_measure: ToMeasure) -> list[str]:
    def measured(score: Callable[[Arm], float | None], arm: str) -> str:
        found = [score(pick_arm(pair, arm)) for pair in task.pairs]
        return _mean_of([_measure(task, one, to_measure) for one in found])

    calls = {arm: mean([pick_arm(pair, arm).calls for pair in task.pairs]) for arm in ARMS}
    best = [measured(_best, arm) for arm in ARMS]
    last = [measured(_last, arm) for arm in ARMS]
    saved = calls["fixed"] - calls["dream"]
    return [
        task.task, count(calls["fixed"]), count(calls["dream"]), count(saved), *best, *last,
        deployed(task),
    ]  # fmt: skip


def _best(arm: Arm) -> float | None:
    return arm.rounds[-1].best if arm.rounds else None


def _last(arm: Arm) -> float | None:
    return arm.rounds[-1].round_best if arm.rounds else None


def _measure(task: TaskComparison, score: float | None, to_measure: ToMeasure) -> float | None:
    return None if score is None else to_measure(task.task, score)


def _mean_of(values: Sequence[float | None]) -> str:
    kept = [value for value in values if value is not None and drawable(value)]
    return number(mean(kept), 8) if kept else NOTHING


def deployed(task: TaskComparison) -> str:
    """Return the policy that dreaming ran in the last round, over several pairs the commonest."""
    names = Counter(pair.dream.rounds[-1].policy for pair in task.pairs if pair.dream.rounds)
    if not names:
        return NOTHING
    (name, times), *others = names.most_common()
    if len(task.pairs) == 1:
        return name
    more = f" and {len(others)} other{'s' if len(others) > 1 else ''}" if others else ""
    return f"{name} ({times} of {names.total()}){more}"


def rounds_table(task: TaskComparison, to_measure: ToMeasure) -> Markup:
    """Return every round of both arms of the first pair."""
    head = ("Arm, round", "Calls", "So far", "Best so far", "Best of round", "Policy")
    rows = [
        [
            f"{name}, {row.round}", count(row.calls), count(row.cum),
            _value(_measure(task, row.best, to_measure)),
            _value(_measure(task, row.round_best, to_measure)), row.policy,
        ]
        for name in ARMS
        for row in pick_arm(task.pairs[0], name).rounds
    ]  # fmt: skip
    return table(f"Rounds of {task.task}, seed {task.pairs[0].seed}", head, rows, text="Policy")


def _value(value: float | None) -> str:
    return number(value, 8) if value is not None and drawable(value) else NOTHING


def seeds_table(task: TaskComparison, to_measure: ToMeasure) -> Markup:
    """Return one row a pair: calls and best measure of both arms."""
    head = ("Seed", "Calls, fixed", "Calls, dream", "Best, fixed", "Best, dream", "Deployed")
    rows = [
        [
            str(pair.seed), count(pair.fixed.calls), count(pair.dream.calls),
            _value(_measure(task, _best(pair.fixed), to_measure)),
            _value(_measure(task, _best(pair.dream), to_measure)),
            pair.dream.rounds[-1].policy if pair.dream.rounds else NOTHING,
        ]
        for pair in task.pairs
    ]  # fmt: skip
    return table(f"{task.task}, seed by seed", head, rows, text="Deployed")


def curve_table(task: TaskComparison, to_measure: ToMeasure, goal: str) -> Markup:
    """Return the curves as text: at each improvement of one pair, at round numbers of several."""
    curves = comparison_curves(task, to_measure)
    middles = [middle_curve(curves[arm], goal) for arm in ARMS]
    if len(task.pairs) == 1:
        places = sorted({at for curve in middles for at, _ in curve.points})
        caption = f"{task.task}: best after so many calls"
    else:
        end = max(curve.end for curve in middles)
        places = [round(mark) for mark in ticks(0.0, max(1.0, end), 10, whole=True)][1:]
        places = sorted({*places, end})
        caption = f"{task.task}: median best after so many calls"
    head = ("Calls", "Fixed", "Dream")
    rows = [[f"{at:,}", *(_after(curve, at) for curve in middles)] for at in places]
    return table(caption, head, rows)


def _after(curve: Curve, calls: int) -> str:
    return _value(curve.after(calls))


def summary_table(task: str, summary: Summary) -> Markup:
    """Return the paired differences with their intervals."""
    rows = [
        _interval_row("Calls saved (fixed minus dream)", summary.calls_saved),
        _interval_row("Score lost, final best (fixed minus dream)", summary.quality_lost),
        _interval_row("Score lost, last round (fixed minus dream)", summary.last_round_lost),
        _interval_row("Best at equal calls (dream minus fixed)", summary.best_at_equal_calls),
        _interval_row(
            "Calls to fixed's final best (dream minus fixed)", summary.calls_to_fixed_best
        ),
    ]
    head = ("Paired difference", "Mean", "95 % interval", "Pairs")
    return table(f"{task}, over seeds", head, rows)


def _interval_row(name: str, found: Interval) -> list[str]:
    if not found.n:
        return [name, NOTHING, NOTHING, "0"]
    ends = f"{number(found.low, 4)} to {number(found.high, 4)}" if found.n > 1 else NOTHING
    return [name, number(found.mean, 4), ends, str(found.n)]


def verdict(summary: Summary) -> str:
    """Return wins, ties and losses in one sentence."""
    total = summary.wins + summary.ties + summary.losses
    return (
        f"Final best of dream against fixed over {counted(total, 'pair')}: wins {summary.wins}, "
        f"ties {summary.ties}, losses {summary.losses}. Dream reaches fixed's final best in "
        f"{summary.reached} of them."
    )
