"""Driver of a program whose function is called with plain data: runs inside the sandbox.

The first question is the path of the program and the name of its function; every later one is a
list of arguments. The answer to each is what came back, or the class and the words of what was
raised. Nothing that is expected of the program ever reaches this process.
"""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path

from daydream.sandbox.answers import Line
from daydream.sandbox.plain import NotPlain, decode, encode


def loaded(path: Path, name: str) -> Callable[..., object]:
    """Return the function ``name`` of the program at ``path``; raises what the program raises."""
    sys.path.append(str(path.parent))
    sys.argv = [str(path)]
    spec = importlib.util.spec_from_file_location("program", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["program"] = module
    spec.loader.exec_module(module)
    function: object = getattr(module, name, None)
    if not callable(function):
        raise AttributeError(f"{path.name} has no function {name}()")
    return function


def said(error: BaseException) -> bytes:
    """Return the answer for something that was raised."""
    kind = "NotPlain" if isinstance(error, NotPlain) else type(error).__name__
    try:
        words = str(error)[:1_000].encode("utf-8", "replace").decode()
    except BaseException as second:  # noqa: BLE001 - foreign __str__
        words = f"raises {type(second).__name__} when it is shown"
    return json.dumps({"raised": [kind[:80], words]}).encode()


def main() -> None:
    """Serve until there are no more questions."""
    line = Line()
    function: Callable[..., object] | None = None
    for word, content in line.questions():
        try:
            asked = decode(content)
            if function is None and isinstance(asked, list):
                function = loaded(Path(asked[0]), asked[1])
                answer = b"{}"
            elif function is not None and isinstance(asked, list):
                answer = b'{"value":' + encode(function(*asked)) + b"}"
            else:
                return
        except BaseException as error:  # noqa: BLE001 - the program may raise anything
            answer = said(error)
        line.answer(word, answer)
