"""How each agent program of Daydream reaches the interception server, and what it needs for that.

Chat is Daydream's own loop over Chat Completions without streaming; the others are programs with a
wire format each.
"""

import json
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

Backend = Literal["chat", "claude", "codex", "pi"]
BACKENDS: Final[tuple[Backend, ...]] = ("chat", "claude", "codex", "pi")
PROVIDER: Final = "vf-intercept"
KEY: Final = "VF_INTERCEPT_API_KEY"
CODEX_KEY: Final = "CODEX_INTERCEPT_KEY"


class Endpoint(msgspec.Struct, frozen=True):
    """Where the model is for one rollout."""

    url: str
    """The interception server's address, ending in ``/v1``."""
    secret: str
    model: str


class Wiring(msgspec.Struct, frozen=True):
    """What a program needs to reach the endpoint."""

    model: str
    """What ``daydream review -m`` gets."""
    env: dict[str, str]
    files: dict[str, str] = {}
    """Absolute path -> content."""
    before: tuple[tuple[str, ...], ...] = ()
    """Commands to be run first."""


class Options(msgspec.Struct, frozen=True):
    """What the configuration of the harness says about the programs."""

    home: str
    fanout: int
    context_window: int = 32_768
    max_tokens: int = 8_192


PROGRAMS: Final[Mapping[str, str | None]] = {
    "chat": None,
    "claude": "claude",
    "codex": "codex",
    "pi": "pi",
}
"""Backend -> the program that has to be on PATH."""
DIALECTS: Final[Mapping[str, str]] = {
    "chat": "/chat/completions",
    "claude": "/messages",
    "codex": "/responses",
    "pi": "/chat/completions",
}


def wiring(backend: Backend, endpoint: Endpoint, options: Options) -> Wiring:
    """Return what ``backend`` needs to ask ``endpoint`` and nothing else."""
    if backend == "claude":
        return _claude(endpoint, options)
    if backend == "codex":
        return _codex(endpoint, options)
    if backend == "pi":
        return _pi(endpoint, options)
    return Wiring(
        model=f"local/{endpoint.model}@{endpoint.url}?api_key_env={KEY}",
        env={KEY: endpoint.secret},
    )


def _claude(endpoint: Endpoint, options: Options) -> Wiring:
    return Wiring(
        model=endpoint.model,
        env={
            # The program adds /v1/messages itself.
            "ANTHROPIC_BASE_URL": endpoint.url.removesuffix("/v1"),
            "ANTHROPIC_API_KEY": endpoint.secret,
            "CLAUDE_CONFIG_DIR": f"{options.home}/.claude",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
            "DAYDREAM_FANOUT_CONCURRENCY": str(options.fanout),
        },
    )


def _codex(endpoint: Endpoint, options: Options) -> Wiring:
    folder = f"{options.home}/.codex"
    text = "\n".join(
        (
            f"model_provider = {json.dumps(PROVIDER)}",
            "",
            f"[model_providers.{PROVIDER}]",
            'name = "Interception server"',
            f"base_url = {json.dumps(endpoint.url)}",
            f"env_key = {json.dumps(CODEX_KEY)}",
            'wire_api = "responses"',
            "requires_openai_auth = false",
            "",
        )
    )
    return Wiring(
        model=endpoint.model,
        env={
            # HOME alone does not move its configuration.
            "CODEX_HOME": folder,
            CODEX_KEY: endpoint.secret,
            "DAYDREAM_FANOUT_CONCURRENCY": str(options.fanout),
        },
        files={f"{folder}/config.toml": text},
    )


def _pi(endpoint: Endpoint, options: Options) -> Wiring:
    folder = f"{options.home}/.pi/extensions/{PROVIDER}"
    model = {
        "id": endpoint.model,
        "name": endpoint.model,
        "reasoning": True,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": options.context_window,
        "maxTokens": options.max_tokens,
    }
    provider = {
        "name": "Interception server",
        "baseUrl": endpoint.url,
        "apiKey": f"${KEY}",
        "api": "openai-completions",
        "models": [model],
    }
    text = (
        "export default function (pi) {\n"
        f"  pi.registerProvider({json.dumps(PROVIDER)}, {json.dumps(provider, indent=2)});\n"
        "}\n"
    )
    return Wiring(
        model=endpoint.model,
        env={
            "PI_PROVIDER": PROVIDER,
            KEY: endpoint.secret,
            "DAYDREAM_PI_FANOUT_CONCURRENCY": str(options.fanout),
        },
        files={f"{folder}/index.ts": text},
        before=(("pi", "install", folder),),
    )
