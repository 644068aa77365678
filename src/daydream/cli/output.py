"""What goes to the terminal: JSON or tables on standard output, the rest on standard error."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from daydream.canonical import JsonValue, dumps
from daydream.errors import DaydreamError, UsageError


def out() -> Console:
    """Return the console of standard output."""
    return Console(highlight=False, soft_wrap=False)


def err() -> Console:
    """Return the console of standard error."""
    return Console(stderr=True, highlight=False)


def emit(value: JsonValue) -> None:
    """Print one line of canonical JSON."""
    sys.stdout.write(dumps(value).decode("utf-8") + "\n")
    sys.stdout.flush()


def error(problem: DaydreamError, *, as_json: bool) -> None:
    """Show a failure; on standard output as JSON when the person asked for JSON."""
    if as_json:
        emit({"event": "error", "error": type(problem).__name__, "message": str(problem)})
    line = Text("daydream: ", style="bold red")
    line.append(str(problem), style="not bold default")
    console = err()
    # A person's window folds the line at words; a file or a pipe gets it whole.
    console.print(line, soft_wrap=not console.is_terminal)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table; columns whose name starts with ``>`` are right-aligned."""
    made = Table(
        title=escape(title), title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    for column in columns:
        right = column.startswith(">")
        made.add_column(
            column.lstrip(">"),
            justify="right" if right else "left",
            overflow="fold",
            header_style="dim",
        )
    for row in rows:
        made.add_row(*(escape(cell) for cell in row))
    return made


def number(value: float | None, digits: int = 6) -> str:
    """Return ``value`` for people: up to ``digits`` decimals, a dash for None."""
    if value is None:
        return "-"
    text = f"{value:.{digits}f}"
    if "." in text:
        whole, _, decimals = text.partition(".")
        text = f"{whole}.{decimals.rstrip('0').ljust(4, '0')}"
    return text


def seconds(value: float) -> str:
    """Return a duration such as ``1m 20s``."""
    whole = round(value)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def warn(text: str) -> None:
    """Show a warning, unless it is empty."""
    if text:
        err().print(text, style="yellow", markup=False)


def next_step(*commands: str) -> None:
    """End a command by naming what is useful next, a command a line, so that each can be copied."""
    lines = "\n      ".join(commands)
    err().print(Text(f"Next: {lines}", style="dim"), soft_wrap=True)


def write_file(path: Path, text: str, flag: str) -> None:
    """Write ``text``; raises :class:`UsageError` naming ``flag`` when it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; choose another {flag}") from None


def shown(path: Path) -> str:
    """Return ``path`` relative to the working folder where it lies below it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
