"""What a repository image does, without Docker: clone, set-up and tests in the sandbox.

It keeps nothing. It shows whether a baseline is green, which is what an image promises. A sandbox
has no network: what set-up needs has to be installed for the running interpreter.
"""

import sys
from pathlib import Path
from typing import Final

from daydream.config import user_environment
from daydream.sandbox.base import Job
from daydream.sandbox.choose import choose
from daydream.sandbox.profiles import profile
from daydream.sandbox.workspace import let_others_read
from daydream_review_v1.building import BuildError, Wanted

STAGES: Final = {
    "clone": "the repository cannot be checked out",
    "setup": "the set-up failed",
    "tests": "the baseline is red: the test command failed",
}
SCRIPT: Final = """\
set -eu
printf 'clone ' >&3
export HOME=/work/home
mkdir -p /work/home
git config --global safe.directory '*'
git clone --quiet "$1" /work/repo
cd /work/repo
git checkout --quiet --detach "$2"
git cat-file -e "$3^{commit}"
printf 'setup ' >&3
/bin/sh "$4"
printf 'tests ' >&3
/bin/sh -c "$5"
printf 'green' >&3
"""


class NativeBuilder:
    """Runs the steps of ``repo.Dockerfile`` in the sandbox of profile ``rollout``."""

    def build(self, wanted: Wanted, mirror: Path, setup: Path) -> None:
        """Raise :class:`BuildError` unless the tests of ``wanted`` pass at its head."""
        kind = profile("rollout")
        sandbox = choose("bubblewrap", kind)
        let_others_read(mirror.parent)
        python = Path(sys.executable).parent
        env = kind.environment(user_environment())
        work = ("/work",)
        told = (str(mirror), wanted.head, wanted.base, str(setup), wanted.spec.test_command)
        job = Job(
            argv=("/bin/sh", "-c", SCRIPT, "sh", *told),
            cwd="/work",
            env={**env, "HOME": "/work", "PATH": f"{python}:{env['PATH']}"},
            readable=(str(mirror), str(setup)),
            scratch=work,
        )
        done = sandbox.run(job, kind.limits)
        stages = done.result.decode("ascii", "replace").split()
        if done.outcome == "exited" and done.exit == 0 and stages[-1:] == ["green"]:
            return
        stage = stages[-1] if stages else "clone"
        said = (done.stderr + done.stdout).decode("utf-8", "replace").strip()[-600:]
        how = f"status {done.exit}" if done.outcome == "exited" else done.outcome
        raise BuildError(f"{STAGES.get(stage, stage)} ({how}): {said}")
