"""Autocorrelation inequalities: step functions whose autoconvolution is as flat as can be.

Owns the identity (which inequality, how many steps), the exact evaluator and the records. A
function f is n equal steps with heights h on [-1/4, 1/4]: ``{"heights": [h_0, ..., h_(n-1)]}`` in
``artifact.json``. With c = h * h (length 2n - 1) the autoconvolution is piecewise linear with knots
proportional to c, so its suprema lie at knots and these ratios are exact:

    first          h >= 0                 C = 2n max c_k / (sum h)^2            to be minimised
    third-weak     sum h != 0             C = 2n |max c_k| / (sum h)^2          to be minimised
    third-strict   sum h != 0             C = 2n max |c_k| / (sum h)^2          to be minimised
    second         h >= 0                 R = sum(v_i^2 + v_i v_(i+1) + v_(i+1)^2)
                                              / (3 (sum h)^2 max c_k)           to be maximised,

where v is c with a zero at each end: R = ||f*f||_2^2 / (||f*f||_1 ||f*f||_inf). All four are
invariant under scaling, so no normalisation has a tolerance. Published values of the third
inequality mix the weak and the strict form; both are shown for every construction.

The stored score is higher-is-better: 1 / C, or R. Doubles are dyadic rationals, so one product of
big integers gives the exact value (Kronecker substitution), rounded once. Sources: Matolcsi and
Vinuesa 2010 (the inequalities), AlphaEvolve appendix B 2025 (the numbering and the weak form).
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Final, Literal, TypeAlias, cast

import msgspec

from daydream.canonical import hash_of
from daydream.config import SandboxLevel
from daydream.tasks.base import (
    Args,
    Artifact,
    Evaluation,
    Record,
    TaskInfo,
    choice,
    failed,
    json_artifact,
    ok,
    only,
    read_json,
    whole,
)
from daydream.tasks.constructed import (
    KEYS,
    ByProgram,
    by_program,
    wants_program,
    without_program,
)

NAME: Final = "autocorrelation"
VERSION: Final = 1
"""Raised with every change of the evaluator that can change a verdict or a score."""
SEED_BINS: Final = 21
FULL_BINS: Final = 800
MAX_BINS: Final = 4_000
SMALLEST: Final = 1e-30
LARGEST: Final = 1e30
"""Range of a height other than 0: it bounds the integers of the exact check at 260 bits each."""
LEAST_SUM: Final = 1e-3
"""|sum h| of a signed function over n times its greatest |h|: below it the ratio means nothing."""
FULL_SCALE: Final = 0.005
"""Score scale at full size. Constructions between C = 1.47 and the record 1.4537 differ by 0.008 in
1 / C; at scale 1 that is worth four attempts, at this scale one attempt costs 0.00001."""

Variant: TypeAlias = Literal["first", "second", "third-weak", "third-strict"]
VARIANTS: Final[tuple[Variant, ...]] = ("first", "second", "third-weak", "third-strict")

_RECORDS: Final = (
    ("first", 1.5028628982558258, "TTT-Discover, 30000 steps"),
    ("first", 1.5031324359797773, "ThetaEvolve, continued from AlphaEvolve v2"),
    ("first", 1.5032244982597613, "AlphaEvolve v2, 5000 steps"),
    ("first", 1.5052939684401607, "AlphaEvolve v1 (May 2025), 600 steps"),
    ("first", 1.5097201507458793, "Matolcsi and Vinuesa 2010, 208 steps"),
    ("second", 0.8962, "AlphaEvolve (May 2025)"),
    ("second", 0.88922, "Matolcsi and Vinuesa 2010"),
    ("third-weak", 1.4536754655951831, "SimpleTES, 400 steps (also strict)"),
    (
        "third-weak",
        1.4556427953745406,
        "AlphaEvolve (May 2025), 400 steps; its strict value is 4.33",
    ),
    ("third-weak", 1.4581, "Vinuesa, thesis"),
    ("third-strict", 1.4536754655951831, "SimpleTES, 400 steps"),
    ("third-strict", 1.456375, "Dream-RSI, arXiv 2609.14858 (variant not stated)"),
    ("third-strict", 1.4687620697410229, "AlphaEvolve (May 2025), 150 steps"),
    ("third-strict", 1.4930012021944894, "ThetaEvolve"),
)
_PUBLISHED_AS_TEXT: Final = frozenset({0.8962, 0.88922, 1.4581, 1.456375})
"""Values whose construction is not at hand, so that the check could not be repeated."""


class Constants(msgspec.Struct, frozen=True):
    """The exact ratios of one step function, each rounded once. The sum of heights is not 0."""

    first: float
    """2n max c / (sum h)^2; of the first inequality where no height is negative."""
    second: float
    third_weak: float
    third_strict: float

    def of(self, variant: Variant) -> float:
        """Return the ratio of ``variant``."""
        match variant:
            case "first":
                return self.first
            case "second":
                return self.second
            case "third-weak":
                return self.third_weak
            case "third-strict":
                return self.third_strict


class Autocorrelation:
    """The task for one variant and one number of steps."""

    def __init__(self, variant: Variant, bins: int, name: str) -> None:
        self._variant: Variant = variant
        self.bins = bins
        self.info = _info(variant, bins, name)

    def root(self) -> Artifact:
        """Return the constant function, whose C is 2."""
        return heights_artifact([1.0] * self.bins)

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Check the heights and compute every ratio exactly; a claimed value is ignored."""
        try:
            found = read_json(artifact)
        except ValueError as error:
            return failed("malformed", str(error))
        values = found.get("heights") if isinstance(found, dict) else None
        if not isinstance(values, list):
            return failed("malformed", 'the artifact has no list "heights"')
        if len(values) != self.bins:
            return failed("length", f"{len(values)} heights (expected exactly {self.bins})")
        heights: list[float] = []
        for position, value in enumerate(values):
            problem = _height_problem(value, signed=self._variant.startswith("third"))
            if problem is not None:
                return failed(*problem, position=position)
            heights.append(float(cast("float", value)))
        total, largest = math.fsum(heights), max(abs(height) for height in heights)
        if not abs(total) >= LEAST_SUM * self.bins * largest or not largest > 0:
            return failed(
                "sum",
                f"the heights sum to {total!r} (expected at least {LEAST_SUM} x {self.bins} times "
                "the greatest height in absolute value)",
            )
        found_ratios = constants(heights)
        value = found_ratios.of(self._variant)
        return ok(
            value if self._variant == "second" else 1.0 / value,
            measure=value,
            third_weak=found_ratios.third_weak,
            third_strict=found_ratios.third_strict,
            negative=sum(height < 0 for height in heights),
        )


