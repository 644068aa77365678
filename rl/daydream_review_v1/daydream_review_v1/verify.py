"""The fix of a rollout, taken with Git that trusts nothing of its checkout, and tested again.

A fix is what was committed, else what was changed in tracked files. It becomes a tree in the
pristine repository, without changes to what decides whether tests pass. The tests run on that tree
in a fresh checkout: in the sandbox on this machine, as another user in a container. They count as
passed when the command exits 0 and says that no fewer tests passed than before.

The code under test shares a process with its tests. What prints a false summary and exits 0 is
believed; a corpus whose tests matter keeps some of them outside the repository.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from daydream.config import user_environment
from daydream.sandbox.base import Job
from daydream.sandbox.choose import choose
from daydream.sandbox.profiles import profile
from daydream.sandbox.workspace import let_others_read
from daydream_review_v1.oracle import is_protected, passed_count
from daydream_review_v1.places import Places
from daydream_review_v1.repository import TRUSTING
from daydream_review_v1.shell import Shell

TAIL: Final = 2_000
MOST_DROPPED: Final = 200
QUIET_DIFF: Final = ("-c", "diff.ignoreSubmodules=all", "-c", "submodule.recurse=false")
LOCAL: Final = """\
set -eu
export HOME=/work/home
mkdir -p /work/home
git config --global safe.directory '*'
git clone --quiet --no-checkout "$1" /work/repo
cd /work/repo
git checkout --quiet --detach "$2"
printf ready >&3
exec /bin/sh -c "$3"
"""
CONTAINED: Final = """\
set -eu
run-as-agent sh -c 'kill -9 -1' 2>/dev/null || true
rm -rf /work/repo
cp -a /srv/verify/repo /work/repo
cd /work/repo
git -c safe.directory='*' fetch --quiet /srv/pristine.git judged
git -c safe.directory='*' checkout --quiet --detach FETCH_HEAD
chown -R verifier:verifier /work/repo
exec run-as-verifier /bin/sh -c "$1"
"""


class Judged(Protocol):
    """What the tests of a task need."""

    head_sha: str
    base_sha: str
    test_command: str
    protected_test_paths: list[str]


class Fix(msgspec.Struct, frozen=True):
    """What a rollout changed."""

    tree: str = ""
    """Commit of the fix in the pristine repository; empty when there is none."""
    diff: bytes = b""
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    """Changed paths that a fix may not change."""
    problem: str = ""

    def summary(self) -> dict[str, Any]:
        """Return the fix as a trace records it."""
        return {
            "commit": self.tree,
            "changed": list(self.kept),
            "left_out": list(self.dropped),
            "problem": self.problem,
        }


class TestRun(msgspec.Struct, frozen=True):
    """One run of the test command."""

    __test__ = False

    exit: int | None
    counted: int | None
    expected: int | None
    tail: str

    @property
    def passed(self) -> bool:
        """Whether the tests passed, as many as before."""
        if self.exit != 0:
            return False
        return self.expected is None or (self.counted or 0) >= self.expected

    def summary(self) -> dict[str, Any]:
        """Return the run as a trace records it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {**found, "passed": self.passed}


async def has_commit(shell: Shell, repo: str, sha: str) -> bool:
    """Return whether ``sha`` is a commit of ``repo``."""
    return (await shell.git("-C", repo, "cat-file", "-e", f"{sha}^{{commit}}")).code == 0


async def at_head(shell: Shell, repo: str, head: str) -> bool:
    """Return whether ``repo`` is at ``head`` with no tracked file changed."""
    found = await shell.git("-C", repo, "rev-parse", "HEAD")
    state = await shell.git("-C", repo, "status", "--porcelain", "--untracked-files=no")
    return found.out.strip() == head and state.code == 0 and not state.out.strip()


async def take_fix(shell: Shell, places: Places, data: Judged) -> Fix:
    """Return the fix that a rollout left behind, as a commit in the pristine repository."""
    try:
        return await _take(shell, places, data)
    except RuntimeError as error:
        return Fix(problem=str(error))


