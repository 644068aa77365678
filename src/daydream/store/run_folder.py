"""A run is one folder that people can list, tail and copy; this is its one reader and writer.

    journal.jsonl     the truth: see :mod:`daydream.store.journal`
    blobs/            artifacts by content: see :mod:`daydream.store.blobs`
    history/NNN.json  one finished tree a round, from 001
    policies/         every policy version as a file NNN-name, and ``deployed``, which names one
    dreams/NNN-ID/    what a model proposed after round NNN, with its scores; only where one did
    summary.json      per round what ran, what was selected and what it cost
    run.toml          the resolved configuration
    best/             the best artifact and its diff against the root
    replies.sqlite    answers of models that were paid for, by their question; only where any were
    lock              whom the run belongs to while it is written

Everything but the journal and the blobs can be rebuilt from them. The order of writes that keeps
every prefix usable: an artifact before the record that names it, a tree before its record.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import msgspec

from daydream.canonical import JsonObject, content_hash, dumps
from daydream.errors import StoreError, TreeError
from daydream.store.best import repair_best, write_best
from daydream.store.blobs import BlobStore
from daydream.store.events import AnyEvent, RoundStarted, TreeFinished
from daydream.store.files import disk_errors, replace_file, sync_folder
from daydream.store.journal import Clock, Journal, JournalReading, read_journal
from daydream.store.lock import RunLock
from daydream.store.state import RunState, fold
from daydream.store.toml_text import toml_text
from daydream.tree import Tree, check_tree

JOURNAL = "journal.jsonl"
REPLIES = "replies.sqlite"
SUMMARY_VERSION = 1
FOLDERS = ("blobs", "history", "policies")
OWN_NAMES = frozenset({"lock", "run.toml", ".run.toml.tmp", JOURNAL, *FOLDERS})
"""What a run folder may hold before its first event."""

EMPTY = JournalReading((), None, 0)
"""The reading of a journal that holds nothing yet."""

_TREE = msgspec.json.Decoder(Tree)
_POLICY = re.compile(r"\d{3,}-.+\.(?:json|py)", re.ASCII)
_OBJECT = msgspec.json.Decoder(dict[str, object])


class FaultKept(msgspec.Struct, frozen=True):
    """Why a version was disqualified."""

    world: int
    batch: int
    reason: str


class ScoresKept(msgspec.Struct, frozen=True):
    """What became of a version, as far as it was found out."""

    policy: str = ""
    mean: float | None = None
    attempts: int | None = None
    disqualified: FaultKept | None = None
    problem: str = ""


class VersionKept(msgspec.Struct, frozen=True):
    """What a model proposed, as ``dreams/`` keeps it."""

    dream: str
    """Round and identity of the dream, such as ``001-c7d9cc35``."""
    number: int
    file: str | None
    """The policy in the run folder; None where the answer held none."""
    scores: ScoresKept


_SCORES = msgspec.json.Decoder(ScoresKept)


class RunFolder:
    """One open run folder; a context manager. Make one with :meth:`create` or :meth:`open`.

    Opened for writing it holds the run's lock. Methods raise :class:`StoreError` and say which file
    failed and what to do; a failed write leaves what was there before.
    """

    def __init__(
        self, path: Path, reading: JournalReading, lock: RunLock | None, journal: Journal | None
    ) -> None:
        self.path = path
        self.reading = reading
        """What the journal held when the folder was opened; ``reading.torn`` says what was cut."""
        self._lock = lock
        self._journal = journal
        self._blobs = BlobStore(path / "blobs")

    @classmethod
    def create(cls, path: Path, config: JsonObject, *, clock: Clock) -> "RunFolder":
        """Make the run folder ``path`` with ``config`` as ``run.toml`` and open it for writing.

        A folder that a killed ``create`` left is completed. Raises :class:`StoreError` when
        ``path`` holds anything else, or cannot be made.
        """
        with disk_errors("make", path):
            _refuse_used(path)
            path.mkdir(parents=True, exist_ok=True)
            sync_folder(path.parent)
        lock = RunLock(path / "lock")
        try:
            with disk_errors("make", path):
                # Again under the lock: another process may have been quicker.
                _refuse_used(path)
                for name in FOLDERS:
                    (path / name).mkdir(exist_ok=True)
                replace_file(path / "run.toml", toml_text(config).encode("utf-8"))
            writer = Journal(path / JOURNAL, clock=clock, good_bytes=0)
        except BaseException:
            lock.release()
            raise
        return cls(path, JournalReading((), None, 0), lock, writer)

    @classmethod
    def open(cls, path: Path, *, clock: Clock | None = None) -> "RunFolder":
        """Open the run folder ``path``: to read, or with a ``clock`` to write as well.

        Writing takes the lock and removes a torn tail of the journal. Raises :class:`StoreError`
        when it is no run folder, another process writes it, or its journal is damaged.
        """
        journal = path / JOURNAL
        # A kill may come after the configuration and before the first record: an empty run.
        unbegun = not journal.exists() and (path / "run.toml").is_file()
        if not (journal.is_file() or unbegun):
            raise StoreError(
                f"{path} is no run folder: it has no {JOURNAL} (expected one that `daydream run` "
                "made); name another folder, or start the run again"
            )
        if clock is None:
            return cls(path, EMPTY if unbegun else read_journal(journal), None, None)
        lock = RunLock(path / "lock")
        try:
            reading = EMPTY if unbegun else read_journal(journal)
            repair_best(path)
            writer = Journal(journal, clock=clock, good_bytes=reading.good_bytes)
        except BaseException:
            lock.release()
            raise
        return cls(path, reading, lock, writer)

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the journal and give the lock back; safe to call twice."""
        try:
            if self._journal is not None:
                self._journal.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    @property
    def journal(self) -> Journal:
        """The journal to append to. Raises :class:`StoreError` when the folder is open to read."""
        if self._journal is None:
            raise StoreError(
                f"run folder {self.path} is open for reading (expected for writing); open it with "
                "a clock"
            )
        return self._journal

    def events(self) -> tuple[AnyEvent, ...]:
        """Return every event of the journal as it is now."""
        journal = self.path / JOURNAL
        with disk_errors("read", journal):
            size = journal.stat().st_size if journal.exists() else 0
            unchanged = size == self.reading.good_bytes
        return self.reading.events if unchanged else read_journal(journal).events

    def state(self) -> RunState:
        """Return the state of the run as the journal tells it now."""
        return fold(self.events())

    def put_artifact(self, files: Mapping[str, bytes]) -> str:
        """Store an artifact durably and return its hash, that of ``Artifact.hash``."""
        self._check_writing()
        return self._blobs.put(files)

    def get_artifact(self, artifact: str) -> dict[str, bytes]:
        """Return the files of the artifact with this hash, every byte checked."""
        return self._blobs.get(artifact)

    def has_artifact(self, artifact: str) -> bool:
        """Return whether an artifact with this hash is stored."""
        return self._blobs.has(artifact)

    def write_tree(self, tree: Tree) -> str:
        """Write ``tree`` as ``history/NNN.json`` and return the content hash of the file.

        Writing the same tree again changes nothing; raises :class:`StoreError` when the round has
        another tree, for a finished tree never changes.
        """
        path = self.path / "history" / f"{tree.round:03d}.json"
        data = tree_bytes(check_tree(tree))
        if path.exists():
            if _read(path) != data:
                raise StoreError(
                    f"{path} holds another tree of round {tree.round} (expected none, or the "
                    "same); a finished tree never changes: move the file away if it is damaged"
                )
        else:
            self._replace(path, data)
        return content_hash(data)

    def trees(self) -> tuple[Tree, ...]:
        """Return the finished trees in order of their rounds.

        A file of a round that the journal started and did not finish was written just before a
        crash; it is left out, and written again when the rollout ends. Raises :class:`StoreError`
        naming the file that is no tree, holds another round, or is not as the journal knows it.
        """
        started: set[int] = set()
        hashes: dict[int, str] = {}
        for event in self.events():
            if isinstance(event, RoundStarted):
                started.add(event.round)
            elif isinstance(event, TreeFinished):
                hashes[event.round] = event.tree
        found: list[Tree] = []
        for path in (self.path / "history").glob("[0-9]*.json"):
            tree, digest = _read_tree(path)
            if path.stem != f"{tree.round:03d}":
                raise StoreError(
                    f"{path} holds round {tree.round} (expected the round in its name); restore it "
                    "from a copy"
                )
            if tree.round in started and tree.round not in hashes:
                continue
            if hashes.get(tree.round, digest) != digest:
                raise StoreError(
                    f"{path} was changed since the run wrote it (expected content with the hash "
                    f"{hashes[tree.round]}); restore it from a copy"
                )
            found.append(tree)
        missing = sorted(set(hashes) - {tree.round for tree in found})
        if missing:
            raise StoreError(
                f"{self.path / 'history'} has no tree of round {missing[0]} (expected one for "
                "every finished round); restore the file from a copy"
            )
        return tuple(sorted(found, key=lambda tree: tree.round))

    def write_policy(self, name: str, body: JsonObject | str, *, deploy: bool = True) -> str:
        """Keep a policy version in ``policies/`` and return its file name.

        ``deploy`` makes it the current one.

        ``body`` is a spec (kept as ``NNN-name.json``) or Python source (``NNN-name.py``). The same
        name and content again is the same version.
        """
        ending = "py" if isinstance(body, str) else "json"
        data = body.encode("utf-8") if isinstance(body, str) else dumps(body) + b"\n"
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:100].strip(".-") or "policy"
        folder = self.path / "policies"
        number = 1
        for path in self._policy_files():
            version, _, rest = path.name.partition("-")
            if rest == f"{slug}.{ending}" and _read(path) == data:
                break
            number = int(version) + 1
        else:
            path = folder / f"{number:03d}-{slug}.{ending}"
            self._replace(path, data)
        if deploy:
            self._replace(folder / "deployed", f"{path.name}\n".encode())
        return path.name

    def write_revision(self, dream: str, name: str, body: JsonObject | str) -> None:
        """Keep one file of what a model proposed in ``dreams/DREAM/NAME``."""
        data = body.encode("utf-8") if isinstance(body, str) else dumps(body) + b"\n"
        self._replace(self.path / "dreams" / dream / name, data)

    def versions(self) -> list[VersionKept]:
        """Return what models proposed in this run's dreams, by round and number."""
        found: list[VersionKept] = []
        for path in (self.path / "dreams").glob("*/version-*.answer.md"):
            name = path.name.removesuffix(".answer.md")
            number = name.removeprefix("version-")
            if not number.isdecimal():
                continue
            scores, body = path.with_name(f"{name}.scores.json"), ScoresKept()
            if scores.exists():
                try:
                    body = _SCORES.decode(_read(scores))
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    raise _malformed(scores, error, "scores of a version") from None
            files = [path.with_name(f"{name}.{ending}") for ending in ("py", "json")]
            named = [f"dreams/{path.parent.name}/{one.name}" for one in files if one.exists()]
            found.append(
                VersionKept(path.parent.name, int(number), named[0] if named else None, body)
            )
        return sorted(found, key=lambda one: (one.dream, one.number))

    def policies(self) -> tuple[str, ...]:
        """Return the file names of the policy versions, oldest first."""
        return tuple(path.name for path in self._policy_files())

    def deployed(self) -> Path | None:
        """Return the file of the deployed policy, or None before the first deployment."""
        pointer = self.path / "policies" / "deployed"
        if not pointer.exists():
            return None
        name = _read(pointer).decode("utf-8", "replace").strip()
        if name not in self.policies():
            raise StoreError(
                f"{pointer} names {name!r} (expected one of {', '.join(self.policies())}); write "
                "the name of a file of that folder into it"
            )
        return self.path / "policies" / name

    def write_summary(self, summary: JsonObject) -> None:
        """Replace ``summary.json``; ``schema_version`` is added."""
        data = dumps({"schema_version": SUMMARY_VERSION, **summary}) + b"\n"
        self._replace(self.path / "summary.json", data)

    def summary(self) -> dict[str, object] | None:
        """Return ``summary.json``, or None before it is written."""
        path = self.path / "summary.json"
        if not path.exists():
            return None
        try:
            return _OBJECT.decode(_read(path))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _malformed(path, error, "a summary") from None

    def write_config(self, config: JsonObject) -> None:
        """Replace ``run.toml``, when a value is settled during the run (the score scale)."""
        self._replace(self.path / "run.toml", toml_text(config).encode("utf-8"))

    def config(self) -> dict[str, object]:
        """Return the resolved configuration of ``run.toml``."""
        path = self.path / "run.toml"
        try:
            return tomllib.loads(_read(path).decode("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise _malformed(path, error, "a configuration in TOML") from None

    def write_best(self, files: Mapping[str, bytes], root: Mapping[str, bytes]) -> Path:
        """Make ``best/`` hold ``files`` and ``diff.patch`` against ``root``; return the folder."""
        self._check_writing()
        return write_best(self.path, files, root)

    def _policy_files(self) -> list[Path]:
        folder = self.path / "policies"
        files = [path for path in folder.glob("*") if _POLICY.fullmatch(path.name)]
        return sorted(files, key=lambda path: int(path.name.partition("-")[0]))

    def _check_writing(self) -> None:
        _ = self.journal

    def _replace(self, path: Path, data: bytes) -> None:
        self._check_writing()
        with disk_errors("write", path, self.path):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, data)


def _refuse_used(path: Path) -> None:
    """Raise :class:`StoreError` when folder ``path`` exists and holds what a new run may not."""
    if not path.exists():
        return
    journal = path / JOURNAL
    if journal.exists() and journal.stat().st_size > 0:
        raise StoreError(
            f"run folder {path} already holds a run (expected a new folder); choose another --out, "
            f"or continue it with: daydream resume {path}"
        )
    strange = sorted(entry.name for entry in path.iterdir() if entry.name not in OWN_NAMES)
    if strange:
        raise StoreError(
            f"run folder {path} already holds {', '.join(strange[:3])} (expected a new or empty "
            "folder); choose another --out"
        )


def tree_bytes(tree: Tree) -> bytes:
    """Return the bytes of a tree file: canonical JSON with a newline, equal for equal trees."""
    document = msgspec.to_builtins(tree)
    document.update(schema_version=tree.schema_version, eligibility=tree.eligibility)
    return dumps(document) + b"\n"


def read_tree(path: Path) -> Tree:
    """Return the tree in file ``path``.

    Raises :class:`StoreError` when the file cannot be read, is no tree, or breaks an invariant.
    """
    return _read_tree(path)[0]


def _read_tree(path: Path) -> tuple[Tree, str]:
    data = _read(path)
    try:
        return check_tree(_TREE.decode(data)), content_hash(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, TreeError) as error:
        raise _malformed(path, error, "a tree") from None


def _read(path: Path) -> bytes:
    with disk_errors("read", path):
        return path.read_bytes()


def _malformed(path: Path, error: Exception, expected: str) -> StoreError:
    return StoreError(f"{path}: {error} (expected {expected}); restore it from a copy")
