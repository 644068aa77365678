"""Instances of the full-size Lasso benchmark: 17 shapes, their recipes, and users' own data sets.

The shapes and the recipes are those of the public SimpleTES benchmark (after AlgoTune), so that
figures compare: normal designs, designs with few entries in a row, designs whose neighbouring
columns correlate at 0.5 or 0.9, coefficients that are nonzero in 1, 5 or 20 of a hundred places,
noise of size 0.1. The penalties are 50, geometric from max|X'y|/n to a hundredth of it. Every
instance follows from its number.

The six data sets of the paper's figure 3 are not ours to ship: each is read from ``NAME.npz`` with
the arrays ``X`` and ``y`` in the folder that ``DAYDREAM_DATA`` names.
"""

import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daydream.config import DATA_VARIABLE, data_folder
from daydream.errors import EnvironmentMissing, TaskError

Vector = NDArray[np.float64]
PENALTIES: Final = 50
RATIO: Final = 1e-2
NOISE: Final = 0.1
PER_ROW: Final = 20
"""Entries in a row of a sparse design."""
MAX_NUMBER: Final = 2**31 - 1


class Instance(NamedTuple):
    """One problem: minimise |y - X b|^2 / (2 n) + penalty |b|_1 for each penalty."""

    x: Vector
    """(n, p), rows one after the other in memory."""
    y: Vector
    penalties: Vector
    """(50,), decreasing."""

    def objectives(self, coefficients: Vector) -> Vector:
        """Return the objective of each row of ``coefficients``, (50, p), at its penalty."""
        residuals = self.y - coefficients @ self.x.T
        squares = np.einsum("ki,ki->k", residuals, residuals) / (2 * len(self.y))
        return np.asarray(squares + self.penalties * np.abs(coefficients).sum(axis=1))


class Case(NamedTuple):
    """One place of the benchmark: instances of one shape and kind."""

    name: str
    n: int
    p: int
    make: Callable[[int], Instance]
    """Returns the instance with a number."""


def _gaussian(rng: np.random.RandomState, n: int, p: int) -> Vector:
    return rng.randn(n, p)


def _sparse(rng: np.random.RandomState, n: int, p: int) -> Vector:
    x = np.zeros((n, p))
    for row in x:
        row[rng.choice(p, PER_ROW, replace=False)] = rng.randn(PER_ROW)
    scale = x.std(axis=0)
    return np.asarray(x / np.where(scale < 1e-8, 1.0, scale))


def _correlated(rng: np.random.RandomState, n: int, p: int, rho: float) -> Vector:
    return np.asarray(rng.randn(n, p) @ _factor(p, rho).T)


@cache
def _factor(p: int, rho: float) -> Vector:
    places = np.arange(p)
    return np.asarray(np.linalg.cholesky(rho ** np.abs(places[:, None] - places[None, :])))


class _Kind(NamedTuple):
    design: Callable[[np.random.RandomState, int, int], Vector]
    share: int
    """One in so many coefficients is nonzero."""
    size: float
    """Standard deviation of those."""


KINDS: Final = {
    "gaussian": _Kind(_gaussian, 20, 1.0),
    "dense_solution": _Kind(_gaussian, 5, 1.0),
    "sparse": _Kind(_sparse, 100, 2.0),
    "correlated_0.5": _Kind(lambda rng, n, p: _correlated(rng, n, p, 0.5), 20, 1.0),
    "correlated_0.9": _Kind(lambda rng, n, p: _correlated(rng, n, p, 0.9), 20, 1.0),
}
SHAPES: Final = (
    (200, 100, "gaussian"), (200, 500, "gaussian"), (500, 1000, "gaussian"),
    (200, 2000, "gaussian"), (50, 3000, "gaussian"), (2000, 500, "gaussian"),
    (100, 5000, "gaussian"), (1000, 500, "sparse"), (500, 1000, "sparse"),
    (500, 1000, "dense_solution"), (500, 30, "gaussian"), (1000, 50, "gaussian"),
    (2000, 3000, "sparse"), (500, 200, "correlated_0.5"), (500, 500, "correlated_0.9"),
    (200, 1000, "correlated_0.5"), (1000, 1000, "correlated_0.9"),
)  # fmt: skip


def penalties_of(x: Vector, y: Vector) -> Vector:
    """Return the grid of penalties: the first is the least with an empty solution."""
    top = float(np.max(np.abs(x.T @ y))) / len(y)
    return np.geomspace(top, top * RATIO, PENALTIES)


def make_instance(n: int, p: int, kind: str, number: int) -> Instance:
    """Return instance ``number`` of a shape and a kind."""
    # The recipes are stated for this generator.
    rng = np.random.RandomState(number)
    recipe = KINDS[kind]
    x = recipe.design(rng, n, p)
    truth = np.zeros(p)
    nonzero = max(1, p // recipe.share)
    support = rng.choice(p, nonzero, replace=False)
    truth[support] = recipe.size * rng.randn(nonzero)
    y = x @ truth + NOISE * rng.randn(n)
    return Instance(np.ascontiguousarray(x), y, penalties_of(x, y))


def synthetic(shapes: tuple[tuple[int, int, str], ...] = SHAPES) -> tuple[Case, ...]:
    """Return the cases of ``shapes``."""

    def case(n: int, p: int, kind: str) -> Case:
        return Case(f"{n}x{p} {kind}", n, p, lambda number: make_instance(n, p, kind, number))

    return tuple(case(*shape) for shape in shapes)


HELD_OUT: Final = ("gisette", "rcv1", "dna", "leukemia", "colon", "duke")
"""The data sets of the paper's figure 3."""


def held_out(name: str) -> Case:
    """Return the case of the user's own file of data set ``name``.

    An instance is the data with its rows and columns in another order, which changes no objective.
    Raises :class:`EnvironmentMissing` where the file is not at hand, :class:`TaskError` where it
    cannot be read.
    """
    folder = data_folder()
    path = None if folder is None else folder / f"{name}.npz"
    if path is None or not path.is_file():
        looked = f"no {path}" if path is not None else f"{DATA_VARIABLE} is not set"
        raise EnvironmentMissing(
            f"the data set {name} is not at hand: {looked} (expected a folder with {name}.npz, "
            "which holds arrays X, n x p, and y); save it there with numpy.savez"
        )
    x, y = _arrays(path)

    def shuffled(number: int) -> Instance:
        rng = np.random.default_rng(number)
        rows, columns = rng.permutation(len(y)), rng.permutation(x.shape[1])
        mixed, target = np.ascontiguousarray(x[rows][:, columns]), y[rows].copy()
        return Instance(mixed, target, penalties_of(mixed, target))

    return Case(name, x.shape[0], x.shape[1], shuffled)


@cache
def _arrays(path: Path) -> tuple[Vector, Vector]:
    try:
        with np.load(path, allow_pickle=False) as found:
            x = np.asarray(found["X"], dtype=np.float64)
            y = np.asarray(found["y"], dtype=np.float64).ravel()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise TaskError(
            f"cannot read {path}: {error} (expected arrays X and y); save it with numpy.savez"
        ) from None
    if x.ndim != 2 or len(y) != len(x) or not min(x.shape) >= 1:
        raise TaskError(
            f"{path} holds X of shape {x.shape} and y of {len(y)} (expected n x p and n); save it "
            "again"
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise TaskError(f"{path} holds numbers that are not finite; clean the data")
    return x, y
