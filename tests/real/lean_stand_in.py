"""Laying out the stand-in for a Lean toolchain."""

import sys
from pathlib import Path

FAKE = Path(__file__).parent / "fake_lean.py"


def stand_in(place: Path) -> Path:
    """Make a toolchain below ``place`` and return its program ``lean``."""
    program = place / "toolchain" / "bin" / "lean"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!{sys.executable} -I\n{FAKE.read_text(encoding='utf-8')}", encoding="utf-8"
    )
    program.chmod(0o755)
    return program
