"""Tasks by name: ``NAME[:key=value,...]``, an alias, or the path of a folder."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from daydream import registry
from daydream.config import SandboxLevel
from daydream.errors import RegistryError, TaskError
from daydream.tasks.base import Task, TaskFactory


def load_task(name: str, sandbox: SandboxLevel = "auto") -> Task:
    """Return the task called ``name``; a path (or a name of an existing folder) is a user's folder.

    ``sandbox`` is what isolates evaluations that run programs. Raises :class:`RegistryError` for an
    unknown name, :class:`TaskError` for bad parameters, :class:`EnvironmentMissing` where that
    sandbox cannot run.
    """
    if is_path(name):
        from daydream.tasks.folder import open_folder

        return open_folder(Path(name), sandbox)
    head, _, tail = name.partition(":")
    factory = registry.load("task", registry.TASK_ALIASES.get(head, head))
    if not callable(factory):
        raise RegistryError(f"task plug-in {head!r} is {factory!r} (expected a function)")
    args: dict[str, str] = {}
    for part in tail.split(",") if tail else []:
        key, equals, value = part.partition("=")
        if not equals or not key or not value or key in args:
            raise TaskError(
                f"task {name!r}: cannot read parameter {part!r} (expected key=value, each key "
                "once); for example circle-packing:n=26"
            )
        args[key] = value
    if "sandbox" in inspect.signature(factory).parameters:
        return cast("TaskFactory", factory)(args, sandbox=sandbox)
    return cast("TaskFactory", factory)(args)


def problem_of(task: Task) -> Mapping[str, bytes] | None:
    """Return the files of the folder that ``task`` was made of, to keep them with a run.

    None for a task that comes with a package, and for a folder that is too large to keep.
    """
    if not task.info.folder:
        return None
    from daydream.tasks.folder import FolderTask

    return task.problem() if isinstance(task, FolderTask) else None


def is_path(name: str) -> bool:
    """Return whether ``name`` means a folder: it has a separator, starts with a dot, or exists."""
    head = name.partition(":")[0]
    known = registry.TASK_ALIASES.get(head, head) in registry.names("task")
    return "/" in name or name.startswith(".") or (not known and Path(name).is_dir())
