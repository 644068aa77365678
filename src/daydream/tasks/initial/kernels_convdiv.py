"""Convolution, division by a divisor, LeakyReLU, one after the other."""

import torch


# EVOLVE-BLOCK-START
def prepare(weights: dict[str, torch.Tensor]) -> object:
    """Called once, before the clock runs: conv.weight, conv.bias and divisor."""
    return weights


def run(prepared: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Timed, on a fresh x every time."""
    y = torch.nn.functional.conv2d(x, prepared["conv.weight"], prepared["conv.bias"])
    return torch.nn.functional.leaky_relu(y / prepared["divisor"], 0.01)


# EVOLVE-BLOCK-END
