"""The bank: every attempt of every line in one append-only file that many may write at once.

``bank/episodes.jsonl`` is the truth. Writers hold a lock for the length of one append; a reader
sees whole records only and may read while others write.
"""

from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import Final

import msgspec

from daydream.canonical import clean_json, dumps
from daydream.store.shared_log import SharedLog
from daydream.weights.episodes import Episode, decode

FILE: Final = "episodes.jsonl"


class Bank:
    """The episodes in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = SharedLog(folder / FILE)
        self._known: dict[str, None] = {}
        self._end = 0

    def __enter__(self) -> "Bank":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._log.close()

    @property
    def path(self) -> Path:
        """The file of episodes."""
        return self._log.path

    def append(self, episodes: Iterable[Episode], *, durable: bool = True) -> int:
        """Append those of ``episodes`` whose id is not there yet and return how many these are.

        Two processes that append the same attempt at the same time may both store it; readers take
        the first. Raises :class:`daydream.errors.StoreError` when the disk refuses.
        """
        known = self.ids()
        fresh: dict[str, bytes] = {}
        for episode in episodes:
            if episode.id not in known:
                fresh.setdefault(episode.id, _line(episode))
        self._log.append(list(fresh.values()), durable=durable)
        return len(fresh)

    def ids(self) -> Set[str]:
        """Return the ids of all episodes; reads only what came since the last call."""
        reading = self._log.read(self._end)
        for number, line in enumerate(reading.lines, start=1):
            place = f"line {number} after byte {self._end} of {self.path}"
            self._known[decode(line, place).id] = None
        self._end = reading.end
        return self._known.keys()

    def episodes(self) -> Iterator[Episode]:
        """Yield the episodes in the order in which they were stored, each once."""
        seen: set[str] = set()
        for number, line in enumerate(self._log.read().lines, start=1):
            episode = decode(line, f"line {number} of {self.path}")
            if episode.id not in seen:
                seen.add(episode.id)
                yield episode

    def torn(self) -> int:
        """Return the bytes of a record that a killed writer left; the next append drops them."""
        return self._log.read(self._end).torn


def _line(episode: Episode) -> bytes:
    try:
        return dumps(episode)
    except UnicodeEncodeError:
        # Lone surrogates, as in text that a model printed, have no UTF-8 form.
        plain = clean_json(msgspec.to_builtins(episode), text_limit=1 << 30, items=1 << 30)
        return dumps(plain)
