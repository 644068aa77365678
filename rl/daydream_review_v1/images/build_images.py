"""Build the base image and the image of every pull request of a corpus.

    uv run python images/build_images.py [--corpus DIR] [--manifest PATH] [--only OWNER/NAME]
                                         [--no-base | --base-only] [--red] [--native]

Exit status: 0 done, 1 an image failed (the others are tried all the same), 2 wrong arguments,
3 Docker is missing.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from daydream.corpus.reading import read_corpus
from daydream.errors import DaydreamError
from daydream_review_v1.building import (
    BASE_IMAGE,
    IMAGES,
    PROJECT,
    Builder,
    BuildError,
    Docker,
    ImageBuilder,
    Source,
    Wanted,
    build_base,
    build_one,
    chosen,
)
from daydream_review_v1.fixture import SECOND_SHA
from daydream_review_v1.manifest import FIXTURE_URL, read_manifest
from daydream_review_v1.native import NativeBuilder

MINI = PROJECT / "tests" / "fixtures" / "corpus-mini"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what the arguments ask for and return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    _check(parser, options)
    docker = Docker()
    if not options.native:
        missing = docker.missing()
        if missing:
            print(f"build_images: {missing}; start it, or try --native", file=sys.stderr)
            return 3
    wanted, failures = ([], []) if options.base_only else _wanted(parser, options)
    try:
        base = _base(docker, options)
    except BuildError as error:
        print(f"FAILED base image: {error}", file=sys.stderr)
        return 1
    if options.base_only:
        return 0
    builder: Builder = NativeBuilder() if options.native else ImageBuilder(docker, base)
    with tempfile.TemporaryDirectory(prefix="daydream-source-") as work:
        source = Source(Path(work), red=options.red)
        for one in wanted:
            try:
                made = build_one(source, builder, one)
            except (BuildError, DaydreamError) as error:
                failures.append(f"{one.name}: {error}")
                continue
            print(f"green {one.name} {made.head[:12]}" if options.native else f"built {made.tag}")
            if options.red and one.head == SECOND_SHA:
                failures.append(f"{one.name}: a red baseline was accepted, which is a fault")
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="build_images.py")
    parser.add_argument("--corpus", type=Path, default=MINI, help="folder of a corpus")
    parser.add_argument("--manifest", type=Path, default=IMAGES / "manifest.toml")
    parser.add_argument("--only", metavar="OWNER/NAME", help="build one repository")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--no-base", action="store_true", help=f"reuse {BASE_IMAGE}:latest")
    which.add_argument("--base-only", action="store_true", help="build the base image alone")
    parser.add_argument("--red", action="store_true", help="the fixture with a failing test")
    parser.add_argument("--native", action="store_true", help="the same steps without Docker")
    return parser


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.red and options.base_only:
        parser.error("--red tests a repository image and --base-only builds none")
    if options.native and options.base_only:
        parser.error("--native has no base image")


def _base(docker: Docker, options: argparse.Namespace) -> str:
    return f"{BASE_IMAGE}:latest" if options.no_base or options.native else build_base(docker)


def _wanted(
    parser: argparse.ArgumentParser, options: argparse.Namespace
) -> tuple[list[Wanted], list[str]]:
    try:
        manifest = read_manifest(options.manifest)
        corpus = read_corpus(options.corpus)
    except (ValueError, DaydreamError) as error:
        parser.error(str(error))
    wanted, failures = chosen(corpus, manifest, options.only)
    if not wanted and not failures:
        parser.error(f"nothing to build: --only {options.only or ''} in {options.corpus}")
    if options.red:
        wanted = [one for one in wanted if one.spec.clone_url == FIXTURE_URL]
        if not any(one.head == SECOND_SHA for one in wanted):
            parser.error(f"--red needs the pull request of {FIXTURE_URL} at its last commit")
    return wanted, failures


if __name__ == "__main__":
    sys.exit(main())
