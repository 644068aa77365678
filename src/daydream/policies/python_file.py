"""A policy that a person wrote as a Python file and trusts enough to run in this process.

The file defines ``class Policy`` with ``__init__(self, config)`` (or none) and
``select_batch(self, view, limit)``, or a plain function ``select_batch(view, limit)``. It is
executed afresh for every rollout, online and in replay alike, so nothing survives from one world to
the next.
"""

import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import msgspec

from daydream.canonical import JsonValue, content_hash
from daydream.errors import PolicyError, UsageError
from daydream.search import Policy
from daydream.tree import Batch, TreeView

MAX_SOURCE_BYTES = 200_000


class PythonFileSpec(msgspec.Struct, frozen=True):
    """A policy file by content. ``trusted`` is never stored: each command must ask for it anew."""

    KIND: ClassVar[str] = "file"

    file: str
    """Name of the file, for people."""
    source: str
    config: dict[str, JsonValue] = {}
    trusted: bool = False

    @property
    def name(self) -> str:
        """File name and the start of the content hash."""
        return f"{self.file}@{content_hash(self.source.encode())[:8]}"

    def to_json(self) -> Mapping[str, JsonValue]:
        """Return the spec with its whole source, so that a run folder is self-contained."""
        return {
            "kind": self.KIND,
            "file": self.file,
            "source": self.source,
            "config": self.config,
        }

    def build(self, scale: float) -> Policy:
        """Return a fresh policy.

        Raises :class:`PolicyError` when the file is not trusted, does not run, or has no policy.
        """
        if not self.trusted:
            raise PolicyError(
                f"policy file {self.file} is not trusted (expected --trust to run it in this "
                "process); read it first, then add --trust"
            )
        return _FilePolicy(self)


def read_policy_file(
    path: Path, *, trust: bool, config: Mapping[str, JsonValue] | None = None
) -> PythonFileSpec:
    """Return the spec of the file at ``path``; raises :class:`UsageError` if it cannot be read."""
    try:
        data = path.read_bytes()
        source = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read policy file {path}: {error}; name a UTF-8 Python file"
        ) from None
    if len(data) > MAX_SOURCE_BYTES:
        raise UsageError(
            f"policy file {path} has {len(data)} bytes (expected at most {MAX_SOURCE_BYTES})"
        )
    return PythonFileSpec(path.name, source, dict(config or {}), trust)


class _FilePolicy:
    def __init__(self, spec: PythonFileSpec) -> None:
        self._spec = spec
        module = types.ModuleType("daydream_policy")
        self._guard(lambda: exec(compile(spec.source, spec.file, "exec"), module.__dict__))
        factory = getattr(module, "Policy", None)
        function = getattr(module, "select_batch", None)
        if factory is not None:
            takes_config = "__init__" in vars(factory)
            built = self._guard(lambda: factory(dict(spec.config)) if takes_config else factory())
            function = getattr(built, "select_batch", None)
        if not callable(function):
            raise PolicyError(
                f"policy file {spec.file} has no select_batch (expected `class Policy` with "
                "select_batch(self, view, limit), or a function select_batch(view, limit))"
            )
        self._function = function

    def select_batch(self, view: TreeView, limit: int) -> Batch:
        """Return what the file returned, as a list."""
        batch = self._guard(lambda: self._function(view, limit))
        if not isinstance(batch, (list, tuple)):
            raise PolicyError(
                f"policy file {self._spec.file} returned {batch!r} (expected a list of node ids)"
            )
        return batch

    def _guard(self, call: Callable[[], object]) -> object:
        try:
            return call()
        except Exception as error:
            raise PolicyError(
                f"policy file {self._spec.file} raised {type(error).__name__}: {error}; fix it"
            ) from error
