"""``daydream models``: what can be asked now."""

import shutil
import time
from typing import Annotated

import msgspec
from cyclopts import Parameter

from daydream.agents.programs.agent import PROGRAMS, logged_in
from daydream.agents.programs.base import Facts
from daydream.cli import output
from daydream.llm.http import Transport
from daydream.llm.models import PROVIDERS, Usable, survey


def models(*, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """List the models that can be used now: keys that are set, local servers, programs on PATH.

    Parameters
    ----------
    json
        Print JSON and nothing else on standard output.
    """
    with Transport(time.monotonic) as transport:
        ways = survey(transport)
    ways += [_program(program.facts) for program in PROGRAMS.values()]
    if json:
        output.emit({"models": [msgspec.to_builtins(way) for way in ways]})
        return 0
    rows = [(way.name, "yes" if way.usable else "no", way.detail, _names(way)) for way in ways]
    output.out().print(output.table("Models", ("what", "usable", "why", "such as"), rows))
    usable = next((way.models[0] for way in ways if way.usable and way.models), "mock:")
    output.next_step(f"daydream run circle-packing -m {usable} --dry-run")
    return 0


def _program(facts: Facts) -> Usable:
    found, ready = shutil.which(facts.name), logged_in(facts)
    detail = f"not on PATH; {facts.install}"
    if found is not None:
        detail = f"a program at {found}" + ("" if ready else f", not logged in; {facts.login}")
    usable = found is not None and ready
    return Usable(f"{facts.title} (program)", usable, detail, (f"cli:{facts.name}",))


def _names(way: Usable) -> str:
    if way.models:
        return ", ".join(way.models[:4])
    return PROVIDERS[way.name].example if way.name in PROVIDERS else ""
