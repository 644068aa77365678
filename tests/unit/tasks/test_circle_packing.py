"""Circle packings are scored exactly: the least overlap is refused, and nothing claimed counts."""

import json
import math

import pytest

from daydream.errors import TaskError
from daydream.tasks.base import Artifact, Evaluation, json_artifact
from daydream.tasks.circle_packing import (
    TOLERANCES,
    build,
    packing_artifact,
    read_packing,
    repair,
    size_of,
)
from daydream.tasks.load import load_task
from daydream.tree import Status
from tests.unit.tasks.circle_twin import total

HALVES = [[0.25, 0.5, 0.25], [0.75, 0.5, 0.25]]
"""Two circles that touch each other and the walls, all in exact binary fractions."""


def judge(circles: object, n: int = 2, tolerance: str = "0") -> Evaluation:
    text = json.dumps({"circles": circles}).encode()
    task = build({"n": str(n), "tolerance": tolerance})
    return task.evaluate(Artifact({"artifact.json": text}))


def test_touching_circles_are_valid_and_the_score_is_the_sum_of_radii() -> None:
    found = judge(HALVES)
    assert (found.status, found.score) == (Status.OK, 0.5)
    assert found.diagnostics["exactly_feasible"] is True
    assert found.diagnostics["contacts"] == 3


def test_a_claimed_sum_and_other_keys_are_ignored() -> None:
    artifact = json_artifact({"circles": HALVES, "sum": 99.0, "score": 99.0, "combined_score": 99})
    assert build({"n": "2"}).evaluate(artifact).score == 0.5


def test_the_sum_is_rounded_once() -> None:
    circles = [[0.1, 0.1, 0.1], [0.5, 0.5, 1e-17], [0.9, 0.1, 0.05], [0.9, 0.9, 0.05]]
    assert judge(circles, n=4).score == total(circles)


@pytest.mark.parametrize(
    ("circles", "error_class", "words"),
    [
        ([[math.nan, 0.5, 0.1], HALVES[1]], "malformed", "NaN"),
        ([[0.5, 0.5, math.inf], HALVES[1]], "malformed", "Infinity"),
        ([[0.5, 0.5, -math.inf], HALVES[1]], "malformed", "Infinity"),
        ([[0.25, 0.5, True], HALVES[1]], "number", "circle 0: r is True"),
        ([[0.25, False, 0.25], HALVES[1]], "number", "circle 0: y is False"),
        ([["0.25", 0.5, 0.25], HALVES[1]], "number", "x is '0.25'"),
        ([[None, 0.5, 0.25], HALVES[1]], "number", "x is None"),
        ([[[0.25], 0.5, 0.25], HALVES[1]], "number", "x is"),
        ([HALVES[0]], "count", "found 1 circles (expected exactly 2)"),
        ([*HALVES, [0.5, 0.05, 0.01]], "count", "found 3 circles"),
        ([], "count", "found 0 circles"),
        ([[0.25, 0.5], HALVES[1]], "malformed", "circle 0"),
        ([[0.25, 0.5, 0.2, 0.1], HALVES[1]], "malformed", "circle 0"),
        ([{"x": 0.25}, HALVES[1]], "malformed", "circle 0"),
        ({"0": HALVES[0]}, "malformed", "no list named 'circles'"),
        ([[0.25, 0.5, -0.25], HALVES[1]], "radius", "circle 0 has radius -0.25"),
        ([[0.25, 0.5, -5e-324], HALVES[1]], "radius", "circle 0 has radius"),
        ([[10**400, 0.5, 0.1], HALVES[1]], "outside", "an integer of 1329 bits"),
        ([[0.5, 0.5, 10**400], HALVES[1]], "outside", "an integer of 1329 bits"),
        ([[-(10**400), 0.5, 0.1], HALVES[1]], "outside", "an integer of 1329 bits"),
        ([[1e300, 0.5, 0.1], HALVES[1]], "outside", "x is 1e+300"),
        ([[2, 0.5, 0], HALVES[1]], "outside", "circle 0 leaves the square by 1"),
        ([HALVES[0], HALVES[0]], "overlap", "circles 0 and 1 overlap by 0.5"),
        ([[0.5, 0.5, 1e-320]] * 2, "overlap", "overlap by 2e-320"),
        ([HALVES[0], [0.75 - 2**-53, 0.5, 0.25]], "overlap", "overlap by 1.11e-16"),
        ([[0.25, 0.5, 0.25], [0.625, 0.5, 0.125 + 2**-55]], "overlap", "overlap by 2.78e-17"),
        ([[0.25, 0.5, math.nextafter(0.25, 1)], [0.9, 0.9, 0.1]], "outside", "by 5.55e-17"),
    ],
)
def test_what_is_no_packing_fails_with_its_reason(
    circles: object, error_class: str, words: str
) -> None:
    found = judge(circles)
    assert (found.status, found.score, found.error_class) == (Status.INVALID, 0.0, error_class)
    assert words in found.message


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "1e999", "[" * 100_000, "1" * 5_000])
def test_a_file_that_is_no_json_object_fails_as_malformed(text: str) -> None:
    found = build({}).evaluate(Artifact({"artifact.json": text.encode()}))
    assert (found.status, found.error_class) == (Status.INVALID, "malformed")