async def _take(shell: Shell, places: Places, data: Judged) -> Fix:
    config = f"{places.scratch}/trusting.gitconfig"
    await shell.run("sh", "-c", 'printf "%s" "$2" > "$1"', "sh", config, TRUSTING)
    env = {"GIT_CONFIG_GLOBAL": config, "GIT_INDEX_FILE": f"{places.scratch}/index"}
    at = (*QUIET_DIFF, f"--git-dir={places.pristine}")

    async def git(*words: str) -> str:
        return await shell.text(*at, *words, env=env)

    head = await git("rev-parse", f"{data.head_sha}^{{tree}}")
    await git("fetch", "--quiet", "--no-tags", places.repo, "+HEAD:refs/heads/candidate")
    tree = await git("rev-parse", "refs/heads/candidate^{tree}")
    if tree == head:
        # Nothing was committed: what was changed and left is a fix as well.
        await git("read-tree", head)
        await git(f"--work-tree={places.repo}", "add", "--update", ":/")
        tree = await git("write-tree")
    changes = _changes(await git("diff-tree", "-r", "-z", "--no-renames", "--raw", head, tree))
    dropped = {path: row for path, row in changes.items() if _left_out(path, row, data)}
    if len(dropped) > MOST_DROPPED:
        raise RuntimeError(f"{len(dropped)} changes of protected files (at most {MOST_DROPPED})")
    kept = tuple(sorted(set(changes) - set(dropped)))
    if not kept:
        return Fix(dropped=tuple(sorted(dropped)))
    await git("read-tree", tree)
    for path, (mode, sha, _) in dropped.items():
        if mode == "000000":
            empty = f"--work-tree={places.scratch}"
            await git(empty, "update-index", "--force-remove", "--", path)
        else:
            await git("update-index", "--add", "--cacheinfo", f"{mode},{sha},{path}")
    tree = await git("write-tree")
    commit = await git(
        *("-c", "user.name=judge", "-c", "user.email=judge@rollout.invalid"),
        *("commit-tree", tree, "-p", data.head_sha, "-m", "The fix under test"),
    )
    await git("update-ref", "refs/heads/judged", commit)
    diff = await git("diff-tree", "-p", "--binary", "--no-ext-diff", "--no-textconv", head, tree)
    return Fix(commit, diff.encode(), kept, tuple(sorted(dropped)))


def _changes(raw: str) -> dict[str, tuple[str, str, str]]:
    """Return path -> mode and object before, mode after, of ``diff-tree --raw -z``."""
    parts = raw.split("\0")
    found = {}
    for meta, path in zip(parts[::2], parts[1::2], strict=False):
        words = meta.lstrip(":").split()
        if len(words) >= 5:
            found[path] = (words[0], words[2], words[1])
    return found


def _left_out(path: str, row: tuple[str, str, str], data: Judged) -> bool:
    before, _, after = row
    # A new link or submodule could bring in anything.
    odd = after in {"120000", "160000"} and after != before
    return odd or is_protected(path, data.protected_test_paths, added=before == "000000")


async def judge(shell: Shell, places: Places, data: Judged, commit: str) -> TestRun:
    """Run the tests on ``commit`` and return how that went, beside the baseline."""
    before = await baseline(shell, places, data)
    found = await _tests(shell, places, data, commit)
    return msgspec.structs.replace(found, expected=before.counted)


_baselines: dict[tuple[str, str], TestRun] = {}


async def baseline(shell: Shell, places: Places, data: Judged) -> TestRun:
    """Return the run of the tests at the head: an image recorded it, else it is made once."""
    if shell.contained:
        told = await shell.run("cat", "/srv/baseline.log")
        code = 0 if told.code == 0 else None
        return TestRun(code, passed_count(told.out), None, told.out[-TAIL:])
    key = (data.head_sha, data.test_command)
    if key not in _baselines:
        _baselines[key] = await _tests(shell, places, data, data.head_sha)
    return _baselines[key]


async def _tests(shell: Shell, places: Places, data: Judged, commit: str) -> TestRun:
    if not shell.contained:
        return await asyncio.to_thread(_in_sandbox, places, data.test_command, commit)
    done = await shell.run("sh", "-c", CONTAINED, "sh", data.test_command)
    output = done.out + done.err
    return TestRun(done.code, passed_count(output), None, output[-TAIL:])


def _in_sandbox(places: Places, command: str, commit: str) -> TestRun:
    kind = profile("rollout")
    sandbox = choose("bubblewrap", kind)
    let_others_read(Path(places.pristine))
    env = kind.environment(user_environment())
    job = Job(
        argv=("/bin/sh", "-c", LOCAL, "sh", places.pristine, commit, command),
        cwd="/work",
        env={**env, "HOME": "/work", "PATH": f"{Path(sys.executable).parent}:{env['PATH']}"},
        readable=(places.pristine,),
        scratch=("/work",),
    )
    done = sandbox.run(job, kind.limits)
    output = (done.stdout + done.stderr).decode("utf-8", "replace")
    if done.result != b"ready":
        raise RuntimeError(f"the pristine checkout could not be made: {output[-TAIL:]}")
    code = done.exit if done.outcome == "exited" else None
    return TestRun(code, passed_count(output), None, output[-TAIL:])
