"""``daydream bank import`` and ``daydream bank show``."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import cyclopts

from daydream.canonical import JsonValue
from daydream.cli import output
from daydream.cli.weights_line import HomeFolder, Json, home_flag
from daydream.weights.bank import Bank
from daydream.weights.episodes import Episode
from daydream.weights.home import DEFAULT, Home
from daydream.wording import counted

app = cyclopts.App(
    name="bank", help="Every attempt of every line, to train on.", help_format="plaintext"
)


@app.command(name="import", usage="daydream bank import RUN... [OPTIONS]")
def import_(*run: Path, home: HomeFolder = DEFAULT, json: Json = False) -> int:
    """Take the attempts of finished rounds into the bank; what is there already stays once.

    Parameters
    ----------
    run
        Run folders of the policy line, archived reviews, or a whole archive of reviews.
    home
        Folder of the weights line.
    json
        Print JSON and nothing else on standard output.
    """
    from daydream.errors import UsageError
    from daydream.weights.import_reviews import harvest_review, is_review
    from daydream.weights.import_runs import harvest

    if not run:
        raise UsageError("bank import names no run (expected run folders); see: ls runs/*")
    folders = [below for path in run for below in _reviews(path) or [path]]
    found = [(path, (harvest_review if is_review(path) else harvest)(path)) for path in folders]
    rows: list[dict[str, JsonValue]] = []
    with Bank(Home(home).bank) as bank:
        for path, one in found:
            added = bank.append(one.episodes)
            rows.append(
                {
                    "run": str(path),
                    "episodes": len(one.episodes),
                    "added": added,
                    "solved": sum(episode.solved for episode in one.episodes),
                    "left_out": dict(one.left_out),
                }
            )
    if json:
        output.emit({"bank": str(Home(home).bank), "runs": list(rows)})
        return 0
    for row in rows:
        line = (
            f"{output.shown(Path(str(row['run'])))}: {row['added']} new of "
            f"{counted(int(str(row['episodes'])), 'attempt')}, "
            f"{counted(int(str(row['solved'])), 'success', 'successes')}"
        )
        output.out().print(line, markup=False)
    output.next_step(f"daydream bank show{home_flag(home)}", f"daydream build{home_flag(home)}")
    return 0


@app.command(usage="daydream bank show [OPTIONS]")
def show(*, home: HomeFolder = DEFAULT, json: Json = False) -> int:
    """Show what the bank holds, by task family, source, model and adapter.

    Parameters
    ----------
    home
        Folder of the weights line.
    json
        Print JSON and nothing else on standard output.
    """
    bank = Bank(Home(home).bank)
    groups = _groups(bank.episodes())
    torn = bank.torn()
    rows: list[JsonValue] = [
        {
            "family": family,
            "source": source,
            "model": model,
            "adapter": adapter,
            "episodes": counts["episodes"],
            "solved": counts["solved"],
            "tasks": counts["tasks"],
            "tokens": counts["tokens"],
        }
        for (family, source, model, adapter), counts in sorted(groups.items())
    ]
    if json:
        output.emit({"bank": str(bank.path), "groups": rows, "torn_bytes": torn})
        return 0
    cells = [
        (
            *(key or "-" for key in group),
            f"{counts['tasks']:,}",
            f"{counts['episodes']:,}",
            f"{counts['solved']:,}",
            f"{100 * counts['solved'] / counts['episodes']:.1f} %",
            f"{counts['tokens']:,}",
        )
        for group, counts in sorted(groups.items())
    ]
    columns = ("family", "source", "model", "adapter")
    numbers = (">tasks", ">attempts", ">solved", ">rate", ">tokens")
    output.out().print(output.table(f"Bank {bank.path}", (*columns, *numbers), cells))
    if torn:
        output.warn(f"{counted(torn, 'byte')} of an unfinished record; the next append drops it")
    if groups:
        output.next_step(f"daydream build{home_flag(home)}")
    else:
        output.next_step("daydream bank import RUN", "daydream wake --tasks TASK --model MODEL")
    return 0


def _reviews(path: Path) -> list[Path]:
    """Return the archived reviews below the root of an archive; none for anything else."""
    return sorted(below.parent for below in path.glob("runs/*/trajectory.json"))


def _groups(episodes: Iterable[Episode]) -> dict[tuple[str, str, str, str], Counter[str]]:
    groups: dict[tuple[str, str, str, str], Counter[str]] = {}
    tasks: set[tuple[str, ...]] = set()
    for episode in episodes:
        family = episode.task.partition(":")[0]
        key = (family, episode.source, episode.model, episode.adapter[:12])
        counts = groups.setdefault(key, Counter())
        counts["episodes"] += 1
        counts["solved"] += episode.solved
        counts["tokens"] += episode.usage.input_tokens + episode.usage.output_tokens
        counts["tasks"] += (*key, episode.task) not in tasks
        tasks.add((*key, episode.task))
    return groups
