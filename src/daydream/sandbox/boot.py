"""Starting a module of this package inside a sandbox, without the package's own start-up.

The child sees the folder of sandbox modules and the packages of the running interpreter, read-only.
"""

import sys
from pathlib import Path
from typing import Final

_BOOT: Final = """\
import sys, types
daydream = sys.modules["daydream"] = types.ModuleType("daydream")
daydream.__path__ = [sys.argv[1]]
module = __import__("importlib").import_module(sys.argv[2])
sys.argv[1:3] = []
module.main()
"""


def python_job(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs ``main()`` of ``module`` of this package in isolated mode."""
    package = str(Path(__file__).resolve().parents[1])
    return (sys.executable, "-I", "-B", "-c", _BOOT, package, module, *arguments)


def python_places(*, packages: bool = True) -> tuple[str, ...]:
    """Return the paths that such a command reads; with ``packages`` the installed ones as well."""
    home = str(Path(__file__).resolve().parent)
    installed = (path for path in sys.path if path.endswith(("site-packages", "dist-packages")))
    return tuple(dict.fromkeys((home, *(installed if packages else ()))))
