"""The inside of a worker: set up once, then answer requests until the parent is gone."""

import ctypes
import importlib
import os
import signal
import sys
from collections.abc import Callable
from typing import cast

from daydream.sandbox.workers import receive, send

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Serve requests on standard input and output."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            return 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = sys.stdin.buffer
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        setup, arguments = cast("tuple[str, tuple[object, ...]]", receive(requests))
    except EOFError:
        return 0
    state: object = None
    broken: BaseException | None = None
    try:
        state = _function(setup)(*arguments)
    except BaseException as error:  # noqa: BLE001 - reported on the first request
        broken = error
    while True:
        try:
            name, argument = cast("tuple[str, object]", receive(requests))
        except EOFError:
            return 0
        reply: tuple[bool, str, object]
        try:
            if broken is not None:
                raise broken
            reply = (True, "", _function(name)(state, argument))
        except BaseException as error:  # noqa: BLE001 - a bad attempt is data
            reply = (False, type(error).__name__, str(error))
        send(replies, reply)


def _function(target: str) -> Callable[..., object]:
    module, _, name = target.partition(":")
    return cast("Callable[..., object]", getattr(importlib.import_module(module), name))


if __name__ == "__main__":
    sys.exit(main())
