"""Sum-difference: a finite set A of integers with many sums and few differences.

Owns the identity (how many elements, how far apart), the exact evaluator and the records. The score
is Gamma(A) = log(|A+A| / |A|) / log(|A-A| / |A|), to be maximised: a lower bound for the least C
with |A+A| / |A| <= (|A-A| / |A|)^C for every set (arXiv 2609.14858, appendix A). The counts are
integers and exact; the logarithms and their ratio are floats.

The cap on |A| is part of the identity: a closed-form family tends to log 8 / log 6 = 1.16056 as |A|
grows, so values under different caps do not compare. A set is ``{"set": [...]}`` in
``artifact.json``; a claimed value is ignored.
"""

import math
from collections.abc import Sequence
from typing import Final

from daydream.canonical import hash_of
from daydream.config import SandboxLevel
from daydream.tasks.base import (
    Args,
    Artifact,
    Evaluation,
    Record,
    TaskInfo,
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

NAME: Final = "sum-diff"
VERSION: Final = 1
"""Raised with every change of the evaluator that can change a verdict or a score."""
SEED_CAP: Final = 24
SEED_SPAN: Final = 64
FULL_SPAN: Final = 1_000_000
FULL_SCALE: Final = 0.02
"""Score scale at full size. The structured sets and the record differ by 0.0015 at a cap of 512; at
scale 1 that would be worth less than one attempt, at this scale it pays for 37."""
CONWAY: Final = (0, 2, 3, 4, 7, 11, 12, 14)
"""The smallest set with more sums than differences (J. H. Conway)."""

_RECORDS: Final = (
    (512, 1.145427, "Dream-RSI, arXiv 2609.14858 (cap and set not stated)"),
    (512, 1.1448868597133133, "SimpleTES, released set: 506 elements, 3551 sums, 2775 differences"),
    (512, 1.1219357374860444, "AlphaEvolve repository of problems: 309 elements"),
    (24, 1.0597930945, "17 elements, start of the SimpleTES search"),
    (8, 1.0344212156259982, "Conway's eight elements"),
)
"""Greatest |A| that the construction needs, Gamma, source."""


class SumDiff:
    """The task for sets of at most ``cap`` elements between ``-span`` and ``span``."""

    def __init__(self, cap: int, span: int, name: str) -> None:
        self.cap = cap
        self.span = span
        self.info = _info(cap, span, name)

    def root(self) -> Artifact:
        """Return the interval 0, 1, ..., 7, whose sums and differences are equally many."""
        return set_artifact(range(8))

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Count sums and differences; refuse anything but distinct integers within the bounds."""
        try:
            found = read_json(artifact)
        except ValueError as error:
            return failed("malformed", str(error))
        values = found.get("set") if isinstance(found, dict) else None
        if not isinstance(values, list):
            return failed("malformed", 'the artifact has no list "set"')
        if not 2 <= len(values) <= self.cap:
            return failed("size", f"the set has {len(values)} elements (expected 2 to {self.cap})")
        numbers: list[int] = []
        for value in values:
            if type(value) is not int:
                return failed("not_integer", f"element {str(value)[:40]!r} is no integer")
            if not -self.span <= value <= self.span:
                return failed(
                    "span",
                    f"an element is outside [-{self.span}, {self.span}]: {value:.3g}"
                    if abs(value) < 10**300
                    else f"an element is outside [-{self.span}, {self.span}]",
                )
            numbers.append(value)
        if len(set(numbers)) != len(numbers):
            return failed("duplicate", "the set names an element twice")
        sums, differences = counts(numbers)
        score = gamma_of(len(numbers), sums, differences)
        return ok(score, size=len(numbers), sums=sums, differences=differences)


def build(args: Args) -> SumDiff:
    """Return the task of ``sum-diff`` or ``sum-diff:cap=512[,span=1000000]``.

    Raises :class:`TaskError` for other parameters or values out of range.
    """
    only(NAME, args, "cap", "span")
    full = bool(args)
    cap = whole(args, "cap", 512 if full else SEED_CAP, low=2, high=4096)
    span = whole(args, "span", FULL_SPAN if full else SEED_SPAN, low=2, high=4_000_000)
    if (cap, span) == (SEED_CAP, SEED_SPAN):
        return SumDiff(cap, span, NAME)
    wide = "" if span == FULL_SPAN else f",span={span}"
    return SumDiff(cap, span, f"{NAME}:cap={cap}{wide}")


def load(args: Args, sandbox: SandboxLevel = "auto") -> SumDiff | ByProgram:
    """Return what :func:`build` does, or with ``artifact=program`` the same made by a program.

    Raises as :func:`build` and :func:`by_program` do.
    """
    only(NAME, args, "cap", "span", *KEYS)
    data = build(without_program(args))
    if not wants_program(args):
        return data
    constants: dict[str, int | str] = {"CAP": data.cap, "SPAN": data.span}
    return by_program(data, args, sandbox, key="set", constants=constants)


def set_artifact(values: Sequence[int]) -> Artifact:
    """Return the artifact that holds ``values`` in increasing order, each once."""
    return json_artifact({"set": sorted({int(value) for value in values})})


def read_set(artifact: Artifact) -> list[int]:
    """Return the integers in ``artifact``; raises ``ValueError`` when it holds no such list."""
    found = read_json(artifact)
    values = found.get("set") if isinstance(found, dict) else None
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise ValueError("the artifact holds no list of integers under 'set'")
    return [value for value in values if type(value) is int]


def counts(values: Sequence[int]) -> tuple[int, int]:
    """Return |A+A| and |A-A| for distinct integers, exactly.

    A bit set of the values is shifted once an element, so the work is |A| times the spread of the
    values over the word size.
    """
    low = min(values)
    width = max(values) - low
    present = mirrored = 0
    for value in values:
        present |= 1 << (value - low)
        mirrored |= 1 << (width - (value - low))
    sums = differences = 0
    for value in values:
        sums |= present << (value - low)
        differences |= mirrored << (value - low)
    return sums.bit_count(), differences.bit_count()


def gamma_of(size: int, sums: int, differences: int) -> float:
    """Return Gamma from the three counts; ``size`` is at least 2, so differences exceed it."""
    return math.log(sums / size) / math.log(differences / size)


def gamma(values: Sequence[int]) -> float:
    """Return Gamma of at least two distinct integers."""
    return gamma_of(len(values), *counts(values))


def _info(cap: int, span: int, name: str) -> TaskInfo:
    seed_size = name == NAME
    return TaskInfo(
        name=name,
        title=f"Sets of at most {cap} integers, many sums and few differences",
        statement=(
            f"Find a set A of 2 to {cap} distinct integers between -{span} and {span} that "
            "maximises Gamma(A) = log(|A+A| / |A|) / log(|A-A| / |A|), where A+A and A-A are the "
            "sets of all sums and all differences of two elements. Answer with the file "
            'artifact.json: {"set": [integers]}.'
        ),
        evaluator=hash_of({"task": NAME, "version": VERSION, "cap": cap, "span": span}),
        policy="parallel_refine-w6-d4",
        agent="scripted" if seed_size else "local_search",
        measure="Gamma",
        scale=1.0 if seed_size else FULL_SCALE,
        attempt_cost="60 moves, each counted exactly" if seed_size else "30,000 moves",
        records=tuple(
            Record(value, source, None if "not stated" in source else True)
            for size, value, source in _RECORDS
            if size <= cap
        ),
    )
