"""OpenAI Chat Completions, as spoken by OpenAI, Gemini, OpenRouter, Ollama, vLLM and llama.cpp."""

import msgspec

from daydream.canonical import JsonObject, JsonValue
from daydream.llm.base import Post, Reply, Request, RequestFailed, at, joined_text, whole_at
from daydream.store.events import Usage


class OpenAiCompatible(msgspec.Struct, frozen=True):
    """One model of one server."""

    name: str
    model: str
    """The server's name for it."""
    base_url: str
    secret: str = ""
    wire: str = "openai-chat"
    limit_name: str = "max_tokens"
    """What the server calls the limit on the answer."""

    def __repr__(self) -> str:
        """Name the model without its key."""
        return f"OpenAiCompatible({self.name!r})"

    def answer(self, request: Request, post: Post) -> Reply:
        """Make one request; raises :class:`RequestFailed`."""
        headers = {"Authorization": f"Bearer {self.secret}"} if self.secret else {}
        return decode(post(f"{self.base_url}/chat/completions", headers, self.body(request)))

    def body(self, request: Request) -> JsonObject:
        """Return what is sent: the model, the messages and the parameters that the user set."""
        parameters = {
            self.limit_name if name == "max_tokens" else name: value
            for name, value in request.parameters.items()
        }
        messages = [{"role": one.role, "content": one.text} for one in request.messages]
        return {"model": self.model, "messages": messages, **parameters}


def decode(answer: JsonValue) -> Reply:
    """Return the reply in a server's answer; raises :class:`RequestFailed` where there is none."""
    choice = at(answer, "choices", 0)
    if choice is None:
        told = at(answer, "error", "message")
        found = told if isinstance(told, str) else "no choices"
        raise RequestFailed(f"the answer has {found!r} (expected choices)", retry=True)
    sent = whole_at(answer, "usage", "prompt_tokens")
    made = whole_at(answer, "usage", "completion_tokens")
    cost = at(answer, "usage", "cost")
    model, finish = at(answer, "model"), at(choice, "finish_reason")
    return Reply(
        text=joined_text(at(choice, "message", "content")),
        usage=Usage(
            1, sent or 0, made or 0, float(cost) if isinstance(cost, int | float) else None
        ),
        model=model if isinstance(model, str) else "",
        finish=finish if isinstance(finish, str) else "",
        counted=sent is not None and made is not None,
    )
