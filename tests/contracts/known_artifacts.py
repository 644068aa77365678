"""Artifacts of known worth for the built-in tasks: golds scored by other means, near misses."""

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from daydream.canonical import JsonValue
from daydream.tasks.base import Artifact, json_artifact
from daydream.tasks.kernel_layernorm import KernelLayerNorm, plain_kernel
from daydream.tasks.kernel_layernorm import build as build_kernel
from daydream.tasks.lasso import build as build_lasso
from daydream.tasks.lasso_machine import UNIT
from daydream.testing.task_contracts import Gold
from tests.unit.tasks.kernel_recount import units_of
from tests.unit.tasks.lasso_recount import recount

Code = list[list[JsonValue]]
Known: TypeAlias = tuple[tuple[Gold, ...], tuple[Artifact, ...]]


def _raw(text: str) -> Artifact:
    return Artifact({"artifact.json": text.encode()})


def _autocorrelation() -> Known:
    bins = 21

    def inverse_peak(heights: list[int]) -> float:
        peak = max(
            sum(heights[i] * heights[k - i] for i in range(bins) if 0 <= k - i < bins)
            for k in range(2 * bins - 1)
        )
        return sum(heights) ** 2 / (2 * bins * peak)

    flat = [1] * bins
    tent = [11 - abs(i - 10) for i in range(bins)]
    ends = [7, *([1] * 19), 7]
    lone = [0] * 20 + [5]
    assert (inverse_peak(flat), inverse_peak(lone)) == (0.5, 1 / 42)
    refused: list[JsonValue] = [
        {"heights": flat[1:]},
        {"heights": [*flat, 1]},
        {"heights": [*flat[1:], -1e-9]},
        {"heights": [0] * bins},
        {"heights": [*flat[1:], True]},
        {"heights": [*flat[1:], "1"]},
        {"heights": [*flat[1:], [1]]},
        {"heights": [*flat[1:], 1e300]},
        {"heights": {"0": 1}},
        {"C": 1.4},
    ]
    golds = tuple(
        Gold(json_artifact({"heights": heights}), inverse_peak(heights))
        for heights in (flat, tent, ends, lone)
    )
    return golds, tuple(map(json_artifact, refused))


def _branch_world() -> Known:
    places = [(0, 1, 0.1), (3, 3, 0.2), (3, 4, 0.95), (3, 8, 0.95), (5, 8, 0.9), (9, 11, 0.85)]
    golds = tuple(
        Gold(json_artifact({"branch": branch, "depth": depth}), score)
        for branch, depth, score in places
    )
    refused = (
        '{"branch": 3, "depth": 4.0}',
        '{"branch": 3, "depth": true}',
        '{"branch": "3", "depth": 4}',
        '{"branch": -1, "depth": 4}',
        '{"branch": 3, "depth": 0}',
        '{"branch": 3, "depth": 9999999999999999999999}',
        '{"branch": null, "depth": 4}',
        '{"score": 0.95}',
    )
    return golds, tuple(map(_raw, refused))


def _lasso() -> Known:
    instance = build_lasso({}).instance
    start: Code = [["screen", "all"], ["moments"], ["gram"]]

    def path(*steps: list[JsonValue], setup: Code = start) -> Code:
        each: Code = [["next"], *steps]
        return setup + each * 10

    good: list[Code] = [
        path(["gram_sweep", 3], ["jump", 1]),
        path(["gram_sweep", 12]),
        path(["gradient"], ["screen", "strong", 0], ["sweep", 12], setup=[]),
    ]
    golds = []
    for program in good:
        operations = recount(instance, program).operations
        assert operations is not None
        golds.append(Gold(json_artifact(program), UNIT / operations))
    bad: list[Code] = [
        path(["gram_sweep", 2], ["jump", 1]),
        path(["gram_sweep", 1]),
        path(["gram_sweep", 3], ["jump", 1])[:-3],
        path(["gram_sweep", 3], ["jump", 1], setup=[["screen", "all"], ["moments"]]),
        path(["gram_sweep", 3], ["jump", 1], setup=[["screen", "all"], ["gram"]]),
        path(["sweep", 500], setup=[["screen", "all"]]),
        path(["sweep", -1], setup=[["screen", "all"]]),
        path(["set", 0.5]),
        path(),
    ]
    return tuple(golds), tuple(map(json_artifact, bad))


