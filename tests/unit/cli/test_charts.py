"""The charts: well-formed, self-contained, escaped, complete, to scale, and the same every time."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daydream.cli.charts.canvas import PALETTE, SVG_NAMESPACE, fit, text_width
from daydream.cli.charts.curves import as_score, curves_panel, middle_curve
from daydream.cli.charts.discovery_tree import MAX_ROWS, tree_svg
from daydream.cli.charts.page import comparison_page, comparison_svg
from daydream.cli.charts.plot import Curve
from daydream.cli.charts.run_curve import curve_svg
from daydream.cli.charts.scales import number
from daydream.compare import Arm, ArmRound, Pair, Summary, TaskComparison
from daydream.errors import TreeError
from daydream.intervals import Interval, interval
from daydream.tree import Node, Status, Tree, check_tree

MINUS = "\N{MINUS SIGN}"
SVG = f"{{{SVG_NAMESPACE}}}"
SIX = {
    "branch-world": ((48, 48), (48, 16), 0.95),
    "sum-diff": ((24, 24), (24, 3), 1.0344),
    "circle-packing": ((16, 16), (16, 10), 1.2384),
    "autocorrelation": ((16, 16), (16, 16), 0.4139),
    "lasso": ((12, 12), (12, 1), 0.72),
    "kernel-layernorm": ((16, 16), (16, 4), 0.0455),
}


def arm(calls: Sequence[int], best: float | None, policy: str = "adaptive-w4-d4-p3-g0.02") -> Arm:
    rounds = []
    for index, spent in enumerate(calls, 1):
        name = policy if index > 1 else "parallel_refine-w6-d8"
        rounds.append(ArmRound(index, spent, sum(calls[:index]), best, best, name))
    curve = () if best is None else ((2, best / 2), (4, best))
    return Arm(tuple(rounds), curve)


def task(name: str, pairs: Sequence[Pair], **fields: str) -> TaskComparison:
    measure, goal = fields.get("measure", "score"), fields.get("goal", "max")
    return TaskComparison(name, measure, goal, tuple(pairs), summary() if len(pairs) > 1 else None)


def one_pair(fixed: Sequence[int], dream: Sequence[int], best: float | None, seed: int = 0) -> Pair:
    return Pair(seed, arm(fixed, best, "parallel_refine-w6-d8"), arm(dream, best))


def six() -> list[TaskComparison]:
    return [task(name, [one_pair(*facts)]) for name, facts in SIX.items()]


def summary() -> Summary:
    def around(middle: float) -> Interval:
        return Interval(middle, middle - 0.125, middle + 0.125, 7)

    return Summary(
        calls_saved=around(31.5),
        quality_lost=around(0.25),
        last_round_lost=around(0.375),
        calls_to_fixed_best=around(-12.5),
        reached=6,
        best_at_equal_calls=around(2.75),
        wins=3,
        ties=8,
        losses=13,
    )


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)


def shown(root: ET.Element) -> str:
    return "\n".join(" ".join(element.itertext()) for element in root.iter() if not len(element))


def of_kind(root: ET.Element, name: str) -> list[ET.Element]:
    return [element for element in root.iter() if element.tag.removeprefix(SVG) == name]


def bar_panels(svg: str) -> list[list[float]]:
    """Return the bar widths of the two bar charts, legend squares left out."""
    found = []
    for panel in parsed(svg).findall(f"{SVG}g/{SVG}g")[0].findall(f"{SVG}g"):
        bars = [bar for bar in of_kind(panel, "rect") if bar.find(f"{SVG}title") is not None]
        found.append([float(bar.get("width", "nan")) for bar in bars])
    return found


def test_the_bars_show_the_calls_of_every_task_in_order_for_all_rounds_and_the_last() -> None:
    page = parsed(comparison_page(six()))
    everything, last = (
        [int(found) for text in of_kind(svg, "text") if (found := text.text or "").isdigit()]
        for svg in of_kind(page, "svg")[:2]
    )
    calls = [number for fixed, dream, _ in SIX.values() for number in (sum(fixed), sum(dream))]
    assert everything[: len(calls)] == calls
    calls = [number for fixed, dream, _ in SIX.values() for number in (fixed[-1], dream[-1])]
    assert last[: len(calls)] == calls


def test_the_lengths_of_bars_are_proportional_to_the_calls() -> None:
    widths = bar_panels(comparison_svg(six()))
    for panel, pick in zip(widths, (sum, lambda calls: calls[-1]), strict=True):
        calls = [pick(arm) for fixed, dream, _ in SIX.values() for arm in (fixed, dream)]
        assert len(panel) == len(calls)
        for width, number_of_calls in zip(panel, calls, strict=True):
            assert width / panel[0] == pytest.approx(number_of_calls / calls[0], abs=2e-4)


def test_the_second_chart_names_the_round_that_it_shows() -> None:
    assert "Discovery-agent calls, round 2 only" in comparison_page(six())
    three = [task("t", [one_pair((4, 4, 4), (4, 2, 1), 1.0)])]
    assert "round 3 only" in comparison_page(three)
    assert "the last round only" in comparison_page([*six(), *three])


def test_the_page_holds_every_number_policy_and_total() -> None:
    text = shown(parsed(comparison_page(six())))
    for name, (fixed, dream, best) in SIX.items():
        for value in (name, str(sum(fixed)), str(sum(dream)), str(fixed[-1]), str(dream[-1])):
            assert re.search(rf"(^|\W){re.escape(value)}($|\W)", text), value
        assert number(best, 8) in text
    for value in ("264", "182", "82", "31 % of fixed", "6 of 6", "adaptive-w4-d4-p3-g0.02"):
        assert value in text
    assert "seed 0" in text


def test_several_seeds_give_means_intervals_seeds_and_the_paired_summary() -> None:
    pairs = [
        one_pair((10, 10), (10, saved), 0.5 + saved, seed) for seed, saved in enumerate((1, 3))
    ]
    text = shown(parsed(comparison_page([task("t", pairs)])))
    assert "mean of 2 seeds, 95 % interval" in text
    spread = interval([11, 13])
    assert "t, dream: 12 calls (95 % interval 0 to 24.7, n = 2)" in text
    assert spread.high == pytest.approx(24.706)
    for value in (
        "31.5",
        "31.38 to 31.62",
        f"{MINUS}12.5",
        f"{MINUS}12.62 to {MINUS}12.38",
        "2.75",
        "0.375",
    ):
        assert value in text, value
    assert "wins 3, ties 8, losses 13" in text
    assert "reaches fixed's final best in 6 of them" in text
    assert "adaptive-w4-d4-p3-g0.02 (2 of 2)" in text
    assert {"1.5", "3.5"} <= set(text.split())


def test_a_minimised_measure_is_plotted_as_people_speak_of_it() -> None:
    found = task("C", [one_pair((4, 4), (4, 2), 0.5)], measure="peak", goal="min")
    panel = curves_panel(found, lambda _, score: 1 / score)
    text = shown(parsed(f"<g>{panel.body}</g>"))
    assert "peak, lower is better" in text
    assert "fixed: 4 after 2 calls" in text
    assert "fixed: 2 after 4 calls" in text
    assert "dream ends at 2, first reached after 4 of 6 calls" in panel.description


def test_the_tables_hold_the_measure_that_the_curves_show() -> None:
    pairs = [one_pair((4, 4), (4, 2), best, seed) for seed, best in enumerate((0.16, 0.32))]
    page = comparison_page(
        [task("C", pairs, measure="peak", goal="min")], to_measure=lambda _, score: 1 / score
    )
    cells = [cell.text for cell in of_kind(parsed(page), "td")]
    assert cells.count("6.25") == 10, "both columns of two rounds of two arms; the first seed"
    assert cells.count("3.125") == 2, "the second seed"
    assert cells[3:7] == ["4.6875"] * 4, "means of both arms, in all and in the last round"
    assert not {"0.16", "0.32", "0.24"} & set(cells)


def test_without_a_conversion_a_minimised_task_says_that_it_shows_the_score() -> None:
    found = task("C", [one_pair((4, 4), (4, 2), 0.5)], measure="peak", goal="min")
    text = shown(parsed(f"<g>{curves_panel(found, as_score).body}</g>"))
    assert "stored score, higher is better" in text
    assert "peak" not in text


def test_a_point_without_a_finite_measure_is_left_out_of_the_curve() -> None:
    found = task("C", [one_pair((4, 4), (4, 2), 0.5)], goal="min")
    panel = curves_panel(found, lambda _, score: float("inf") if score < 0.5 else score)
    text = shown(parsed(f"<g>{panel.body}</g>"))
    assert "after 2 calls" not in text
    assert "fixed: 0.5 after 4 calls" in text


@pytest.mark.parametrize("tasks", [[], [task("t", [one_pair((2, 2), (2, 1), None)])]])
def test_nothing_to_show_is_said_in_words(tasks: list[TaskComparison]) -> None:
    for text in (comparison_page(tasks), comparison_svg(tasks)):
        words = shown(parsed(text))
        assert ("no valid attempt" if tasks else "No task was compared.") in words


def test_arms_without_rounds_or_pairs_still_make_a_page() -> None:
    nothing = Arm((), ())
    page = comparison_page([task("t", [Pair(0, nothing, nothing)]), task("u", [])])
    assert "no valid attempt" in shown(parsed(page))


NAMES = st.text(
    st.characters(codec="utf-8") | st.sampled_from("<>&\"'\x00\x1b\ud800"), min_size=1, max_size=60
)
SCORES = st.floats(-1e308, 1e308, allow_nan=False)


@st.composite
def comparisons(draw: st.DrawFn) -> TaskComparison:
    def an_arm() -> Arm:
        calls = draw(st.lists(st.integers(0, 10**7), max_size=3))
        scores = sorted(set(draw(st.lists(SCORES, max_size=5))))
        best = scores[-1] if scores else None
        rounds = tuple(
            ArmRound(i, n, sum(calls[:i]), best, best, draw(NAMES)) for i, n in enumerate(calls, 1)
        )
        return Arm(rounds, tuple((i * 7, score) for i, score in enumerate(scores, 1)))

    pairs = [Pair(seed, an_arm(), an_arm()) for seed in range(draw(st.integers(0, 2)))]
    goal = draw(st.sampled_from(["max", "min"]))
    return task(draw(NAMES), pairs, measure=draw(NAMES), goal=goal)


@given(st.lists(comparisons(), max_size=2), st.booleans())
def test_any_comparison_gives_well_formed_documents_twice_the_same(
    tasks: list[TaskComparison], turned: bool
) -> None:
    def measure(_: str, score: float) -> float:
        return -score if turned else score

    for draw in (comparison_page, comparison_svg):
        text = draw(tasks, to_measure=measure)
        assert text.encode() == draw(tasks, to_measure=measure).encode()
        root = parsed(text)
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        assert len(ids) == len(set(ids))
        for element in root.iter():
            for key in ("aria-labelledby", "aria-describedby"):
                assert element.get(key, ids[0] if ids else None) in [*ids, None]
            for key in ("x", "y", "width", "height", "x1", "cx", "d"):
                assert not re.search("nan|inf", element.get(key, "")), element.attrib


def test_a_name_cannot_become_markup() -> None:
    name = "<script>alert('&\"')</script>"
    page = comparison_page([task(name, [one_pair((2, 2), (2, 1), 1.0)], measure=name)])
    assert "<script" not in page
    assert name in shown(parsed(page))
    svg = curve_svg(name, [(1, 2.0)], name, "max", records=[(name, 2.5)])
    assert "<script" not in svg
    assert name in shown(parsed(svg))


def tree(shape: Sequence[int], scores: Sequence[float | Status], name: str = "t") -> Tree:
    """Return the tree whose i-th attempt has parent ``shape[i]`` and the cycled score or status."""
    nodes = [Node(0, None, -1, 0, 0, 0, None, 0.0)]
    for number_, parent in enumerate(shape, 1):
        above = nodes[parent]
        branch = sum(node.parent == 0 for node in nodes) if parent == 0 else above.branch
        found = scores[(number_ - 1) % len(scores)]
        status = found if isinstance(found, Status) else Status.OK
        score = 0.0 if isinstance(found, Status) else found
        depth = above.depth + 1
        nodes.append(Node(number_, parent, branch, depth, number_, 0, status, score))
    found_tree = Tree(name, "e", 1, "p", 8, 1.0, 0, tuple(nodes), eligibility="any")
    return check_tree(found_tree)


SHAPES = st.lists(st.integers(0, 10**6), max_size=40).map(
    lambda picks: [pick % (index + 1) for index, pick in enumerate(picks)]
)
OUTCOMES = st.lists(SCORES | st.sampled_from(list(Status)), min_size=1, max_size=5)


@given(SHAPES, OUTCOMES, NAMES)
def test_a_tree_picture_has_one_place_a_node_and_no_edge_through_a_stranger(
    shape: list[int], scores: list[float | Status], name: str
) -> None:
    found = tree(shape, scores, name)
    best = found.best
    root = parsed(tree_svg(found, best.id if best else None))
    places = {}
    for group in of_kind(root, "g"):
        title = group.find(f"{SVG}title")
        circle = group.find(f"{SVG}circle")
        if title is not None and circle is not None and title.text != f"{name}, round 1: p":
            places[float(circle.get("cx", "")), float(circle.get("cy", ""))] = title.text
    assert len(places) == len(found.nodes)
    ends = set(places)
    for path in of_kind(root, "path"):
        if not re.search("thin|lineage", path.get("class", "")):
            continue
        steps = re.findall(r"M([\d.]+) ([\d.]+)(?:V([\d.]+))?H([\d.]+)", path.get("d", ""))
        for x, y, turn, right in steps:
            corner = float(turn or y)
            assert {(float(x), float(y)), (float(right), corner)} <= ends
            between = {
                place for place in ends if place[0] == float(x) and float(y) < place[1] <= corner
            }
            assert not between


def test_the_best_path_is_the_lineage_of_the_best_node() -> None:
    found = tree([0, 0, 1, 2, 3, 4], [0.1, 0.2, Status.ERROR, 0.9, Status.TIMEOUT, Status.INVALID])
    root = parsed(tree_svg(found, 4))
    (bold,) = [path for path in of_kind(root, "path") if "lineage" in path.get("class", "")]
    assert bold.get("d", "").count("M") == 2
    text = shown(root)
    assert "The bold path leads to node 4, branch 1, depth 2, batch 4: score 0.9." in text
    for status in ("error: 1", "timeout: 1", "refused: 1", "valid, stronger is better: 3"):
        assert status in text


def test_a_large_tree_is_cut_to_rows_that_can_be_read_but_keeps_the_best_path() -> None:
    scores = [0.001 * number_ for number_ in range(1000)]
    found = tree([0] * 1000, scores)
    text = tree_svg(found, 1000)
    assert "node 1000, branch 999, depth 1, batch 1000: score 0.999" in text
    hidden = 1000 - MAX_ROWS - 1
    assert f"{hidden} more nodes not drawn." in text


def test_an_unknown_best_node_is_refused() -> None:
    with pytest.raises(TreeError, match="no node 3"):
        tree_svg(tree([0, 1], [0.5]), 3)


def test_a_run_curve_names_its_records_and_those_off_the_chart() -> None:
    svg = curve_svg(
        "run", [(1, 2.5), (40, 2.6359831)], "sum of radii", "max",
        records=[("near", 2.635985), ("far", 300.0)], calls=64,
    )  # fmt: skip
    root = parsed(svg)
    text = shown(root)
    for part in ("2.6359831 best", "2.635985 near", "Off the chart: 300 far"):
        assert part in text
    dashed = [row for row in of_kind(root, "line") if "record" in row.get("class", "")]
    assert len(dashed) == 1
    assert "first reached after 40 of 64 calls" in text


@given(
    NAMES,
    st.lists(SCORES, max_size=6),
    st.lists(st.tuples(NAMES, st.floats()), max_size=6),
    st.sampled_from(["max", "min"]),
)
def test_any_run_curve_is_well_formed_and_says_so_when_it_is_empty(
    title: str, values: list[float], records: list[tuple[str, float]], goal: str
) -> None:
    curve = [(index + 1, value) for index, value in enumerate(values)]
    root = parsed(curve_svg(title, curve, title, goal, records=records))
    assert ("no valid attempt" in shown(root)) == (not any(abs(v) <= 1e300 for v in values))


def test_no_document_refers_to_anything_outside_itself() -> None:
    documents = [
        comparison_page(six()),
        comparison_svg(six()),
        curve_svg("t", [(1, 1.0)], "score", "max", records=[("r", 1.0)]),
        tree_svg(tree([0, 1], [0.5]), 1),
    ]
    for document in documents:
        bare = document.replace(f'xmlns="{SVG_NAMESPACE}"', "")
        assert not re.search(r"https?:|//|url\(|@import|\bsrc=|\bhref=|<script|<link|<img", bare)


def test_the_colours_stand_out_from_the_page_in_both_modes() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for mode in (0, 1):
        paper = luminance(PALETTE["paper"][mode])
        for role, colours in PALETTE.items():
            light, dark = sorted((luminance(colours[mode]), paper), reverse=True)
            # WCAG 2.2: 4.5 for text, 3 for marks; grid lines carry nothing on their own.
            wanted = {"ink": 4.5, "soft": 4.5, "grid": 1.0, "paper": 1.0}.get(role, 3.0)
            assert (light + 0.05) / (dark + 0.05) >= wanted, (role, mode)


def test_long_names_and_measures_stay_inside_the_charts() -> None:
    name = "path/to/a/folder/with-a-very-long-name:variant=third-strict,bins=800,tolerance=1e-06"
    tasks = [task(f"{name}{n}", [one_pair((9, 9), (9, 2), 2.63598, s) for s in range(2)],
                  measure=name) for n in range(6)]  # fmt: skip
    root = parsed(comparison_svg(tasks))
    for panel in (g for row in root.findall(f"{SVG}g/{SVG}g") for g in row.findall(f"{SVG}g")):
        for text in of_kind(panel, "text"):
            size = {"head": 14.0, "small": 11.0}.get(text.get("class", "").split()[-1], 12.0)
            width = text_width(text.text or "", size)
            x = float(text.get("x", "0"))
            start = x - width * {"middle": 0.5, "end": 1.0}.get(text.get("text-anchor", ""), 0.0)
            assert start >= -1, text.text
            assert start + width <= 400 + 1, text.text


@given(NAMES, st.floats(40, 400))
def test_a_fitted_name_is_narrow_enough_and_keeps_both_ends(name: str, width: float) -> None:
    flat = " ".join(name.split())
    cut = fit(name, width)
    if cut != flat:
        assert text_width(cut) <= width
        head, tail = cut.split("…", 1) if flat.count("…") == 0 else (cut[:1], "")
        assert flat.startswith(head)
        assert flat.endswith(tail)


CURVES = st.lists(
    st.lists(st.tuples(st.integers(1, 30), st.integers(-9, 9)), max_size=6).map(
        lambda steps: Curve(
            tuple(
                zip(
                    sorted({at for at, _ in steps}),
                    sorted({float(value) for _, value in steps}),
                    strict=False,
                )
            ),
            30,
        )
    ),
    min_size=1,
    max_size=7,
)


@given(CURVES, st.sampled_from(["max", "min"]), st.integers(1, 30))
def test_the_bold_line_is_the_median_with_missing_values_worst(
    curves: list[Curve], goal: str, calls: int
) -> None:
    sign = -1 if goal == "min" else 1
    if goal == "min":
        curves = [Curve(tuple((at, -value) for at, value in c.points), c.end) for c in curves]
    values = sorted(
        sign * found if (found := curve.after(calls)) is not None else float("-inf")
        for curve in curves
    )
    low, high = values[(len(values) - 1) // 2], values[len(values) // 2]
    expected = None if low == float("-inf") else sign * (low + high) / 2
    assert middle_curve(curves, goal).after(calls) == expected


def test_the_final_value_of_a_run_curve_is_written_out_in_full() -> None:
    svg = curve_svg("run", [(1, 0.04094041346), (9, 0.04095701541)], "score", "max")
    texts = [text.text for text in of_kind(parsed(svg), "text")]
    assert "0.0409570154 best" in texts
