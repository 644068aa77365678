"""Check a training configuration for what prime-rl's own validation does not see.

    python -m daydream_review_v1 check-config rl.toml [--prime-rl CHECKOUT] [--model NAME]

At the pinned revisions a configuration can be valid and train nothing: every rollout would end
without a captured call. This finds those, and with a checkout it runs prime-rl's own dry run too.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from daydream.corpus.reading import Corpus, read_corpus, shared_with
from daydream.errors import DaydreamError
from daydream_review_v1.manifest import read_manifest

Table: TypeAlias = Mapping[str, object]
ENVIRONMENT: Final = "daydream-review-v1"
REFUSED: Final = {
    "claude": "speaks Anthropic Messages, and the training client renders Chat Completions only",
    "codex": "speaks OpenAI Responses, and the training client renders Chat Completions only",
    "pi": "streams every request, and the training client refuses to stream: no turn is captured",
}
"""Backend -> why it cannot train at verifiers 0.2.1 and prime-rl v0.7.0."""
DRY_RUN: Final = "from prime_rl.entrypoints.rl import main; main()"


def check(config: Table) -> list[str]:
    """Return everything that is wrong with a training configuration; nothing when it is fit."""
    trains = list(_environments(config, "train"))
    evals = list(_environments(config, "eval"))
    problems = [*_numbers(config), *_renderer(config)]
    if not trains:
        problems.append("[[orchestrator.train.env]] is missing (expected one)")
    names = [str(env.get("name", "")) for env in (*trains, *evals)]
    for name in sorted({name for name in names if names.count(name) > 1 or name in {"", "agg"}}):
        problems.append(f"environment name {name!r} (expected each once, not empty, not 'agg')")
    corpora: dict[str, list[Corpus]] = {"train": [], "eval": []}
    for kind, found in (("train", trains), ("eval", evals)):
        for env in found:
            where = f"[[orchestrator.{kind}.env]] {env.get('name')}"
            problems += _backend(where, env)
            corpus, told = _paths(where, env)
            problems += told
            corpora[kind] += [corpus] if corpus else []
    for train in corpora["train"]:
        for held_out in corpora["eval"]:
            shared = shared_with(train, held_out)
            if shared:
                problems.append(
                    f"{train.path} and {held_out.path} share {len(shared)} tasks, such as "
                    f"{shared[0]} (expected none)"
                )
    return problems


def _table(value: object, *keys: str) -> Table:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _environments(config: Table, kind: str) -> Iterator[Table]:
    found = _table(config, "orchestrator", kind).get("env")
    for env in found if isinstance(found, list) else []:
        if isinstance(env, Mapping) and _table(env, "taskset").get("id") == ENVIRONMENT:
            yield env


def _whole(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None


def _numbers(config: Table) -> Iterator[str]:
    orchestrator = _table(config, "orchestrator")
    batch, group = (_whole(orchestrator.get(name)) for name in ("batch_size", "group_size"))
    if batch is None or group is None:
        yield "orchestrator.batch_size and group_size have to be given as whole numbers"
    elif batch % group:
        yield f"batch_size {batch} is no multiple of group_size {group}; change one of them"
    elif group < 2:
        yield "group_size is 1: a group without a second rollout has no advantage to learn from"
    length = _whole(config.get("seq_len"))
    served = _whole(_table(config, "inference", "model").get("max_model_len"))
    if length is None or served is None or served < length:
        yield f"inference.model.max_model_len is {served} (expected at least seq_len, {length})"
    for kind in ("train", "eval"):
        answer = _whole(_table(orchestrator, kind, "sampling").get("max_completion_tokens"))
        if length is not None and not (answer is not None and answer < length):
            yield (
                f"orchestrator.{kind}.sampling.max_completion_tokens is {answer} (expected a "
                f"number below seq_len, {length})"
            )
    heat = _table(orchestrator, "train", "sampling").get("temperature")
    if not (isinstance(heat, int | float) and heat > 0):
        yield f"orchestrator.train.sampling.temperature is {heat} (expected above 0)"
    adapter = _table(config, "trainer", "model").get("lora")
    if _table(config, "trainer", "ckpt", "weights").get("save_adapter_separately") and not adapter:
        yield "trainer.ckpt.weights.save_adapter_separately needs [trainer.model.lora]"


def _renderer(config: Table) -> Iterator[str]:
    renderer = _table(config, "orchestrator", "renderer")
    name = renderer.get("name", "auto")
    if name == "default" and not renderer.get("tool_parser"):
        yield (
            "orchestrator.renderer 'default' has no tool_parser, so every request with tools is "
            "refused; name a parser, the model's own renderer, or 'auto'"
        )
    model = _table(config, "model").get("name")
    if name == "auto":
        try:
            from renderers.base import MODEL_RENDERER_MAP
        except ImportError:
            return
        if model not in MODEL_RENDERER_MAP:
            yield f"orchestrator.renderer 'auto' knows no renderer for {model!r}; name one"


def _backend(where: str, env: Table) -> Iterator[str]:
    harness = _table(env, "harness")
    if harness.get("id") != ENVIRONMENT:
        yield f"{where}: harness.id is {harness.get('id')!r} (expected {ENVIRONMENT!r})"
    backend = harness.get("backend", "claude")
    if backend != "chat":
        reason = REFUSED.get(str(backend), "is unknown")
        yield f"{where}: backend {backend!r} {reason} (expected 'chat')"
    kind = _table(harness, "runtime").get("type", "subprocess")
    if kind == "subprocess":
        yield f"{where}: runtime 'subprocess' has no images; set runtime = {{ type = 'docker' }}"
    if _whole(harness.get("fanout_concurrency", 4)) is None:
        yield f"{where}: fanout_concurrency is no positive whole number"
    rollout = _table(env, "timeout").get("rollout")
    if not (isinstance(rollout, int | float) and rollout > 0):
        yield f"{where}: timeout.rollout is {rollout} (expected seconds: a rollout has to end)"


def _paths(where: str, env: Table) -> tuple[Corpus | None, list[str]]:
    taskset = _table(env, "taskset")
    problems = []
    corpus = None
    place = Path(str(taskset.get("corpus_dir", "")))
    try:
        corpus = read_corpus(place)
        problems += [f"{where}: {place}: {one.where}: {one.problem}" for one in corpus.errors]
        if not corpus.replayable:
            problems.append(f"{where}: {place} holds no task")
    except DaydreamError as error:
        problems.append(f"{where}: taskset.corpus_dir: {error}")
    try:
        manifest = read_manifest(Path(str(taskset.get("manifest_path", ""))))
    except ValueError as error:
        problems.append(f"{where}: taskset.manifest_path: {error}")
    else:
        if corpus is not None and manifest.find(corpus.index.repo) is None:
            problems.append(f"{where}: the manifest has no entry for {corpus.index.repo}")
    return corpus, problems


def dry_run(path: Path, checkout: Path, model: str, python: str | None) -> str:
    """Run prime-rl's own validation from ``checkout``; return what is wrong, empty when nothing.

    The checkout's own environment is used where it has one, else ``python``, which needs Python
    3.12, verifiers and this package.
    """
    if not (checkout / "src" / "prime_rl").is_dir():
        return f"{checkout} is no checkout of prime-rl (expected src/prime_rl in it)"
    own = checkout / ".venv" / "bin" / "python"
    program = python or (str(own) if own.is_file() else sys.executable)
    folders = (checkout / "src", checkout / "packages" / "prime-rl-configs" / "src")
    known = [*map(str, folders), os.environ.get("PYTHONPATH", "")]
    with tempfile.TemporaryDirectory(prefix="daydream-dry-run-") as out:
        done = subprocess.run(
            [
                *(program, "-c", DRY_RUN, "@", str(path.absolute()), "--dry-run"),
                *("--model.name", model, "--output-dir", out),
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, known))},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    said = (done.stdout + done.stderr).strip()
    if done.returncode == 0 and "Dry run complete" in said:
        return ""
    return f"prime-rl's dry run ended with {done.returncode}: {said[-1200:]}"


def main(path: Path, checkout: Path | None, model: str | None, python: str | None) -> int:
    """Print what is wrong with the configuration ``path``; return 0 when nothing, 1, or 2."""
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        print(f"check-config: cannot read {path}: {error}", file=sys.stderr)
        return 2
    if model is not None:
        config = {**config, "model": {**_table(config, "model"), "name": model}}
    problems = check(config)
    if checkout is not None:
        name = model or str(_table(config, "model").get("name", ""))
        told = dry_run(path, checkout, name, python)
        problems += [told] if told else []
        print("prime-rl dry run: failed" if told else "prime-rl dry run: complete")
    for problem in problems:
        print(f"WRONG {problem}", file=sys.stderr)
    print(f"{path}: {len(problems)} problems" if problems else f"{path}: fit to train")
    return 1 if problems else 0
