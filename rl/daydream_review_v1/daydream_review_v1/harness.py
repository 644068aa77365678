"""One rollout: ``daydream review`` in a runtime, with every model call through the interception.

Rejected are an image without the program of the chosen backend, a checkout that is not at the head
of its task or not clean, and a rollout without a captured model call: what was not captured cannot
be trained on, and was paid for elsewhere.
"""

import json
import os
import sys
from pathlib import Path
from typing import ClassVar, Final

import verifiers
import verifiers.v1 as vf
from pydantic import Field

from daydream_review_v1 import verify
from daydream_review_v1.backends import (
    PROGRAMS,
    Backend,
    Endpoint,
    Options,
    Wiring,
    wiring,
)
from daydream_review_v1.places import (
    IMAGE_PRISTINE,
    IMAGE_REPO,
    IMAGE_SCRATCH,
    Places,
    make_local,
)
from daydream_review_v1.repository import GitError
from daydream_review_v1.shell import Shell
from daydream_review_v1.task import ReviewData

MISSING: Final = 9
LOOK: Final = 'for p in "$@"; do command -v "$p" >/dev/null || { echo "$p"; exit 9; }; done'


class ReviewHarnessConfig(vf.HarnessConfig):
    """How reviews are run."""

    backend: Backend = "claude"
    """chat trains and evaluates; claude, codex and pi evaluate."""
    fanout_concurrency: int = Field(4, ge=1)
    """Model calls of one rollout at a time."""
    home: str = "/rollout"
    repo_path: str = IMAGE_REPO
    """The checkout in the image; on the subprocess runtime the repository to take copies of."""
    archive_root: str = "/rollout/archive"
    extra_args: list[str] = []
    """More arguments of ``daydream review``."""
    pi_context_window: int = 32_768
    pi_max_tokens: int = 8_192


class ReviewHarness(vf.Harness[ReviewHarnessConfig]):
    """Runs ``daydream review``."""

    NEEDS_CONTAINER: ClassVar[bool] = False

    async def setup(self, runtime: vf.Runtime) -> None:
        """Check that the programs and the repository are there."""
        shell = Shell(runtime)
        program = PROGRAMS[self.config.backend]
        wanted = [*self._program(shell)[:1], *([program] if program else []), "git"]
        found = await shell.run("sh", "-c", LOOK, "sh", *wanted)
        if found.code != 0:
            raise RuntimeError(
                f"{found.out.strip() or 'a program'} is not in the image (expected for backend "
                f"{self.config.backend}); build images with images/build_images.py and leave its "
                "INSTALL_ argument at 1"
            )
        there = await shell.run("test", "-d", self.config.repo_path)
        if there.code != 0:
            raise RuntimeError(
                f"{self.config.repo_path} is no folder (expected the repository); build the image, "
                "or make the fixture with python -m daydream_review_v1.fixture"
            )

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: object = None,
    ) -> vf.ProgramResult:
        """Run the review. ``data`` is what later versions of verifiers hand over; not needed."""
        task: ReviewData = trace.task.data
        shell = Shell(runtime)
        places = await self._places(shell, trace.id, task)
        if not await verify.at_head(shell, places.repo, task.head_sha):
            raise RuntimeError(
                f"{places.repo} is not the clean head {task.head_sha} of {task.name}; the image is "
                "of another pull request, or was changed"
            )
        # Known before the start, so that a rollout that runs into its limit is scored too.
        trace.info["places"] = places.recorded()
        trace.info["daydream_backend"] = self.config.backend
        trace.info["daydream_repo_path"] = places.repo
        trace.info["daydream_archive_root"] = places.archive
        self._mend_base_url(ctx)
        wired = wiring(self.config.backend, Endpoint(endpoint, secret, ctx.model), self._options())
        env = await self._provide(shell, wired, places)
        done = await runtime.run(self._command(shell, wired, places, task), env)
        trace.info["daydream_exit_code"] = done.exit_code
        if trace.num_turns == 0:
            told = (done.stderr or done.stdout).strip()[-600:]
            raise RuntimeError(
                "no captured model calls: the program did not use the interception server, so the "
                f"rollout is rejected (daydream ended with {done.exit_code}: {told})"
            )
        if done.exit_code != 0 and await _ended(shell, places.archive):
            trace.stop("daydream_completed_nonzero")
        return done

    def _program(self, shell: Shell) -> list[str]:
        return ["daydream"] if shell.contained else [sys.executable, "-m", "daydream"]

    def _options(self) -> Options:
        config = self.config
        return Options(
            config.home, config.fanout_concurrency, config.pi_context_window, config.pi_max_tokens
        )

    async def _places(self, shell: Shell, rollout: str, task: ReviewData) -> Places:
        root = f"{self.config.archive_root}/{rollout}"
        if shell.contained:
            made = await shell.run("sh", "-c", 'mkdir -p "$1" && chown agent "$1"', "sh", root)
            if made.code != 0:
                raise RuntimeError(f"cannot make {root}: {made.err.strip()[-300:]}")
            return Places(self.config.repo_path, root, IMAGE_PRISTINE, IMAGE_SCRATCH)
        source = Path(self.config.repo_path)
        try:
            return await make_local(source, Path(root), base=task.base_sha, head=task.head_sha)
        except (GitError, OSError) as error:
            raise RuntimeError(f"no copy of {source} for {task.name}: {error}") from None

    def _mend_base_url(self, ctx: vf.ModelContext) -> None:
        """Take one ``/v1`` off the policy's address, which 0.2 would repeat for this dialect."""
        url = getattr(ctx.client, "base_url", None)
        repeats = verifiers.__version__.startswith("0.2.")
        if repeats and self.config.backend == "claude" and isinstance(url, str):
            ctx.client.base_url = url.removesuffix("/v1")

    async def _provide(self, shell: Shell, wired: Wiring, places: Places) -> dict[str, str]:
        env = {
            **self.config.resolved_env,
            **wired.env,
            "HOME": self.config.home,
            "DAYDREAM_ARCHIVE_DIR": places.archive,
        }
        if not shell.contained:
            # Test commands say python and mean the one that this environment was made with.
            folders = (str(Path(sys.executable).parent), os.environ.get("PATH", ""))
            env["PATH"] = os.pathsep.join(filter(None, folders))
        for path, text in wired.files.items():
            await shell.runtime.write(path, text.encode())
        if shell.contained and wired.files:
            await shell.run("chown", "-R", "agent", self.config.home)
        for command in wired.before:
            done = await shell.run(*self._as_agent(shell), *command, env=env)
            if done.code != 0:
                raise RuntimeError(f"{' '.join(command)} ended with {done.code}: {done.err[-300:]}")
        return env

    def _as_agent(self, shell: Shell) -> list[str]:
        return ["run-as-agent"] if shell.contained else []

    def _command(self, shell: Shell, wired: Wiring, places: Places, task: ReviewData) -> list[str]:
        return [
            *self._as_agent(shell),
            *self._program(shell),
            *("review", places.repo, "--non-interactive", "--yes", "--in-place"),
            *("--backend", self.config.backend, "--model", wired.model),
            *("--base", task.base_sha, "--test-command", task.test_command),
            *("--archive", places.archive, "--fanout", str(self.config.fanout_concurrency)),
            *self.config.extra_args,
        ]


async def _ended(shell: Shell, root: str) -> bool:
    """Return whether the archived trajectory of the run has its final metrics."""
    found = await shell.run("sh", "-c", 'cat "$1"/runs/*/trajectory.json', "sh", root)
    try:
        value = json.loads(found.out)
    except ValueError:
        return False
    return isinstance(value, dict) and bool(value.get("final_metrics"))
