"""Progress of a run: a live line on a terminal, plain lines elsewhere, JSON lines when asked."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from daydream.canonical import JsonValue
from daydream.cli import output
from daydream.rounds import AttemptDone, Notice, RoundBegan, Selected
from daydream.selection import report
from daydream.tasks.base import to_measure
from daydream.tree import Status
from daydream.wording import counted

PLAIN_EVERY_S = 5.0
BAR = 16


class Progress:
    """Shows what a run does. Use as a context manager; hand ``notify`` to the run."""

    def __init__(
        self,
        *,
        as_json: bool = False,
        label: str = "",
        quiet: bool = False,
        chatty: bool = True,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._json = as_json
        self._label = label
        self._timer = timer
        self._console: Console = output.err()
        self._quiet = quiet
        self._chatty = chatty
        live = self._console.is_terminal and not as_json and not quiet
        self._live = (
            Live(console=self._console, refresh_per_second=8, transient=True) if live else None
        )
        self._began: RoundBegan | None = None
        self._start = timer()
        self._shown = self._start
        self._calls = self._failed = 0

    def __enter__(self) -> "Progress":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def notify(self, notice: Notice) -> None:
        """Take in one notice of the run."""
        if self._json:
            output.emit(_event(notice))
            return
        if self._quiet:
            return
        match notice:
            case RoundBegan():
                self._began = notice
                self._start, self._calls, self._failed = self._timer(), 0, 0
                if self._chatty:
                    self._line(f"round {notice.round} of {notice.rounds}: {notice.policy}")
            case AttemptDone():
                self._calls += 1
                self._failed += notice.status is not Status.OK
                self._update(notice)
            case Selected():
                if self._chatty:
                    name = notice.deployed.spec.name
                    self._line(f"round {notice.round} done; next policy: {name}")

    def relabel(self, label: str) -> None:
        """Show ``label`` in front from now on."""
        self._label = label

    def note(self, text: str, began: float, done: int) -> None:
        """Tell how a long series goes, at most every few seconds."""
        now = self._timer()
        if done and now - self._shown < PLAIN_EVERY_S:
            return
        self._shown = now
        self._console.print(Text(f"{text}, {output.seconds(now - began)} so far", style="dim"))

    def _update(self, notice: AttemptDone) -> None:
        now = self._timer()
        if self._live is not None:
            self._live.update(self._bar(notice, now))
        elif now - self._shown >= PLAIN_EVERY_S:
            self._shown = now
            self._console.print(self._bar(notice, now))

    def _bar(self, notice: AttemptDone, now: float) -> Text:
        planned = self._began.planned if self._began is not None else None
        elapsed = max(now - self._start, 1e-9)
        rate = self._calls / elapsed
        text = Text()
        if self._label:
            text.append(f"{self._label}  ", style="bold")
        text.append(f"round {notice.round}  ")
        if planned:
            filled = min(BAR, BAR * self._calls // planned)
            text.append("━" * filled, style="green")
            text.append("━" * (BAR - filled), style="dim")
            text.append(f" {self._calls}/{planned}")
        else:
            text.append(counted(self._calls, "call"))
        best = notice.best
        if best is not None and self._began is not None:
            best = to_measure(self._began.task, best)
        text.append(f"  best {output.number(best)}", style="bold")
        text.append(f"  failed {self._failed}  {rate:.1f}/s")
        if planned and self._calls < planned:
            text.append(f"  at most {output.seconds((planned - self._calls) / rate)} left")
        return text

    def _line(self, text: str) -> None:
        prefix = f"{self._label}  " if self._label else ""
        self._console.print(Text(prefix + text, style="dim"))


def _event(notice: Notice) -> dict[str, JsonValue]:
    match notice:
        case RoundBegan():
            return {
                "event": "round",
                "round": notice.round,
                "rounds": notice.rounds,
                "policy": notice.policy,
                "planned": notice.planned,
            }
        case AttemptDone():
            values: dict[str, JsonValue] = msgspec.to_builtins(notice)
            return {"event": "attempt", **values}
        case Selected():
            return {
                "event": "selection",
                "round": notice.round,
                **report(notice.selection, deployed=notice.deployed),
            }


@contextlib.contextmanager
def interruptible(
    first: str = "finishing the attempts in flight; Ctrl-C again stops at once",
    second: str = "stopped at once; what is in the journal is kept",
) -> Iterator[threading.Event]:
    """Give an event that the first Ctrl-C sets; the second ends the process at once.

    What each of them says is what that means for the work at hand.
    """
    event = threading.Event()

    def handle(signum: int, frame: FrameType | None) -> None:
        if event.is_set():
            os.write(2, f"\n{second}\n".encode())
            os._exit(130)
        event.set()
        os.write(2, f"\n{first}\n".encode())

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
