"""Who answers questions: a model behind an endpoint, or one on this machine with an adapter.

Model strings are those of :mod:`daydream.llm.models`, and ``local:PATH`` for a folder that
``transformers`` loads. What needs torch runs in a process of its own, so nothing here imports it.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

import msgspec

from daydream.canonical import content_hash, hash_of, listing_hash
from daydream.config import training_environment
from daydream.errors import EnvironmentMissing, ModelError, Stopped, UsageError
from daydream.llm.base import ChatModel, Message, Request
from daydream.llm.client import Client, Line, Terms
from daydream.llm.models import load_model
from daydream.sandbox.workers import Worker, WorkerFailed
from daydream.store.events import Usage
from daydream.store.files import disk_errors
from daydream.weights.episodes import Form, Sampling

LOCAL: Final = "local:"
BATCH: Final = 64
"""Prompts that a local model continues at once."""
PARALLEL: Final = 8
"""Requests to an endpoint at once."""
INSTALL: Final = "pip install 'daydream-rsi[weights]'"
ROUND: Final = 1_000_000
"""More than the samples of one round of questions."""
WEIGHT_FILES: Final = ("adapter_config.json", "adapter_model.safetensors")


class Prompt(msgspec.Struct, frozen=True):
    """One question with the number of its sample."""

    messages: tuple[Message, ...]
    sample: int = 0


class Answer(msgspec.Struct, frozen=True):
    """What came back. Its text is untrusted."""

    text: str
    usage: Usage = Usage()
    finish: str = ""
    error: str = ""
    """Why there is none; empty when there is."""


class Answerer(Protocol):
    """Answers prompts."""

    @property
    def form(self) -> Form:
        """How prompts are put to it."""
        ...

    @property
    def chunk(self) -> int:
        """How many prompts to hand over at once."""
        ...

    def answer(self, prompts: Sequence[Prompt], sampling: Sampling) -> Iterator[Answer]:
        """Yield an answer to each prompt, in order.

        Raises :class:`Stopped` once the budget is spent, after what was answered before.
        """
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class Contender(msgspec.Struct, frozen=True):
    """A model, with or without an adapter."""

    model: str
    """Model string of the base, or of the served adapter."""
    adapter: str = ""
    """Folder of the adapter; empty for the model alone, and for a served adapter."""

    @property
    def name(self) -> str:
        """What people call it."""
        return Path(self.adapter).name if self.adapter else self.model

    def identity(self) -> str:
        """Return what tells it from others: hashes of the weights where they are here.

        Raises :class:`UsageError` where a folder is missing.
        """
        base = self.model
        if self.model.startswith(LOCAL):
            base = base_hash(Path(self.model.removeprefix(LOCAL)))
        return hash_of([base, adapter_hash(Path(self.adapter)) if self.adapter else ""])[:32]


def adapter_hash(folder: Path) -> str:
    """Return the identity of the adapter in ``folder``; raises :class:`UsageError` for none."""
    missing = [name for name in WEIGHT_FILES if not (folder / name).is_file()]
    if missing:
        raise UsageError(
            f"{folder} holds no adapter: {missing[0]} is not there (expected what daydream train "
            "writes); name the folder of an adapter"
        )
    return _hash(folder, WEIGHT_FILES)


def base_hash(folder: Path) -> str:
    """Return the identity of the model in ``folder``: its configuration, tokenizer and weights."""
    if not (folder / "config.json").is_file():
        raise UsageError(
            f"{folder} holds no model: config.json is not there (expected a folder that "
            "transformers wrote with save_pretrained); name one as local:PATH"
        )
    names = sorted(path.name for path in folder.iterdir() if path.suffix in _MODEL_ENDINGS)
    return _hash(folder, names)


def need_base(folder: Path) -> None:
    """Raise :class:`UsageError` where ``folder`` holds no whole model, naming what is missing."""
    base_hash(folder)
    with disk_errors("read", folder):
        names = {path.name for path in folder.iterdir()}
    settings = folder / "config.json"
    try:
        found = msgspec.json.decode(settings.read_bytes())
    except (OSError, msgspec.MsgspecError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("model_type"), str):
        raise UsageError(
            f"{settings} describes no model (expected a JSON object with a model_type); save the "
            "model again with save_pretrained"
        )
    if not any(name.endswith((".safetensors", ".bin")) for name in names):
        raise UsageError(
            f"{folder} holds no weights (expected model.safetensors); save the model again with "
            "save_pretrained"
        )
    if not names & _TOKENIZERS:
        raise UsageError(
            f"{folder} holds no tokenizer (expected tokenizer.json); save the tokenizer of the "
            "model into the same folder with save_pretrained"
        )


_TOKENIZERS: Final = frozenset({"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt"})
_MODEL_ENDINGS: Final = frozenset({".json", ".safetensors", ".bin", ".model", ".jinja", ".txt"})


def _hash(folder: Path, names: Sequence[str]) -> str:
    with disk_errors("read", folder):
        return listing_hash({name: content_hash((folder / name).read_bytes()) for name in names})


def form_of(folder: Path) -> Form:
    """Return how the model in ``folder`` is asked, by what ``transformers`` saved beside it."""
    if (folder / "chat_template.jinja").is_file():
        return "chat"
    settings = folder / "tokenizer_config.json"
    with disk_errors("read", settings):
        data = settings.read_bytes() if settings.is_file() else b"{}"
    try:
        found = msgspec.json.decode(data)
    except msgspec.MsgspecError:
        raise UsageError(f"{settings} is no JSON (expected what transformers saved)") from None
    return "chat" if isinstance(found, dict) and found.get("chat_template") else "text"


class Reuse(msgspec.Struct, frozen=True):
    """Which answers that an endpoint gave before are taken instead of asking again."""

    round: int = 0
    """Those of this round: wakes share round 0, and each check of the gate is one of its own."""
    none: bool = False
    """None at all."""


def open_answerer(
    contender: Contender, client: Client | None, *, threads: int, reuse: Reuse | None = None
) -> Answerer:
    """Return who answers for ``contender``.

    Raises :class:`UsageError` for a model string that cannot be read, :class:`EnvironmentMissing`
    where a key or a package is missing.
    """
    if contender.model.startswith(LOCAL):
        return LocalAnswerer(contender, threads=threads)
    if client is None:
        raise UsageError(f"model {contender.model} is asked over a network (expected local:PATH)")
    return ChatAnswerer(load_model(contender.model), client, reuse or Reuse())


class ChatAnswerer:
    """Asks an endpoint, several prompts at a time."""

    form: Form = "chat"
    chunk = PARALLEL

    def __init__(self, model: ChatModel, client: Client, reuse: Reuse) -> None:
        self._model = model
        self._client = client
        self._reuse = reuse

    def answer(self, prompts: Sequence[Prompt], sampling: Sampling) -> Iterator[Answer]:
        """Yield an answer to each prompt, in order."""
        parameters: dict[str, float | int] = {
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
            "seed": sampling.seed,
        }
        with ThreadPoolExecutor(PARALLEL) as pool:
            jobs = [pool.submit(self._ask, one, parameters) for one in prompts]
            for job in jobs:
                yield job.result()

    def _ask(self, prompt: Prompt, parameters: dict[str, float | int]) -> Answer:
        line = Line(self._client, lambda usage: None)
        sample = self._reuse.round * ROUND + prompt.sample
        request = Request(prompt.messages, parameters, sample)
        try:
            reply = line.ask(self._model, request, Terms(), fresh=self._reuse.none)
        except Stopped:
            raise
        except ModelError as error:
            return Answer("", line.usage, error=str(error))
        # A stored answer was paid for by a process that was killed before it could say so.
        return Answer(reply.text, reply.usage if reply.cached else line.usage, reply.finish)

    def close(self) -> None:
        """Leave the client to its owner."""


class LocalAnswerer:
    """Generates with ``transformers`` in a process of its own."""

    chunk = BATCH

    def __init__(self, contender: Contender, *, threads: int) -> None:
        base = contender.model.removeprefix(LOCAL)
        need_base(Path(base))
        if contender.adapter:
            adapter_hash(Path(contender.adapter))
        self._worker = Worker(
            "daydream.weights.local_child:load",
            (base, contender.adapter, threads),
            training_environment(threads),
        )
        self.form: Form = form_of(Path(base))
        """``chat`` where the tokenizer has a template for it."""

    def answer(self, prompts: Sequence[Prompt], sampling: Sampling) -> Iterator[Answer]:
        """Yield an answer to each prompt, in order; the batch decides the draws with the seed."""
        asked = [[(one.role, one.text) for one in prompt.messages] for prompt in prompts]
        samples = [prompt.sample for prompt in prompts]
        settings = (sampling.temperature, sampling.max_tokens, sampling.seed)
        found = call(
            self._worker, "daydream.weights.local_child:generate", (asked, samples, settings)
        )
        if not isinstance(found, list):
            raise ModelError(f"the local model sent {type(found).__name__} (expected answers)")
        for text, read, written, finish in found:
            yield Answer(text, Usage(1, read, written), finish)

    def close(self) -> None:
        """End the process."""
        self._worker.close()


def call(worker: Worker, function: str, argument: object) -> object:
    """Return ``function(state, argument)`` from a worker that needs the ``weights`` extra.

    Raises :class:`EnvironmentMissing` when a package of it is not installed and
    :class:`ModelError` for everything else that goes wrong there.
    """
    try:
        return worker.call(function, argument)
    except WorkerFailed as error:
        if error.error_class == "EnvironmentMissing":
            raise EnvironmentMissing(str(error)) from None
        if error.error_class == "UsageError":
            raise UsageError(str(error)) from None
        if error.error_class == "OutOfMemoryError":
            raise ModelError(
                f"the memory of the graphics card is full: {error}; train with a smaller batch and "
                "more accumulate, or a smaller max_length, as another adapter (--out, or night "
                "--anew)"
            ) from None
        if error.error_class in {"ModuleNotFoundError", "ImportError"}:
            raise EnvironmentMissing(
                f"a package of the weights extra is missing: {error}; install it: {INSTALL}"
            ) from None
        # What a package says may go on for pages; its first sentence is about what was found.
        said = str(error).strip().partition("\n")[0][:300]
        raise ModelError(
            f"the model process failed with {error.error_class}: {said} (expected a model that "
            "transformers loads, and memory for it); save the model again, or name another"
        ) from None
