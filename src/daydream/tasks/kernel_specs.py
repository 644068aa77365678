"""Four layers of KernelBench as data: shapes, random weights, random inputs. Without torch.

As published, two of them hardly depend on their input: freshly made weights of VGG16 give outputs
that differ by 3e-7 between inputs, and LayerNorm starts with weights of one and biases of zero. So
every weight and bias is drawn here: with the standard deviation that keeps a layer's size for
VGG16, a random affine map for LayerNorm, a divisor and a factor that are no powers of two. Inputs
take turns between three distributions, so that no moment of one can be built in.

Full sizes are those of KernelBench (level 1 problem 40, level 2 problems 71 and 82, level 3 problem
11); the small ones are for CPUs: fewer images, and for VGG16 a quarter of the channels and units on
images of 64 x 64.
"""

from collections.abc import Callable, Mapping
from math import prod, sqrt
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Shape: TypeAlias = tuple[int, ...]
Size: TypeAlias = Literal["small", "full"]


class Spec(NamedTuple):
    """One layer at one size."""

    what: str
    input: Shape
    output: Shape
    weights: Callable[[np.random.Generator], dict[str, Array]]
    """Draws weights by name."""
    largest: int
    """Numbers in all weights."""


def _normal(rng: np.random.Generator, shape: Shape, size: float, mean: float = 0.0) -> Array:
    found = rng.standard_normal(shape, dtype=np.float32)
    found *= np.float32(size)
    found += np.float32(mean)
    return found


def _layernorm(size: Size) -> Spec:
    shape = (64, 256, 256)
    batch = 16 if size == "full" else 2

    def weights(rng: np.random.Generator) -> dict[str, Array]:
        return {"weight": _normal(rng, shape, 0.3, 1.0), "bias": _normal(rng, shape, 0.3)}

    what = "LayerNorm over the last three axes with a weight and a bias for each place, eps 1e-5"
    return Spec(what, (batch, *shape), (batch, *shape), weights, 2 * prod(shape))


def _conv(rng: np.random.Generator) -> dict[str, Array]:
    return {
        "conv.weight": _normal(rng, (64, 8, 3, 3), sqrt(2 / 72)),
        "conv.bias": _normal(rng, (64,), 0.3),
    }


def _convdiv(size: Size) -> Spec:
    batch, side = (128 if size == "full" else 4), 128

    def weights(rng: np.random.Generator) -> dict[str, Array]:
        return {**_conv(rng), "divisor": rng.uniform(1.3, 2.9, (1,)).astype(np.float32)}

    what = "3 x 3 convolution from 8 to 64 channels, division by a divisor, LeakyReLU of slope 0.01"
    return Spec(what, (batch, 8, side, side), (batch, 64, side - 2, side - 2), weights, 4_673)


def _convmax(size: Size) -> Spec:
    batch, side = (128 if size == "full" else 2), 256

    def weights(rng: np.random.Generator) -> dict[str, Array]:
        return {
            **_conv(rng),
            "scale": rng.uniform(1.3, 2.9, (1,)).astype(np.float32),
            "bias": _normal(rng, (64, 1, 1), 0.3),
        }

    what = (
        "3 x 3 convolution from 8 to 64 channels, tanh, times a scale (above 0), plus a bias for "
        "each channel, maximum over 4 x 4 blocks"
    )
    pooled = (side - 2) // 4
    return Spec(what, (batch, 8, side, side), (batch, 64, pooled, pooled), weights, 4_737)


_CHANNELS: Final = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
"""Channels of the 13 convolutions of VGG16; 0 is a maximum over 2 x 2 blocks."""


def _vgg16(size: Size) -> Spec:
    part, side, batch = (1, 224, 10) if size == "full" else (4, 64, 1)
    shapes: dict[str, Shape] = {}
    before = 3
    for number, channels in enumerate(filter(None, _CHANNELS)):
        shapes[f"conv{number}"] = (channels // part, before, 3, 3)
        before = channels // part
    units = (before * (side // 32) ** 2, 4096 // part, 4096 // part, 1000)
    for number in range(3):
        shapes[f"fc{number}"] = (units[number + 1], units[number])

    def weights(rng: np.random.Generator) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for name, shape in shapes.items():
            found[f"{name}.weight"] = _normal(rng, shape, sqrt(2 / prod(shape[1:])))
            found[f"{name}.bias"] = _normal(rng, shape[:1], 0.1)
        return found

    what = (
        "VGG16: 3 x 3 convolutions with padding 1 and ReLU in blocks of 2, 2, 3, 3 and 3, each "
        "block followed by a maximum over 2 x 2; then three linear layers, the first two with ReLU"
    )
    largest = sum(prod(shape) + shape[0] for shape in shapes.values())
    return Spec(what, (batch, 3, side, side), (batch, 1000), weights, largest)


KERNELS: Final[Mapping[str, Callable[[Size], Spec]]] = {
    "layernorm": _layernorm,
    "convdiv": _convdiv,
    "convmax": _convmax,
    "vgg16": _vgg16,
}


def draw_input(shape: Shape, number: int, rng: np.random.Generator) -> Array:
    """Return input ``number`` of this shape: uniform, normal, or wide and off centre, in turn."""
    kind = number % 3
    if kind == 0:
        return rng.random(shape, dtype=np.float32)
    return _normal(rng, shape, 1.0) if kind == 1 else _normal(rng, shape, 2.5, 0.7)


class Difference(NamedTuple):
    """How far an output is from the reference's."""

    largest: float
    """Greatest difference of one number, over the allowance at that number; at most 1 is good."""
    relative: float
    """Length of the difference over the length of the reference's output."""

    def within(self, tolerance: float) -> bool:
        """Return whether both measures are; False for anything that is not a number."""
        return bool(self.largest <= 1.0 and self.relative <= tolerance)


def difference(found: Array, known: Array, tolerance: float) -> Difference:
    """Return how far ``found`` is from ``known``; the allowance at a number v is
    tolerance (1 + |v|).
    """
    gap = np.abs(found - known)
    largest = float(np.max(gap / (tolerance * (1.0 + np.abs(known)))))
    length = float(np.linalg.norm(known.ravel().astype(np.float64)))
    apart = float(np.linalg.norm(gap.ravel().astype(np.float64)))
    return Difference(largest, apart / length if length > 0 else float("inf"))
