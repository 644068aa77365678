"""The inside of the process that trains: one stage at a time, with checkpoints.

Only a worker imports this module: it brings torch, transformers, peft and trl.
"""

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback, set_seed
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

from daydream.errors import UsageError
from daydream.weights.adapters import LOSSES
from daydream.weights.device_child import Device, choose
from daydream.weights.train_settings import StageSettings, TrainSettings
from daydream.wording import counted

WHOLE = ("trainer_state.json", "optimizer.pt", "adapter_model.safetensors")
"""Files of a checkpoint that was written to its end."""


class State(NamedTuple):
    """What the stages share."""

    base: str
    settings: TrainSettings
    device: Device


def prepare(plan: Mapping[str, object]) -> State:
    """Take in the plan of a training."""
    settings = msgspec.convert(plan["settings"], TrainSettings)
    torch.set_num_threads(settings.threads)
    return State(str(plan["base"]), settings, choose(settings.device, settings.dtype))


class _Curve(TrainerCallback):  # type: ignore[misc] # the class of a package without types
    """Keeps each step's loss in a file; a resumed training goes on behind its checkpoint."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rewind(self, step: int) -> None:
        """Drop what came after ``step``."""
        if not self._path.exists():
            return
        lines = self._path.read_text(encoding="utf-8").split("\n")[:-1]
        kept = [line for line in lines if json.loads(line)["step"] <= step]
        self._path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def on_log(
        self, args: object, state: object, control: object, logs: object = None, **_: object
    ) -> None:
        """Append one line."""
        if not isinstance(logs, Mapping) or "loss" not in logs:
            return
        found = {"step": getattr(state, "global_step", 0), "loss": float(logs["loss"])}
        if "rewards/accuracies" in logs:
            found["accuracy"] = float(logs["rewards/accuracies"])
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")


def run_stage(state: State, argument: tuple[str, str, str, str]) -> tuple[int, int, float, str]:
    """Train ``(stage, rows file, adapter to start from, folder)``.

    Returns the rows, those of them that were left out, seconds and device. Raises
    :class:`UsageError` where no answer lies within ``max_length``.
    """
    stage, rows, start, folder = argument
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    settings = state.settings
    set_seed(settings.seed)
    text = Path(rows).read_text(encoding="utf-8")
    data = Dataset.from_list([json.loads(line) for line in text.splitlines()])
    curve = _Curve(place / LOSSES)
    checkpoints = place / "checkpoints"
    trainer = (_sft if stage == "sft" else _dpo)(state, data, start, checkpoints)
    kept = len(trainer.train_dataset)
    if not kept:
        raise UsageError(
            f"no answer of {counted(len(data), 'row')} for {stage} lies within train.max_length = "
            f"{settings.max_length} tokens, prompt included (expected some); raise it, for another "
            "adapter (--out, or night --anew)"
        )
    trainer.add_callback(curve)
    last = last_checkpoint(checkpoints)
    curve.rewind(0 if last is None else int(last.name.rpartition("-")[2]))
    began = time.monotonic()
    trainer.train(resume_from_checkpoint=None if last is None else str(last))
    seconds = time.monotonic() - began
    trainer.model.save_pretrained(str(place / "adapter"), selected_adapters=["default"])
    return kept, len(data) - kept, seconds, state.device.name


def last_checkpoint(folder: Path) -> Path | None:
    """Return the last whole checkpoint; one that a kill cut off is removed."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    whole = None
    for path in found:
        if all((path / name).exists() for name in WHOLE):
            whole = path
        else:
            shutil.rmtree(path)
    return whole


def _common(state: State, stage: StageSettings, folder: Path) -> dict[str, object]:
    settings = state.settings
    return {
        "output_dir": str(folder),
        "max_steps": stage.steps,
        "per_device_train_batch_size": stage.batch,
        "gradient_accumulation_steps": stage.accumulate,
        "learning_rate": stage.learning_rate,
        "warmup_steps": stage.warmup,
        "lr_scheduler_type": stage.schedule,
        "logging_steps": 1,
        "logging_first_step": True,
        "save_strategy": "steps",
        "save_steps": settings.save_every,
        "save_total_limit": 2,
        "seed": settings.seed,
        "data_seed": settings.seed,
        "max_length": settings.max_length,
        "report_to": [],
        "disable_tqdm": True,
        "gradient_checkpointing": False,
        "bf16": state.device.half,
        "use_cpu": state.device.kind == "cpu",
        "dataloader_pin_memory": state.device.kind == "cuda",
    }


def _load(state: State) -> tuple[AutoModelForCausalLM, AutoTokenizer]:
    tokenizer = AutoTokenizer.from_pretrained(state.base, local_files_only=True)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    # As it was saved on disk it may be in half numbers, which the arithmetic is not to be.
    options = {"local_files_only": True, "dtype": "auto" if state.device.half else torch.float32}
    model = AutoModelForCausalLM.from_pretrained(state.base, **options)
    return model, tokenizer


def _lora(settings: TrainSettings) -> LoraConfig:
    targets = settings.targets if isinstance(settings.targets, str) else list(settings.targets)
    return LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=targets,
        task_type="CAUSAL_LM",
    )


def _sft(state: State, data: Dataset, start: str, folder: Path) -> SFTTrainer:
    model, tokenizer = _load(state)
    return SFTTrainer(
        model=model,
        args=SFTConfig(**_common(state, state.settings.sft, folder)),
        train_dataset=data,
        processing_class=tokenizer,
        peft_config=_lora(state.settings),
    )


def _dpo(state: State, data: Dataset, start: str, folder: Path) -> DPOTrainer:
    model, tokenizer = _load(state)
    config: LoraConfig | None = _lora(state.settings)
    if start:
        model = PeftModel.from_pretrained(model, start, is_trainable=True, local_files_only=True)
        config = None
    return DPOTrainer(
        model=model,
        args=DPOConfig(beta=state.settings.beta, **_common(state, state.settings.dpo, folder)),
        train_dataset=data,
        processing_class=tokenizer,
        peft_config=config,
    )
