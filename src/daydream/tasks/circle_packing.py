"""Circle packing: n disjoint discs in the unit square, the sum of their radii as large as possible.

Owns the identity (n, and a tolerance where one is asked for), the exact evaluator, :func:`repair`
and the published records. A packing is ``{"circles": [[x, y, r], ...]}`` in ``artifact.json``;
other keys, a claimed sum among them, are ignored.

Doubles are dyadic rationals, so every test is decided in integers, without rounding: a packing that
overlaps by 1e-18 is refused. ``tolerance`` reproduces the laxer checks of other benchmarks (1e-6,
1e-7, 1e-9, 1e-12); it is part of the identity, and each result says how much of it was spent, since
a tolerance t is worth up to about n * t in the sum. The evaluator never repairs anything.

Records: sums recomputed from the published coordinates, June 2025 to 2026. ``needs`` is the least
tolerance in powers of ten that the published construction passes with.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

from daydream.canonical import JsonValue, hash_of
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

NAME: Final = "circle-packing"
SEED_SIZE: Final = 8
MAX_CIRCLES: Final = 64
VERSION: Final = 1
"""Raised with every change of the evaluator that can change a verdict or a score."""
TOLERANCES: Final = {"0": 0, "1e-12": 12, "1e-9": 9, "1e-7": 7, "1e-6": 6}
"""Spelling -> decimal places, from the strictest to the laxest; 0 is exact."""
FULL_SCALE: Final = 0.02
"""Score scale of the full-size instances. A common local optimum of 26 circles and the best known
packing (2.630 and 2.635983) differ by 0.006. At this scale an attempt costs 0.002 * 0.02 = 0.00004,
so that difference pays for 150 attempts; at scale 1 it would pay for three."""
CONTACT: Final = 1e-9
"""Gaps below this count as contacts in diagnostics."""

Circle: TypeAlias = tuple[float, float, float]
"""Centre x, centre y, radius, in sides of the square."""


class _Published(NamedTuple):
    n: int
    value: float
    source: str
    needs: str


RECORDS: Final = (
    _Published(26, 2.634292402141039, "OpenEvolve, June 2025 (README)", ""),
    _Published(26, 2.6358627564136983, "AlphaEvolve, May 2025 (results notebook)", "0"),
    _Published(26, 2.6359773947542573, "TTT-Discover, 2026", "0"),
    _Published(26, 2.6359828266458067, "ShinkaEvolve, 2025", "0"),
    _Published(26, 2.635983077388119, "ThetaEvolve 8B, 2025 (exact variant)", "0"),
    _Published(26, 2.6359830849176067, "AlphaEvolve repository of problems, 2025", "1e-12"),
    _Published(26, 2.6359830849210715, "SimpleTES, 2026", "1e-12"),
    _Published(26, 2.6359856612408987, "ThetaEvolve 8B, 2025 (1e-6 verifier)", "1e-6"),
    _Published(26, 2.6359830849176, "Daydream's local_search", "0"),
    _Published(32, 2.937, "AlphaEvolve, May 2025 (paper)", ""),
    _Published(32, 2.9395727712063233, "AlphaEvolve repository of problems, 2025", "1e-12"),
    _Published(32, 2.9395727712101474, "SimpleTES, 2026", "1e-12"),
    _Published(32, 2.9395727712063, "Daydream's local_search", "0"),
    _Published(8, 1.4238139153, "Daydream's local_search (no published figure found)", "0"),
)
"""``needs`` is empty where no coordinates are published."""


class CirclePacking:
    """One instance: ``n`` circles, and the tolerance that the check allows."""

    def __init__(self, n: int, tolerance: str) -> None:
        self.n = n
        self.tolerance = tolerance
        self.info = _info(n, tolerance)

    def root(self) -> Artifact:
        """Return equal circles on the smallest square grid that holds ``n``, row by row."""
        side = math.isqrt(self.n - 1) + 1
        # The radius is cut well below 1 / (2 * side), so that rounding leaves every pair apart.
        radius = math.floor(500_000 / side - 1) / 1_000_000
        centres = [(2 * i + 1) / (2 * side) for i in range(side)]
        cells = [(x, y) for y in centres for x in centres][: self.n]
        return packing_artifact([(x, y, radius) for x, y in cells])

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Return the exact sum of radii, or the first rule that the packing breaks.

        Error classes: ``malformed``, ``count``, ``number``, ``radius``, ``outside``, ``overlap``.
        """
        try:
            parsed = read_json(artifact)
        except ValueError as error:
            return failed(
                "malformed", f"no packing: {error}; write {{'circles': [[x, y, r], ...]}}"
            )
        refusal = _shape_problem(parsed, self.n)
        if refusal is not None:
            return refusal
        circles = read_circles(parsed)
        places = TOLERANCES[self.tolerance]
        refusal = _rule_problem(circles, places)
        if refusal is not None:
            return refusal
        return self._score(circles)

    def _score(self, circles: Sequence[Circle]) -> Evaluation:
        radii, unit = _integers([radius for _, _, radius in circles])
        gaps = _gaps(circles)
        strict = self.tolerance == "0" or _rule_problem(circles, 0) is None
        return ok(
            sum(radii) / unit,
            contacts=sum(gap < CONTACT for gap in gaps),
            least_radius=min(radius for _, _, radius in circles),
            tolerance=self.tolerance,
            tolerance_spent=0.0 if strict else max(0.0, -min(gaps)),
            exactly_feasible=strict,
        )


