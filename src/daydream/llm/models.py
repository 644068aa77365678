"""Model strings: ``provider/model``, ``local/NAME@http://host:port/v1``, ``mock:``.

Keys come from the variables that the vendors named, through :mod:`daydream.config`, when a model is
built, and go nowhere but into the header of its requests.
"""

import re
from typing import Final, Literal

import msgspec

from daydream.canonical import JsonValue
from daydream.config import mocking, suggest, variable
from daydream.errors import EnvironmentMissing, UsageError
from daydream.llm.anthropic import Anthropic
from daydream.llm.base import MOCK, ChatModel, RequestFailed, at
from daydream.llm.fake import FakeModel
from daydream.llm.http import Transport
from daydream.llm.openai_compatible import OpenAiCompatible
from daydream.wording import counted

KEYLESS: Final = "-m ollama/NAME, -m local/NAME@http://HOST:PORT/v1 or -m mock:"
_LOCAL: Final = re.compile(
    r"(?P<model>[^@\s]+)@(?P<url>https?://[^?\s]+)(?:\?api_key_env=(?P<env>\w+))?"
)


class Provider(msgspec.Struct, frozen=True):
    """One vendor or kind of server."""

    name: str
    base_url: str
    keys: tuple[str, ...] = ()
    """Variables that may hold the key; the first is the one to name."""
    base_variable: str = ""
    """Variable that moves the address; with it set, no key is demanded."""
    wire: Literal["openai", "anthropic"] = "openai"
    limit_name: str = "max_tokens"
    example: str = ""


PROVIDERS: Final = {
    one.name: one
    for one in (
        Provider(
            "openai",
            "https://api.openai.com/v1",
            ("OPENAI_API_KEY",),
            "OPENAI_BASE_URL",
            limit_name="max_completion_tokens",
            example="openai/gpt-5-mini",
        ),
        Provider(
            "anthropic",
            "https://api.anthropic.com",
            ("ANTHROPIC_API_KEY",),
            "ANTHROPIC_BASE_URL",
            wire="anthropic",
            example="anthropic/claude-sonnet-4-5",
        ),
        Provider(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            example="gemini/gemini-2.5-pro",
        ),
        Provider(
            "openrouter",
            "https://openrouter.ai/api/v1",
            ("OPENROUTER_API_KEY",),
            example="openrouter/qwen/qwen3-coder",
        ),
        Provider("ollama", "http://localhost:11434/v1", (), "OLLAMA_HOST", example="ollama/qwen3"),
    )
}
SERVERS: Final = (("vLLM", "http://localhost:8000/v1"), ("llama.cpp", "http://localhost:8080/v1"))
"""Usual addresses of local servers beside Ollama's."""


def load_model(name: str) -> ChatModel:
    """Return the model called ``name``; the mock for every name when ``DAYDREAM_MOCK=1`` is set.

    Raises :class:`UsageError` for a name that cannot be read and :class:`EnvironmentMissing` when
    its key is not set.
    """
    if name == MOCK or mocking():
        return FakeModel()
    head, slash, model = name.partition("/")
    if head == "local" and slash:
        return _local(name, model)
    provider = PROVIDERS.get(head)
    if provider is not None and not model:
        raise UsageError(
            f"model {name!r} names no model of {head} (expected {head}/NAME); write such as "
            f"openai/gpt-5-mini, {KEYLESS.removeprefix('-m ')}"
        )
    if provider is None:
        known = [*PROVIDERS, "local", MOCK]
        raise UsageError(
            f"model {name!r} has no provider that is known{suggest(head, known)}; write such as "
            f"openai/gpt-5-mini, {KEYLESS.removeprefix('-m ')}"
        )
    address = base_url(provider)
    secret = next((found for key in provider.keys if (found := variable(key))), "")
    if provider.keys and not secret and not variable(provider.base_variable):
        raise EnvironmentMissing(
            f"no key for {name}: {' and '.join(provider.keys)} not set; set {provider.keys[0]}, "
            f"or use {KEYLESS}"
        )
    if provider.wire == "anthropic":
        return Anthropic(name, model, address, secret)
    return OpenAiCompatible(name, model, address, secret, limit_name=provider.limit_name)


def base_url(provider: Provider) -> str:
    """Return the address of ``provider``, moved by its variable where that is set."""
    moved = variable(provider.base_variable) if provider.base_variable else ""
    if not moved:
        return provider.base_url
    if provider.name == "ollama":
        # OLLAMA_HOST is what the server listens on: a bare host and port as a rule.
        moved = moved if "://" in moved else f"http://{moved}"
        moved = moved.replace("://0.0.0.0", "://127.0.0.1").rstrip("/")
        return moved if moved.endswith("/v1") else f"{moved}/v1"
    return moved.rstrip("/")


def _local(name: str, rest: str) -> ChatModel:
    match = _LOCAL.fullmatch(rest)
    if match is None:
        raise UsageError(
            f"model {name!r} cannot be read (expected local/NAME@http://HOST:PORT/v1, with "
            "?api_key_env=VARIABLE where the server wants a key)"
        )
    if "@" in match["url"]:
        raise UsageError(
            "the address of a local model holds a user or password (expected a plain address); "
            "name the variable that holds the key: local/NAME@http://HOST:PORT/v1?api_key_env=NAME"
        )
    env = match["env"] or ""
    secret = variable(env) if env else ""
    if env and not secret:
        raise EnvironmentMissing(
            f"no key for {name}: {env} is not set; set it, or leave out ?api_key_env"
        )
    return OpenAiCompatible(name, match["model"], match["url"].rstrip("/"), secret)


class Usable(msgspec.Struct, frozen=True):
    """One way to a model, and whether it is open now."""

    name: str
    usable: bool
    detail: str
    models: tuple[str, ...] = ()
    """Model strings that a local server offers."""


def survey(transport: Transport, *, timeout_s: float = 3.0) -> list[Usable]:
    """Return the ways to models: keys that are set, local servers that answer, and the mock."""
    ways: list[Usable] = []
    for provider in PROVIDERS.values():
        if provider.keys:
            found = next((key for key in provider.keys if variable(key)), None)
            moved = provider.base_variable if variable(provider.base_variable) else None
            reason = f"{found or moved} is set" if found or moved else f"set {provider.keys[0]}"
            ways.append(Usable(provider.name, bool(found or moved), reason))
        else:
            ways.append(_server(transport, provider.name, base_url(provider), timeout_s))
    ways += [_server(transport, name, url, timeout_s) for name, url in SERVERS]
    return [*ways, Usable("mock", True, "weak, deterministic, offline", (MOCK,))]


def _server(transport: Transport, name: str, url: str, timeout_s: float) -> Usable:
    try:
        listed = at(transport.get(f"{url}/models", timeout_s=timeout_s), "data")
    except RequestFailed:
        return Usable(name, False, f"nothing answers at {url}")
    entries: list[JsonValue] = list(listed) if isinstance(listed, list) else []
    served = [found for entry in entries if isinstance(found := at(entry, "id"), str)]
    spelled = [f"ollama/{one}" if name == "ollama" else f"local/{one}@{url}" for one in served]
    return Usable(name, bool(served), f"{counted(len(served), 'model')} at {url}", tuple(spelled))
