"""Training an adapter: SFT, then DPO from it, in a child process that can be killed at any time.

Owns the plan of a training and its resuming. The same command on the same folder goes on from the
last checkpoint and gives the same loss curve; another corpus, base or setting is refused there.
"""

import shutil
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import msgspec

from daydream.canonical import dumps
from daydream.config import training_environment
from daydream.errors import StoreError, UsageError
from daydream.sandbox.workers import Worker
from daydream.store.files import disk_errors, replace_file
from daydream.store.shared_log import alone
from daydream.weights.adapters import (
    LOSSES,
    MANIFEST,
    Adapter,
    StageResult,
    files_of,
    read_adapter,
    write_adapter,
)
from daydream.weights.answerers import WEIGHT_FILES, base_hash, call, need_base
from daydream.weights.corpus_files import DPO, SFT, read_manifest
from daydream.weights.train_settings import Stage, TrainSettings

PLAN: Final = "plan.json"
PACKAGES: Final = ("torch", "transformers", "peft", "trl", "datasets", "accelerate")
ROWS: Final = {"sft": SFT, "dpo": DPO}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a training is; it is refused to change under way."""

    base: str
    base_hash: str
    corpus: str
    """Folder of the corpus."""
    corpus_id: str
    stages: tuple[Stage, ...]
    settings: TrainSettings


class Loss(msgspec.Struct, frozen=True):
    """One step of a loss curve."""

    step: int
    loss: float
    accuracy: float | None = None
    """Share of pairs whose chosen answer is preferred; DPO only."""


def plan_of(base: Path, corpus: Path, stages: Sequence[Stage], settings: TrainSettings) -> Plan:
    """Return the plan of a training; raises :class:`UsageError` for what cannot be trained."""
    manifest = read_manifest(corpus)
    need_base(base)
    if not stages:
        raise UsageError("nothing to train (expected --sft, --dpo or both)")
    if "dpo" in stages and not manifest.dpo:
        raise UsageError(
            f"corpus {corpus} has no contrasts for DPO (expected some); train with --sft alone, or "
            "wake with more samples"
        )
    return Plan(
        base=str(base),
        base_hash=base_hash(base),
        corpus=str(corpus),
        corpus_id=manifest.id,
        stages=tuple(stages),
        settings=settings,
    )


def train(plan: Plan, folder: Path) -> Adapter:
    """Train ``plan`` into ``folder``, from its last checkpoint where it has one.

    Raises :class:`UsageError` when the folder belongs to another plan, and what
    :func:`daydream.weights.answerers.call` raises for the child.
    """
    with disk_errors("make", folder):
        folder.mkdir(parents=True, exist_ok=True)
    with alone(folder / "lock"):
        _claim(plan, folder)
        if (folder / MANIFEST).exists():
            return read_adapter(folder)
        results: dict[str, StageResult] = {}
        worker = Worker(
            "daydream.weights.train_child:prepare",
            (msgspec.to_builtins(plan),),
            training_environment(plan.settings.threads),
        )
        try:
            start = ""
            for stage in plan.stages:
                place = folder / stage
                results[stage] = _stage(worker, plan, stage, start, place)
                start = str(place / "adapter")
        finally:
            worker.close()
        with disk_errors("write", folder):
            for name in WEIGHT_FILES:
                shutil.copyfile(Path(start) / name, folder / name)
        digest, files = files_of(folder)
        adapter = Adapter(
            id=digest,
            base=plan.base,
            base_hash=plan.base_hash,
            corpus=plan.corpus_id,
            settings=plan.settings,
            stages=results,
            versions=versions(),
            files=files,
        )
        write_adapter(folder, adapter)
        for stage in plan.stages:
            shutil.rmtree(folder / stage / "checkpoints", ignore_errors=True)
        return adapter


def _claim(plan: Plan, folder: Path) -> None:
    path = folder / PLAN
    data = dumps(plan) + b"\n"
    with disk_errors("write", path):
        if not path.exists():
            replace_file(path, data)
            return
        before = path.read_bytes()
    if before != data:
        raise UsageError(
            f"{folder} belongs to another training (expected the same base, corpus, stages and "
            "settings); choose another --out"
        )


def _stage(worker: Worker, plan: Plan, stage: Stage, start: str, place: Path) -> StageResult:
    """Return the result of a stage, trained now or before."""
    done = place / "result.json"
    if done.is_file():
        with disk_errors("read", done):
            return msgspec.json.decode(done.read_bytes(), type=StageResult)
    rows = str(Path(plan.corpus) / ROWS[stage])
    found = call(worker, "daydream.weights.train_child:run_stage", (stage, rows, start, str(place)))
    if not (isinstance(found, tuple) and len(found) == 4):
        raise StoreError(f"the training child sent {found!r:.80} (expected 4 values)")
    count, left_out = int(found[0]), int(found[1])
    seconds, device = float(found[2]), str(found[3])
    curve = read_losses(place / LOSSES)
    tail = curve[-max(1, len(curve) // 10) :]
    result = StageResult(
        rows=count,
        steps=curve[-1].step,
        first_loss=curve[0].loss,
        last_loss=sum(one.loss for one in tail) / len(tail),
        seconds=seconds,
        device=device,
        left_out=left_out,
    )
    with disk_errors("write", done):
        replace_file(done, dumps(result) + b"\n")
    return result


def read_losses(path: Path) -> list[Loss]:
    """Return a loss curve, without a last line that is cut off."""
    if not path.is_file():
        return []
    with disk_errors("read", path):
        lines = path.read_bytes().split(b"\n")[:-1]
    return [msgspec.json.decode(line, type=Loss) for line in lines]


def versions() -> dict[str, str]:
    """Return the versions of the packages that train."""
    found: dict[str, str] = {}
    for name in ("daydream-rsi", *PACKAGES):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
