"""Compiling programs in C++ that a model wrote, in a sandbox with limits of its own.

A compiler is a program that untrusted text drives: it includes files, expands without end and
writes what it is told to. So it sees nothing of the machine but itself, is bounded in time, memory
and output, and its one product is read back once everything has ended.
"""

import shutil
from typing import Final

from daydream.config import SandboxLevel, user_environment
from daydream.errors import EnvironmentMissing
from daydream.sandbox.base import Job, Limits
from daydream.sandbox.choose import choose
from daydream.sandbox.host import PATH
from daydream.sandbox.profiles import PROFILES
from daydream.sandbox.workspace import let_others_read, workspace, write_files
from daydream.tasks.base import Evaluation, failed
from daydream.tasks.candidate import ended_badly, printed
from daydream.tree import Status

FLAGS: Final = ("-O3", "-march=native", "-std=c++17", "-fno-diagnostics-color")
LIMITS: Final = Limits(wall_s=90, memory_mb=1_500, processes=32, output_bytes=1 << 16)
COMPILERS: Final = ("g++", "c++", "clang++")


def compiler() -> str:
    """Return the path of a C++ compiler; raises :class:`EnvironmentMissing` without one."""
    found = next(filter(None, (shutil.which(name, path=PATH) for name in COMPILERS)), None)
    if found is None:
        raise EnvironmentMissing(
            "no C++ compiler found (expected g++, c++ or clang++ in the system's own folders); "
            "install one, for example: sudo apt-get install g++"
        )
    return found


def compiled(sources: dict[str, bytes], level: SandboxLevel) -> bytes | Evaluation:
    """Return the program made of ``sources``, or the failure to make one.

    Raises :class:`EnvironmentMissing` without a compiler, :class:`SandboxError` when the sandbox
    itself failed.
    """
    path = compiler()
    with workspace() as place:
        home, build = place / "source", place / "build"
        write_files(home, sources)
        let_others_read(home)
        build.mkdir()
        units = [str(home / name) for name in sorted(sources) if name.endswith(".cpp")]
        job = Job(
            argv=(path, *FLAGS, "-o", "program", *units),
            cwd=str(build),
            env=PROFILES["compile"].environment(user_environment()) | {"TMPDIR": str(build)},
            readable=tuple(str(one) for one in home.iterdir()),
            scratch=(str(place), str(home), str(build)),
            collect=("program",),
        )
        result = choose(level, PROFILES["compile"]).run(job, LIMITS)
    log = printed(result).replace(f"{place}/source/", "")
    if result.outcome == "exited" and result.exit != 0:
        return failed("compile_error", f"the program does not compile:\n{log}", feedback=log)
    problem = ended_badly(result, LIMITS, "the compiler")
    if problem is not None:
        return problem
    if "program" not in result.files:
        why = result.not_taken.get("program", "nothing was written")
        return failed("compile_error", f"no program was made: {why}", status=Status.ERROR)
    return result.files["program"]