def build(args: Args) -> CirclePacking:
    """Return ``circle-packing[:n=N,tolerance=T]``; n from 1 to 64 (8), tolerance exact (0).

    Raises :class:`daydream.errors.TaskError` for another key or value.
    """
    only(NAME, args, "n", "tolerance")
    n = whole(args, "n", SEED_SIZE, low=1, high=MAX_CIRCLES)
    return CirclePacking(n, choice(args, "tolerance", "0", tuple(TOLERANCES)))


def load(args: Args, sandbox: SandboxLevel = "auto") -> CirclePacking | ByProgram:
    """Return what :func:`build` does, or with ``artifact=program`` the same made by a program.

    Raises as :func:`build` and :func:`by_program` do.
    """
    only(NAME, args, "n", "tolerance", *KEYS)
    data = build(without_program(args))
    if not wants_program(args):
        return data
    return by_program(data, args, sandbox, key="circles", constants={"N": data.n})


def size_of(name: str) -> int:
    """Return n of a circle packing task from its identity."""
    for part in name.partition(":")[2].split(","):
        key, _, value = part.partition("=")
        if key == "n":
            return int(value)
    return SEED_SIZE


def packing_artifact(circles: Sequence[Circle]) -> Artifact:
    """Return the artifact that holds ``circles``."""
    return json_artifact({"circles": [list(circle) for circle in circles]})


def read_packing(artifact: Artifact) -> list[Circle]:
    """Return the circles of any artifact that is a list of finite triples, feasible or not.

    Raises :class:`ValueError` with a readable reason otherwise.
    """
    parsed = read_json(artifact)
    problem = _shape_problem(parsed, None)
    if problem is not None:
        raise ValueError(problem.message)
    return read_circles(parsed)


def read_circles(parsed: JsonValue) -> list[Circle]:
    """Return the circles of parsed JSON that the shape check has passed."""
    rows = parsed["circles"] if isinstance(parsed, dict) else []
    return [(row[0], row[1], row[2]) for row in rows]


def repair(circles: Sequence[Circle]) -> list[Circle]:
    """Return ``circles`` with radii shrunk until no rule is broken, in exact arithmetic.

    Centres outside the square move to its border. A radius shrinks to the nearest wall, then each
    pair that overlaps gives up half of the overlap each; nothing shrinks further than one unit in
    the last place below what a rule needs. A packing that is feasible comes back unchanged.
    Numbers have to be finite.
    """
    xs = [min(1.0, max(0.0, x)) for x, _, _ in circles]
    ys = [min(1.0, max(0.0, y)) for _, y, _ in circles]
    radii = [
        _within_walls(x, y, max(0.0, radius))
        for x, y, (_, _, radius) in zip(xs, ys, circles, strict=True)
    ]
    for i in range(len(radii)):
        for j in range(i):
            reach = radii[i] + radii[j]
            gap = math.hypot(xs[i] - xs[j], ys[i] - ys[j]) - reach
            # hypot and the sums err by less than 1e-15 inside the unit square.
            if not gap > 1e-14:
                radii[i], radii[j] = _separate((xs[i], ys[i], radii[i]), (xs[j], ys[j], radii[j]))
    return list(zip(xs, ys, radii, strict=True))


