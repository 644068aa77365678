"""The archived run of a rollout: fetched once, sealed, and read without trust.

Exactly one run has to be there: a second run folder, or none, is no archive at all.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from daydream_review_v1.shell import Shell

MEMBERS: Final = (
    "manifest.json",
    "trajectory.json",
    "review-output.md",
    "recommended.patch",
    "deep/review-output.md",
    "deep/recommendation-verdicts.json",
    "deep/merged-items.json",
    "deep/test-verdict.json",
    "deep/fix-failures.json",
)
PATTERNS: Final = ("deep/stack-*-records.json", "trajectories/*.json")
MAX_BYTES: Final = 64 << 20
LIST: Final = 'cd "$1/runs" && find . -mindepth 1 -maxdepth 1 | head -n 3'
FETCH: Final = (
    'cd "$1" && for f in {members} {patterns}; do '
    '[ -f "$f" ] && [ ! -L "$f" ] && printf "%s\\n" "$f"; done; exit 0'
)


async def fetch(shell: Shell, root: str) -> dict[str, bytes]:
    """Return the files of the one run below ``root``; nothing when there is not exactly one."""
    listed = await shell.run("sh", "-c", LIST, "sh", root)
    names = listed.out.split() if listed.code == 0 else []
    if len(names) != 1:
        return {}
    place = f"{root}/runs/{names[0].removeprefix('./')}"
    script = FETCH.format(members=" ".join(MEMBERS), patterns=" ".join(PATTERNS))
    found = await shell.run("sh", "-c", script, "sh", place)
    files: dict[str, bytes] = {}
    room = MAX_BYTES
    for name in found.out.splitlines():
        encoded = await shell.run(
            "sh", "-c", f'head -c {room + 1} "$1" | base64 -w0', "sh", f"{place}/{name}"
        )
        data = base64.b64decode(encoded.out) if encoded.code == 0 else b""
        room -= len(data)
        if room < 0:
            return {}
        files[name] = data
    return files


def keep(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a run into ``folder``."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def seal(files: Mapping[str, bytes], diff: bytes) -> dict[str, Any]:
    """Return the digests of what rewards are made of."""
    return {
        "algorithm": "sha256",
        "artifact_digests": {name: _digest(data) for name, data in sorted(files.items())},
        "candidate_diff_digest": _digest(diff),
    }


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Run(msgspec.Struct, frozen=True):
    """A kept run whose seal holds."""

    folder: Path
    problem: str = ""
    """Why there is nothing to score; empty when there is."""

    @classmethod
    def read(cls, kept: str, info: Mapping[str, Any]) -> "Run":
        """Return the run kept in folder ``kept``, checked against the seal in ``info``."""
        folder = Path(kept or "/nonexistent")
        sealed = info.get("seal", {}).get("artifact_digests", {})
        if not kept or not sealed:
            return cls(folder, "no archived run dir")
        present = {
            path.relative_to(folder).as_posix(): _digest(path.read_bytes())
            for path in folder.rglob("*")
            if path.is_file()
        }
        if present != sealed:
            return cls(folder, "the kept run differs from its seal")
        return cls(folder)

    def json(self, name: str) -> Any:
        """Return the JSON of a member; None when it is missing or no JSON."""
        try:
            return json.loads((self.folder / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None

    def rows(self, name: str, key: str) -> list[dict[str, Any]]:
        """Return the objects in list ``key`` of a member; what has another form is left out."""
        value = self.json(name)
        rows = value.get(key) if isinstance(value, dict) else None
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
