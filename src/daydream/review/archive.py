"""The archive of a review: one folder a run, written phase by phase; a kill leaves a record.

manifest.json         what was reviewed, by whom, how it ended; ``partial`` until the end
trajectory.json       the run step by step, trajectories/FORK.json one conversation each
review-output.md      the report
diff.patch            what was reviewed; recommended.patch what the fixes changed
deep/                 intent, records of each reviewer, merged items, verdicts, tests, failures
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from daydream.canonical import JsonValue
from daydream.errors import ReviewError
from daydream.store.files import replace_file

MANIFEST_VERSION: Final = "1.0"


class Archive:
    """Writes one run's folder."""

    def __init__(self, root: Path, session: str) -> None:
        self.path = root / "runs" / session
        try:
            self.path.mkdir(parents=True)
        except OSError as error:
            raise ReviewError(
                f"the archive {self.path} cannot be made: {error.strerror}; name another folder "
                "with --archive"
            ) from None

    def text(self, name: str, text: str) -> None:
        """Write one text file."""
        place = self.path / name
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            replace_file(place, text.encode("utf-8", "replace"))
        except OSError as error:
            raise ReviewError(
                f"the archive cannot be written: {place}: {error.strerror}; make room and run again"
            ) from None

    def json(self, name: str, value: object) -> None:
        """Write one JSON file, for people too: sorted keys, indented."""
        plain = msgspec.to_builtins(value)
        self.text(name, json.dumps(plain, indent=1, sort_keys=True, allow_nan=False) + "\n")

    def manifest(self, value: Mapping[str, JsonValue]) -> None:
        """Write the manifest."""
        self.json("manifest.json", {"schema_version": MANIFEST_VERSION, **value})
