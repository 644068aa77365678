"""What every flag of every command has in common."""

from collections.abc import Iterator

import cyclopts
import pytest
from cyclopts import CycloptsError

from daydream.cli.main import app


def _commands(group: cyclopts.App, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words that lead to each command."""
    names = [name for name in group.resolved_commands() if not name.startswith("-")]
    if not names:
        yield path
    for name in names:
        yield from _commands(group[name], (*path, name))


def _counting() -> list[tuple[str, ...]]:
    found = []
    for words in _commands(app):
        _, apps, _ = app.parse_commands(words)
        arguments = apps[-1].assemble_argument_collection()
        needed = [f"{argument.name}=1" for argument in arguments if argument.required]
        for argument in arguments:
            if int in (argument.hint, *getattr(argument.hint, "__args__", ())):
                found.append((*words, *needed, f"{argument.name}=2.5"))
    return found


COUNTING = _counting()


def test_flags_that_count_are_found() -> None:
    found = {(*words[:1], words[-1]) for words in COUNTING}
    assert {("run", "--revisions=2.5"), ("gate", "--threads=2.5")} <= found


@pytest.mark.parametrize("words", COUNTING, ids=" ".join)
def test_a_flag_that_counts_is_never_rounded(words: tuple[str, ...]) -> None:
    with pytest.raises(CycloptsError, match="expected a whole number"):
        app.parse_args(words, exit_on_error=False, print_error=False)