def test_a_number_too_large_for_a_double_is_not_finite() -> None:
    text = b'{"circles": [[1e999, 0.5, 0.25], [0.75, 0.5, 0.25]]}'
    found = build({"n": "2"}).evaluate(Artifact({"artifact.json": text}))
    assert (found.error_class, found.score) == ("number", 0.0)


def test_an_overlap_that_doubles_cannot_see_is_refused() -> None:
    radius, grown = 2.0**-10, math.nextafter(2.0**-10, 1)
    assert radius + grown == 2.0**-9, "the sum of the two doubles rounds the overlap away"
    pair = [[0.5, 0.5, radius], [0.5 + 2.0**-9, 0.5, grown]]
    found = judge(pair)
    assert found.error_class == "overlap"
    assert "overlap by 2.17e-19" in found.message
    pair[1][2] = radius
    assert judge(pair).status is Status.OK


def test_a_missing_file_names_what_was_found() -> None:
    found = build({}).evaluate(Artifact({"packing.txt": b"1 2 3"}))
    assert found.error_class == "malformed"
    assert "packing.txt" in found.message


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 26, 32, 64])
def test_the_initial_packing_is_valid(n: int) -> None:
    task = build({"n": str(n)})
    found = task.evaluate(task.root())
    assert found.status is Status.OK
    assert found.score == pytest.approx(n / (2 * math.ceil(math.sqrt(n))), rel=1e-4)
    assert len(read_packing(task.root())) == n


@pytest.mark.parametrize(
    ("asked", "identity"),
    [
        ("circle-packing", "circle-packing"),
        ("packing", "circle-packing"),
        ("circle-packing:n=8", "circle-packing"),
        ("circle-packing:n=08", "circle-packing"),
        ("circle-packing:tolerance=0,n=26", "circle-packing:n=26"),
        ("circle-packing:tolerance=1e-6,n=26", "circle-packing:n=26,tolerance=1e-6"),
        ("circle-packing:tolerance=1e-12", "circle-packing:tolerance=1e-12"),
    ],
)
def test_equal_tasks_have_one_identity(asked: str, identity: str) -> None:
    info = load_task(asked).info
    assert info.name == identity
    assert load_task(identity).info == info
    assert size_of(identity) == (26 if "26" in identity else 8)


def test_every_parameter_changes_the_evaluator_version() -> None:
    builds = [{"n": "8"}, {"n": "26"}, {"n": "26", "tolerance": "1e-6"}, {"tolerance": "1e-7"}]
    assert len({build(args).info.evaluator for args in builds}) == 4


@pytest.mark.parametrize(
    "args",
    [{"n": "0"}, {"n": "65"}, {"n": "-1"}, {"n": "2.0"}, {"tolerance": "1e-3"}, {"size": "8"}],
)
def test_a_parameter_that_does_not_exist_is_refused(args: dict[str, str]) -> None:
    with pytest.raises(TaskError, match="parameter"):
        build(args)


def test_the_seed_size_and_the_full_size_declare_how_they_are_searched() -> None:
    small, full = build({}).info, build({"n": "26"}).info
    assert (small.policy, small.agent, small.scale) == ("parallel_refine-w4-d4", "scripted", 1.0)
    assert full.agent == "local_search"
    # The last step of the ladder has to be worth more than three attempts.
    assert full.scale is not None
    attempts_paid = (2.635983 - 2.630) / (0.002 * full.scale)
    assert attempts_paid > 3
    assert "solves" in full.attempt_cost


