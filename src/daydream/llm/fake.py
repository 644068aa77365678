"""``mock:``: a model without a model, so that everything runs offline and repeats exactly.

It reads the files that a prompt shows under ``File: NAME`` and answers with one of them, changed a
little. The change is weak on purpose and keeps what it can see of the rules: a packing stays
disjoint, a program gains an instruction that costs nothing. Equal questions get equal answers.
"""

import json
import math
import random
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from daydream.canonical import JsonValue, dumps, seed_of
from daydream.llm.base import MOCK, Post, Reply, Request
from daydream.store.events import Usage

_FILE: Final = re.compile(r"^File: ([^\n]+)\n(`{3,})\S*\n(.*?)\n?^\2$", re.MULTILINE | re.DOTALL)
_PLACE: Final = re.compile(r"branch (\d+), depth (\d+)")
_DECIMAL: Final = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
_START, _END = "EVOLVE-BLOCK-START", "EVOLVE-BLOCK-END"


class FakeModel(msgspec.Struct, frozen=True):
    """Answers from the question alone."""

    name: str = MOCK
    wire: str = "mock"
    secret: str = ""

    def answer(self, request: Request, post: Post) -> Reply:
        """Return the first file of the prompt, changed a little."""
        asked = "\n".join(one.text for one in request.messages if one.role == "user")
        rng = random.Random(seed_of("mock", request.key(self.wire, self.name)))
        text = "ready"
        found = _FILE.findall(asked)
        if found:
            name, _, content = max(found, key=lambda one: _START in one[2])
            text = f"A small change.\n\nFile: {name}\n{_fenced(_changed(content, asked, rng))}\n"
        usage = Usage(1, request.characters // 4, len(text) // 4)
        return Reply(text=text, usage=usage, model=MOCK, finish="stop")


def _fenced(text: str) -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}\n{text.rstrip()}\n{fence}"


def _changed(text: str, asked: str, rng: random.Random) -> str:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return _program(text, rng)
    place = _PLACE.search(asked)
    if isinstance(value, dict) and set(value) == {"branch", "depth"} and place:
        return dumps({"branch": int(place[1]), "depth": int(place[2])}).decode()
    return dumps(_json(value, rng)).decode()


def _json(value: JsonValue, rng: random.Random) -> JsonValue:
    if isinstance(value, dict):
        circles, numbers = value.get("circles"), value.get("set")
        if isinstance(circles, list):
            return {**value, "circles": _circles(circles, rng)}
        if isinstance(numbers, list):
            return {**value, "set": _integers(numbers, rng)}
        key = rng.choice(sorted(value)) if value else ""
        return {**value, key: _json(value[key], rng)} if value else value
    if isinstance(value, list) and value and isinstance(value[0], list):
        return _instructions(value, rng)
    if isinstance(value, list) and value:
        place = rng.randrange(len(value))
        return [*value[:place], _json(value[place], rng), *value[place + 1 :]]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if isinstance(value, int):
        return value + rng.choice((-1, 1))
    return value * rng.uniform(0.9, 1.1)


def _circles(circles: Sequence[JsonValue], rng: random.Random) -> JsonValue:
    """Move one disc a little where that leaves it more room, and grow it into that room."""
    discs = [one for one in circles if isinstance(one, list) and len(one) == 3]
    if len(discs) != len(circles) or not all(type(v) in (int, float) for d in discs for v in d):
        return circles
    place = rng.randrange(len(discs))
    others = discs[:place] + discs[place + 1 :]
    x, y, before = discs[place]
    spots = [(x, y)] + [(x + rng.gauss(0, 0.02), y + rng.gauss(0, 0.02)) for _ in range(20)]
    rooms = [(_room(spot, others), spot) for spot in spots]
    radius, (best_x, best_y) = max(rooms)
    # The margin keeps the rounding of this arithmetic on the safe side of an exact check.
    grown = max(0.0, radius * (1 - 1e-9) - 1e-12)
    if not grown > before * (1 + 1e-9):
        best_x, best_y, grown = x, y, before * rng.uniform(0.99, 0.999)
    return [*discs[:place], [best_x, best_y, grown], *discs[place + 1 :]]


def _room(spot: tuple[float, float], others: Sequence[Sequence[float]]) -> float:
    x, y = spot
    gaps = [math.dist(spot, (other[0], other[1])) - other[2] for other in others]
    return min(x, y, 1 - x, 1 - y, *gaps)


def _integers(numbers: Sequence[JsonValue], rng: random.Random) -> JsonValue:
    """Replace one element by another nearby."""
    present = {one for one in numbers if type(one) is int}
    if len(present) < 2:
        return numbers
    low, high = min(present), max(present)
    present.discard(rng.choice(sorted(present)))
    missing = sorted(
        set(range(low, high + 3)) - present - {one for one in numbers if type(one) is int}
    )
    return sorted([*present, rng.choice(missing)])


def _instructions(program: Sequence[JsonValue], rng: random.Random) -> JsonValue:
    """Do one thing a little less often, or gain a constant that nothing reads."""
    lists = [one for one in program if isinstance(one, list)]
    sweeps = [
        n for n, one in enumerate(lists) if len(one) == 2 and type(one[1]) is int and one[1] > 2
    ]
    if not sweeps:
        return [["const", "s63", round(rng.random(), 6)], *lists]
    place = rng.choice(sweeps)
    name, count = lists[place]
    fewer = int(count) - rng.randint(1, 2)
    return [*lists[:place], [name, fewer], *lists[place + 1 :]]


def _program(text: str, rng: random.Random) -> str:
    """Change one decimal number where there is one within reach, else add an empty line."""
    low, high = 0, len(text)
    if _START in text and _END in text:
        low, high = text.index(_START) + len(_START), text.index(_END)
    spots = list(_DECIMAL.finditer(text, low, high))
    if spots:
        spot = rng.choice(spots)
        number = f"{float(spot[0]) * rng.uniform(0.9, 1.1):.6g}"
        number = number if "." in number or "e" in number else number + ".0"
        return text[: spot.start()] + number + text[spot.end() :]
    # Lines at the very end are no change: answers end where their text does.
    start = 1 + text.find("\n", low)
    place = start if text[start:].strip() else 0
    return text[:place] + "\n" * rng.randint(1, 3) + text[place:]
