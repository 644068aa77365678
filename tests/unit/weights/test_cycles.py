"""What a cycle cost: a sum only where all of it is known."""

import pytest

from daydream.weights.cycles import cost_of

PAID, SERVED, HERE = "openai/gpt-5-mini", "local/tiny@http://127.0.0.1:9/v1", "local:base"


@pytest.mark.parametrize(
    ("spent", "cost"),
    [
        ([(PAID, 10, 0.5), (PAID, 20, 0.25)], 0.75),
        ([(PAID, 10, 0.5), (HERE, 20, None)], 0.5),
        ([(PAID, 10, 0.5), ("scripted", 0, None)], 0.5),
        ([(PAID, 10, 0.5), (SERVED, 20, None)], None),
        ([(HERE, 10, None)], None),
        ([], None),
    ],
)
def test_an_unknown_price_stays_unknown(
    spent: list[tuple[str, int, float | None]], cost: float | None
) -> None:
    assert cost_of(spent) == cost
