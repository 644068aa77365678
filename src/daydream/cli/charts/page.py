"""A comparison as one file: an HTML page with charts and tables, or an SVG with the charts alone.

Both hold everything they need: no script, no font, no image, no address to load from, and the page
forbids its browser to try.
"""

from collections.abc import Sequence

from daydream.cli.charts.bars import WIDTH, call_bars
from daydream.cli.charts.canvas import (
    FONT,
    PALETTE,
    Markup,
    Panel,
    inline,
    join,
    label,
    rows_of,
    standalone,
    stylesheet,
    tag,
    words,
)
from daydream.cli.charts.curves import ToMeasure, as_score, curves_panel
from daydream.cli.charts.scales import count, number
from daydream.cli.charts.tables import (
    curve_table,
    overview,
    rounds_table,
    seeds_table,
    summary_table,
    verdict,
)
from daydream.compare import TaskComparison, final_best
from daydream.objective import mean
from daydream.wording import counted

TITLE = "Fixed exploration against dreaming"

_GAP = 48.0
_NOTE = (
    "Each arm pays for its own first round. Attempts in the same place of the same round have the "
    "same seed in both arms, so a pair differs by its policies alone. A call is one "
    "finished attempt."
)


def comparison_page(tasks: Sequence[TaskComparison], *, to_measure: ToMeasure = as_score) -> str:
    """Return the HTML page of ``tasks``: calls, curves, tables, and intervals where there are some.

    ``to_measure`` gives a task's measure for a stored score; without one, curves and tables of
    tasks whose measure is minimised show the stored score, and the curves say so. The same input
    gives the same bytes.
    """
    figures = [
        tag("figure", inline(panel, f"bars-{index}"))
        for index, panel in enumerate(call_bars(tasks))
    ]
    body = [
        tag("h1", words(TITLE)),
        tag("p", words(scope(tasks)), class_="soft"),
        tag("div", *_tiles(tasks), class_="tiles"),
        tag("div", *figures, class_="charts"),
        *([overview(tasks, to_measure)] if tasks else []),
        *(_task_section(task, f"task-{index}", to_measure) for index, task in enumerate(tasks)),
        tag("p", words(_NOTE), class_="soft"),
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("title", words(TITLE)),
        # A style element is raw text in HTML: nothing in it may need an escape.
        tag("style", Markup(stylesheet() + _page_rules())),
    ]
    page = tag("html", tag("head", *head), tag("body", tag("main", *body)), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def comparison_svg(tasks: Sequence[TaskComparison], *, to_measure: ToMeasure = as_score) -> str:
    """Return the bar charts and curves of ``tasks`` as one SVG file, in two columns."""
    bars = call_bars(tasks)
    curves = [curves_panel(task, to_measure) for task in tasks]
    top, top_height = rows_of(bars, 2, _GAP)
    below, below_height = rows_of(curves, 2, _GAP)
    parts = [
        label(0, 14, TITLE, kind="head"),
        label(0, 32, scope(tasks), role="soft"),
        tag("g", top, transform="translate(0 58)"),
        tag("g", below, transform=f"translate(0 {58 + top_height + _GAP:.0f})"),
    ]
    height = 58 + top_height + (_GAP + below_height if curves else 0)
    described = " ".join(f"{panel.title}: {panel.description}" for panel in (*bars, *curves))
    return standalone(Panel(2 * WIDTH + _GAP, height, TITLE, described, join(parts)))


def scope(tasks: Sequence[TaskComparison]) -> str:
    """Return what was compared, in one line: tasks, rounds, seeds."""
    rounds = sorted({len(pair.fixed.rounds) for task in tasks for pair in task.pairs})
    seeds = sorted({pair.seed for task in tasks for pair in task.pairs})
    parts = [counted(len(tasks), "task")]
    if rounds:
        ends = str(rounds[0]) if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
        parts.append(f"{ends} round{'' if rounds == [1] else 's'}")
    if len(seeds) == 1:
        parts.append(f"seed {seeds[0]}")
    elif seeds:
        parts.append(f"{len(seeds)} paired seeds")
    return ", ".join(parts)


def _tiles(tasks: Sequence[TaskComparison]) -> list[Markup]:
    """Return the three numbers to take away: calls of both arms, calls saved, bests held."""
    fixed = sum(mean([pair.fixed.calls for pair in task.pairs]) for task in tasks)
    dream = sum(mean([pair.dream.calls for pair in task.pairs]) for task in tasks)
    pairs = [pair for task in tasks for pair in task.pairs]
    held = 0
    for pair in pairs:
        goal, reached = final_best(pair.fixed), final_best(pair.dream)
        held += goal is None or (reached is not None and reached >= goal)
    share = f", {number(round(100 * (1 - dream / fixed)))} % of fixed" if fixed > 0 else ""
    several = len(pairs) > len(tasks)
    mean_of = "mean calls" if several else "calls"
    shown = (
        (count(fixed), f"{mean_of}, fixed", "fixed"),
        (count(dream), f"{mean_of}, dream", "dream"),
        (count(fixed - dream), f"{mean_of} saved{share}", None),
        (
            f"{held} of {len(pairs)}",
            f"{'pairs' if several else 'tasks'} with the best score held",
            None,
        ),
    )
    return [
        tag(
            "div",
            tag("strong", words(value)),
            tag("span", words(name)),
            class_=f"tile {arm}" if arm else "tile",
        )
        for value, name, arm in shown
    ]


def _task_section(task: TaskComparison, key: str, to_measure: ToMeasure) -> Markup:
    goal = "max" if to_measure is as_score else task.goal
    curves = curves_panel(task, to_measure, heading="Best against calls")
    beside: list[Markup] = []
    if task.summary is not None:
        beside.append(summary_table(task.task, task.summary))
        beside.append(tag("p", words(verdict(task.summary))))
    if task.pairs:
        beside.append(rounds_table(task, to_measure))
        beside.append(_folded("The curve as a table", curve_table(task, to_measure, goal)))
    if len(task.pairs) > 1:
        beside.append(_folded(f"All {len(task.pairs)} seeds", seeds_table(task, to_measure)))
    return tag(
        "section",
        tag("h2", words(task.task), id=key),
        tag(
            "div",
            tag("figure", inline(curves, f"{key}-curve")),
            tag("div", *beside),
            class_="charts",
        ),
        aria_labelledby=key,
    )


def _folded(title: str, content: Markup) -> Markup:
    return tag("details", tag("summary", words(title)), content)


def _page_rules() -> str:
    light = {role: colours[0] for role, colours in PALETTE.items()}
    dark = {role: colours[1] for role, colours in PALETTE.items()}
    return (
        f"*{{box-sizing:border-box}}body{{margin:0;font:15px/1.5 {FONT}}}"
        "main{max-width:1120px;margin:0 auto;padding:24px 16px 48px}"
        "h1{font-size:24px;line-height:1.25;margin:0}"
        "h2{font-size:18px;margin:0 0 12px;overflow-wrap:anywhere}"
        "p{margin:4px 0 16px;max-width:75ch}main>p:last-child{margin-top:28px}"
        "section{border-top:1px solid;margin-top:32px;padding-top:20px}"
        ".charts{display:grid;gap:24px 40px;align-items:start;"
        "grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr))}"
        ".charts>*{min-width:0;margin:0}figure svg{display:block;width:100%;max-width:520px}"
        ".charts+.scroll{margin-top:28px}"
        ".tiles{display:flex;flex-wrap:wrap;gap:12px 40px;margin:16px 0 28px}"
        ".tile{border-left:4px solid;padding-left:10px}"
        ".tile strong{display:block;font-size:24px;line-height:1.2}.tile span{font-size:13px}"
        ".scroll{overflow-x:auto;margin:0 0 16px}"
        "table{border-collapse:collapse;font-size:13px;width:100%;"
        "font-variant-numeric:tabular-nums}"
        "caption{text-align:left;font-weight:600;padding:4px 0;overflow-wrap:anywhere}"
        "th,td{padding:4px 10px 4px 0;border-bottom:1px solid;text-align:right;"
        "vertical-align:top}"
        "th:first-child{text-align:left;min-width:9.5em;font-weight:500;overflow-wrap:anywhere}"
        "section th:first-child{min-width:5.5em}thead th{font-weight:500;vertical-align:bottom}"
        "thead .text{text-align:left}td.text{text-align:left;min-width:14em;overflow-wrap:anywhere}"
        "details{margin:0 0 12px}summary{cursor:pointer}"
        "figure,section,tr{break-inside:avoid}h2,caption{break-after:avoid}"
        "@media print{main{max-width:none;padding:0}.scroll{overflow:visible}"
        ".charts{grid-template-columns:1fr 1fr;gap:24px}table{font-size:10px}"
        "td.text{min-width:0}}"
        f"{_page_colours(light)}"
        f"@media screen and (prefers-color-scheme:dark){{{_page_colours(dark)}}}"
    )


def _page_colours(colours: dict[str, str]) -> str:
    return (
        f"body{{background:{colours['paper']};color:{colours['ink']}}}"
        f"section,th,td,.tile{{border-color:{colours['grid']}}}"
        f".soft,thead th,.tile span{{color:{colours['soft']}}}"
        f".tile.fixed{{border-color:{colours['fixed']}}}"
        f".tile.dream{{border-color:{colours['dream']}}}"
    )
