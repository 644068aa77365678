"""``daydream models``: what can be asked now."""

import shutil
import time
from typing import Annotated

import msgspec
from cyclopts import Parameter

from daydream.cli import output
from daydream.llm.http import Transport
from daydream.llm.models import PROVIDERS, Usable, survey

PROGRAMS = ("claude", "codex", "gemini", "pi")
"""Agents that a person may have a subscription to; each runs under ``--agent command:``."""


def models(*, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """List the models that can be used now: keys that are set, local servers, programs on PATH.

    Parameters
    ----------
    json
        Print JSON and nothing else on standard output.
    """
    with Transport(time.monotonic) as transport:
        ways = survey(transport)
    ways += [_program(name) for name in PROGRAMS]
    if json:
        output.emit({"models": [msgspec.to_builtins(way) for way in ways]})
        return 0
    rows = [(way.name, "yes" if way.usable else "no", way.detail, _names(way)) for way in ways]
    output.out().print(output.table("Models", ("what", "usable", "why", "such as"), rows))
    usable = next((way.models[0] for way in ways if way.usable and way.models), "mock:")
    output.next_step(f"daydream run circle-packing -m {usable} --dry-run")
    return 0


def _program(name: str) -> Usable:
    found = shutil.which(name)
    detail = f"a program at {found}" if found else "not on PATH"
    return Usable(f"{name} (program)", found is not None, detail)


def _names(way: Usable) -> str:
    if way.models:
        return ", ".join(way.models[:4])
    return PROVIDERS[way.name].example if way.name in PROVIDERS else ""
