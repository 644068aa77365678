"""The image manifest: for each repository where it comes from, its image and its test command."""

import re
import tomllib
from pathlib import Path
from typing import Final

import msgspec

FIXTURE_URL: Final = "fixture://daydream-review-fixture"
"""Clone address of the repository that this package makes itself."""
_ODD: Final = re.compile(r"[*?\[\]]|^:|^/|(^|/)\.\.(/|$)|^-|\\|^\s*$")


class RepoSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One repository."""

    clone_url: str
    image: str
    """Name of the image without a tag; the tag is the head commit."""
    test_command: str
    setup_cmds: tuple[str, ...] = ()
    protected_test_paths: tuple[str, ...] = ()
    """Files and folders that the tests consist of: a fix may not decide what passing means."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All repositories by ``owner/name``."""

    repos: dict[str, RepoSpec]

    def find(self, slug: str) -> RepoSpec | None:
        """Return the entry of ``slug``, whose case does not matter."""
        wanted = slug.casefold()
        return next((s for name, s in self.repos.items() if name.casefold() == wanted), None)


def read_manifest(path: Path) -> Manifest:
    """Return the manifest in the TOML file ``path``.

    Raises ``ValueError`` that names the entry, what was found and what was expected.
    """
    try:
        manifest = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Manifest)
    except OSError as error:
        raise ValueError(f"cannot read the image manifest {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ValueError(f"{path} is no image manifest: {error}") from None
    for slug, spec in manifest.repos.items():
        problem = _problem(spec)
        if problem:
            raise ValueError(f"{path}: [repos.{slug!r}] {problem}")
    return manifest


def _problem(spec: RepoSpec) -> str:
    if not spec.image or ":" in spec.image.rpartition("/")[2]:
        return f"image is {spec.image!r} (expected a name without a tag)"
    if not spec.test_command.strip():
        return "test_command is empty (expected a command that exits 0 when all tests pass)"
    if not spec.clone_url or spec.clone_url.startswith("-"):
        return f"clone_url is {spec.clone_url!r} (expected an address)"
    odd = next((name for name in spec.protected_test_paths if _ODD.search(name)), None)
    if odd is not None:
        return f"protected path {odd!r} is no plain relative path"
    return ""
