"""Laws of the run folder: prefixes stay valid, and what went in comes out as it was."""

import tempfile
import tomllib
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from daydream.canonical import JsonObject, content_hash
from daydream.store.blobs import BlobStore
from daydream.store.events import (
    AnyEvent,
    AttemptFinished,
    Measured,
    RunStarted,
    Stopped,
    Usage,
    UsageSpent,
)
from daydream.store.journal import Journal, read_journal
from daydream.store.run_folder import RunFolder, read_tree, tree_bytes
from daydream.store.state import fold
from daydream.store.toml_text import toml_text
from daydream.tasks.base import Artifact
from daydream.testing.strategies import trees
from daydream.tree import Status, Tree
from tests.unit.store.samples import clock, run_events, started

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | NUMBERS | TEXTS
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
USAGES = st.builds(
    Usage,
    requests=st.integers(0, 9),
    input_tokens=st.integers(0, 10**9),
    cost_usd=st.none() | st.floats(0, 100),
)


def attempts(batch: int) -> st.SearchStrategy[AttemptFinished]:
    return st.builds(
        AttemptFinished,
        round=st.just(1),
        batch=st.just(batch),
        slot=st.just(0),
        node=st.just(batch),
        parent=st.just(0),
        branch=st.just(0),
        depth=st.just(1),
        status=st.sampled_from(Status),
        score=NUMBERS,
        error_class=st.none() | TEXTS,
        message=TEXTS,
        diagnostics=OBJECTS,
        feedback=TEXTS,
        artifact=st.none() | st.sampled_from(["a" * 64, "b" * 64]),
        rationale=TEXTS,
        notes=OBJECTS,
        reused=st.booleans(),
        usage=USAGES,
        measured=st.builds(Measured, wall_s=st.floats(0, 1e6), layers=st.just(("process",))),
    )


@st.composite
def journals(draw: st.DrawFn) -> list[AnyEvent]:
    events: list[AnyEvent] = run_events(0)
    for batch in range(1, draw(st.integers(0, 4)) + 1):
        events.append(draw(attempts(batch)))
        if draw(st.booleans()):
            usage = draw(USAGES)
            events.append(UsageSpent(round=1, purpose=draw(TEXTS), usage=usage))
    return events


def written(path: Path, events: list[AnyEvent]) -> bytes:
    journal = Journal(path, clock=clock, good_bytes=0)
    for event in events:
        journal.append(event, durable=False)
    journal.close()
    return path.read_bytes()


def plain(events: tuple[AnyEvent, ...]) -> list[AnyEvent]:
    return [msgspec.structs.replace(event, at="") for event in events]


def test_every_byte_prefix_of_a_journal_is_a_journal(tmp_path: Path) -> None:
    events = run_events(2)
    path = tmp_path / "journal.jsonl"
    whole = written(path, events)
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        reading = read_journal(path)
        lines = whole[:cut].count(b"\n")
        assert plain(reading.events) == events[:lines]
        assert reading.good_bytes == whole[:cut].rfind(b"\n") + 1
        assert (reading.torn is None) == (reading.good_bytes == cut)


@given(journals(), st.data())
def test_any_journal_cut_anywhere_and_filled_with_zeros_reads_as_its_prefix_and_goes_on(
    events: list[AnyEvent], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        whole = written(path, events)
        assert plain(read_journal(path).events) == events
        cut = data.draw(st.integers(0, len(whole)))
        tail = data.draw(st.sampled_from([b"", b"\0", b"\0" * 5000, b'{"event":"sto']))
        path.write_bytes(whole[:cut] + tail)
        reading = read_journal(path)
        kept = events[: whole[:cut].count(b"\n")]
        assert plain(reading.events) == kept
        journal = Journal(path, clock=clock, good_bytes=reading.good_bytes)
        journal.append(Stopped(reason="the cut"))
        journal.close()
        again = read_journal(path)
        assert plain(again.events) == [*kept, Stopped(reason="the cut")]
        assert again.torn is None
        assert again.good_bytes == path.stat().st_size


@given(journals())
def test_the_state_of_a_prefix_counts_what_the_prefix_holds(events: list[AnyEvent]) -> None:
    for size in range(len(events) + 1):
        state = fold(events[:size])
        done = [event for event in events[:size] if isinstance(event, AttemptFinished)]
        assert state.calls == len(done)
        spent = [event.usage for event in events[:size] if isinstance(event, UsageSpent)]
        tokens = sum(usage.input_tokens for usage in [*spent, *(event.usage for event in done)])
        assert state.usage.input_tokens == tokens
        assert state.lost == 0
        good = [event.score for event in done if event.status is Status.OK]
        assert (None if state.best is None else state.best.score) == max(good, default=None)


PARTS = st.text(st.sampled_from("abü .-_0"), min_size=1, max_size=6).filter(
    lambda part: part not in {".", ".."}
)
FILES = st.dictionaries(PARTS | st.tuples(PARTS).map("/".join), st.binary(max_size=200), max_size=5)


@given(st.lists(FILES, min_size=1, max_size=3))
def test_artifacts_come_back_byte_for_byte_under_their_own_hash(
    artifacts: list[dict[str, bytes]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = BlobStore(Path(folder))
        hashes = [store.put(files) for files in artifacts]
        for files, digest in zip(artifacts, hashes, strict=True):
            assert digest == Artifact(files).hash
            assert store.get(digest) == files
        assert len(set(hashes)) == len({tuple(sorted(files.items())) for files in artifacts})


@given(trees())
def test_a_tree_file_holds_the_tree_and_equal_trees_have_equal_files(tree: Tree) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with RunFolder.create(Path(folder) / "run", {}, clock=clock) as run:
            digest = run.write_tree(tree)
            [found] = run.trees()
        path = Path(folder) / "run" / "history" / f"{tree.round:03d}.json"
        assert read_tree(path) == found == tree
        assert tree_bytes(found) == path.read_bytes()
        assert content_hash(tree_bytes(tree)) == digest


TOML_LEAVES = st.booleans() | st.integers(-(2**63), 2**63 - 1) | NUMBERS | TEXTS
TOML = st.dictionaries(
    TEXTS,
    st.recursive(
        TOML_LEAVES,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    ),
    max_size=5,
)


@given(TOML)
def test_the_standard_reader_gets_back_every_configuration(values: JsonObject) -> None:
    assert tomllib.loads(toml_text(values)) == values


@given(OBJECTS)
def test_a_configuration_in_the_journal_comes_back_equal(config: dict[str, object]) -> None:
    event = msgspec.structs.replace(started(), config=config)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        written(path, [event])
        [found] = read_journal(path).events
    assert isinstance(found, RunStarted)
    assert found.config == config
