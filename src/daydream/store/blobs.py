"""Artifacts by content: files as gzip blobs under their SHA-256, and one manifest an artifact.

``blobs/ab/<sha256>.gz`` holds one file, ``blobs/ab/<artifact hash>.json.gz`` the manifest, which is
canonical JSON of path -> SHA-256 (``ab`` are the first two digits). Equal content is stored once.
Every read checks the hash. What a put returned is durable.
"""

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from daydream.canonical import content_hash, dumps, listing_hash
from daydream.errors import StoreError
from daydream.store.files import check_names, disk_errors, replace_file, sync_folder

MAX_BLOB_BYTES = 64 << 20
"""Largest file, decompressed."""
LEVEL = 6

_MANIFEST = msgspec.json.Decoder(dict[str, str])


class BlobStore:
    """The blobs of one run folder. One process writes; any number reads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, files: Mapping[str, bytes]) -> str:
        """Store the artifact ``files`` (relative path -> content) and return its hash.

        Raises :class:`StoreError` for unsafe names, files above ``MAX_BLOB_BYTES``, or a disk that
        refuses; blobs stored before the failure stay and are harmless.
        """
        check_names(files)
        manifest = {name: content_hash(data) for name, data in files.items()}
        artifact = listing_hash(manifest)
        target = self._path(artifact, ".json.gz")
        if target.exists():
            return artifact
        for name, data in files.items():
            if len(data) > MAX_BLOB_BYTES:
                raise StoreError(
                    f"artifact file {name!r} has {len(data)} bytes (expected at most "
                    f"{MAX_BLOB_BYTES}); have the agent keep large data outside the artifact"
                )
            blob = self._path(manifest[name], ".gz")
            if not blob.exists():
                self._write(blob, data)
        # Last, so that a manifest never names a blob that is not there.
        self._write(target, dumps(manifest))
        return artifact

    def get(self, artifact: str) -> dict[str, bytes]:
        """Return the files of ``artifact``.

        Raises :class:`StoreError` naming the blob when one is missing or damaged.
        """
        path = self._path(artifact, ".json.gz")
        text = self._read(path)
        try:
            manifest = _MANIFEST.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise _damaged(path, "it holds no manifest") from None
        if listing_hash(manifest) != artifact:
            raise _damaged(path, "its content has another hash")
        check_names(manifest)
        files: dict[str, bytes] = {}
        for name, digest in manifest.items():
            blob = self._path(digest, ".gz")
            data = self._read(blob)
            if content_hash(data) != digest:
                raise _damaged(blob, "its content has another hash")
            files[name] = data
        return files

    def has(self, artifact: str) -> bool:
        """Return whether the manifest of ``artifact`` is stored."""
        return self._path(artifact, ".json.gz").exists()

    def _path(self, digest: str, ending: str) -> Path:
        if len(digest) != 64 or digest.strip("0123456789abcdef"):
            raise StoreError(
                f"{digest!r} is no content hash (expected 64 lower-case hexadecimal digits); "
                "take it from the journal or from history/"
            )
        return self._folder / digest[:2] / f"{digest}{ending}"

    def _write(self, path: Path, data: bytes) -> None:
        with disk_errors("write", path, self._folder.parent):
            if not path.parent.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                sync_folder(self._folder)
            replace_file(path, gzip.compress(data, LEVEL, mtime=0))

    def _read(self, path: Path) -> bytes:
        try:
            with disk_errors("read", path):
                packed = path.read_bytes()
        except StoreError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise _damaged(path, "it is missing") from None
            raise
        unpacker = zlib.decompressobj(wbits=31)
        try:
            data = unpacker.decompress(packed, MAX_BLOB_BYTES + 1)
        except zlib.error:
            raise _damaged(path, "it cannot be unpacked") from None
        if not unpacker.eof or unpacker.unused_data:
            raise _damaged(path, "it is cut off, too large or followed by other bytes")
        return data


def _damaged(path: Path, why: str) -> StoreError:
    return StoreError(
        f"blob {path} is damaged: {why} (expected content with the hash that it is named after); "
        "restore it from a copy of the run folder"
    )