def _kernel_layernorm() -> Known:
    task: KernelLayerNorm = build_kernel({})
    plain = plain_kernel(task.instance)
    reused = [step for step in plain if step not in (["load", "v1", "x"], ["load", "v4", "x"])]
    reused = [["v0" if one in ("v1", "v4") else one for one in step] for step in reused]
    golds = tuple(
        Gold(json_artifact(code), task.instance.length / units_of(task.instance, code))
        for code in (plain, reused)
    )

    def swapped(old: list[JsonValue], new: list[JsonValue]) -> Code:
        assert old in plain
        return [new if step == old else step for step in plain]

    bad = [
        swapped(["const", "s1", 1e-5], ["const", "s1", 0]),
        swapped(["const", "s1", 1e-5], ["const", "s1", 1e-4]),
        swapped(["const", "s0", 1 / task.instance.length], ["const", "s0", 1 / 100]),
        swapped(["mul", "v8", "v6", "v7"], ["add", "v8", "v6", "v7"]),
        swapped(["add", "v10", "v8", "v9"], ["mul", "v10", "v8", "v9"]),
        swapped(["sqrt", "s7", "s6"], ["rsqrt_fast", "s7", "s6"]),
        swapped(["store", "v10"], ["store", "v8"]),
        swapped(["store", "v10"], ["const", "s20", 1.0]),
        swapped(["mul", "v3", "v2", "v2"], ["mul", "v3", "v2", "v99"]),
    ]
    return golds, tuple(map(json_artifact, bad))


def _circle_packing() -> Known:
    cells = [((1 + 2 * (i % 4)) / 8, (1 + 2 * (i // 4)) / 8) for i in range(8)]
    tangent = [[x, y, 0.125] for x, y in cells]
    loose = [[x, y, 0.1] for x, y in cells]
    golds = tuple(
        Gold(json_artifact({"circles": circles}), sum(r for _, _, r in circles))
        for circles in (tangent, loose)
    )
    tiny = 2.0**-52

    def first(*circle: JsonValue) -> Artifact:
        return json_artifact({"circles": [list(circle), *tangent[1:]]})

    refused = (
        first(0.125, 0.125, 0.125 + tiny),
        first(0.125 + tiny, 0.125, 0.125),
        first(0.125 - tiny, 0.125, 0.125),
        first(0.125, 0.125, -0.125),
        first(0.125, 0.125, True),
        first(0.125, 0.125, "0.125"),
        first(0.125, 0.125),
        first(0.375, 0.125, 0.125),
        json_artifact({"circles": tangent[:7]}),
        json_artifact({"circles": [*tangent, [0.875, 0.875, 0.125]]}),
        json_artifact({"circles": {}}),
        json_artifact({"sum": 1.5}),
    )
    return golds, refused


def _sum_diff() -> Known:
    def gamma(values: list[int]) -> float:
        sums = {a + b for a in values for b in values}
        differences = {a - b for a in values for b in values}
        return math.log(len(sums) / len(values)) / math.log(len(differences) / len(values))

    conway = [0, 2, 3, 4, 7, 11, 12, 14]
    sets = [conway, [-64, 64], [1, 2, 4, 8, 16, 32], list(range(-12, 12))]
    assert round(gamma(conway), 7) == 1.0344212
    refused: list[JsonValue] = [
        {"set": [5]},
        {"set": [0, 1, 1]},
        {"set": [0, 1.0, 3]},
        {"set": [False, True, 3]},
        {"set": [0, 65]},
        {"set": [0, "1"]},
        {"set": list(range(25))},
        {"set": {"0": 1}},
        {"set": [[0, 1], 2]},
        {"gamma": 1.2},
    ]
    golds = tuple(Gold(json_artifact({"set": values}), gamma(values)) for values in sets)
    return golds, tuple(map(json_artifact, refused))


def _formula() -> Known:
    # Instance 0 asks for y+(z+(w-x)).
    golds = tuple(
        Gold(json_artifact({"program": program}), score)
        for program, score in (("yzwx-++", 1.0), ("yz+w+x-", 1.0), ("x", 0.0), ("yzxw-++", 0.0))
    )
    refused: list[JsonValue] = [
        {"program": ""},
        {"program": "yz"},
        {"program": "+"},
        {"program": "yz wx-++"},
        {"program": "yzwa-++"},
        {"program": ["yzwx-++"]},
        {"program": "y" * 49},
        {"program": "yzwx-++", "score": 1},
        {"answer": "yzwx-++"},
        "yzwx-++",
    ]
    return golds, tuple(map(json_artifact, refused))


KNOWN: Final[Mapping[str, Callable[[], Known]]] = {
    "autocorrelation": _autocorrelation,
    "branch-world": _branch_world,
    "circle-packing": _circle_packing,
    "formula": _formula,
    "kernel-layernorm": _kernel_layernorm,
    "lasso": _lasso,
    "sum-diff": _sum_diff,
}