def build(args: Args) -> Autocorrelation:
    """Return the task of ``autocorrelation[:variant=...,bins=...]``.

    Raises :class:`TaskError` for other parameters or values out of range.
    """
    only(NAME, args, "variant", "bins")
    variant = choice(args, "variant", "first", VARIANTS)
    default = FULL_BINS if args else SEED_BINS
    bins = whole(args, "bins", default, low=2, high=MAX_BINS)
    seed_size = (variant, bins) == ("first", SEED_BINS)
    name = NAME if seed_size else f"{NAME}:variant={variant},bins={bins}"
    return Autocorrelation(cast("Variant", variant), bins, name)


def load(args: Args, sandbox: SandboxLevel = "auto") -> Autocorrelation | ByProgram:
    """Return what :func:`build` does, or with ``artifact=program`` the same made by a program.

    Raises as :func:`build` and :func:`by_program` do.
    """
    only(NAME, args, "variant", "bins", *KEYS)
    data = build(without_program(args))
    if not wants_program(args):
        return data
    return by_program(data, args, sandbox, key="heights", constants={"BINS": data.bins})


def variant_of(info: TaskInfo) -> Variant:
    """Return the variant that a task of this module is about."""
    for variant in VARIANTS:
        if f"variant={variant}," in info.name:
            return variant
    return "first"


def heights_artifact(heights: Sequence[float]) -> Artifact:
    """Return the artifact that holds ``heights``; what is too small to matter becomes 0."""
    return json_artifact({"heights": [float(h) if abs(h) >= SMALLEST else 0.0 for h in heights]})


def read_heights(artifact: Artifact) -> list[float]:
    """Return the heights in ``artifact``; raises ``ValueError`` when it holds no such list."""
    found = read_json(artifact)
    values = found.get("heights") if isinstance(found, dict) else None
    if not isinstance(values, list) or not values:
        raise ValueError("the artifact holds no list under 'heights'")
    numbers = [float(v) for v in values if type(v) in {int, float}]
    if len(numbers) != len(values):
        raise ValueError("the artifact holds heights that are no numbers")
    return numbers


