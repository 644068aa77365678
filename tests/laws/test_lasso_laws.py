"""Laws of the lasso evaluator: whatever the program, the verdict is the one of a second reading."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from daydream.canonical import JsonValue
from daydream.tasks.base import json_artifact
from daydream.tasks.lasso import TOLERANCE, build
from daydream.tasks.lasso_machine import GRID, UNIT
from daydream.tree import Status
from tests.unit.tasks.lasso_recount import recount

Code = list[list[JsonValue]]

TASK = build({})

SETUP = st.sampled_from([["screen", "all"], ["moments"], ["gram"], ["gradient"], ["cold"]])
STEP = st.one_of(
    SETUP,
    st.sampled_from([["screen", "support"], ["screen", "violators"]]),
    st.builds(lambda ahead: ["screen", "strong", ahead], st.integers(0, 9)),
    st.builds(
        lambda name, times: [name, times],
        st.sampled_from(["sweep", "gram_sweep", "jump"]),
        st.integers(1, 6),
    ),
)
LOOK: Code = [["gradient"], ["screen", "strong", 0], ["gram"]]
SOLVE = st.builds(
    lambda look, sweeps, jumps, extra: [
        *(LOOK if look else []),
        ["gram_sweep", sweeps],
        ["jump", jumps],
        *extra,
    ],
    st.booleans(),
    st.integers(1, 4),
    st.integers(1, 3),
    st.lists(STEP, max_size=2),
)


def _joined(setup: Code, parts: list[Code]) -> Code:
    program = list(setup)
    for part in parts:
        program += [["next"], *part]
    return program


ANYTHING = st.builds(
    _joined,
    st.lists(SETUP, max_size=4),
    st.lists(st.lists(STEP, max_size=4), min_size=GRID - 1, max_size=GRID + 1),
)
PLAUSIBLE = st.builds(
    _joined,
    st.just([["screen", "all"], ["moments"], ["gram"]]),
    st.lists(SOLVE, min_size=GRID, max_size=GRID),
)


@settings(max_examples=60)
@given(st.one_of(ANYTHING, PLAUSIBLE))
@example(
    [["screen", "all"], ["moments"], ["gram"], *[["next"], ["gram_sweep", 3], ["jump", 1]] * 10]
)
def test_a_score_is_what_a_recount_gives_and_a_wrong_path_is_never_ok(program: Code) -> None:
    found = TASK.evaluate(json_artifact(program))
    again = recount(TASK.instance, program)
    if again.operations is None:
        assert found.status is Status.INVALID
        return
    gaps = []
    for k, beta in enumerate(again.path):
        penalty = float(TASK.instance.penalties[k])
        residual = TASK.instance.response - TASK.instance.design @ beta
        value = float(residual @ residual) / 72 + penalty * sum(map(abs, beta))
        gaps.append(abs(value - TASK.instance.objective(TASK.exact[k], penalty)))
    if max(gaps) <= 0.999 * TOLERANCE:
        assert (found.status, found.score) == (Status.OK, UNIT / again.operations)
    if max(gaps) >= 1.001 * TOLERANCE:
        assert (found.status, found.error_class) == (Status.INVALID, "gap")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["next", "sweep", "screen", "all", "strong"]),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_gets_a_verdict_with_a_reason(value: object) -> None:
    found = TASK.evaluate(json_artifact(value))
    assert found.status is Status.INVALID
    assert found.error_class
    assert found.message
