"""What models are told: the texts in ``prompts``, the only place where they stand, filled in.

A folder of a person's own may hold texts of the same names, which then stand in their place. It is
chosen once for a process, by the settings of what it runs.
"""

from pathlib import Path
from string import Template
from typing import Final

from daydream.errors import ConfigError

PROMPTS: Final = Path(__file__).resolve().parent / "prompts"
_own: list[Path] = []
"""The person's folder, where there is one."""


def use_prompts(folder: str) -> None:
    """Take texts from ``folder`` where it has them, from now on; empty takes ours alone.

    Raises :class:`ConfigError` for a folder that is none, a file that is no text of ours, and a
    place to fill that our text does not have.
    """
    _own.clear()
    if not folder:
        return
    place = Path(folder)
    if not place.is_dir():
        raise ConfigError(f"prompts is {folder!r}, which is no folder (expected one with texts)")
    known = {path.name: path for path in PROMPTS.glob("*.md")}
    for path in sorted(place.glob("*.md")):
        if path.name not in known:
            raise ConfigError(
                f"prompts: {path} is no text of ours (expected one of {', '.join(sorted(known))})"
            )
        try:
            text = _template(path)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"prompts: {path} cannot be read: {error}; correct it") from None
        have = _template(known[path.name]).get_identifiers()
        odd = [f"${name}" for name in text.get_identifiers() if name not in have]
        if odd or not text.is_valid():
            raise ConfigError(
                f"prompts: {path} has {odd[0] if odd else 'a lone $'} (expected of "
                f"{', '.join(f'${name}' for name in have) or 'none'}; a plain dollar is $$)"
            )
    _own.append(place)


def prompt(name: str, **values: str) -> str:
    """Return the prompt ``name`` with ``values`` filled in, each once and as it is.

    Raises ``KeyError`` for a place of the text that no value fills.
    """
    own = next((path for one in _own if (path := one / f"{name}.md").is_file()), None)
    return _template(own or PROMPTS / f"{name}.md").substitute(values).rstrip() + "\n"


def _template(path: Path) -> Template:
    return Template(path.read_text(encoding="utf-8"))
