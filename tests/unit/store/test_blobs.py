"""Artifacts by content: one copy, every byte checked, names that stay inside."""

import gzip
from pathlib import Path

import pytest

from daydream.canonical import listing_hash
from daydream.errors import StoreError
from daydream.store.blobs import MAX_BLOB_BYTES, BlobStore
from daydream.tasks.base import Artifact

FILES = {"program.py": b"x = 1\n", "data/points.bin": bytes(range(256)), "empty": b""}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "blobs"
    folder.mkdir()
    return folder


def blob_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_an_artifact_comes_back_under_the_hash_that_tasks_give_it(folder: Path) -> None:
    store = BlobStore(folder)
    digest = store.put(FILES)
    assert digest == Artifact(FILES).hash
    assert store.get(digest) == FILES
    assert store.has(digest)
    assert not store.has("0" * 64)


def test_an_artifact_without_files_is_an_artifact(folder: Path) -> None:
    store = BlobStore(folder)
    assert store.put({}) == Artifact({}).hash == listing_hash({})
    assert store.get(store.put({})) == {}


def test_equal_content_is_stored_once_and_in_equal_bytes(folder: Path, tmp_path: Path) -> None:
    store = BlobStore(folder)
    store.put({"a": b"same", "b": b"same"})
    store.put({"c": b"same"})
    assert len(blob_files(folder)) == 3, "one content, two manifests"
    again = tmp_path / "again" / "blobs"
    again.mkdir(parents=True)
    BlobStore(again).put({"c": b"same"})
    for path in blob_files(again):
        assert path.read_bytes()[4:8] == bytes(4), "gzip would put the time here"
        assert path.read_bytes() == (folder / path.relative_to(again)).read_bytes()


def test_blobs_can_be_read_with_ordinary_tools(folder: Path) -> None:
    digest = BlobStore(folder).put({"a": b"hello"})
    manifest = gzip.decompress((folder / digest[:2] / f"{digest}.json.gz").read_bytes())
    hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert manifest == f'{{"a":"{hello}"}}'.encode()
    assert gzip.decompress((folder / hello[:2] / f"{hello}.gz").read_bytes()) == b"hello"


@pytest.mark.parametrize("damage", ["cut", "flipped", "other content", "removed", "followed"])
def test_a_damaged_blob_is_named_and_never_returned(folder: Path, damage: str) -> None:
    store = BlobStore(folder)
    digest = store.put({"a": b"hello " * 100})
    for path in blob_files(folder):
        whole = path.read_bytes()
        if damage == "cut":
            path.write_bytes(whole[:-5])
        elif damage == "flipped":
            path.write_bytes(whole[:15] + bytes([whole[15] ^ 1]) + whole[16:])
        elif damage == "other content":
            path.write_bytes(gzip.compress(b'{"a":"b"}'))
        elif damage == "removed":
            path.unlink()
        else:
            path.write_bytes(whole + b"x")
        with pytest.raises(StoreError, match=f"blob {path} is damaged"):
            store.get(digest)
        path.write_bytes(whole)
    assert store.get(digest)["a"].startswith(b"hello")


def test_a_small_blob_cannot_unpack_into_a_large_one(folder: Path) -> None:
    store = BlobStore(folder)
    digest = store.put({"a": b"x"})
    [file] = [path for path in blob_files(folder) if not path.name.endswith(".json.gz")]
    file.write_bytes(gzip.compress(bytes(MAX_BLOB_BYTES + 2)))
    with pytest.raises(StoreError, match="too large"):
        store.get(digest)


@pytest.mark.parametrize(
    "name",
    ["", ".", "/etc/passwd", "../up", "a/../b", "a//b", "./a", "a\\b", "a\nb", "a\0", "x" * 300],
)
def test_a_name_that_could_leave_the_folder_or_forge_a_listing_is_refused(
    folder: Path, name: str
) -> None:
    with pytest.raises(StoreError, match="artifact file"):
        BlobStore(folder).put({name: b""})
    assert blob_files(folder) == []


def test_a_file_may_not_stand_where_another_needs_a_folder(folder: Path) -> None:
    with pytest.raises(StoreError, match="lies below 'a', which is a file"):
        BlobStore(folder).put({"a": b"", "a/b": b""})


def test_a_file_above_the_limit_is_refused(folder: Path) -> None:
    with pytest.raises(StoreError, match=r"'big' has \d+ bytes"):
        BlobStore(folder).put({"big": bytes(MAX_BLOB_BYTES + 1)})


def test_what_is_no_hash_never_becomes_a_path(folder: Path) -> None:
    for wrong in ("../../etc", "ab", "g" * 64, "A" * 64):
        with pytest.raises(StoreError, match="no content hash"):
            BlobStore(folder).get(wrong)
