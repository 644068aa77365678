"""Peephole rewrites on kernel programs in single assignment; each returns None where none fits.

A rewrite keeps what a program computes in exact arithmetic, except where its docstring says that it
may not.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from daydream.canonical import JsonValue

Code = list[list[JsonValue]]

_TARGETS = {"store": 0, "sums": 2, "center": 2}
"""How many of the first arguments an instruction writes, where that is not 1."""


def _writes(step: Sequence[JsonValue]) -> list[str]:
    count = _TARGETS.get(str(step[0]), 1)
    return [str(name) for name in step[1 : 1 + count]]


def _reads(step: Sequence[JsonValue]) -> list[str]:
    count = _TARGETS.get(str(step[0]), 1)
    return [name for name in step[1 + count :] if isinstance(name, str)]


def single_assignment(code: Code) -> Code:
    """Return ``code`` with a new register for each value, so that a name means one value."""
    counts = {"v": 0, "s": 0}
    names: dict[JsonValue, str] = {}
    out: Code = []
    for step in code:
        targets = len(_writes(step))
        rest = [_renamed(names, name) for name in step[1 + targets :]]
        new: list[JsonValue] = []
        for target in _writes(step):
            kind = "s" if target.startswith("s") else "v"
            names[target] = f"{kind}{counts[kind]}"
            counts[kind] += 1
            new.append(names[target])
        out.append([step[0], *new, *rest])
    return out


def _renamed(names: Mapping[JsonValue, str], name: JsonValue) -> JsonValue:
    return names.get(name, name) if isinstance(name, str) else name


class _Uses:
    """Who writes and who reads each value."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.written = {name: i for i, step in enumerate(code) for name in _writes(step)}
        self.reads = Counter(name for step in code for name in _reads(step))

    def maker(self, name: JsonValue, *kinds: str) -> int | None:
        """Return the position of the instruction of one of ``kinds`` that writes ``name``."""
        place = self.written.get(str(name))
        return place if place is not None and self.code[place][0] in kinds else None

    def once(self, name: JsonValue) -> bool:
        """Whether a value is read exactly once."""
        return self.reads[str(name)] == 1

    def fresh(self, kind: str, count: int) -> list[str]:
        """Return unused register names."""
        taken = [int(name[1:]) for name in self.written if name[0] == kind]
        first = max(taken, default=-1) + 1
        return [f"{kind}{first + i}" for i in range(count)]


def _merge(code: Code, gone: Mapping[int, tuple[str, str]]) -> Code | None:
    """Drop the positions ``gone`` and read (old, new) names instead."""
    if not gone:
        return None
    names: dict[JsonValue, str] = dict(gone.values())
    kept = [step for i, step in enumerate(code) if i not in gone]
    return [[step[0], *[_renamed(names, name) for name in step[1:]]] for step in kept]


def load_once(code: Code) -> Code | None:
    """Keep the first load of each array."""
    first: dict[str, str] = {}
    gone: dict[int, tuple[str, str]] = {}
    for i, step in enumerate(code):
        if step[0] == "load":
            name, source = str(step[1]), str(step[2])
            if source in first:
                gone[i] = (name, first[source])
            else:
                first[source] = name
    return _merge(code, gone)


def subtract_once(code: Code) -> Code | None:
    """Keep the first of equal differences; ``center`` makes one too."""
    first: dict[tuple[str, str], str] = {}
    gone: dict[int, tuple[str, str]] = {}
    for i, step in enumerate(code):
        if step[0] in ("sub", "center"):
            pair = (str(step[-2]), str(step[-1]))
            if pair in first and step[0] == "sub":
                gone[i] = (str(step[1]), first[pair])
            else:
                first.setdefault(pair, str(step[1]))
    return _merge(code, gone)


def invert_root(code: Code) -> Code | None:
    """Divide a vector by sqrt(t) as a product with rsqrt(t)."""
    uses = _Uses(code)
    for i, step in enumerate(code):
        if step[0] == "div" and str(step[1]).startswith("v"):
            root = uses.maker(step[3], "sqrt")
            if root is not None:
                (inverse,) = uses.fresh("s", 1)
                new: Code = [["rsqrt", inverse, code[root][2]], ["mul", *step[1:3], inverse]]
                return _without_dead([*code[:i], *new, *code[i + 1 :]])
    return None


