"""What every store of events must keep, as checks that a plug-in author runs on his own.

Each check takes a :class:`StoreUnderTest` and an empty folder and raises ``AssertionError`` saying
which promise is broken. The stores at the end break one promise each; a suite that lets one of
them pass checks nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import msgspec

from daydream.errors import StoreError
from daydream.store.events import AnyEvent, AttemptFinished, RoundStarted, RunStarted, Stopped
from daydream.store.run_folder import RunFolder
from daydream.tree import Status


class EventStore(Protocol):
    """The writing side of a store of events."""

    def append(self, event: AnyEvent) -> None:
        """Keep ``event``; kept means that a reader sees it when this returns."""
        ...

    def close(self) -> None:
        """Let the next writer in."""
        ...


class StoreUnderTest(msgspec.Struct, frozen=True):
    """How to write to a store and how to read it; both take its folder, which may be empty."""

    write: Callable[[Path], EventStore]
    read: Callable[[Path], Sequence[AnyEvent]]


def sample_events(count: int) -> list[AnyEvent]:
    """Return a run of ``count`` finished attempts: two records before them, one behind."""
    attempts = [
        AttemptFinished(
            round=1,
            batch=number + 1,
            slot=0,
            node=number + 1,
            parent=0,
            branch=number,
            depth=1,
            status=Status.OK,
            score=number / 7,
            rationale="two\nlines, „quotes“ and a \x00",
        )
        for number in range(count)
    ]
    return [
        RunStarted(task="contract", evaluator="e1", seed=1, config={"limit": 8}),
        RoundStarted(round=1, policy="p", spec={"kind": "p"}, limit=8, seed=1, evaluator="e1"),
        *attempts,
        Stopped(reason="the contract is over"),
    ]


def check_keeps_what_append_returned_for(store: StoreUnderTest, folder: Path) -> None:
    """A reader sees every record while the writer is still open, so a crash loses none of them."""
    writer = store.write(folder)
    for number, event in enumerate(sample_events(5), start=1):
        writer.append(event)
        found = len(store.read(folder))
        _require(found == number, f"{found} records are readable after {number} appends")
    writer.close()


def check_keeps_order_and_content(store: StoreUnderTest, folder: Path) -> None:
    """Records come back equal and in the order in which they were appended."""
    events = sample_events(20)
    writer = store.write(folder)
    for event in events:
        writer.append(event)
    writer.close()
    found = [msgspec.structs.replace(event, at="") for event in store.read(folder)]
    _require(len(found) == len(events), f"{len(found)} of {len(events)} records came back")
    wrong = [number for number, event in enumerate(events) if found[number] != event]
    _require(not wrong, f"records {wrong[:5]} came back changed or elsewhere")


def check_continues_after_reopening(store: StoreUnderTest, folder: Path) -> None:
    """A second writer, after the first has closed, appends behind what is there."""
    events = sample_events(6)
    for part in (events[:4], events[4:]):
        writer = store.write(folder)
        for event in part:
            writer.append(event)
        writer.close()
    found = [msgspec.structs.replace(event, at="") for event in store.read(folder)]
    _require(found == events, f"{len(found)} records after reopening, expected {len(events)} equal")


def check_refuses_a_second_writer(store: StoreUnderTest, folder: Path) -> None:
    """While one writer is open another is refused with a :class:`StoreError`, and loses nothing."""
    writer = store.write(folder)
    writer.append(sample_events(1)[0])
    try:
        second = store.write(folder)
    except StoreError:
        second = None
    if second is not None:
        second.close()
    _require(second is None, "a second writer was let in")
    writer.append(sample_events(1)[1])
    writer.close()
    _require(len(store.read(folder)) == 2, "the refused writer changed the record")


Check: TypeAlias = Callable[[StoreUnderTest, Path], None]

CHECKS: Final[tuple[Check, ...]] = (
    check_keeps_what_append_returned_for,
    check_keeps_order_and_content,
    check_continues_after_reopening,
    check_refuses_a_second_writer,
)


def _require(kept: bool, problem: str) -> None:
    if not kept:
        raise AssertionError(f"{problem} (expected the promise in the check's docstring)")


def _midnight() -> float:
    return 0.0


class FolderStore:
    """The run folder, as the checks see it."""

    def __init__(self, folder: Path) -> None:
        if (folder / "journal.jsonl").exists():
            self.run = RunFolder.open(folder, clock=_midnight)
        else:
            self.run = RunFolder.create(folder, {}, clock=_midnight)

    def append(self, event: AnyEvent) -> None:
        """Append to the journal."""
        self.run.journal.append(event)

    def close(self) -> None:
        """Close the folder."""
        self.run.close()


def read_folder(folder: Path) -> Sequence[AnyEvent]:
    """Return the events of a run folder."""
    return RunFolder.open(folder).events()


class LosesTheTail(FolderStore):
    """Keeps the last record in memory until the next one comes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._held: AnyEvent | None = None

    def append(self, event: AnyEvent) -> None:
        """Append the record before."""
        if self._held is not None:
            super().append(self._held)
        self._held = event


class Reorders(FolderStore):
    """Writes its records in pairs, the later one first."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._held: AnyEvent | None = None

    def append(self, event: AnyEvent) -> None:
        """Append two records at a time, swapped."""
        if self._held is None:
            self._held = event
            return
        super().append(event)
        super().append(self._held)
        self._held = None

    def close(self) -> None:
        """Append what is left over."""
        if self._held is not None:
            super().append(self._held)
        super().close()


class StartsAgain(FolderStore):
    """Empties the journal of an earlier writer."""

    def __init__(self, folder: Path) -> None:
        journal = folder / "journal.jsonl"
        if journal.exists():
            journal.write_bytes(b"")
        super().__init__(folder)


class AcceptsASecondWriter(FolderStore):
    """Removes the lock of whoever holds it."""

    def __init__(self, folder: Path) -> None:
        (folder / "lock").unlink(missing_ok=True)
        super().__init__(folder)


RUN_FOLDER: Final = StoreUnderTest(FolderStore, read_folder)
KNOWN_BAD: Final[Mapping[Check, StoreUnderTest]] = {
    check_keeps_what_append_returned_for: StoreUnderTest(LosesTheTail, read_folder),
    check_keeps_order_and_content: StoreUnderTest(Reorders, read_folder),
    check_continues_after_reopening: StoreUnderTest(StartsAgain, read_folder),
    check_refuses_a_second_writer: StoreUnderTest(AcceptsASecondWriter, read_folder),
}
"""A check -> a store that only looks right and must fail it."""
