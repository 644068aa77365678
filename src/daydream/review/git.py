"""Git without trust: a repository of ours reads the user's objects, none of his configuration runs.

A checkout may name programs: file monitors, hooks, external diffs, filters, text converters. So
commands run in a git folder of our own that borrows the objects of the user's. From his git folder
only names of commits are read and, at the very end, one reference is written, with hooks off. His
index and work tree are never touched, unless he asks for it and both are clean.
"""

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from daydream.config import user_environment
from daydream.errors import EnvironmentMissing, ReviewError, UsageError
from daydream.sandbox.base import Job, Limits
from daydream.sandbox.process import ProcessSandbox

NAME: Final = "Daydream Review"
EMAIL: Final = "review@daydream.invalid"
SHA: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
SAFE: Final = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*"),
    *("-c", "protocol.ext.allow=never", "-c", "core.attributesFile=/dev/null", "-c", "gc.auto=0"),
    *("--no-replace-objects", "--no-pager", "--literal-pathspecs"),
)
LIMITS: Final = Limits(wall_s=300.0, memory_mb=4096, output_bytes=64 << 20)


class Said(NamedTuple):
    """What git answered."""

    code: int
    out: bytes
    err: str

    @property
    def line(self) -> str:
        """Standard output as one line."""
        return self.out.decode("utf-8", "replace").strip()


