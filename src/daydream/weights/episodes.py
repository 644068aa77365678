"""An episode: one attempt to answer one question, with what the verifier said of the answer.

Owns the record that all three lines feed into one bank. The text of an answer is untrusted: it is
stored, compared and trained on, and never run here.
"""

from typing import TYPE_CHECKING, Literal

import msgspec

from daydream.canonical import hash_of
from daydream.errors import StoreError
from daydream.llm.base import Message
from daydream.store.events import Usage
from daydream.tree import Status

if TYPE_CHECKING:
    from daydream.canonical import JsonObject
else:
    # msgspec cannot build a decoder from the recursive alias; the values are the same.
    JsonObject = dict[str, object]

EPISODE_VERSION = 1
Form = Literal["text", "chat"]
"""How a prompt is put: as bare text that the model continues, or as the turns of a chat."""
Source = Literal["wake", "run", "review"]


class Sampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How answers are drawn."""

    temperature: float = 1.0
    """0 takes the likeliest token each time."""
    max_tokens: int = 256
    """Longest answer."""
    seed: int = 0


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt. Equal ``id`` means the same attempt: of two records the first counts."""

    id: str
    at: str = ""
    """UTC, ISO 8601."""
    source: Source
    task: str
    """Name of the task, which holds every parameter that changes a number."""
    evaluator: str
    """Version of the evaluator that judged the answer."""
    stratum: str = ""
    """Part of a family that the task belongs to."""
    form: Form = "chat"
    prompt: tuple[Message, ...]
    answer: str
    """What is trained on: the model's text, or the files of the attempt as a model would write."""
    program: str = ""
    """The answer without what makes no difference, to tell equal ones."""
    behaviour: str = ""
    """What the answer does, where the task can say it; empty where it cannot."""
    status: Status
    score: float
    solved: bool
    """Whether it counts as a success: it reached the task's target, or improved on its start."""
    error_class: str | None = None
    message: str = ""
    diagnostics: JsonObject = {}
    model: str
    """Who answered: a model string, or the agent of a run."""
    adapter: str = ""
    """Identity of the adapter on top of the model; empty for the model alone."""
    sampling: Sampling | None = None
    sample: int = 0
    """Number of the sample of one question."""
    usage: Usage = Usage()
    provenance: JsonObject = {}
    """Where it comes from: run, round, node, trace."""
    copied: bool = False
    """A step whose context was copied from another one: kept, and never trained on."""
    keys: tuple[str, ...] = ()
    """Identities of the problem that survive renaming and reordering, where the task has some."""
    schema_version: int = EPISODE_VERSION


def identity(*parts: object) -> str:
    """Return the id of an attempt from what makes it that attempt."""
    return hash_of(list(parts))[:32]


_DECODER: msgspec.json.Decoder[Episode] = msgspec.json.Decoder(Episode)


def decode(line: bytes, place: str) -> Episode:
    """Return the episode in ``line``; raises :class:`StoreError` naming ``place``."""
    try:
        episode = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{place} is no episode: {error} (expected one JSON record a line); restore the file "
            "from a copy, or take that line out"
        ) from None
    if episode.schema_version > EPISODE_VERSION:
        raise StoreError(
            f"{place} has schema_version {episode.schema_version} (expected at most "
            f"{EPISODE_VERSION}); it was written by a newer Daydream: upgrade daydream-rsi"
        )
    return episode