@pytest.mark.parametrize("tolerance", [name for name in TOLERANCES if name != "0"])
def test_a_tolerance_admits_what_it_says_and_labels_the_result(tolerance: str) -> None:
    allowed = float(tolerance)
    inside = judge([[0.25, 0.5, 0.25 + 0.9 * allowed], HALVES[1]], tolerance=tolerance)
    assert inside.status is Status.OK
    assert inside.diagnostics["exactly_feasible"] is False
    assert inside.diagnostics["tolerance"] == tolerance
    spent = inside.diagnostics["tolerance_spent"]
    assert isinstance(spent, float)
    assert spent == pytest.approx(0.9 * allowed, rel=1e-3)
    beyond = judge([[0.25, 0.5, 0.25 + 1.1 * allowed], HALVES[1]], tolerance=tolerance)
    assert beyond.error_class in {"outside", "overlap"}
    assert tolerance in beyond.message
    assert tolerance in build({"tolerance": tolerance}).info.title
    exact = judge(HALVES, tolerance=tolerance)
    assert exact.diagnostics["exactly_feasible"] is True
    assert exact.diagnostics["tolerance_spent"] == 0.0


def test_two_specks_may_coincide_when_the_tolerance_covers_both() -> None:
    specks = [[0.5, 0.5, 1e-9], [0.5, 0.5, 1e-9]]
    assert judge(specks, tolerance="1e-6").status is Status.OK
    assert judge(specks, tolerance="1e-9").error_class == "overlap"


def test_a_tolerance_forgives_no_negative_radius() -> None:
    assert judge([[0.25, 0.5, -1e-9], HALVES[1]], tolerance="1e-6").error_class == "radius"


def test_records_say_whether_they_pass_this_check() -> None:
    exact = {record.source: record for record in build({"n": "26"}).info.records}
    lax = {record.source: record for record in build({"n": "26", "tolerance": "1e-6"}).info.records}
    assert exact["ThetaEvolve 8B, 2025 (1e-6 verifier)"].exact is False
    assert lax["ThetaEvolve 8B, 2025 (1e-6 verifier)"].exact is True
    assert exact["OpenEvolve, June 2025 (README)"].exact is None
    assert exact["SimpleTES, 2026"].exact is False
    assert max(one.value for one in exact.values() if one.exact) < exact["SimpleTES, 2026"].value


def test_a_feasible_packing_is_not_repaired() -> None:
    circles = read_packing(build({"n": "26"}).root())
    assert repair(circles) == circles


def test_repair_takes_no_more_than_the_overlap() -> None:
    circles = [(0.25, 0.5, 0.25), (0.75, 0.5, 0.25 + 1e-9)]
    fixed = repair(circles)
    assert build({"n": "2"}).evaluate(packing_artifact(fixed)).status is Status.OK
    assert sum(r for _, _, r in fixed) == pytest.approx(0.5, abs=1e-15)


def test_repair_brings_centres_in_and_separates_what_coincides() -> None:
    fixed = repair([(-0.5, 1.5, 0.3), (0.5, 0.5, 0.9), (0.5, 0.5, 0.1), (0.7, 0.5, -2.0)])
    assert fixed[0] == (0.0, 1.0, 0.0)
    assert fixed[1][2] + fixed[2][2] == 0.0
    assert fixed[3][2] == 0.0
    assert build({"n": "4"}).evaluate(packing_artifact(fixed)).status is Status.OK


def test_the_evaluator_repairs_nothing() -> None:
    circles = [(0.25, 0.5, 0.25), (0.75, 0.5, 0.25 + 1e-15)]
    task = build({"n": "2"})
    assert task.evaluate(packing_artifact(circles)).status is Status.INVALID
    assert task.evaluate(packing_artifact(repair(circles))).status is Status.OK


def test_an_unreadable_packing_says_why() -> None:
    with pytest.raises(ValueError, match="expected a finite number"):
        read_packing(json_artifact({"circles": [[0.5, 0.5, "0.1"]]}))
