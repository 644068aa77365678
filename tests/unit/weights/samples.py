"""Episodes for tests."""

from daydream.llm.base import Message
from daydream.tree import Status
from daydream.weights.episodes import Episode, identity


def episode(
    task: str = "formula",
    answer: str = "xy+",
    *,
    solved: bool = True,
    number: int = 0,
    prompt: str = "x+y=",
    **fields: object,
) -> Episode:
    values: dict[str, object] = {
        "id": identity(task, prompt, answer.encode("utf-8", "replace").decode(), number),
        "source": "wake",
        "task": task,
        "evaluator": "formula/1",
        "stratum": "2 leaves",
        "form": "text",
        "prompt": (Message("user", prompt),),
        "answer": answer,
        "program": answer,
        "status": Status.OK,
        "score": 1.0 if solved else 0.0,
        "solved": solved,
        "model": "mock:",
        "sample": number,
        **fields,
    }
    return Episode(**values)  # type: ignore[arg-type] # the fields of a record, by name
