"""What one night with a real small model came to, in words and a table, from its result file.

The file is what ``benchmarks/model_line.py`` wrote; where it is not there, nothing is shown.
"""

from pathlib import Path
from textwrap import fill

import msgspec

from tools.figures import table

NAMES = {
    "base": "as it comes",
    "sft": "SFT on its own verified answers",
    "dpo": "the same, then DPO",
}
PACKAGES = ("torch", "transformers", "trl", "peft")


class Rate(msgspec.Struct, frozen=True):
    """A solve rate with its 95 % interval."""

    solved: int
    rate: float
    low: float
    high: float


class Trial(msgspec.Struct, frozen=True):
    """A paired comparison."""

    probes: int
    low: float
    high: float


class Verdict(msgspec.Struct, frozen=True):
    """What the gate decided."""

    decision: str
    reason: str
    trial: Trial


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """benchmarks/results/model.json."""

    model: str
    family: str
    attempts: int
    solved: int
    successes: int
    contrasts: int
    rates: dict[str, Rate]
    verdict: Verdict
    cpu_s: dict[str, float]
    versions: dict[str, str]


def model_line(results: Path) -> str:
    """Return what the file in folder ``results`` tells."""
    path = results / "model.json"
    if not path.exists():
        return ""
    found = msgspec.json.decode(path.read_bytes(), type=Measured)
    trial = found.verdict.trial
    rows = [
        (
            told,
            f"{found.rates[name].solved} of {trial.probes}",
            f"{_percent(found.rates[name].rate)} ({_percent(found.rates[name].low)} to "
            f"{_percent(found.rates[name].high)})",
        )
        for name, told in NAMES.items()
    ]
    model = found.model.partition(".")[0]
    versions = ", ".join(f"{name} {found.versions[name].partition('+')[0]}" for name in PACKAGES)
    told = (
        f"The gate: **{found.verdict.decision}** ({found.verdict.reason}). The 95 % interval of "
        f"the difference is {100 * trial.low:+.1f} to {100 * trial.high:+.1f} points. It learnt "
        f"from {found.attempts} attempts of its own at other problems of "
        f"`{found.family}`, {found.solved} of them right: {found.successes} successes and "
        f"{found.contrasts} contrasts. All of it took {sum(found.cpu_s.values()) / 60:.0f} CPU "
        f"minutes, with {versions}."
    )
    return f"{table((model, 'held-out problems solved', 'rate'), rows)}\n{fill(told, 100)}\n"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
