"""Driver of a program that produces data: runs inside the sandbox, in the program's own process.

It reads one request from standard input, calls one function of the program, and writes one frame to
a descriptor that the program does not know the number of: a nonce that came with the request, what
the function returned as JSON, and the nonce again. What the program prints reaches nothing, and
leaving early leaves no frame. Whatever it raises is an answer too.

The program shares this process, so it can forge a frame. That gives it nothing: a frame holds data
and no score, and the data is judged elsewhere.
"""

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from typing import TypedDict

from daydream.sandbox.plain import NotPlain, as_json

RESULT_FD = 3
TEXT = 4_000
"""Characters kept of a traceback."""


class Request(TypedDict):
    """What the parent asks for."""

    nonce: str
    program: str
    """Absolute path of the Python file."""
    function: str


def produced(request: Request) -> bytes:
    """Return the answer to ``request`` as JSON: ``{"ok": data}`` or ``{"error": [kind, text]}``."""
    try:
        path = Path(request["program"])
        # Last, so that no file of the program's stands in for a module that it imports.
        sys.path.append(str(path.parent))
        sys.argv = [str(path)]
        spec = importlib.util.spec_from_file_location("program", path)
        if spec is None or spec.loader is None:
            return _error("no_program", f"{path.name} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules["program"] = module
        spec.loader.exec_module(module)
        function = getattr(module, request["function"], None)
        if not callable(function):
            return _error("no_function", f"{path.name} has no function {request['function']}()")
        return b'{"ok":' + as_json(function()) + b"}"
    except NotPlain as error:
        return _error("not_data", str(error))
    except BaseException as error:  # noqa: BLE001 - the program may raise anything
        return _error(type(error).__name__, _described(error))


def _described(error: BaseException) -> str:
    try:
        # The first frame is this driver's, and the next ones are the import machinery's.
        trace = error.__traceback__
        while trace and trace.tb_next and _ours(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        return "".join(traceback.format_exception(type(error), error, trace))[-TEXT:]
    except BaseException as second:  # noqa: BLE001 - foreign __str__
        return f"an exception that raises {type(second).__name__} when it is shown"


def _ours(path: str) -> bool:
    return path == __file__ or path.startswith("<frozen ")


def _error(kind: str, message: str) -> bytes:
    return json.dumps({"error": [kind[:80], message]}).encode()


def main() -> None:
    """Read the request, answer it, and leave without running any more of the program."""
    channel = os.dup(RESULT_FD)
    os.close(RESULT_FD)
    request: Request = json.loads(sys.stdin.buffer.read())
    nonce = request["nonce"].encode()
    request["nonce"] = ""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    owner = os.getpid()
    answer = produced(request)
    if os.getpid() != owner:
        # A fork of the program came back here; only the first process may answer.
        os._exit(1)
    data = nonce + answer + nonce
    while data:
        data = data[os.write(channel, data) :]
    os._exit(0)
