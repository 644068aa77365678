"""From a task to a question, and from an answer to a verdict.

Owns the wording that wake, the gate and imported runs share, so that weights are trained on the
questions that they are judged by. An answer is parsed and size-limited here; programs in it run
where their task runs them, in the sandbox.
"""

import ast

import msgspec

from daydream.agents.base import AttemptContext
from daydream.agents.chat.answers import EditFailed, parse
from daydream.agents.chat.edits import apply
from daydream.agents.chat.prompt import first_messages, form_for
from daydream.canonical import content_hash, dumps
from daydream.llm.base import Message
from daydream.sandbox.faults import patiently
from daydream.tasks.asked import AskedTask, ShownTask
from daydream.tasks.base import Artifact, Evaluation, Task, failed
from daydream.tree import Status
from daydream.weights.episodes import Form
from daydream.weights.leaks import text_keys

MAX_ANSWER = 1 << 20


class Question(msgspec.Struct, frozen=True):
    """What a model is asked."""

    task: str
    evaluator: str
    stratum: str
    form: Form
    prompt: tuple[Message, ...]
    keys: tuple[str, ...] = ()


class Judged(msgspec.Struct, frozen=True):
    """What came of one answer."""

    evaluation: Evaluation
    solved: bool
    program: str = ""
    behaviour: str = ""


class Questioner:
    """Asks and judges the questions of one task."""

    def __init__(self, task: Task, form: Form) -> None:
        self.task = task
        self._root = task.root()
        self._floor: float | None = None
        self.question = Question(
            task=task.info.name,
            evaluator=task.info.evaluator,
            stratum=task.stratum if isinstance(task, AskedTask) else task.info.name,
            form=form if isinstance(task, AskedTask) else "chat",
            prompt=self._prompt(form),
            keys=problem_keys(task),
        )

    def _prompt(self, form: Form) -> tuple[Message, ...]:
        if isinstance(self.task, AskedTask):
            asked = Message("user", self.task.question())
            if form == "text":
                return (asked,)
            shown = self.task.examples() if isinstance(self.task, ShownTask) else ()
            turns = [
                turn
                for question, answer in shown
                for turn in (Message("user", question), Message("assistant", answer))
            ]
            return (Message("system", self.task.instructions()), *turns, asked)
        return first_messages(self._context(), form_for(self._root, "auto"))

    def _context(self) -> AttemptContext:
        return AttemptContext(
            task=self.task.info,
            round=1,
            branch=0,
            depth=1,
            attempt_seed=0,
            world_seed=0,
            parent=self._root,
            evaluation=None,
        )

    def judge(self, answer: str) -> Judged:
        """Return the verdict on a model's answer; whatever it holds, this raises nothing for it.

        Raises :class:`daydream.errors.Stopped` when the sandbox itself keeps failing.
        """
        try:
            artifact = self._read(answer)
        except ValueError as error:
            return Judged(failed("answer", f"the answer cannot be used: {error}"), solved=False)
        try:
            verdict = patiently(lambda: self.task.evaluate(artifact))
        except (ValueError, ArithmeticError, LookupError, TypeError, RecursionError) as error:
            verdict = failed(type(error).__name__, str(error), status=Status.ERROR)
        behaviour = self.task.behaviour(artifact) if isinstance(self.task, AskedTask) else ""
        return Judged(verdict, self._solved(verdict), program_of(artifact), behaviour)

    def _read(self, answer: str) -> Artifact:
        if not len(answer) <= MAX_ANSWER:
            raise ValueError(f"it has {len(answer)} characters (expected at most {MAX_ANSWER})")
        if isinstance(self.task, AskedTask):
            return self.task.read_answer(answer)
        try:
            return Artifact(apply(parse(answer), self._root.files, evolve_only=False))
        except EditFailed as error:
            raise ValueError(str(error)) from None

    def _solved(self, verdict: Evaluation) -> bool:
        if verdict.status is not Status.OK:
            return False
        if isinstance(self.task, AskedTask):
            return verdict.score >= self.task.target
        if self._floor is None:
            root = patiently(lambda: self.task.evaluate(self._root))
            self._floor = root.score if root.status is Status.OK else float("-inf")
        return verdict.score > self._floor


def problem_keys(task: Task) -> tuple[str, ...]:
    """Return the identities of a task's problem that survive another name and another order.

    A task that cannot tell is known by its statement and the files that it starts from, whatever
    its title and its folder are called.
    """
    if isinstance(task, AskedTask):
        return task.keys
    files = sorted(task.root().files.items())
    parts = [task.info.statement, *(data.decode("utf-8", "replace") for _, data in files)]
    return text_keys("\n".join(parts))


def written(artifact: Artifact) -> str:
    """Return the files as a model writes them: each in full in a block under its name."""
    parts = []
    for name, data in sorted(artifact.files.items()):
        text = data.decode("utf-8", "replace").rstrip("\n")
        fence = "```"
        while fence in text:
            fence += "`"
        parts.append(f"File: {name}\n{fence}\n{text}\n{fence}")
    return "\n\n".join(parts) + "\n"


def program_of(artifact: Artifact) -> str:
    """Return one name for all artifacts that differ in comments, layout or number format alone."""
    parts = {name: _normal(name, data) for name, data in artifact.files.items()}
    return content_hash(dumps(parts))[:32]


def _normal(name: str, data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    try:
        if name.endswith(".py"):
            return ast.unparse(ast.parse(text))
        if name.endswith(".json"):
            return dumps(msgspec.json.decode(data)).decode("utf-8")
    except (ValueError, SyntaxError, RecursionError, msgspec.MsgspecError):
        pass
    return " ".join(text.split())
