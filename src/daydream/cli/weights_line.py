"""What the commands of the weights line share: flags, the client, how contenders are named."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from daydream.cli import output
from daydream.cli.flags import settings_here
from daydream.errors import UsageError
from daydream.llm.budget import Purse, parse_budget
from daydream.llm.cache import ReplyCache
from daydream.llm.client import Around, Client
from daydream.store.events import Usage
from daydream.weights.adapters import check_adapter
from daydream.weights.answerers import LOCAL, Answerer, Contender, Reuse, open_answerer
from daydream.weights.gate import Gate
from daydream.weights.home import DEFAULT, Home

HomeFolder = Annotated[Path, Parameter(name=["--home"])]
Json = Annotated[bool, Parameter(negative="")]
Model = Annotated[str, Parameter(name=["--model", "-m"])]
Many = Annotated[list[str], Parameter(negative="", consume_multiple=True)]
DEPLOYED = "deployed"


def open_client(home: Home, budget: str, interrupted: threading.Event) -> Client:
    """Return what asks endpoints within ``budget``; answers that were paid for are kept in home."""
    settings = settings_here()
    home.path.mkdir(parents=True, exist_ok=True)
    return Client(
        Purse(parse_budget(budget), settings.prices, Usage()),
        Around(time.monotonic, interrupted.wait, random.Random(0)),
        cache=ReplyCache(home.path / "replies.sqlite"),
    )


class Answerers:
    """Opens answerers over one client, which is made when an endpoint is first asked."""

    def __init__(
        self, home: Home, *, budget: str, threads: int, interrupted: threading.Event
    ) -> None:
        self._home = home
        self._budget = budget
        self._threads = threads
        self._interrupted = interrupted
        self._client: Client | None = None
        parse_budget(budget)

    def __enter__(self) -> "Answerers":
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()

    def open(self, contender: Contender, reuse: Reuse | None = None) -> Answerer:
        """Return who answers for ``contender``; without ``reuse`` as wakes have it."""
        if not contender.model.startswith(LOCAL) and self._client is None:
            self._client = open_client(self._home, self._budget, self._interrupted)
        return open_answerer(contender, self._client, threads=self._threads, reuse=reuse)

    def for_check(self, gate: Gate, *, anew: bool = False) -> Callable[[Contender], Answerer]:
        """Return what opens an answerer for the next check of ``gate``.

        What a name serves may change, so only what this check paid for before it was stopped is
        taken; with ``anew`` not even that.
        """
        return lambda contender: self.open(contender, Reuse(1 + gate.checks(), none=anew))


def contender_of(name: str, base: str) -> Contender:
    """Return what ``name`` means: the folder of an adapter on ``base``, or a model string.

    Raises :class:`UsageError` for a folder that is not there, or for an adapter's folder where the
    base is behind an endpoint, which has to serve the adapter under a name.
    """
    if Path(name).is_dir():
        if not base.startswith(LOCAL):
            raise UsageError(
                f"adapter {name} is a folder and the base {base} an endpoint (expected the name "
                "under which it is served): serve it, and name local/ADAPTER@http://HOST:PORT/v1"
            )
        check_adapter(Path(name), Path(base.removeprefix(LOCAL)))
        return Contender(base, str(Path(name)))
    if name.startswith(LOCAL) or name == "mock:" or ("/" in name and "://" in name):
        return Contender(name)
    if "/" in name and not name.startswith((".", "/")) and not Path(name).parent.is_dir():
        return Contender(name)
    raise UsageError(
        f"{name} is no folder of an adapter and no model string (expected such as "
        "weights/adapters/001, or local/ADAPTER@http://HOST:PORT/v1)"
    )


def need_task_names(tasks: list[str]) -> None:
    """Raise :class:`UsageError` where no task is named."""
    if not tasks:
        raise UsageError(
            "--tasks names no task (expected such as formula:split=practice,instance=0-99)"
        )


def home_flag(home: Path) -> str:
    """Return the flag that names ``home`` in a suggested command; empty for the usual one."""
    return "" if home == DEFAULT else f" --home {output.shown(home)}"


def percent(share: float) -> str:
    """Return a share for people."""
    return f"{100 * share:.1f} %"


def need_threads(threads: int) -> None:
    """Raise :class:`UsageError` for a number of threads that no machine has."""
    if not 1 <= threads <= 1024:
        raise UsageError(f"--threads {threads} (expected 1 to 1024)")
