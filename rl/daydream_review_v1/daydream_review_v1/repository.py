"""Git for the host: never the configuration of the user, never a program that a checkout names."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SAFE: Final = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*"),
    *("-c", "protocol.ext.allow=never", "-c", "core.autocrlf=false", "--no-pager"),
)
QUIET: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C.UTF-8",
}
TRUSTING: Final = "[safe]\n\tdirectory = *\n"
"""A configuration for repositories of another user: a served repository heeds no option."""


class GitError(RuntimeError):
    """A Git command failed; the message is the end of what it said."""


def git(
    *words: str,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdin: bytes = b"",
    accept: Sequence[int] = (0,),
) -> bytes:
    """Return what ``git`` printed; raises :class:`GitError` for a status not in ``accept``."""
    done = subprocess.run(
        ["git", *SAFE, *words],
        cwd=cwd,
        env={"PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent", **QUIET, **(env or {})},
        input=stdin,
        capture_output=True,
        timeout=600,
        check=False,
    )
    if done.returncode not in accept:
        said = done.stderr.decode("utf-8", "replace").strip()[-400:]
        raise GitError(f"git {words[0]} ended with {done.returncode}: {said}")
    return done.stdout


def text(*words: str, cwd: Path | None = None) -> str:
    """Return what ``git`` printed, as text without blanks around it."""
    return git(*words, cwd=cwd).decode("utf-8", "replace").strip()


def has_commit(repository: Path, sha: str) -> bool:
    """Return whether ``sha`` is a commit there."""
    try:
        git("cat-file", "-e", f"{sha}^{{commit}}", cwd=repository)
    except GitError:
        return False
    return True


def snapshot_mirror(source: str, mirror: Path, *, base: str, head: str) -> None:
    """Make the bare repository ``mirror`` with the history of two commits and nothing after them.

    What came later would give the fix away. Raises :class:`GitError` where a commit is missing.
    """
    git("init", "--quiet", "--bare", "--initial-branch", "main", str(mirror))
    config = mirror.parent / "trusting.gitconfig"
    config.write_text(TRUSTING)
    env = {"GIT_CONFIG_GLOBAL": str(config)}
    pairs = (f"{head}:refs/heads/main", f"{base}:refs/heads/base")
    try:
        git("fetch", "--quiet", "--no-tags", source, *pairs, cwd=mirror, env=env)
    except GitError:
        # A server may refuse to send a commit by its name: then take all and keep two.
        every = "+refs/*:refs/all/*"
        git("fetch", "--quiet", "--no-tags", source, every, cwd=mirror, env=env)
        git("update-ref", "refs/heads/main", head, cwd=mirror)
        git("update-ref", "refs/heads/base", base, cwd=mirror)
        for name in text("for-each-ref", "--format=%(refname)", "refs/all", cwd=mirror).split():
            git("update-ref", "-d", name, cwd=mirror)
        git("reflog", "expire", "--expire=now", "--all", cwd=mirror)
        git("gc", "--quiet", "--prune=now", cwd=mirror)
    finally:
        config.unlink()
