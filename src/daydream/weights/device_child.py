"""Which device trains and generates, and in which numbers.

Only a worker imports this module: it brings torch.
"""

from typing import NamedTuple

import torch

from daydream.errors import EnvironmentMissing
from daydream.weights.train_settings import Dtype, WantedDevice


class Device(NamedTuple):
    """What was chosen."""

    kind: str
    """``cpu`` or ``cuda``."""
    half: bool
    """Whether arithmetic is in bfloat16."""
    name: str
    """For people: the name of the card, or ``cpu``."""


def choose(device: WantedDevice, dtype: Dtype) -> Device:
    """Return the device that was asked for, with ``auto`` decided.

    Raises :class:`EnvironmentMissing` where a card, or bfloat16 on it, was asked for and is not
    there.
    """
    cards = torch.cuda.is_available()
    if device == "cuda" and not cards:
        built = torch.version.cuda
        what = f"built for CUDA {built}" if built else "built without CUDA"
        raise EnvironmentMissing(
            f'train.device = "cuda", and torch {torch.__version__}, {what}, finds no graphics card '
            "(expected one); see that nvidia-smi shows it and CUDA_VISIBLE_DEVICES does not hide "
            'it, install the torch built for its driver, or set device = "auto"'
        )
    if device == "cpu" or not cards:
        return Device("cpu", dtype == "bfloat16", "cpu")
    name = torch.cuda.get_device_name(0)
    able = bool(torch.cuda.is_bf16_supported())
    if dtype == "bfloat16" and not able:
        raise EnvironmentMissing(
            f'train.dtype = "bfloat16", and {name} has no bfloat16 (expected a card from 2020 on); '
            'set dtype = "float32"'
        )
    return Device("cuda", able and dtype != "float32", name)
