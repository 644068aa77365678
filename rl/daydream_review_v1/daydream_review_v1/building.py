"""Images of pull requests: what is to be built, and the one seam to Docker.

Each image holds one repository at the head of one pull request, with its dependencies, and its last
layer runs the test command: a repository whose tests fail has no image.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from daydream.corpus.reading import Corpus
from daydream_review_v1.fixture import FIRST_SHA, SECOND_SHA, make_fixture
from daydream_review_v1.manifest import FIXTURE_URL, Manifest, RepoSpec
from daydream_review_v1.repository import GitError, has_commit, snapshot_mirror, text

PROJECT: Final = Path(__file__).resolve().parents[1]
ROOT: Final = PROJECT.parents[1]
IMAGES: Final = PROJECT / "images"
BASE_IMAGE: Final = "daydream-rl/base"
MINUTES: Final = 60


class BuildError(RuntimeError):
    """One image cannot be built; the message says why."""


class Wanted(NamedTuple):
    """One image to be built."""

    slug: str
    number: int
    base: str
    head: str
    spec: RepoSpec

    @property
    def tag(self) -> str:
        """Name and tag: the tag is the first 12 digits of the head commit."""
        return f"{self.spec.image}:{self.head[:12]}"

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"{self.slug}#{self.number}"


class Builder(Protocol):
    """Turns what is wanted into something that a rollout starts from."""

    def build(self, wanted: Wanted, mirror: Path, setup: Path) -> None:
        """Build from ``mirror`` with the script ``setup``; raises :class:`BuildError`."""
        ...


def chosen(corpus: Corpus, manifest: Manifest, only: str | None) -> tuple[list[Wanted], list[str]]:
    """Return the images of ``corpus`` to be built, and why others cannot be."""
    slug = corpus.index.repo
    if only is not None and only.casefold() != slug.casefold():
        return [], []
    found, failures = [], []
    spec = manifest.find(slug)
    for entry in corpus.replayable:
        name = f"{slug}#{entry.pr_number}"
        if spec is None:
            failures.append(f"{name}: the manifest has no entry for {slug}; add one")
        elif not entry.base_sha:
            failures.append(f"{name}: the corpus has no base commit for it; harvest it again")
        else:
            head = entry.review_commit_id or ""
            found.append(Wanted(slug, entry.pr_number, entry.base_sha, head, spec))
    return found, failures


class Source:
    """Where the commits of a repository come from. The fixture is made on the spot."""

    def __init__(self, work: Path, *, red: bool = False) -> None:
        self._work = work
        self._red = red
        self._fixture: tuple[Path, dict[str, str]] | None = None

    def locate(self, wanted: Wanted) -> tuple[str, Wanted]:
        """Return an address to fetch from, and ``wanted`` with the commits as they are there."""
        if wanted.spec.clone_url != FIXTURE_URL:
            return wanted.spec.clone_url, wanted
        if self._fixture is None:
            place = self._work / "fixture"
            made = make_fixture(place, red=self._red)
            self._fixture = place, {FIRST_SHA: made.first, SECOND_SHA: made.second}
        place, moved = self._fixture
        base, head = (moved.get(sha, sha) for sha in (wanted.base, wanted.head))
        return str(place), wanted._replace(base=base, head=head)


def build_one(source: Source, builder: Builder, wanted: Wanted) -> Wanted:
    """Build one image and return it with the commits that it has; raises :class:`BuildError`."""
    with tempfile.TemporaryDirectory(prefix="daydream-image-") as folder:
        work = Path(folder)
        mirror = work / "mirror.git"
        try:
            address, located = source.locate(wanted)
            snapshot_mirror(address, mirror, base=located.base, head=located.head)
        except (GitError, ValueError) as error:
            raise BuildError(f"the commits cannot be fetched: {error}") from None
        for sha in (located.base, located.head):
            if not has_commit(mirror, sha):
                raise BuildError(f"{sha} is no commit of {address}")
        setup = work / "setup.sh"
        setup.write_text("".join(f"{line}\n" for line in ("set -eu", *located.spec.setup_cmds)))
        builder.build(located, mirror, setup)
        return located


class Docker:
    """The only caller of ``docker``."""

    def __init__(self, program: str = "docker") -> None:
        self._program = program

    def missing(self) -> str:
        """Return why images cannot be built here; empty when they can."""
        try:
            done = self._call("version", "--format", "{{.Server.Version}}", seconds=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"docker cannot be run: {error}"
        return "" if done == 0 else "the Docker daemon does not answer"

    def build(
        self, context: Path, file: str, tags: Sequence[str], arguments: dict[str, str]
    ) -> None:
        """Build an image from ``context``; raises :class:`BuildError`."""
        command = ["build", "--file", str(context / file)]
        for tag in tags:
            command += ["--tag", tag]
        for name, value in arguments.items():
            command += ["--build-arg", f"{name}={value}"]
        status = self._call(*command, str(context), seconds=MINUTES * 60)
        if status != 0:
            raise BuildError(f"docker build ended with {status}")

    def remove(self, tag: str) -> None:
        """Take ``tag`` away, so that an image of before is not taken for the one that failed."""
        self._call("rmi", "--force", tag, seconds=120)

    def _call(self, *words: str, seconds: int) -> int:
        quiet = subprocess.DEVNULL if words[0] in {"version", "rmi"} else None
        return subprocess.run(
            [self._program, *words], stdout=quiet, stderr=quiet, timeout=seconds, check=False
        ).returncode


class ImageBuilder:
    """Builds repository images with Docker on top of a base image."""

    def __init__(self, docker: Docker, base: str) -> None:
        self._docker = docker
        self._base = base

    def build(self, wanted: Wanted, mirror: Path, setup: Path) -> None:
        """Build ``wanted.tag``; a failed build leaves no image of that name."""
        context = mirror.parent
        (context / "repo.Dockerfile").write_bytes((IMAGES / "repo.Dockerfile").read_bytes())
        arguments = {
            "BASE_IMAGE": self._base,
            "HEAD_SHA": wanted.head,
            "BASE_SHA": wanted.base,
            "TEST_COMMAND": wanted.spec.test_command,
        }
        try:
            self._docker.build(context, "repo.Dockerfile", [wanted.tag], arguments)
        except BuildError:
            self._docker.remove(wanted.tag)
            raise


def base_tag() -> str:
    """Return the name of the base image for this checkout."""
    try:
        version = text("describe", "--tags", "--always", "--dirty", cwd=ROOT)
    except GitError as error:
        raise BuildError(f"the checkout has no version: {error}") from None
    return f"{BASE_IMAGE}:{version}"


def build_base(docker: Docker) -> str:
    """Build the base image with a fresh wheel of Daydream and return its name."""
    tag = base_tag()
    with tempfile.TemporaryDirectory(prefix="daydream-base-") as folder:
        context = Path(folder)
        wheel = build_wheel(context / "dist")
        (context / "base.Dockerfile").write_bytes((IMAGES / "base.Dockerfile").read_bytes())
        docker.build(
            context, "base.Dockerfile", [tag, f"{BASE_IMAGE}:latest"], {"DAYDREAM_WHEEL": wheel}
        )
    return tag


def build_wheel(dist: Path) -> str:
    """Build a wheel of this checkout into ``dist`` and return its file name."""
    dist.mkdir()
    commands = (
        ["uv", "build", "--quiet", "--wheel", "--out-dir", str(dist), str(ROOT)],
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(dist), str(ROOT)],
    )
    said = ""
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, timeout=900, check=False)
        except FileNotFoundError:
            continue
        if done.returncode == 0:
            for path in dist.glob("*.whl"):
                return path.name
        said = done.stderr.decode("utf-8", "replace")[-300:]
    raise BuildError(f"no wheel of {ROOT.name} could be built: {said or 'neither uv nor pip'}")
