"""Problem folders as users have them."""

from collections.abc import Mapping
from pathlib import Path

from daydream.config import SandboxLevel
from daydream.tasks.base import Artifact, Evaluation
from daydream.tasks.folder import FolderTask, open_folder

PROGRAM = """# EVOLVE-BLOCK-START
def value():
    return 0.5
# EVOLVE-BLOCK-END
"""
LOAD = """import importlib.util

def load(path):
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""
HONEST = LOAD + "def evaluate(program_path):\n    return load(program_path).value()\n"


def problem(
    evaluator: str = HONEST,
    files: Mapping[str, str] | None = None,
    *,
    settings: str = "",
    sandbox: SandboxLevel = "auto",
) -> FolderTask:
    """Write a folder ``task`` with these files in the working folder and open it as a task."""
    written = {"initial_program.py": PROGRAM, "evaluator.py": evaluator, **(files or {})}
    if settings:
        written["daydream.toml"] = settings
    for name, text in written.items():
        path = Path("task", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return open_folder(Path("task"), sandbox)


def scored(task: FolderTask, program: str = PROGRAM) -> Evaluation:
    """Return the evaluation of ``program`` in the place of the initial one."""
    return task.evaluate(Artifact({"initial_program.py": program.encode()}))
