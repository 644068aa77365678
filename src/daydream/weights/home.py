"""The folder of the weights line, by default ``weights/``: where each thing of it is kept.

bank/episodes.jsonl   every attempt: see :mod:`daydream.weights.bank`
corpora/NNN/          sft.jsonl, dpo.jsonl and manifest.json, written last
adapters/NAME/        an adapter and its adapter.json, written last
gate/                 probes.json, deployed, history.jsonl, answers/
nights/NNN/           plan.json and result.json of one build, train and gate; the result is last
replies.sqlite        answers of endpoints that were paid for
"""

from pathlib import Path
from typing import Final

DEFAULT: Final = Path("weights")


class Home:
    """Paths below one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def bank(self) -> Path:
        """Folder of the bank."""
        return self.path / "bank"

    @property
    def corpora(self) -> Path:
        """Folder of corpora."""
        return self.path / "corpora"

    @property
    def adapters(self) -> Path:
        """Folder of adapters."""
        return self.path / "adapters"

    @property
    def gate(self) -> Path:
        """Folder of the gate."""
        return self.path / "gate"

    @property
    def nights(self) -> Path:
        """Folder of nights."""
        return self.path / "nights"


def next_numbered(folder: Path, finished: str) -> Path:
    """Return the first ``folder/NNN`` in which the file ``finished`` is not there yet."""
    number = 1
    while (folder / f"{number:03d}" / finished).exists():
        number += 1
    return folder / f"{number:03d}"


def latest(folder: Path, finished: str) -> Path | None:
    """Return the last ``folder/NNN`` that holds the file ``finished``, or None."""
    found = sorted(folder.glob(f"[0-9]*/{finished}"), key=lambda path: path.parent.name)
    return found[-1].parent if found else None
