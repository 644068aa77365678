"""The command line: a table of commands, one error boundary, exit codes.

0 done (also when a budget ended it), 1 failed, 2 usage, 3 missing from the environment,
130 interrupted and resumable.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

import cyclopts
from cyclopts import CycloptsError, UnusedCliTokensError

from daydream.errors import DaydreamError, UsageError

COMMANDS = (
    ("tasks", "daydream.cli.tasks:tasks", "List the tasks, or show one."),
    ("init", "daydream.cli.tasks:init", "Write a problem folder that runs."),
    ("run", "daydream.cli.runs:run", "Search a task: rollouts and selections in turn."),
    ("resume", "daydream.cli.runs:resume", "Continue a run; nothing is paid for again."),
    ("explore", "daydream.cli.runs:explore", "One rollout of a run, without a selection."),
    ("compare", "daydream.cli.comparison:compare", "Fixed exploration against dreaming."),
    ("dream", "daydream.cli.dreaming:dream", "Select the next policy of a run by replay."),
    ("replay", "daydream.cli.dreaming:replay", "Score a policy in the worlds of a run, for free."),
    ("show", "daydream.cli.show:show", "Look at a run: summary, best, lineage, tree, diff."),
    ("check-grid", "daydream.cli.grids:check_grid", "How much a step function owes to its grid."),
    ("export", "daydream.cli.transfer:export", "Write a run's trees in another format."),
    ("import", "daydream.cli.transfer:import_", "Make a run of trees from elsewhere."),
    ("bank", "daydream.cli.banks:app", "Every attempt of every line, to train on."),
    ("corpus", "daydream.cli.corpora:app", "Collect reviewed pull requests as tasks."),
    ("wake", "daydream.cli.waking:wake", "Answer tasks, judge every answer, keep every attempt."),
    ("build", "daydream.cli.waking:build", "Make a corpus of the bank to train on."),
    ("train", "daydream.cli.training:train", "Train an adapter on a corpus: SFT, then DPO."),
    ("night", "daydream.cli.training:night", "Build, train and judge in one resumable command."),
    ("cycles", "daydream.cli.training:cycles", "Show what cycle after cycle came to."),
    ("gate", "daydream.cli.gates:app", "Judge adapters by a frozen probe set."),
    ("review", "daydream.cli.review:review", "Review a branch, mend it, test it, commit it."),
    ("models", "daydream.cli.models:models", "List the models that can be used now."),
    ("doctor", "daydream.cli.doctor:doctor", "Check this machine."),
    ("sandbox", "daydream.cli.sandboxes:app", "See what isolates untrusted code, and try it."),
)
"""Name, where it is, what it does. Imported when called, so that start-up stays light."""


def _version() -> str:
    try:
        return version("daydream-rsi")
    except PackageNotFoundError:
        return "unknown (not installed)"


def _shown_default(value: object) -> str | None:
    """Return what help says of a default: nothing where it only means "not given"."""
    return None if value is None or value is False or value in ("", [], ()) else str(value)


app = cyclopts.App(
    name="daydream",
    help="Learn from searches already paid for where the next attempt should go.",
    version=_version,
    help_epilogue="Start with: daydream run branch-world",
    help_format="plaintext",
    default_parameter=cyclopts.Parameter(show_default=_shown_default),
)
for _name, _target, _help in COMMANDS:
    app.command(_target, name=_name, help=_help)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line on ``argv`` (default: the process's) and return the exit code."""
    tokens = [_config_file(token) for token in (sys.argv[1:] if argv is None else argv)]
    flat = [part for parts in tokens for part in parts]
    try:
        code = app(flat, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _failed(flat, UsageError(_described(error)))
    except DaydreamError as error:
        return _failed(flat, error)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    return code if isinstance(code, int) else 0


def _config_file(token: str) -> list[str]:
    """``@file.toml`` is short for ``--config file.toml``."""
    return ["--config", token[1:]] if token.startswith("@") and len(token) > 1 else [token]


def _described(error: CycloptsError) -> str:
    """Return what is wrong with a command line, and where to read what it may be."""
    text = str(error)
    text = text[0].lower() + text[1:]
    if isinstance(error, UnusedCliTokensError):
        names = ", ".join(map(repr, error.unused_tokens or []))
        text = f"found {names} where nothing more can stand (expected options, as --NAME VALUE)"
    more = " ".join(("daydream", *(error.command_chain or ()), "--help"))
    ended = text.endswith(("?", "..."))
    return f"{text if ended else text.rstrip('.') + ';'} see: {more}"


def _failed(tokens: Sequence[str], error: DaydreamError) -> int:
    from daydream.cli import output

    output.error(error, as_json="--json" in tokens)
    return error.exit_code or 1


if __name__ == "__main__":
    sys.exit(main())
