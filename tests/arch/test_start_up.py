"""How much the command line loads and spends before it does anything."""

import os
import subprocess
import sys

from tests.arch.fresh import loaded_after

HELP = "import sys; from daydream.cli.main import main; sys.exit(main(['--help']))"


def _cpu_seconds(code: str) -> float:
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return usage.ru_utime + usage.ru_stime


def test_help_takes_less_than_half_a_second_of_cpu() -> None:
    # CPU time, not wall time: other work on the machine must not decide.
    assert min(_cpu_seconds(HELP) for _ in range(3)) < 0.5


def test_help_loads_no_array_library_and_no_plug_in() -> None:
    code = "import contextlib, io\nfrom daydream.cli.main import main\n"
    code += "with contextlib.redirect_stdout(io.StringIO()):\n    assert main(['--help']) == 0\n"
    loaded = loaded_after(code)
    assert not {name.partition(".")[0] for name in loaded} & {"numpy", "scipy", "sklearn"}
    assert not {name for name in loaded if name.startswith(("daydream.tasks.", "daydream.agents."))}
