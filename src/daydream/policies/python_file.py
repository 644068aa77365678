"""A policy as a Python file, and how the file becomes a policy.

The file defines ``class Policy`` with ``__init__(self, config)`` (or none) and
``select_batch(self, view, limit)``, a plain function ``select_batch(view, limit)``, or ``class
OptimalPolicy`` (:mod:`daydream.policies.optimal_policy`). It is executed afresh for every rollout,
online and in replay alike. Only a file that its owner trusts is executed in this process; others
run in a child (:mod:`daydream.isolation`).
"""

import sys
import types
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import ClassVar, Final, TypeGuard, cast

import msgspec

from daydream.canonical import JsonValue, clean_text, content_hash
from daydream.errors import PolicyError, UsageError
from daydream.policies.base import PolicySpec
from daydream.policies.optimal_policy import GridPlan, Observation, OptimalPolicy, Solving
from daydream.tree import Batch, Grid, TreeView

MAX_SOURCE_BYTES = 200_000
MODULE: Final = "daydream_policy"
"""Name of the module that a file is executed as."""


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

    def build(self, scale: float) -> "FilePolicy":
        """Return a fresh policy.

        Raises :class:`PolicyError` when the file is not trusted, does not run, or has no policy.
        """
        if not self.trusted:
            raise PolicyError(
                f"policy file {self.file} is not trusted (expected --trust to run it in this "
                "process); let daydream.isolation run it in a process of its own"
            )
        return FilePolicy(self)


def runs_apart(spec: PolicySpec) -> TypeGuard[PythonFileSpec]:
    """Return whether ``spec`` is code that may not run in this process."""
    return isinstance(spec, PythonFileSpec) and not spec.trusted


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


class FilePolicy:
    """The policy of a file, for one rollout. Its errors are :class:`PolicyError`."""

    def __init__(self, spec: PythonFileSpec) -> None:
        self._file = spec.file
        module = types.ModuleType(MODULE)
        vars(module).update(GridPlan=GridPlan, Observation=Observation)
        self._guard(lambda: _execute(spec, module))
        function = getattr(module, "select_batch", None)
        self._solving: Solving | None = None
        for name in ("Policy", "OptimalPolicy"):
            factory = getattr(module, name, None)
            if factory is not None:
                built = self._guard(partial(_built, factory, spec))
                function = getattr(built, "select_batch", None)
                if function is None and callable(getattr(built, "solve", None)):
                    self._solving = Solving(cast("OptimalPolicy", built))
                    function = self._solving.select_batch
                break
        if not callable(function):
            raise PolicyError(
                f"policy file {spec.file} has no select_batch (expected `class Policy` with "
                "select_batch(self, view, limit), a function select_batch(view, limit), or `class "
                "OptimalPolicy` with solve(self, question, budget=None))"
            )
        self._function = function

    @property
    def plans(self) -> bool:
        """Whether the file asks what came before."""
        return self._solving is not None and self._solving.plans

    @property
    def grid(self) -> Grid | None:
        """What the file planned, once it has made its first batch; None where it plans nothing."""
        return None if self._solving is None or self._solving.grid == Grid() else self._solving.grid

    def select_batch(self, view: TreeView, limit: int) -> Batch:
        """Return what the file returned, as a list."""
        try:
            batch = self._function(view, limit)
        except PolicyError:
            raise
        except Exception as error:
            raise self._raised(error) from error
        if not isinstance(batch, (list, tuple)):
            raise PolicyError(
                f"policy file {self._file} returned {clean_text(repr(batch), 200)} (expected a "
                "list of node ids)"
            )
        return batch

    def _guard(self, call: Callable[[], object]) -> object:
        try:
            return call()
        except PolicyError:
            raise
        except Exception as error:
            raise self._raised(error) from error

    def _raised(self, error: Exception) -> PolicyError:
        return PolicyError(
            f"policy file {self._file} raised {type(error).__name__}: "
            f"{clean_text(str(error), 500)}; fix it"
        )


@lru_cache(maxsize=64)
def _compiled(source: str, file: str) -> types.CodeType:
    return compile(source, file, "exec")


def _execute(spec: PythonFileSpec, module: types.ModuleType) -> None:
    code = _compiled(spec.source, spec.file)
    # Dataclasses look their module up while they are made; afterwards nothing may find it.
    sys.modules[MODULE] = module
    try:
        exec(code, module.__dict__)
    finally:
        del sys.modules[MODULE]


def _built(factory: Callable[..., object], spec: PythonFileSpec) -> object:
    """Build the file's class, with the configuration of ``spec`` over its own."""
    if "__init__" in vars(factory):
        return factory(dict(spec.config))
    built = factory()
    own = getattr(built, "config", None)
    if spec.config and isinstance(own, dict):
        setattr(built, "config", {**own, **spec.config})  # noqa: B010 - an object of unknown class
    return built
