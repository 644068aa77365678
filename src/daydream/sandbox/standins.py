"""Stand-ins for the few names that evaluators import from other tools.

Copied beside the driver (:mod:`daydream.sandbox.evaluator_driver`) and used inside the sandbox, for
evaluators written for OpenEvolve, SkyDiscover or ShinkaEvolve whose package is not installed. An
installed package always wins. Own code, written against their documented behaviour; only what an
evaluator needs in order to score is here: no plots, no early stopping, no parallel runs. Like the
driver it keeps to what Python 3.8 understands.
"""

from __future__ import annotations

import importlib.util
import json
import math
import time
import traceback
from dataclasses import dataclass, field
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Callable, Dict, List, Optional, Tuple  # noqa: UP035 - evaluated by Python 3.8

Metrics = Dict[str, object]  # noqa: UP006
Validate = Callable[[object], Tuple[bool, Optional[str]]]  # noqa: UP006, UP045
Aggregate = Callable[[List[object]], Metrics]  # noqa: UP006


@dataclass
class EvaluationResult:
    """What an evaluator returns: numbers by name, and texts for the next proposer."""

    metrics: Metrics
    artifacts: dict[str, str | bytes] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, metrics: Metrics) -> EvaluationResult:
        """Return a result without artifacts."""
        return cls(metrics=metrics)

    def to_dict(self) -> Metrics:
        """Return the metrics."""
        return self.metrics

    def has_artifacts(self) -> bool:
        """Return whether there is any artifact."""
        return len(self.artifacts) > 0

    def get_artifact_keys(self) -> list[str]:
        """Return the names of the artifacts."""
        return list(self.artifacts)

    def get_artifact_size(self, key: str) -> int:
        """Return the size of one artifact in bytes; 0 where there is none."""
        value = self.artifacts.get(key, b"")
        return len(value if isinstance(value, bytes) else str(value).encode())

    def get_total_artifact_size(self) -> int:
        """Return the size of all artifacts in bytes."""
        return sum(self.get_artifact_size(key) for key in self.artifacts)


def run_shinka_eval(  # noqa: PLR0913, PLR0917 - the other tool's signature
    program_path: str,
    results_dir: str,
    experiment_fn_name: str,
    num_runs: int,
    get_experiment_kwargs: Callable[[int], Metrics] | None = None,
    aggregate_metrics_fn: Aggregate | None = None,
    validate_fn: Validate | None = None,
    default_metrics_on_error: Metrics | None = None,
    **_: object,
) -> tuple[Metrics, bool, str | None]:
    """Run an experiment ``num_runs`` times, validate each run, and write the two result files.

    Returns the metrics, whether all runs were valid, and the first reason if not.
    """
    problems: list[str] = []
    seconds: list[float] = []
    outputs: list[object] = []
    try:
        experiment = getattr(_program(program_path), experiment_fn_name)
        for index in range(num_runs):
            options = get_experiment_kwargs(index) if get_experiment_kwargs else {"seed": index + 1}
            start = time.perf_counter()
            outputs.append(experiment(**options))
            seconds.append(time.perf_counter() - start)
            valid, reason = validate_fn(outputs[-1]) if validate_fn else (True, None)
            if not valid:
                problems.append(f"Validation failed: {reason}")
        runs: Metrics = {"num_successful_runs": len(outputs)}
        metrics = aggregate_metrics_fn(outputs) if aggregate_metrics_fn else runs
        metrics["execution_time_mean"] = sum(seconds) / max(1, len(seconds))
        if validate_fn:
            metrics["num_invalid_runs"] = len(problems)
        score = metrics.get("combined_score", 0.0)
        if isinstance(score, float) and not math.isfinite(score):
            problems.append(f"combined_score is {score}")
    except Exception as error:  # noqa: BLE001 - the program may raise anything
        traceback.print_exc()
        metrics = dict(default_metrics_on_error or {"combined_score": 0.0})
        problems.append(str(error) or type(error).__name__)
    metrics.pop("extra_data", None)
    first = problems[0] if problems else None
    save_json_results(results_dir, metrics, not problems, first)
    return metrics, not problems, first


def _program(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("program", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def save_json_results(
    results_dir: str, metrics: Metrics, correct: bool, error: str | None = None, **_: object
) -> None:
    """Write ``metrics.json`` and ``correct.json``."""
    folder = Path(results_dir)
    folder.mkdir(parents=True, exist_ok=True)
    verdict = {"correct": correct, "error": error}
    folder.joinpath("correct.json").write_text(json.dumps(verdict), encoding="utf-8")
    folder.joinpath("metrics.json").write_text(json.dumps(metrics), encoding="utf-8")


class _Loader(Loader):
    """Makes an empty module, or one with names of ours."""

    def __init__(self, content: dict[str, object]) -> None:
        self._content = content

    def exec_module(self, module: ModuleType) -> None:
        """Fill the new module."""
        vars(module).update(self._content)


MODULES: dict[str, dict[str, object]] = {
    "openevolve.evaluation_result": {"EvaluationResult": EvaluationResult},
    "skydiscover.evaluation.evaluation_result": {"EvaluationResult": EvaluationResult},
    "shinka.core": {"run_shinka_eval": run_shinka_eval, "save_json_results": save_json_results},
}
"""What there is: module to names."""


def find(name: str) -> ModuleSpec | None:
    """Return the spec of a stand-in or of a package above one; None for anything else."""
    package = any(module.startswith(f"{name}.") for module in MODULES)
    if name not in MODULES and not package:
        return None
    return ModuleSpec(name, _Loader(MODULES.get(name, {})), is_package=package)