def _within_walls(x: float, y: float, radius: float) -> float:
    # 1 - x is exact for x in [0.5, 1] only; the test below decides in integers.
    radius = min(radius, x, y, 1.0 - x, 1.0 - y)
    while not _walls_hold(x, y, radius):
        radius = math.nextafter(radius, 0.0)
    return radius


def _walls_hold(x: float, y: float, radius: float) -> bool:
    (x_, y_, r_), unit = _integers([x, y, radius])
    return r_ >= 0 and r_ <= min(x_, y_, unit - x_, unit - y_)


def _separate(a: Circle, b: Circle) -> tuple[float, float]:
    distance = math.hypot(a[0] - b[0], a[1] - b[1])
    first, second = a[2], b[2]
    if not _apart(a, b):
        half = max(0.0, first + second - distance) / 2
        first = min(distance, max(0.0, first - half))
        second = min(second, distance - first)
    while not _apart((a[0], a[1], first), (b[0], b[1], second)):
        if first >= second:
            first = math.nextafter(first, 0.0)
        else:
            second = math.nextafter(second, 0.0)
    return first, second


def _apart(a: Circle, b: Circle) -> bool:
    (ax, ay, ar, bx, by, br), _ = _integers([*a, *b])
    return (ax - bx) ** 2 + (ay - by) ** 2 >= (ar + br) ** 2


