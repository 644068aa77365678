"""``daydream show``: a run's summary, best artifact, lineage, tree, diff and charts."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.tree import Tree as Branches

from daydream.canonical import JsonValue
from daydream.cli import output, results
from daydream.compare import arm_of
from daydream.errors import DaydreamError, StoreError, UsageError
from daydream.store.best import diff_text
from daydream.store.events import AttemptFinished
from daydream.store.run_folder import RunFolder, VersionKept
from daydream.store.state import RoundState, RunState
from daydream.summaries import RunResult, result_of_state
from daydream.tasks.base import TaskInfo, to_measure
from daydream.tasks.load import load_task
from daydream.tree import ROOT, Node, Status, Tree

What = Literal["summary", "best", "lineage", "tree", "diff", "dreams"]
MAX_TREE_ROWS = 2_000
MAX_REASON = 200
"""Characters of a failure's reason in the tree."""


def show(
    run: Path,
    what: What = "summary",
    *,
    node: str | None = None,
    plot: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Look at a run, finished or not. Reads only.

    Parameters
    ----------
    run
        The run folder.
    what
        summary: rounds, selections, records; best: the best artifact; lineage: how it came about;
        tree: every attempt; diff: the best against the root; dreams: what models proposed.
    node
        Another attempt than the best, as ROUND:ID (or ID in the last round).
    plot
        Write best-against-calls, or with `tree` the tree, to this .svg file.
    json
        Print JSON and nothing else on standard output.
    """
    if node is not None and what not in _VIEWS:
        raise UsageError(
            f"--node {node}: a {what} has no single attempt (expected one of best, lineage, diff); "
            f"try: daydream show {output.shown(run)} lineage --node {node}"
        )
    with RunFolder.open(run) as folder:
        state = folder.state()
        info = _info(folder, state)
        if plot is not None:
            _plot(plot, what, folder, state, info)
        if json:
            shown = _dreamt(folder) if what == "dreams" else _object(folder, state, info)
            output.emit(shown)
            return 0
        if folder.reading.torn is not None:
            output.err().print(f"journal: {folder.reading.torn}", style="yellow", markup=False)
        result = result_of_state(run, state)
        console = output.out()
        if what == "summary":
            _summary(console, folder, result, info)
        elif what == "tree":
            _tree(console, state, info)
        elif what == "dreams":
            _dreams(console, folder)
        else:
            event = _attempt(state, node)
            _VIEWS[what](console, folder, state, event)
    return 0


def _info(folder: RunFolder, state: RunState) -> TaskInfo:
    """The task's facts, from the task where it can be built here, else from the run alone."""
    source = folder.config().get("source")
    try:
        if isinstance(source, str):
            # For the facts alone: nothing is evaluated, so nothing has to isolate it.
            return load_task(source, "process").info
    except DaydreamError as error:
        output.err().print(f"task cannot be built here: {error}", style="dim", markup=False)
    name = state.started.task if state.started is not None else "unknown"
    return TaskInfo(name=name, title=name, statement="", evaluator="", policy="", agent="")


def _summary(console: Console, folder: RunFolder, result: RunResult, info: TaskInfo) -> None:
    console.print(results.rounds_table(result.task or info.name, result.rounds, info))
    results.print_learned(console, result.rounds)
    results.print_best(console, result, info, keep_picture=False)
    where = output.shown(folder.path)
    state = folder.state()
    if not state.finished:
        reason = state.stopped or "it was cut off"
        console.print(f"Not finished: {reason}", style="yellow", markup=False)
        output.next_step(f"daydream resume {where}", f"daydream show {where} tree")
    else:
        output.next_step(f"daydream show {where} lineage", f"daydream dream {where} --dry-run")


def _dreams(console: Console, folder: RunFolder) -> None:
    """One row for each answer of a model that proposes policies."""
    versions = folder.versions()
    where = output.shown(folder.path)
    if not versions:
        console.print("No model has proposed a policy in this run.")
        output.next_step(f"daydream dream {where} --dreamer developer --model mock:")
        return
    rows = [
        (
            one.dream,
            str(one.number),
            one.scores.policy or "-",
            output.number(one.scores.mean if one.scores.disqualified is None else None),
            "-" if one.scores.attempts is None else str(one.scores.attempts),
            shorten(_fate(one), MAX_REASON, placeholder=" ..."),
        )
        for one in versions
    ]
    columns = ("dream", ">version", "policy", ">replay score", ">attempts", "what became of it")
    console.print(output.table("What models proposed", columns, rows))
    kept = [one.file for one in versions if one.file is not None]
    if kept:
        output.next_step(f"daydream replay {where} --policy {where}/{kept[-1]}")


def _fate(version: VersionKept) -> str:
    scores = version.scores
    if scores.problem:
        return f"no policy: {scores.problem}"
    out = scores.disqualified
    if out is not None:
        return f"disqualified in world {out.world}, batch {out.batch}: {out.reason}"
    return "not scored yet" if scores.mean is None else "scored"


def _dreamt(folder: RunFolder) -> JsonValue:
    rows: JsonValue = msgspec.to_builtins(folder.versions())
    return {"run": str(folder.path), "versions": rows}


def _attempt(state: RunState, node: str | None) -> AttemptFinished:
    if node is None:
        if state.best is None:
            raise StoreError(
                "no attempt of this run succeeded (expected one ok node); look at the failures "
                "with: daydream show RUN tree"
            )
        return state.best
    round_text, _, id_text = node.rpartition(":")
    number = int(round_text) if round_text.isdigit() else max(state.rounds, default=0)
    known = state.rounds.get(number)
    found = [] if known is None else [e for e in known.finished.values() if str(e.node) == id_text]
    if not found:
        raise UsageError(
            f"--node {node}: no such attempt (expected ROUND:ID such as 1:7, rounds "
            f"{sorted(state.rounds)}); list them with: daydream show RUN tree"
        )
    return found[0]


def _best(console: Console, folder: RunFolder, state: RunState, event: AttemptFinished) -> None:
    if event.artifact is None:
        raise StoreError(f"attempt {event.round}:{event.node} has no artifact: {event.message}")
    files = folder.get_artifact(event.artifact)
    for name, data in sorted(files.items()):
        if len(files) > 1:
            console.rule(escape(name))
        sys.stdout.write(data.decode("utf-8", "replace"))
        sys.stdout.write("" if data.endswith(b"\n") else "\n")
    output.err().print(
        f"round {event.round}, node {event.node}, {event.status.value} {event.score:.12g} "
        f"{event.message}",
        style="dim",
        markup=False,
    )


def _lineage(console: Console, folder: RunFolder, state: RunState, event: AttemptFinished) -> None:
    path = list(_ancestors(state.rounds[event.round], event))[::-1]
    info = _info(folder, state)
    rows = [
        (
            str(one.depth),
            str(one.node),
            one.status.value,
            output.number(to_measure(info, one.score) if one.status is Status.OK else None, 10),
            one.rationale or one.message,
        )
        for one in path
    ]
    title = f"Lineage of round {event.round}, node {event.node} (branch {event.branch})"
    console.print(
        output.table(title, (">depth", ">node", "status", f">{info.measure}", "how"), rows)
    )


def _ancestors(known: RoundState, event: AttemptFinished) -> Iterator[AttemptFinished]:
    by_node = {one.node: one for one in known.finished.values()}
    current: AttemptFinished | None = event
    while current is not None:
        yield current
        current = by_node.get(current.parent)


def _diff(console: Console, folder: RunFolder, state: RunState, event: AttemptFinished) -> None:
    root = state.rounds[event.round].started.root
    if event.artifact is None or root is None:
        raise StoreError(f"attempt {event.round}:{event.node} has no artifact to compare")
    text = diff_text(folder.get_artifact(root), folder.get_artifact(event.artifact))
    shown = text.decode("utf-8", "replace")
    if console.is_terminal:
        console.print(Syntax(shown, "diff", background_color="default"))
    else:
        sys.stdout.write(shown)


_VIEWS = {"best": _best, "lineage": _lineage, "diff": _diff}


def _tree(console: Console, state: RunState, info: TaskInfo) -> None:
    for number in sorted(state.rounds):
        known = state.rounds[number]
        best = max(
            (e for e in known.finished.values() if e.status is Status.OK),
            key=lambda e: e.score,
            default=None,
        )
        top = Branches(escape(f"round {number}: {known.started.policy} ({info.measure})"))
        at: dict[int, Branches] = {ROOT: top}
        for event in sorted(known.finished.values(), key=lambda e: e.node)[:MAX_TREE_ROWS]:
            above = at.get(event.parent, top)
            # A chain reads better as a list below its first node than as a staircase.
            parent = above if event.parent == ROOT else at.get(-event.branch - 1, above)
            made = parent.add(escape(_label(event, info, best=event is best)))
            at[event.node] = made
            if event.parent == ROOT:
                at[-event.branch - 1] = made
        console.print(top)


def _label(event: AttemptFinished, info: TaskInfo, *, best: bool) -> str:
    star = " ★" if best else ""
    text = f"{event.node}  depth {event.depth}  "
    if event.status is Status.OK:
        value = to_measure(info, event.score)
        return f"{text}{value:.10g}{star}" + ("  reused" if event.reused else "")
    reason = " ".join(event.message.split())
    if event.error_class and event.error_class not in reason:
        reason = f"{event.error_class}: {reason}"
    return f"{text}{event.status.value}: {shorten(reason, MAX_REASON, placeholder=' ...')}"


def _plot(path: Path, what: What, folder: RunFolder, state: RunState, info: TaskInfo) -> None:
    from daydream.cli.charts.discovery_tree import tree_svg
    from daydream.cli.charts.run_curve import curve_svg

    if path.suffix != ".svg":
        raise UsageError(f"--plot {path}: expected a name that ends in .svg")
    trees = _all_trees(folder, state)
    if what == "tree":
        tree = trees[-1]
        text = tree_svg(tree, None if tree.best is None else tree.best.id)
    else:
        arm = arm_of(result_of_state(folder.path, state), trees)
        curve = [(calls, to_measure(info, score)) for calls, score in arm.curve]
        records = [(record.source, record.value) for record in info.records[:4]]
        text = curve_svg(
            info.name, curve, info.measure, info.goal, records=records, calls=arm.calls
        )
    output.write_file(path, text, "--plot")


def _all_trees(folder: RunFolder, state: RunState) -> Sequence[Tree]:
    """The finished trees, and the open rollout as far as its finished attempts reach."""
    trees = list(folder.trees())
    unfinished = state.open_round
    if unfinished is not None:
        name = "" if state.started is None else state.started.task
        trees.append(_partial(name, unfinished))
    return trees


def _partial(task: str, known: RoundState) -> Tree:
    started = known.started
    root = known.root
    nodes = [
        Node(
            ROOT, None, -1, 0, 0, 0,
            None if root is None else root.status, 0.0 if root is None else root.score,
        )
    ]  # fmt: skip
    nodes += [
        Node(
            e.node, e.parent, e.branch, e.depth, e.batch, e.slot, e.status, e.score, e.error_class,
            e.artifact,
        )
        for e in sorted(known.finished.values(), key=lambda e: e.node)
    ]  # fmt: skip
    return Tree(
        task=task,
        evaluator=started.evaluator,
        round=started.round,
        policy=started.policy,
        limit=started.limit,
        scale=started.scale or 1.0,
        seed=started.seed,
        nodes=tuple(nodes),
    )


def _object(folder: RunFolder, state: RunState, info: TaskInfo) -> JsonValue:
    result = result_of_state(folder.path, state)
    rounds: JsonValue = msgspec.to_builtins(result.rounds)
    best = state.best
    return {
        "task": result.task,
        "run": str(folder.path),
        "best": result.best,
        "measure": None if result.best is None else to_measure(info, result.best),
        "best_node": None if best is None else {"tree": best.round, "node": best.node},
        "calls": result.calls,
        "lost": state.lost,
        "finished": state.finished,
        "stopped": state.stopped,
        "torn": folder.reading.torn,
        "rounds": rounds,
        "trees": [
            {
                "tree": tree.round,
                "policy": tree.policy,
                "nodes": [_node(node) for node in tree.nodes],
            }
            for tree in _all_trees(folder, state)
        ],
    }


def _node(node: Node) -> JsonValue:
    return {
        "id": node.id,
        "parent": node.parent,
        "branch": node.branch,
        "depth": node.depth,
        "status": None if node.status is None else node.status.value,
        "score": node.score,
        "error_class": node.error_class,
        "artifact": node.artifact,
    }
