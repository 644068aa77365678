"""Whole numbers on the command line, which are never rounded."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter, Token


def _whole(_hint: object, tokens: Sequence[Token]) -> int:
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"found {text!r} (expected a whole number)") from None


Whole = Annotated[int, Parameter(converter=_whole)]
"""The type of every flag that counts or numbers something."""
