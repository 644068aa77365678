"""Driver around a kernel in torch: in a sandbox of its own, for candidates and for the reference.

Its arguments are the path of the program and the device. It answers the questions of
:mod:`daydream.tasks.timed`: weights and inputs are copied into tensors first, and what is timed is
``run`` with its result written into the shared memory. ``N`` writes a result without computing one.
"""

import json
import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

from daydream.sandbox.answers import Line
from daydream.sandbox.callee import loaded, said

MEMORY_FD = 40


class Host:
    """One program with its prepared weights and its input."""

    def __init__(self, path: Path, device: str) -> None:
        self._path = path
        self._device = device
        size = os.fstat(MEMORY_FD).st_size
        self._memory = torch.frombuffer(mmap.mmap(MEMORY_FD, size), dtype=torch.float32)
        self._run: Callable[..., object] | None = None
        self._prepared: object = None
        self._x = torch.zeros(0)
        self._result = torch.zeros(0)
        self._zeros = torch.zeros(0)

    def take(self, told: dict[str, object]) -> None:
        """Copy weights or an input out of the shared memory."""
        shapes = told["shapes"]
        if not isinstance(shapes, list):
            raise TypeError("no shapes")
        tensors, place = {}, 0
        for name, shape in shapes:
            count = torch.Size(shape).numel()
            part = self._memory[place : place + count].reshape(shape)
            tensors[name] = part.clone().to(self._device)
            place += count
        if told["what"] == "weights":
            prepare = loaded(self._path, "prepare")
            module: ModuleType = sys.modules["program"]
            self._run = module.run
            with torch.inference_mode():
                self._prepared = prepare(tensors)
            return
        self._x = tensors["x"]
        output = told["output"]
        count = torch.Size(output).numel()
        self._result = self._memory[place : place + count].reshape(output)
        self._result.zero_()
        self._zeros = torch.zeros(output, device=self._device)

    def work(self, *, nothing: bool) -> None:
        """Compute the result and write it, or write zeros."""
        with torch.inference_mode():
            found = self._zeros if nothing else self._called()
            if not isinstance(found, torch.Tensor) or found.shape != self._result.shape:
                what = tuple(getattr(found, "shape", ())) or type(found).__name__
                raise ValueError(f"run returned {what}, expected {tuple(self._result.shape)}")
            self._result.copy_(found)
            if self._device == "cuda":
                torch.cuda.synchronize()

    def _called(self) -> object:
        if self._run is None:
            raise ValueError("no weights were given")
        return self._run(self._prepared, self._x)


def main() -> None:
    """Serve until there are no more questions."""
    path, device = sys.argv[1:3]
    torch.set_num_threads(1)
    line = Line()
    host = Host(Path(path), device)
    for word, content in line.questions():
        answer = b"ok"
        try:
            if content[:1] == b"L":
                host.take(json.loads(content[1:]))
            else:
                host.work(nothing=content == b"N")
        except BaseException as error:  # noqa: BLE001 - the program may raise anything
            answer = said(error)
        line.answer(word, answer)