def run_git(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> Said:
    """Run git in ``cwd`` with no configuration but the repository's own, and that made harmless."""
    known = {name: text for name, text in user_environment().items() if name in {"PATH", "LANG"}}
    job = Job(
        argv=("git", *SAFE, *arguments),
        cwd=str(cwd),
        env={
            **known,
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_ALLOW_PROTOCOL": "file:https:ssh",
            "HOME": "/nonexistent",
            **(env or {}),
        },
        scratch=(str(cwd),),
    )
    done = ProcessSandbox().run(job, LIMITS)
    if done.exit == 127 or (done.exit is None and not done.stdout and b"git" in done.stderr[:200]):
        raise EnvironmentMissing("git is not installed (expected it on PATH); install git")
    code = done.exit if done.exit is not None else 255
    return Said(code, done.stdout, done.stderr.decode("utf-8", "replace").strip())


class Repository:
    """The user's repository, read through a git folder of ours in ``room``."""

    def __init__(self, path: Path, room: Path) -> None:
        self.path = path
        found = run_git("rev-parse", "--show-toplevel", "--absolute-git-dir", cwd=_folder(path))
        lines = found.line.splitlines()
        if found.code != 0 or len(lines) != 2:
            raise UsageError(
                f"{path} is no checkout of a Git repository (expected a folder in one); name one"
            )
        self.top, self._theirs = Path(lines[0]), Path(lines[1])
        common = run_git("rev-parse", "--git-common-dir", cwd=self.top).line
        self._shared = Path(os.path.normpath(self.top / common))
        self._objects = self._shared / "objects"
        self._ours = room / "git"
        self._index = room / "index"
        self.tree = room / "tree"
        self.tree.mkdir(parents=True, exist_ok=True)
        form = run_git("rev-parse", "--show-object-format", cwd=self.top).line or "sha1"
        made = run_git(
            "init", "--bare", "--quiet", f"--object-format={form}", str(self._ours), cwd=room
        )
        if made.code != 0:
            raise ReviewError(f"git cannot make a repository in {room}: {made.err}")
        borrowed = self._ours / "objects" / "info" / "alternates"
        borrowed.write_text(f"{self._objects}\n", encoding="utf-8")
        if (self._shared / "shallow").is_file():
            # Where the history of a shallow clone ends, else git misses the parents.
            shutil.copyfile(self._shared / "shallow", self._ours / "shallow")

    def theirs(self, *arguments: str) -> Said:
        """Ask the user's git folder for a name; nothing that runs a program of its own."""
        return run_git(f"--git-dir={self._theirs}", *arguments, cwd=self.top)

    def ours(self, *arguments: str, env: dict[str, str] | None = None) -> Said:
        """Run a command on our git folder and our checkout."""
        where = (f"--git-dir={self._ours}", f"--work-tree={self.tree}")
        extra = {"GIT_INDEX_FILE": str(self._index), **(env or {})}
        return run_git(*where, *arguments, cwd=self.tree, env=extra)

    def must(self, *arguments: str, env: dict[str, str] | None = None) -> Said:
        """Do what :meth:`ours` does; raises :class:`ReviewError` when git fails."""
        said = self.ours(*arguments, env=env)
        if said.code != 0:
            raise ReviewError(f"git {arguments[0]} failed: {said.err or said.line or 'no word'}")
        return said

    def commit(self, name: str) -> str | None:
        """Return the commit that ``name`` means in the user's repository, or None."""
        said = self.theirs(
            "rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"
        )
        return said.line if said.code == 0 and SHA.fullmatch(said.line) else None

    def branch(self) -> str | None:
        """Return the full name of the branch that is checked out; None when HEAD is detached."""
        said = self.theirs("symbolic-ref", "--quiet", "HEAD")
        return said.line if said.code == 0 and said.line.startswith("refs/") else None

    def merge_base(self, one: str, other: str) -> str | None:
        """Return where two commits parted, or None."""
        said = self.ours("merge-base", one, other)
        return said.line if said.code == 0 else None

    def diff(self, base: str, head: str, *paths: str) -> str:
        """Return the difference of two commits as text, renames as such."""
        said = self.must(
            *("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames"),
            *("--src-prefix=a/", "--dst-prefix=b/", base, head, "--", *paths),
        )
        return said.out.decode("utf-8", "replace")

    def check_out(self, commit: str) -> None:
        """Write the files of ``commit`` into our checkout; no filter of anybody's runs."""
        self.must("read-tree", "--reset", commit)
        self.must("checkout-index", "--all", "--force", "--quiet", "--index")

    def commit_all(self, parent: str, message: str, *, date: str) -> str | None:
        """Commit what changed in our checkout on ``parent``; None when nothing did.

        The objects are written where the user's are, where nothing names them yet.
        """
        env = {
            "GIT_OBJECT_DIRECTORY": str(self._objects),
            "GIT_AUTHOR_NAME": NAME,
            "GIT_AUTHOR_EMAIL": EMAIL,
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_NAME": NAME,
            "GIT_COMMITTER_EMAIL": EMAIL,
            "GIT_COMMITTER_DATE": date,
        }
        self.must("add", "--update", "--", ".", env=env)
        new = self.must("ls-files", "--others", "--exclude-standard", "-z").out.split(b"\0")
        added = [os.fsdecode(name) for name in new if name]
        if added:
            self.must("add", "--", *added, env=env)
        tree = self.must("write-tree", env=env).line
        if tree == self.must("rev-parse", f"{parent}^{{tree}}").line:
            return None
        return self.must("commit-tree", tree, "-p", parent, "-m", message, env=env).line

    def reset(self, commit: str, paths: Iterable[str]) -> None:
        """Bring ``paths`` of our checkout back to ``commit``; files that it has not go."""
        for path in paths:
            held = self.ours("cat-file", "-e", f"{commit}:{path}").code == 0
            if held:
                self.must("checkout-index", "--force", "--index", "--", path)
            else:
                (self.tree / path).unlink(missing_ok=True)

    def changed(self) -> list[str]:
        """Return the paths of our checkout that differ from the index, new files included."""
        edited = self.must("diff-files", "--name-only", "-z").out.split(b"\0")
        new = self.must("ls-files", "--others", "--exclude-standard", "-z").out.split(b"\0")
        return sorted({os.fsdecode(name) for name in [*edited, *new] if name})

    def make_branch(self, name: str, commit: str) -> None:
        """Point a new branch at ``commit``; raises :class:`ReviewError` when the name is taken."""
        said = self.theirs("update-ref", f"refs/heads/{name}", commit, "0" * len(commit))
        if said.code != 0:
            raise ReviewError(
                f"branch {name} cannot be made: {said.err}; name another or delete it"
            )

    def clean(self, head: str) -> bool:
        """Return whether the user's index and work tree are those of ``head``, by our own look.

        Compared without his configuration, so that no filter and no monitor of his runs.
        """
        copy = self._index.with_name("their-index")
        theirs = self._theirs / "index"
        if theirs.is_file():
            shutil.copyfile(theirs, copy)
        look = {"GIT_INDEX_FILE": str(copy)}
        where = (f"--git-dir={self._ours}", f"--work-tree={self.top}")
        run_git(*where, "update-index", "-q", "--refresh", cwd=self.top, env=look)
        said = [
            run_git(*where, "diff-index", "--quiet", "--cached", head, cwd=self.top, env=look),
            run_git(*where, "diff-files", "--name-only", cwd=self.top, env=look),
        ]
        return said[0].code == 0 and said[1].code == 0 and not said[1].line

    def advance(self, old: str, new: str) -> None:
        """Move what is checked out from ``old`` to ``new``: files, index, then the reference.

        Raises :class:`ReviewError` when the reference moved meanwhile.
        """
        env = {"GIT_INDEX_FILE": str(self._theirs / "index")}
        where = (f"--git-dir={self._ours}", f"--work-tree={self.top}")
        moved = run_git(*where, "read-tree", "-m", "-u", old, new, cwd=self.top, env=env)
        if moved.code != 0:
            raise ReviewError(f"the work tree cannot take the fix: {moved.err}")
        ref = self.branch() or "HEAD"
        said = self.theirs("update-ref", "--no-deref", ref, new, old)
        if said.code != 0:
            raise ReviewError(f"{ref} cannot move to {new[:12]}: {said.err}")

    def push(self, commit: str, branch: str) -> None:
        """Push ``commit`` to ``branch`` of the user's origin, with his own global credentials."""
        url = self.theirs("config", "--local", "--get", "remote.origin.url").line
        if not url:
            raise ReviewError("there is no remote called origin to push to (expected one); add it")
        if not url.startswith(("/", "https://", "ssh://", "file://", "git@")):
            raise ReviewError(f"origin is {url!r} (expected a path, https, ssh or file address)")
        where = Path(os.path.normpath(url.removeprefix("file://")))
        if any(home == where or home in where.parents for home in (self.top, self._shared)):
            # It came with the checkout, and would run hooks of its own.
            raise ReviewError(
                f"origin is {url!r}, inside of the checkout (expected a place outside of it)"
            )
        env = {
            key: text
            for key, text in user_environment().items()
            if key in {"HOME", "SSH_AUTH_SOCK"}
        }
        said = self.ours(
            *("push", "--quiet", url, f"{commit}:refs/heads/{branch}"),
            env={**env, "GIT_CONFIG_GLOBAL": f"{env.get('HOME', '')}/.gitconfig"},
        )
        if said.code != 0:
            raise ReviewError(f"origin did not take branch {branch}: {said.err}")


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise UsageError(f"{path} is no folder (expected a checkout of a Git repository)")
    return path.resolve()
