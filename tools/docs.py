"""Write the parts of the documentation that the code knows: ``make docs``, checked by ``--check``.

Generated are the whole of docs/cli.md and, between ``<!-- generated: NAME -->`` and
``<!-- end -->`` in other pages, tables of tasks, records, agents, policies, settings and errors,
and the figures of tools/figures.py. Nothing depends on the terminal, the clock or the machine.
"""

import ast
import difflib
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Final

import msgspec

from daydream import config, errors, registry
from daydream.cli import flags
from daydream.config import RunSettings
from daydream.policies.specs import families
from daydream.tasks import branch_world, folder_settings
from daydream.tasks.base import TaskInfo
from daydream.tasks.load import load_task
from daydream.weights import train_settings
from tools.figures import figures, isolation, lasso_path, table
from tools.model_figures import model_line

ROOT: Final = Path(__file__).resolve().parents[1]
BLOCK: Final = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
PAGES: Final = (
    "README.md",
    "docs/bring-your-own.md",
    "docs/policies.md",
    "docs/run-folder.md",
    "docs/tasks.md",
    "docs/weights.md",
)
CLI_PAGE: Final = "docs/cli.md"
FULL_SIZE: Final = (
    "circle-packing:n=26",
    "circle-packing:n=32",
    "circle-packing:n=26,artifact=program",
    "lasso:variant=path17",
    "sum-diff:cap=512",
    "autocorrelation:bins=800,variant=first",
    "autocorrelation:bins=800,variant=second",
    "autocorrelation:bins=800,variant=third-weak",
    "autocorrelation:bins=800,variant=third-strict",
)
"""Tasks named with parameters that the table shows beside the plain ones."""

CLI_EDITS: Final = (
    (re.compile(r"## Table of Contents.*?(?=^\*\*Commands)", re.DOTALL | re.MULTILINE), ""),
    (re.compile(r' \*\[default: (?:False|\[\]|"")\]\*'), ""),
    (re.compile(r"\\\[default: ([^\]]+)\]"), r"*[default: \1]*"),
    (re.compile(r"^daydream (\w+ \w+) \1", re.MULTILINE), r"daydream \1"),
    (re.compile(r" +$", re.MULTILINE), ""),
    (re.compile(r"\n{3,}"), "\n\n"),
)
"""What to change in the generated reference: it lists commands twice and the obvious defaults."""


def tasks_table() -> str:
    """Return the table of tasks, the sizes of the first implementation before full size."""
    rows = []
    for info in _infos():
        scale = "from the first tree" if info.scale is None else f"{info.scale:g}"
        wanted = f"{info.measure}, {'lower' if info.goal == 'min' else 'higher'} is better"
        agent = f"`{info.agent}`" if info.agent else "a model or a command"
        cells = (f"`{info.name}`", info.title, wanted, f"`{info.policy}`", agent, scale)
        rows.append(cells)
    return table(("task", "what", "measure", "starts with", "agent", "scale"), rows)


def _infos() -> list[TaskInfo]:
    return [load_task(name, "process").info for name in (*registry.names("task"), *FULL_SIZE)]


def aliases_table() -> str:
    """Return the other names of tasks."""
    return table(
        ("alias", "task"),
        [(f"`{alias}`", f"`{name}`") for alias, name in sorted(registry.TASK_ALIASES.items())],
    )


def records_table() -> str:
    """Return the known best values, each under the first task that it is a record of."""
    said = {True: "yes", False: "no", None: "not published"}
    rows: dict[tuple[str, float, str], Sequence[str]] = {}
    for info in _infos():
        for record in info.records:
            key = (info.name.partition(":")[0], record.value, record.source)
            value = f"{record.value:.12g}"
            rows.setdefault(key, (f"`{info.name}`", value, record.source, said[record.exact]))
    return table(("task", "value", "source", "passes our check"), list(rows.values()))


def branch_world_table() -> str:
    """Return the scores of the first branches and depths of branch-world."""
    depths = range(1, branch_world.PUBLISHED_DEPTH + 1)
    rows = [
        (f"branch {branch}", *(f"{branch_world.score_at(branch, depth):g}" for depth in depths))
        for branch in range(branch_world.PUBLISHED_WIDTH)
    ]
    return table(("", *(f"depth {depth}" for depth in depths)), rows)


def policies_table() -> str:
    """Return the table of policy families with an example and its JSON."""
    rows = []
    for kind, family in families().items():
        letters = ", ".join(f"`{letter}` {field}" for letter, field in family.LETTERS.items())
        rows.append((f"`{kind}`", f"`{family.example()}`", letters))
    return table(("family", "example", "letters"), rows)


def settings_table() -> str:
    """Return the settings of a run: defaults as they resolve, meanings as the flags give them."""
    meanings = {
        name: re.sub(r" \[default: [^\]]*\]", "", text)
        for name, text in {
            **field_docs(config, "RunSettings"),
            **field_docs(flags, "RunFlags"),
        }.items()
    }
    return _fields_table(RunSettings, meanings)


