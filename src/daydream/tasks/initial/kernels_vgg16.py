"""VGG16, layer by layer."""

import torch

BLOCKS = (2, 2, 3, 3, 3)


# EVOLVE-BLOCK-START
def prepare(weights: dict[str, torch.Tensor]) -> object:
    """Called once, before the clock runs: conv0 to conv12 and fc0 to fc2, weight and bias each."""
    return weights


def run(prepared: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Timed, on a fresh x every time."""
    number = 0
    for length in BLOCKS:
        for _ in range(length):
            weight, bias = prepared[f"conv{number}.weight"], prepared[f"conv{number}.bias"]
            x = torch.relu(torch.nn.functional.conv2d(x, weight, bias, padding=1))
            number += 1
        x = torch.nn.functional.max_pool2d(x, 2)
    x = x.flatten(1)
    for layer in range(3):
        weight, bias = prepared[f"fc{layer}.weight"], prepared[f"fc{layer}.bias"]
        x = torch.nn.functional.linear(x, weight, bias)
        x = torch.relu(x) if layer < 2 else x
    return x


# EVOLVE-BLOCK-END
