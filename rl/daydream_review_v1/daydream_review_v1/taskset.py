"""Pull requests of a corpus as tasks. Training and evaluation differ by the corpus alone.

Refused are held-out repositories (no option allows them), tasks without a base commit and
repositories without an image. A pull request without a reviewed commit makes no task and is warned
about.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import verifiers.v1 as vf
from pydantic import BaseModel, ConfigDict

from daydream.corpus.excluded import excluded_among
from daydream.corpus.reading import Corpus, read_corpus
from daydream.corpus.records import Entry, golden_url
from daydream.errors import CorpusError
from daydream_review_v1.manifest import RepoSpec, read_manifest
from daydream_review_v1.task import ReviewData, ReviewTask, ReviewTaskConfig

logger = logging.getLogger(__name__)

LIMITS: Final = {"setup": 900.0, "rollout": 5400.0, "finalize": 600.0, "scoring": 1800.0}
"""Seconds that a rollout may take, by its stages."""


class GoldenRow(BaseModel):
    """One reference comment as a task carries it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    comment: str
    path: str | None = None
    line: int | None = None


class ReviewTasksetConfig(vf.TasksetConfig):
    """What tasks are made of."""

    corpus_dir: str = ""
    """Folder of a corpus, as ``daydream corpus`` makes it."""
    manifest_path: str = ""
    """The image manifest."""
    use_images: bool = True
    """False for the subprocess runtime, which has none."""
    task: ReviewTaskConfig = ReviewTaskConfig()


class ReviewTaskset(vf.Taskset[ReviewTask, ReviewTasksetConfig]):
    """Loads a corpus."""

    def load(self) -> Iterator[ReviewTask]:
        """Yield one task for each reviewed pull request, by number.

        Raises ``ValueError`` with everything that is wrong with the corpus or the manifest.
        """
        if not self.config.corpus_dir:
            raise ValueError("no corpus directory: set taskset.corpus_dir")
        if not self.config.manifest_path:
            raise ValueError("no image manifest: set taskset.manifest_path")
        if not self.config.use_images:
            logger.warning("use_images is false: rollouts start from a local repository")
        try:
            corpus = read_corpus(Path(self.config.corpus_dir))
        except CorpusError as error:
            raise ValueError(str(error)) from None
        spec = self._checked(corpus)
        for index, entry in enumerate(corpus.replayable):
            yield ReviewTask(self._data(index, corpus, entry, spec), self.config.task)

    def _checked(self, corpus: Corpus) -> RepoSpec:
        slug = corpus.index.repo
        if excluded_among([slug]):
            raise ValueError(f"held-out repository in a training or evaluation corpus: {slug}")
        if len(corpus.replayable) < len(corpus.index.prs):
            logger.warning(
                "%d of %d pull requests of %s have a reviewed commit; the others make no task",
                len(corpus.replayable),
                len(corpus.index.prs),
                slug,
            )
        lacking = [f"{slug}#{one.pr_number}" for one in corpus.replayable if not one.base_sha]
        if lacking:
            raise ValueError(f"no base commit: {', '.join(lacking)}; harvest them again")
        if corpus.errors:
            told = "; ".join(f"{found.where}: {found.problem}" for found in corpus.errors[:5])
            raise ValueError(f"{corpus.path} has {len(corpus.errors)} errors: {told}")
        spec = read_manifest(Path(self.config.manifest_path)).find(slug)
        if spec is None:
            raise ValueError(f"{self.config.manifest_path} has no entry for {slug}; add one")
        return spec

    def _data(self, index: int, corpus: Corpus, entry: Entry, spec: RepoSpec) -> ReviewData:
        slug, head = corpus.index.repo, entry.review_commit_id or ""
        golden = corpus.golden[golden_url(slug, entry.pr_number)]
        return ReviewData(
            idx=index,
            name=f"{slug}#{entry.pr_number}",
            prompt=f"Review, fix and test pull request {entry.pr_number} of {slug}.",
            image=f"{spec.image}:{head[:12]}" if self.config.use_images else None,
            timeout=timeouts(),
            repo_slug=slug,
            clone_url=spec.clone_url,
            pr_number=entry.pr_number,
            base_sha=entry.base_sha or "",
            head_sha=head,
            base_ref=entry.base_ref or "",
            test_command=spec.test_command,
            protected_test_paths=list(spec.protected_test_paths),
            golden_comments=[
                GoldenRow(comment=one.comment, path=one.path, line=one.line).model_dump()
                for one in golden.golden_comments
            ],
        )


def timeouts() -> vf.TaskTimeout:
    """Return the limits under the names that this version of verifiers has for them."""
    fields = vf.TaskTimeout.model_fields
    names = {"rollout": "harness" if "harness" in fields else "agent"}
    found = {names.get(stage, stage): seconds for stage, seconds in LIMITS.items()}
    return vf.TaskTimeout(**{name: value for name, value in found.items() if name in fields})
