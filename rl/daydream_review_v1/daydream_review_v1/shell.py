"""Commands in a runtime, with Git that heeds no configuration of a checkout."""

from typing import Final, NamedTuple

import verifiers.v1 as vf

from daydream_review_v1.repository import QUIET, SAFE

ENVIRONMENT: Final = {**QUIET, "HOME": "/nonexistent"}


class Done(NamedTuple):
    """What became of a command."""

    code: int
    out: str
    err: str


class Shell:
    """Runs commands in one runtime."""

    def __init__(self, runtime: vf.Runtime) -> None:
        self.runtime = runtime

    @property
    def contained(self) -> bool:
        """Whether the runtime is a container of its own."""
        return str(self.runtime.type) != "subprocess"

    async def run(self, *argv: str, env: dict[str, str] | None = None) -> Done:
        """Return what became of ``argv``."""
        done = await self.runtime.run(list(argv), {**(env or {})})
        return Done(done.exit_code, done.stdout, done.stderr)

    async def git(self, *words: str, env: dict[str, str] | None = None) -> Done:
        """Return what became of a Git command."""
        return await self.run("git", *SAFE, *words, env={**ENVIRONMENT, **(env or {})})

    async def text(self, *words: str, env: dict[str, str] | None = None) -> str:
        """Return what Git printed; raises ``RuntimeError`` when it failed."""
        done = await self.git(*words, env=env)
        if done.code != 0:
            raise RuntimeError(f"git {words[0]} ended with {done.code}: {done.err.strip()[-400:]}")
        return done.out.strip()