def _integers(values: Sequence[float]) -> tuple[list[int], int]:
    """Return ``values`` times one power of two, all integers, and that power."""
    ratios = [value.as_integer_ratio() for value in values]
    unit = max(denominator for _, denominator in ratios)
    return [numerator * (unit // denominator) for numerator, denominator in ratios], unit


def _shape_problem(parsed: JsonValue, n: int | None) -> Evaluation | None:
    rows = parsed.get("circles") if isinstance(parsed, dict) else None
    if not isinstance(rows, list):
        return failed(
            "malformed",
            "no list named 'circles'; write {'circles': [[x, y, r], ...]} to artifact.json",
        )
    expected = len(rows) if n is None else n
    if len(rows) != expected:
        return failed("count", f"found {len(rows)} circles (expected exactly {expected})")
    for i, row in enumerate(rows):
        if not (isinstance(row, list) and len(row) == 3):
            return failed("malformed", f"circle {i} is {_short(row)} (expected [x, y, r])")
        for what, value in zip("xyr", row, strict=True):
            # bool is an int to Python, and no number to us.
            if not (type(value) in (float, int) and _finite(value)):
                return failed(
                    "number", f"circle {i}: {what} is {_short(value)} (expected a finite number)"
                )
    return None


def _finite(value: float) -> bool:
    # An integer too large for a double is finite, and refused by its size where it matters.
    return isinstance(value, int) or math.isfinite(value)


def _short(value: JsonValue) -> str:
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _rule_problem(circles: Sequence[Circle], places: int) -> Evaluation | None:
    """Return the first broken rule at tolerance 10**-places (exact for 0 places), else None."""
    for i, circle in enumerate(circles):
        if not circle[2] >= 0:
            return failed("radius", f"circle {i} has radius {_short(circle[2])} (expected >= 0)")
        for what, value in zip("xyr", circle, strict=True):
            # Bounds the integers below: no packing that a tolerance passes goes further.
            if not (value >= -1 and value <= 2):
                return failed(
                    "outside", f"circle {i}: {what} is {_short(value)} (expected a value in [0, 1])"
                )
    grid = 10**places if places else 1
    flat, unit = _integers([value for circle in circles for value in circle])
    scaled = [value * grid for value in flat]
    slack, side = (unit if places else 0), unit * grid
    xs, ys, radii = scaled[0::3], scaled[1::3], scaled[2::3]
    for i, (x, y, r) in enumerate(zip(xs, ys, radii, strict=True)):
        room = min(x, y, side - x, side - y) - r
        if not room >= -slack:
            return failed(
                "outside",
                f"circle {i} leaves the square by {float(Fraction(-room, side)):.3g} "
                f"(allowed: {_allowed(places)}); move it inwards or shrink it",
            )
    for i in range(len(radii)):
        x, y, r = xs[i], ys[i], radii[i] - slack
        for j in range(i):
            reach = r + radii[j]
            if not (reach <= 0 or (x - xs[j]) ** 2 + (y - ys[j]) ** 2 >= reach * reach):
                return _overlap(circles, j, i, places)
    return None


def _overlap(circles: Sequence[Circle], i: int, j: int, places: int) -> Evaluation:
    (ax, ay, ar, bx, by, br), unit = _integers([*circles[i], *circles[j]])
    square = (ax - bx) ** 2 + (ay - by) ** 2
    reach = ar + br
    # reach - sqrt(square), without the cancellation that floats would suffer.
    amount = Fraction(reach * reach - square, unit * (reach + math.isqrt(square)))
    return failed(
        "overlap",
        f"circles {i} and {j} overlap by {float(amount):.3g} (allowed: {_allowed(places)}); "
        "shrink their radii or move them apart",
        pair=[i, j],
    )


def _allowed(places: int) -> str:
    return f"1e-{places}" if places else "nothing"


def _gaps(circles: Sequence[Circle]) -> list[float]:
    """Return every wall gap and pair gap, in floats: for people, never for a verdict."""
    gaps = [gap for x, y, r in circles for gap in (x - r, y - r, 1 - x - r, 1 - y - r)]
    for i, (x, y, r) in enumerate(circles):
        gaps.extend(math.hypot(x - u, y - v) - r - s for u, v, s in circles[:i])
    return gaps


def _info(n: int, tolerance: str) -> TaskInfo:
    seed_size = n == SEED_SIZE
    parts = [
        *([] if seed_size else [f"n={n}"]),
        *([] if tolerance == "0" else [f"tolerance={tolerance}"]),
    ]
    identity = ":".join([NAME, ",".join(parts)]) if parts else NAME
    label = "" if tolerance == "0" else f" (tolerance {tolerance}, not exact)"
    rule = (
        "Every rule is checked in exact rational arithmetic, with no tolerance."
        if tolerance == "0"
        else f"Each rule may be broken by at most {tolerance}."
    )
    return TaskInfo(
        name=identity,
        title=f"Pack {n} circles in the unit square" + label,
        statement=(
            f"Place {n} circles [x, y, r] inside the unit square [0, 1] x [0, 1] so that no two "
            "overlap and the sum of the radii is as large as possible. Each circle needs r >= 0, "
            "r <= x <= 1 - r and r <= y <= 1 - r; each two centres need a distance of at least "
            f"the sum of the two radii. {rule} The answer is artifact.json holding "
            '{"circles": [[x, y, r], ...]} with exactly '
            f"{n} entries. The score is the sum of the radii, recomputed from the circles."
        ),
        evaluator=hash_of([NAME, VERSION, n, tolerance]),
        policy="parallel_refine-w4-d4" if seed_size else "parallel_refine-w8-d6",
        agent="scripted" if seed_size else "local_search",
        measure="sum of radii",
        scale=1.0 if seed_size else FULL_SCALE,
        attempt_cost="one step of a method" if seed_size else "12 interior-point solves",
        records=tuple(_record(found, tolerance) for found in RECORDS if found.n == n),
    )


def _record(found: _Published, tolerance: str) -> Record:
    order = list(TOLERANCES)
    passes = order.index(found.needs) <= order.index(tolerance) if found.needs else None
    return Record(found.value, found.source, passes)
