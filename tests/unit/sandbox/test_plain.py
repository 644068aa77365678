"""Plain data comes back as it went in; nothing else gets out of a program."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daydream.sandbox.plain import NotPlain, as_json, decode, encode

numbers = st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
leaves = (
    st.none()
    | st.booleans()
    | numbers
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False, allow_infinity=False)
)
keys = st.integers() | st.text() | st.tuples(st.integers(), st.text())
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(keys, inner)
        | st.sets(keys)
        | st.frozensets(keys)
    ),
    max_leaves=8,
)


def typed(value: object) -> object:
    """The value with its types, since True == 1 == 1.0 in Python."""
    if isinstance(value, dict):
        return {repr(key): (type(key), typed(item)) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return type(value), sorted(map(repr, value))
    if isinstance(value, (list, tuple)):
        return type(value), [typed(item) for item in value]
    return type(value), repr(value)


@given(values)
def test_plain_data_comes_back_with_its_types(value: object) -> None:
    assert typed(decode(encode(value))) == typed(value)


class Number(int):
    pass


class Same:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Lazy(np.ndarray):
    def tolist(self) -> list[float]:  # type: ignore[override]
        return [float("nan")]


@pytest.mark.parametrize(
    "value",
    [
        Number(3), Same(), [Same()], {1: Same()}, {Number(1): 2}, (1, [Number(2)]), math.nan,
        math.inf, -math.inf, complex(math.nan, 0), object(), len, np.int64(3), np.zeros(2), Number,
    ],
)  # fmt: skip
def test_what_is_not_plain_is_refused(value: object) -> None:
    with pytest.raises(NotPlain):
        encode(value)


@pytest.mark.parametrize("value", [Number(3), Same(), [math.nan], {1: 2}, {3}, b"x", 1j, Same])
def test_what_json_has_no_word_for_is_refused(value: object) -> None:
    with pytest.raises(NotPlain):
        as_json(value)


def test_arrays_become_lists_and_an_array_that_lies_is_refused() -> None:
    assert as_json((np.arange(3), np.float64(0.5), [True])) == b"[[0, 1, 2], 0.5, [true]]"
    with pytest.raises(NotPlain):
        as_json(np.zeros(2).view(Lazy))


def test_endless_nesting_is_refused_on_both_sides() -> None:
    loop: list[object] = []
    loop.append(loop)
    for encoder in (encode, as_json):
        with pytest.raises(NotPlain, match="levels"):
            encoder(loop)
    for text in (b"[" * 60 + b"]" * 60, b"[" * 200_000):
        with pytest.raises(NotPlain):
            decode(text)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"NaN", b"[Infinity]", b"1e999", b'{"tuple": 1}', b'{"object": []}', b"{}",
        b'{"bytes": "zz"}', b'{"bytes": 3}', b'{"dict": [[1]]}', b'{"dict": [[[], 1]]}',
        b'{"set": [[1]]}', b'{"c": [1.0]}', b'{"c": [1, "2"]}', b'{"tuple": [], "list": []}',
    ],
)  # fmt: skip
def test_what_no_encoder_wrote_is_refused(text: bytes) -> None:
    with pytest.raises(NotPlain):
        decode(text)
