"""What a run may cost at most, before it starts."""

import msgspec

from daydream.agents.base import AttemptContext
from daydream.agents.chat.agent import ChatAgent
from daydream.canonical import JsonValue
from daydream.cli import output
from daydream.dreams import check_dreaming, dreaming_of
from daydream.launch import Prepared
from daydream.llm.budget import CHARACTERS_A_TOKEN, parse_budget, price_of
from daydream.rounds import planned_attempts
from daydream.wording import counted

REQUESTS = 2
"""Requests of one attempt at most, beside those that are sent again: the question, the repair."""


class Estimate(msgspec.Struct, frozen=True):
    """An upper bound by what is known before the start."""

    task: str
    agent: str
    policy: str
    rounds: int
    calls: int | None
    """Attempts at most; None where the policy does not tell."""
    prompt_tokens: int | None = None
    """Of the first question."""
    answer_tokens: int | None = None
    """Of an answer that gives every file in full, or the limit that was set."""
    likely_usd: float | None = None
    """One request an attempt; None where the price is unknown."""
    most_usd: float | None = None
    """Every attempt with a repair call."""
    policies: int = 0
    """Questions to the developer, a model that proposes policies."""
    developer: str = ""
    budget: str = ""


def estimate(prepared: Prepared, *, explored: bool = False) -> Estimate:
    """Return what the prepared run may take; later questions are somewhat longer than the first.

    ``explored`` counts one rollout and no selection.
    """
    settings, spec, info = prepared.plan.settings, prepared.plan.spec, prepared.task.info
    if explored:
        settings = msgspec.structs.replace(settings, rounds=1)
    developer = None if explored else check_dreaming(dreaming_of(settings))
    planned = planned_attempts(spec)
    calls = None if planned is None else planned * settings.rounds
    limits = [settings.max_calls, parse_budget(settings.budget).calls, calls]
    calls = min((one for one in limits if one is not None), default=None)
    agent = prepared.agent
    found = Estimate(
        task=info.name,
        agent=agent.name,
        policy=spec.name,
        rounds=settings.rounds,
        calls=calls,
        policies=0 if developer is None else settings.rounds * settings.revisions,
        developer="" if developer is None else developer.model,
        budget=settings.budget,
    )
    if not isinstance(agent, ChatAgent):
        return found
    root = prepared.task.root()
    context = AttemptContext(info, 1, 0, 1, 0, 0, root, None)
    asked = agent.request_of(context).characters // CHARACTERS_A_TOKEN
    whole = sum(map(len, root.files.values())) // CHARACTERS_A_TOKEN + 300
    answer = int(agent.parameters.get("max_tokens", whole))
    price = price_of(agent.model, settings.prices)
    likely = None if price is None or calls is None else calls * price.of(asked, answer)
    return msgspec.structs.replace(
        found,
        prompt_tokens=asked,
        answer_tokens=answer,
        likely_usd=likely,
        most_usd=None if likely is None else REQUESTS * likely,
    )


def show_estimate(prepared: Prepared, *, as_json: bool, explored: bool = False) -> int:
    """Print the estimate and return the exit code."""
    found = estimate(prepared, explored=explored)
    if as_json:
        value: dict[str, JsonValue] = msgspec.to_builtins(found)
        output.emit({"event": "estimate", **value})
        return 0
    rows = [
        ("task", found.task),
        ("who proposes", found.agent),
        ("attempts", "as many as the policy makes" if found.calls is None else f"<= {found.calls}"),
    ]
    if found.prompt_tokens is not None:
        usd = "unknown: no price is set under [run.prices]"
        if found.likely_usd is not None and found.most_usd is not None:
            usd = f"{found.likely_usd:.4f} to {found.most_usd:.4f} usd"
        rows += [
            ("one question", f"about {found.prompt_tokens:,} tokens, growing with the history"),
            ("one answer", f"about {found.answer_tokens:,} tokens; reasoning may multiply them"),
            ("cost", usd),
        ]
    elif found.agent.startswith("cli:"):
        states = "it is counted as it comes; nobody can say before how often a program asks"
        rows.append(("cost", states))
    if found.policies:
        what = f"{counted(found.policies, 'question')} to {found.developer}, beside all this"
        rows.append(("policies", what))
    rows.append(("budget", found.budget or "none: add --budget 5usd, 2Mtok, 1h or 200calls"))
    output.out().print(output.table("Estimate", ("", ""), rows))
    output.next_step("the same command without --dry-run")
    return 0
