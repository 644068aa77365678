"""What models are told: the texts in ``prompts``, the only place where they stand, filled in."""

from pathlib import Path
from string import Template
from typing import Final

PROMPTS: Final = Path(__file__).resolve().parent / "prompts"


def prompt(name: str, **values: str) -> str:
    """Return the prompt ``name`` with ``values`` filled in, each once and as it is.

    Raises ``KeyError`` for a place of the text that no value fills.
    """
    text = (PROMPTS / f"{name}.md").read_text(encoding="utf-8")
    return Template(text).substitute(values).rstrip() + "\n"