def constants(heights: Sequence[float]) -> Constants:
    """Return the exact ratios of finite ``heights`` within the bounds, whose sum is not 0."""
    integers = _integers(heights)
    knots = _convolve(integers)
    n, square = len(heights), sum(integers) ** 2
    top, low = max(knots), min(knots)
    norm = sum(v * v for v in knots) * 2 + sum(v * w for v, w in pairwise(knots))
    return Constants(
        first=float(Fraction(2 * n * top, square)),
        second=float(Fraction(norm, 3 * square * top)) if top > 0 else 0.0,
        third_weak=float(Fraction(2 * n * abs(top), square)),
        third_strict=float(Fraction(2 * n * max(top, -low), square)),
    )


def _integers(heights: Sequence[float]) -> list[int]:
    """``heights`` times one power of two, as integers: doubles are dyadic rationals."""
    ratios = [height.as_integer_ratio() for height in heights]
    scale = max(denominator for _, denominator in ratios)
    return [numerator * (scale // denominator) for numerator, denominator in ratios]


def _convolve(values: Sequence[int]) -> list[int]:
    """Return the autoconvolution of ``values``, by products of packed integers (Kronecker)."""
    largest = max(abs(value) for value in values)
    width = (2 * largest.bit_length() + len(values).bit_length() + 9) // 8
    above = _pack([max(value, 0) for value in values], width)
    below = _pack([max(-value, 0) for value in values], width)
    size = 2 * len(values) - 1
    plain = [
        p + q
        for p, q in zip(
            _unpack(above * above, width, size), _unpack(below * below, width, size), strict=True
        )
    ]
    if not below:
        return plain
    mixed = _unpack(above * below, width, size)
    return [value - 2 * cross for value, cross in zip(plain, mixed, strict=True)]


def _pack(values: Sequence[int], width: int) -> int:
    return int.from_bytes(b"".join(value.to_bytes(width, "little") for value in values), "little")


def _unpack(packed: int, width: int, size: int) -> list[int]:
    data = packed.to_bytes(width * (size + 1), "little")
    return [
        int.from_bytes(data[start : start + width], "little")
        for start in range(0, width * size, width)
    ]


def _height_problem(value: object, *, signed: bool) -> tuple[str, str] | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "not_a_number", f"height {str(value)[:40]!r} is no number"
    if not abs(value) <= LARGEST:
        return "range", f"a height is above {LARGEST:g} in absolute value"
    if not (value == 0 or abs(value) >= SMALLEST):
        return "range", f"height {value!r} is below {SMALLEST:g} and not 0; write 0"
    if not (signed or value >= 0):
        return "negative", f"height {value!r} is negative (expected at least 0)"
    return None


def _info(variant: Variant, bins: int, name: str) -> TaskInfo:
    seed_size = name == NAME
    sign = "real" if variant.startswith("third") else "non-negative"
    goal: Literal["max", "min"] = "max" if variant == "second" else "min"
    aim = {
        "first": "minimise C = 2n max_k c_k / (sum h)^2",
        "second": "maximise ||f*f||_2^2 / (||f*f||_1 ||f*f||_inf)",
        "third-weak": "minimise C = 2n |max_k c_k| / (sum h)^2",
        "third-strict": "minimise C = 2n max_k |c_k| / (sum h)^2",
    }[variant]
    return TaskInfo(
        name=name,
        title=f"Step functions with a flat autoconvolution: {variant} inequality, {bins} steps",
        statement=(
            f"Find {sign} heights h_0 ... h_{bins - 1} of a step function f with n = {bins} equal "
            f"steps on [-1/4, 1/4] that {aim}, where c = h * h is the autoconvolution of the "
            'heights. Answer with the file artifact.json: {"heights": [numbers]}. Only the shape '
            "matters, not the scale."
        ),
        evaluator=hash_of({"task": NAME, "version": VERSION, "variant": variant, "bins": bins}),
        policy="parallel_refine-w4-d4" if seed_size else "parallel_refine-w8-d4",
        agent="scripted" if seed_size else "local_search",
        measure="C" if goal == "min" else "R",
        goal=goal,
        transform="reciprocal" if goal == "min" else "identity",
        scale=1.0 if seed_size else FULL_SCALE,
        attempt_cost="400 changes, each scored in floats"
        if seed_size
        else "500 solves at the coarsest level, or 31 with twice the steps",
        records=tuple(
            Record(value, source, None if value in _PUBLISHED_AS_TEXT else True)
            for which, value, source in _RECORDS
            if which == variant
        ),
    )
