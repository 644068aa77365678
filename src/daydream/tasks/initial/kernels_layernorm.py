"""LayerNorm over the last three axes, as torch has it."""

import torch


# EVOLVE-BLOCK-START
def prepare(weights: dict[str, torch.Tensor]) -> object:
    """Called once, before the clock runs: weight and bias, each of shape (64, 256, 256)."""
    return weights["weight"], weights["bias"]


def run(prepared: tuple[torch.Tensor, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Timed, on a fresh x every time."""
    weight, bias = prepared
    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, eps=1e-5)


# EVOLVE-BLOCK-END
