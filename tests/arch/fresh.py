"""Questions to a fresh interpreter."""

import subprocess
import sys


def loaded_after(code: str) -> set[str]:
    """Return the names of the modules that are loaded once a new interpreter has run ``code``."""
    report = f"{code}\nimport sys\nsys.stdout.write('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True, timeout=500
    )
    return set(done.stdout.split())
