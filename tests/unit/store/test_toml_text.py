"""TOML of our own: the standard reader reads back what was written."""

import tomllib

import pytest

from daydream.canonical import JsonObject
from daydream.errors import StoreError
from daydream.store.toml_text import toml_text


def test_plain_values_come_before_tables_and_keys_are_sorted() -> None:
    text = toml_text(
        {
            "seed": 3,
            "search": {"limit": 8, "deep": {"x": [1, 2.5, "a"]}},
            "name": 'with "quotes"\nand a break',
            "fresh": True,
            "odd key": 1e-07,
            "nothing": None,
            "empty": {},
        }
    )
    assert text == (
        "fresh = true\n"
        'name = "with \\"quotes\\"\\nand a break"\n'
        '"odd key" = 1e-07\n'
        "seed = 3\n"
        "\n[empty]\n"
        "\n[search]\n"
        "limit = 8\n"
        "\n[search.deep]\n"
        'x = [1, 2.5, "a"]\n'
    )


@pytest.mark.parametrize(
    "values",
    [{"x": float("nan")}, {"x": [float("inf")]}, {"x": "\ud800"}, {"x": [None]}],
)
def test_what_toml_lacks_is_refused(values: JsonObject) -> None:
    with pytest.raises(StoreError, match="configuration holds"):
        toml_text(values)


def test_tables_inside_lists_are_inline() -> None:
    values: JsonObject = {"records": [{"value": 1.5, "who": "me"}, {}]}
    assert tomllib.loads(toml_text(values)) == values
