"""Where things are in a runtime: in an image, or in folders of one rollout on this machine."""

import asyncio
import shutil
from pathlib import Path
from typing import Final

import msgspec

from daydream_review_v1.repository import QUIET, TRUSTING, git, snapshot_mirror

IMAGE_REPO: Final = "/work/repo"
IMAGE_PRISTINE: Final = "/srv/pristine.git"
IMAGE_SCRATCH: Final = "/srv/verify"


class Places(msgspec.Struct, frozen=True):
    """The paths of one rollout."""

    repo: str
    """The checkout that is reviewed and fixed."""
    archive: str
    """Root of the archive of this rollout alone."""
    pristine: str
    """A bare repository that the rollout cannot change."""
    scratch: str
    """Where tests are run again."""
    local: bool = False
    """On this machine, where tests run in the sandbox; else in a container."""

    @classmethod
    def in_image(cls, archive: str = "/rollout/archive") -> "Places":
        """Return the paths in a repository image."""
        return cls(IMAGE_REPO, archive, IMAGE_PRISTINE, IMAGE_SCRATCH)

    def recorded(self) -> dict[str, object]:
        """Return the paths as plain data."""
        found: dict[str, object] = msgspec.to_builtins(self)
        return found


async def make_local(source: Path, root: Path, *, base: str, head: str) -> Places:
    """Make the places of one rollout below ``root``, a new folder, from a local repository.

    The checkout is at ``head`` with a mirror of its own as ``origin``, as in an image.
    Raises :class:`daydream_review_v1.repository.GitError` where a commit is missing.
    """
    return await asyncio.to_thread(_make_local, source, root, base, head)


def _make_local(source: Path, root: Path, base: str, head: str) -> Places:
    root.mkdir(parents=True)
    pristine, mirror, repo = root / "pristine.git", root / "mirror.git", root / "repo"
    config = root / "gitconfig"
    config.write_text(TRUSTING)
    trusting = {**QUIET, "GIT_CONFIG_GLOBAL": str(config)}
    snapshot_mirror(str(source.absolute()), pristine, base=base, head=head)
    shutil.copytree(pristine, mirror)
    git("clone", "--quiet", "--no-hardlinks", str(mirror), str(repo), env=trusting)
    git("checkout", "--quiet", "--detach", head, cwd=repo)
    archive, scratch = root / "archive", root / "scratch"
    archive.mkdir()
    scratch.mkdir()
    return Places(str(repo), str(archive), str(pristine), str(scratch), local=True)