def folder_settings_table() -> str:
    """Return the keys of the ``[task]`` table of a problem folder."""
    kind = folder_settings.FolderSettings
    return _fields_table(kind, field_docs(folder_settings, kind.__name__))


def train_settings_table() -> str:
    """Return the keys of the ``[train]`` table, those of its stages once for both."""
    usual = train_settings.TrainSettings()
    meanings = field_docs(train_settings, "TrainSettings")
    rows = [
        (f"`{name}`", f"`{json.dumps(getattr(usual, name))}`", meaning)
        for name, meaning in meanings.items()
        if name not in train_settings.STAGES
    ]
    for name, meaning in field_docs(train_settings, "StageSettings").items():
        values = [getattr(getattr(usual, stage), name) for stage in train_settings.STAGES]
        shown = ", ".join(f"`{json.dumps(value)}`" for value in dict.fromkeys(values))
        keys = ", ".join(f"`{stage}.{name}`" for stage in train_settings.STAGES)
        rows.append((keys, shown, meaning))
    return table(("key", "default", "meaning"), [(a, b, c.replace("``", "`")) for a, b, c in rows])


def _fields_table(kind: type[msgspec.Struct], meanings: Mapping[str, str]) -> str:
    rows = []
    for field in msgspec.structs.fields(kind):
        plain = field.default not in (None, "", msgspec.NODEFAULT)
        default = f"`{json.dumps(field.default)}`" if plain else ""
        meaning = meanings[field.name].replace("``", "`").replace("<", "&lt;")
        rows.append((f"`{field.name}`", default, meaning))
    return table(("key", "default", "meaning"), rows)


def field_docs(module: ModuleType, name: str) -> dict[str, str]:
    """Return the docstring under each field of class ``name`` of ``module``."""
    tree = ast.parse(inspect.getsource(module))
    body = next(
        node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name
    )
    return {
        field.target.id: " ".join(str(text.value.value).split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def errors_table() -> str:
    """Return the error classes with their exit codes."""
    rows = []
    for name, kind in sorted(vars(errors).items()):
        if isinstance(kind, type) and issubclass(kind, errors.DaydreamError):
            summary = (kind.__doc__ or "").strip().split("\n", 1)[0].replace("``", "`")
            summary = re.sub(r":\w+:`([^`]+)`", r"`\1`", summary)
            rows.append((f"`{name}`", str(kind.exit_code), summary))
    return table(("error", "exit code", "meaning"), rows)


def figures_block() -> str:
    """Return the tables of measured figures."""
    return figures(ROOT / "benchmarks" / "results")


def lasso_path_table() -> str:
    """Return what our solver reached."""
    return lasso_path(ROOT / "benchmarks" / "results")


def isolation_table() -> str:
    """Return what isolation costs."""
    return isolation(ROOT / "benchmarks" / "results")


def model_line_block() -> str:
    """Return what one night with a real model came to."""
    return model_line(ROOT / "benchmarks" / "results")


BLOCKS: Final[Mapping[str, Callable[[], str]]] = {
    "aliases": aliases_table,
    "branch-world": branch_world_table,
    "errors": errors_table,
    "figures": figures_block,
    "folder-settings": folder_settings_table,
    "train-settings": train_settings_table,
    "isolation": isolation_table,
    "lasso-path": lasso_path_table,
    "model-line": model_line_block,
    "policies": policies_table,
    "records": records_table,
    "settings": settings_table,
    "tasks": tasks_table,
}


def fill(text: str) -> str:
    """Return ``text`` with the content of every generated block made anew.

    Raises ``KeyError`` for a block that has no generator.
    """
    return BLOCK.sub(lambda match: f"{match[1]}\n{BLOCKS[match[2]]()}\n{match[3]}", text)


def cli_page() -> str:
    """Return the reference of all commands, made from the application itself."""
    from daydream.cli.main import app  # noqa: PLC0415 - no other page needs the commands

    body = app.generate_docs(output_format="markdown", heading_level=2)
    for pattern, better in CLI_EDITS:
        body = pattern.sub(better, body)
    text = body.strip()
    return (
        "# Command line\n\n"
        "Made from the commands themselves by `make docs`; `daydream COMMAND --help` shows the\n"
        f"same.\n\n{text}\n"
    )


def pages() -> dict[str, str]:
    """Return path -> content of every page that has generated parts."""
    made = {name: fill((ROOT / name).read_text(encoding="utf-8")) for name in PAGES}
    made[CLI_PAGE] = cli_page()
    return made


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or with ``--check`` print what is stale and return 1."""
    check = "--check" in arguments
    stale = 0
    for name, wanted in pages().items():
        path = ROOT / name
        found = path.read_text(encoding="utf-8") if path.exists() else ""
        if found == wanted:
            continue
        stale += 1
        if check:
            changes = difflib.unified_diff(
                found.splitlines(), wanted.splitlines(), name, "make docs", lineterm="", n=1
            )
            print("\n".join(list(changes)[:40]))
        else:
            path.write_text(wanted, encoding="utf-8")
            print(f"docs: wrote {name}")
    if check and stale:
        print(f"docs: {stale} pages are stale; run: make docs")
        return 1
    print("docs: up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
