"""The inside of the process that a policy file runs in. It holds nothing that is not revealed.

It is told what the file is, locks itself in (:mod:`daydream.sandbox.strict`), and then keeps a view
and a policy for each world that it hears of, by the same code that serves a trusted file in
process. It cannot tell an online world from a recorded one, since it hears the same of both. What
it answers is a wish: the parent judges every batch.
"""

import gc
import importlib
import io
import mmap
import os
import sys
from collections.abc import Sequence
from typing import Final, cast

import msgspec

from daydream.canonical import JsonValue, clean_text
from daydream.errors import PolicyError
from daydream.policies.python_file import FilePolicy, PythonFileSpec
from daydream.sandbox.frames import HEADER
from daydream.sandbox.strict import lock_in
from daydream.search import check_batch
from daydream.tree import Before, Eligibility, Grid, GrowingView, Status, VisibleNode

ALLOWED: Final = (
    "abc", "array", "bisect", "cmath", "collections", "collections.abc", "contextlib", "copy",
    "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "hashlib", "heapq",
    "itertools", "json", "math", "numbers", "operator", "random", "re", "statistics", "string",
    "struct", "textwrap", "time", "traceback", "types", "typing", "warnings",
)  # fmt: skip
"""Modules that a policy file may import: no file can be opened once it runs."""
MESSAGE_BYTES: Final = 64 << 20
"""Largest message of the parent."""


class Lock(msgspec.Struct, frozen=True, array_like=True):
    """The first message: how to lock in. The answer names the layers that hold."""

    parent: int
    memory_mb: int
    cpu_s: int


class File(msgspec.Struct, frozen=True, array_like=True):
    """The second: what runs."""

    file: str
    source: str
    config: dict[str, object]
    limit: int


class Loaded(msgspec.Struct, frozen=True, array_like=True):
    """The answer to it: why the file cannot be a policy, or whether it plans its grid."""

    problem: str | None
    plans: bool


class Root(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How a world begins."""

    status: Status | None
    score: float
    eligibility: Eligibility
    before: Before | None = None
    """Set for a file that plans its grid."""


class Turn(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """What is new in one world since its last batch."""

    world: int
    seen: Sequence[VisibleNode] = ()
    exhausted: tuple[int, ...] = ()
    root: Root | None = None
    """Set for a new world alone."""


class Reply(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """The next batch in one world."""

    world: int
    batch: tuple[int, ...]
    problem: str | None = None
    """What the policy did instead of answering."""
    grid: Grid | None = None
    """What it planned; told with its first batch."""


def _view(root: Root) -> GrowingView:
    before = Before() if root.before is None else root.before
    return GrowingView(
        status=root.status, score=root.score, eligibility=root.eligibility, before=lambda: before
    )


def main(reader: int, writer: int, page: int) -> None:
    """Serve until the parent closes the pipe."""
    lock = msgspec.msgpack.decode(_receive(reader), type=Lock)
    shared = mmap.mmap(page, mmap.PAGESIZE)
    os.close(page)
    for name in ALLOWED:
        importlib.import_module(name)
    # A line printed for debugging is no crime, and goes nowhere.
    sys.stdout = sys.stderr = io.TextIOWrapper(_Nowhere(), encoding="utf-8", write_through=True)
    layers = lock_in(
        parent=lock.parent, pipes=(reader, writer), memory_mb=lock.memory_mb, cpu_s=lock.cpu_s
    )
    gc.collect()
    gc.freeze()
    _send(writer, msgspec.msgpack.encode(layers))
    file = msgspec.msgpack.decode(_receive(reader), type=File)
    sys.argv[:] = [file.file]
    spec = PythonFileSpec(
        file.file, file.source, cast("dict[str, JsonValue]", file.config), trusted=True
    )
    problem: str | None = None
    plans = False
    try:
        plans = spec.build(1.0).plans
    except PolicyError as error:
        problem = str(error)
    except BaseException as error:  # noqa: BLE001 - code that is not ours may raise anything
        problem = _raised(spec, error)
    _send(writer, msgspec.msgpack.encode(Loaded(problem, plans)))
    _serve((reader, writer), spec, file.limit, shared)


def _raised(spec: PythonFileSpec, error: BaseException) -> str:
    return f"policy file {spec.file} raised {type(error).__name__}; fix it"


def _serve(pipes: tuple[int, int], spec: PythonFileSpec, limit: int, shared: mmap.mmap) -> None:
    reader, writer = pipes
    decode = msgspec.msgpack.Decoder(list[Turn]).decode
    encode = msgspec.msgpack.Encoder().encode
    worlds: dict[int, tuple[GrowingView, FilePolicy]] = {}
    place = memoryview(shared).cast("I")
    while True:
        replies: list[Reply] = []
        for turn in decode(_receive(reader)):
            key = place[0] = turn.world
            root = turn.root
            try:
                if root is None:
                    view, policy = worlds[key]
                    view.batches += 1
                    for number in turn.exhausted:
                        view.exhaust(number)
                    view.append(turn.seen)
                else:
                    view = _view(root)
                    view.append(turn.seen)
                    policy = spec.build(1.0)
                    worlds[key] = view, policy
                wish = tuple(policy.select_batch(view, limit))
                if wish and not (len(wish) <= limit and view.frontier.accepts(wish)):
                    check_batch(view, wish, limit)
                grid = None if root is None else policy.grid
                reply = Reply(key, wish, None, grid)
            except PolicyError as error:
                reply = Reply(key, (), clean_text(str(error), 1_000))
            except BaseException as error:  # noqa: BLE001 - code that is not ours may raise anything
                reply = Reply(key, (), _raised(spec, error))
            replies.append(reply)
        _send(writer, encode(replies))


class _Nowhere(io.RawIOBase):
    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        return len(data) if isinstance(data, (bytes, memoryview)) else 0


def _receive(reader: int) -> bytes:
    (size,) = HEADER.unpack(_exactly(reader, HEADER.size))
    return _exactly(reader, min(size, MESSAGE_BYTES))


def _exactly(reader: int, size: int) -> bytes:
    data = os.read(reader, size)
    while len(data) < size:
        more = os.read(reader, size - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


def _send(writer: int, message: bytes) -> None:
    left = memoryview(HEADER.pack(len(message)) + message)
    while left:
        left = left[os.write(writer, left) :]
