"""Budgets in words, what is held for requests in flight, and what a server asks to wait."""

import pytest

from daydream.config import Price
from daydream.errors import ConfigError, Stopped
from daydream.llm.base import Message, Request
from daydream.llm.budget import Allowance, Purse, parse_budget
from daydream.llm.http import hide, refused, wait_of
from daydream.store.events import Usage

ASK = Request((Message("user", "x" * 297),), {"max_tokens": 100})
"""Held as 1 + 99 + 100 tokens."""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", Allowance()),
        ("5usd", Allowance(usd=5.0)),
        ("2Mtok", Allowance(tokens=2_000_000)),
        ("1.5h", Allowance(seconds=5_400.0)),
        ("200calls, 90min", Allowance(calls=200, seconds=5_400.0)),
        ("0.5$,10ktok", Allowance(usd=0.5, tokens=10_000)),
    ],
)
def test_a_budget_reads_as_people_write_it(text: str, found: Allowance) -> None:
    assert parse_budget(text) == found


@pytest.mark.parametrize("text", ["5", "0usd", "-1usd", "1h,2h", "5 euros", "nanusd", "usd", ","])
def test_a_budget_that_cannot_be_kept_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="budget"):
        parse_budget(text)


def test_requests_in_flight_count_against_the_budget() -> None:
    purse = Purse(Allowance(tokens=399), {}, Usage())
    first = purse.reserve("m", ASK)
    purse.settle(first, Usage(1, 99, 101))
    with pytest.raises(Stopped, match="budget of 399 tokens"):
        purse.reserve("m", ASK)


def test_a_budget_of_money_asks_nobody_whose_price_is_unknown() -> None:
    purse = Purse(Allowance(usd=0.0003), {"m": Price(1.0, 1.0)}, Usage(cost_usd=0.0002))
    with pytest.raises(Stopped, match="usd"):
        purse.reserve("m", ASK)
    with pytest.raises(ConfigError, match="needs the price of other"):
        purse.reserve("other", ASK)
    assert purse.reserve("mock:", ASK) == 1
    assert Purse(Allowance(tokens=10_000), {}, Usage()).reserve("other", ASK) == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            30.0,
        ),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-1"}, None),
        ({}, None),
    ],
)
def test_what_a_server_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert wait_of(headers) == seconds


def test_only_what_can_change_is_asked_again() -> None:
    for status, again in ((429, True), (500, True), (529, True), (401, False), (404, False)):
        assert refused("there", status, {}, "no").retry is again
    gone = '{"error": {"message": "m", "code": "insufficient_quota"}}'
    assert not refused("there", 429, {}, gone).retry


def test_a_key_is_hidden() -> None:
    assert hide("Bearer abc, abc", "abc") == "Bearer [key], [key]"
    assert hide("text", "") == "text"
