"""Driver of the reference of the Lasso benchmark: scikit-learn's path, in a sandbox of its own.

It answers the same questions as the harness around a candidate (``native/lasso_harness.cpp``): the
data is copied into arrays of this process first, and what is timed is the call on them. ``N`` does
everything but the call, which is the price of being asked.
"""

import mmap
import os
import struct
import warnings

import numpy as np
from sklearn.linear_model import lasso_path

from daydream.sandbox.answers import Line

MEMORY_FD = 40
SHAPE = struct.Struct("<3i")


def main() -> None:
    """Serve until there are no more questions."""
    warnings.simplefilter("ignore")
    line = Line()
    shared = np.frombuffer(mmap.mmap(MEMORY_FD, os.fstat(MEMORY_FD).st_size), dtype=np.float64)
    n = p = k = 0
    x = np.zeros((0, 0))
    y = penalties = result = np.zeros(0)
    for word, content in line.questions():
        if content[:1] == b"L":
            n, p, k = SHAPE.unpack(content[1:])
            x = shared[: n * p].reshape(n, p).copy()
            y = shared[n * p : n * p + n].copy()
            penalties = shared[n * p + n : n * p + n + k].copy()
            result = shared[n * p + n + k : n * p + n + k + k * p]
            result[:] = 0
        elif content == b"G":
            _, found, _ = lasso_path(x, y, alphas=penalties)
            result[:] = found.T.ravel()
        elif content == b"N":
            result[:] = result * 1.0
        line.answer(word, b"ok")