def fuse_center(code: Code) -> Code | None:
    """Turn a difference, its square and the sum of that into one pass."""
    uses = _Uses(code)
    for i, step in enumerate(code):
        if step[0] != "sum":
            continue
        square = uses.maker(step[2], "mul")
        if square is None or not uses.once(step[2]) or code[square][2] != code[square][3]:
            continue
        moved = uses.maker(code[square][2], "sub")
        if moved is not None and str(code[moved][3]).startswith("s"):
            fused: list[JsonValue] = ["center", code[moved][1], step[1], *code[moved][2:]]
            out = [fused if k == moved else one for k, one in enumerate(code)]
            return [one for k, one in enumerate(out) if k not in (square, i)]
    return None


def fuse_scale(code: Code) -> Code | None:
    """Turn (v * s) * a + b into one pass."""
    uses = _Uses(code)
    for i, step in enumerate(code):
        if step[0] == "add":
            product = uses.maker(step[2], "mul")
            offset = step[3]
        elif step[0] == "fma":
            product, offset = i, step[4]
        else:
            continue
        if product is None or not (product == i or uses.once(step[2])):
            continue
        value, gain = code[product][2:4]
        inner = uses.maker(value, "mul")
        if inner is None or not uses.once(value):
            continue
        vector, factor = code[inner][2:4]
        if [str(name)[0] for name in (vector, factor, gain, offset)] == ["v", "s", "v", "v"]:
            fused: list[JsonValue] = ["scale", step[1], vector, factor, gain, offset]
            out = [fused if k == i else one for k, one in enumerate(code)]
            return [one for k, one in enumerate(out) if k == i or k not in (inner, product)]
    return None


def fuse_multiply_add(code: Code) -> Code | None:
    """Turn a * b + c into one instruction."""
    uses = _Uses(code)
    for i, step in enumerate(code):
        product = uses.maker(step[2], "mul") if step[0] == "add" else None
        if product is not None and uses.once(step[2]):
            fused: list[JsonValue] = ["fma", step[1], *code[product][2:], step[3]]
            out = [fused if k == i else one for k, one in enumerate(code)]
            return [one for k, one in enumerate(out) if k != product]
    return None


def newton_root(code: Code) -> Code | None:
    """Approximate rsqrt(t) as y and correct it once: y (3/2 - t y^2 / 2)."""
    uses = _Uses(code)
    for i, step in enumerate(code):
        if step[0] == "rsqrt":
            half, three, rough, scaled, squared, factor = uses.fresh("s", 6)
            new: Code = [
                ["const", half, -0.5],
                ["const", three, 1.5],
                ["rsqrt_fast", rough, step[2]],
                ["mul", scaled, step[2], half],
                ["mul", squared, rough, rough],
                ["fma", factor, scaled, squared, three],
                ["mul", step[1], rough, factor],
            ]
            return [*code[:i], *new, *code[i + 1 :]]
    return None


def one_pass(code: Code) -> Code | None:
    """Take sum and sum of squares together: t - s * mean loses all digits on rows far from zero."""
    uses = _Uses(code)
    for i, step in enumerate(code):
        if step[0] != "center":
            continue
        mean = uses.maker(step[4], "mul")
        total = None if mean is None else uses.maker(code[mean][2], "sum")
        if mean is not None and total is not None and code[total][2] == step[3]:
            squares, product = uses.fresh("s", 2)
            whole = code[total][1]
            out: Code = []
            for k, one in enumerate(code):
                if k == total:
                    out.append(["sums", whole, squares, step[3]])
                elif k == i:
                    out.append(["sub", step[1], step[3], step[4]])
                    out.append(["mul", product, whole, step[4]])
                    out.append(["sub", step[2], squares, product])
                else:
                    out.append(one)
            return out
    return None


def fast_root(code: Code) -> Code | None:
    """Use the approximate inverse root as it is, which is too rough."""
    if not any(step[0] == "rsqrt" for step in code):
        return None
    return [["rsqrt_fast", *step[1:]] if step[0] == "rsqrt" else step for step in code]


def bypass(code: Code, rng: random.Random) -> Code:
    """Drop one arithmetic instruction and read its first source instead: a slip."""
    spots = [
        i
        for i, step in enumerate(code)
        if step[0] in ("add", "sub", "mul", "div", "fma", "scale")
        and str(step[1])[0] == str(step[2])[0]
    ]
    if not spots:
        return code
    place = rng.choice(spots)
    names = {place: (str(code[place][1]), str(code[place][2]))}
    return _without_dead(_merge(code, names) or code)


def _without_dead(code: Code) -> Code:
    """Drop what nobody reads."""
    while True:
        reads = _Uses(code).reads
        kept = [one for one in code if one[0] == "store" or any(reads[n] for n in _writes(one))]
        if len(kept) == len(code):
            return code
        code = kept
