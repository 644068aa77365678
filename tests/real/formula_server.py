"""A model server that knows how to solve formulas, more or less often by the model's name."""

import ast
import threading
from collections.abc import Mapping
from typing import Any

from daydream.canonical import seed_of
from tests.real.model_server import Fault, ModelServer

SKILL = {"weak": 40, "strong": 75, "broken": 5}
"""Model -> how many of 100 problems it solves."""
_SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


def translate(formula: str) -> str:
    """Return the stack program of a formula, by Python's own parser."""

    def walk(node: ast.expr) -> str:
        if isinstance(node, ast.BinOp):
            return walk(node.left) + walk(node.right) + _SYMBOLS[type(node.op)]
        return ast.unparse(node)

    return walk(ast.parse(formula, mode="eval").body)


class FormulaServer(ModelServer):
    """Equal questions, seeds and models get equal answers."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.questions: list[str] = []
        self._list = threading.Lock()

    def model(self, name: str) -> str:
        """Return the model string of one of the models that are served."""
        return self.local.replace("tiny", name)

    def _answer(self, body: Mapping[str, Any], fault: Fault) -> str:
        formula = body["messages"][-1]["content"].rstrip("=")
        with self._list:
            self.questions.append(formula)
            number = len(self.questions)
        skill = SKILL[body["model"]]
        # A wake asks equal questions again, each time for another sample.
        again = self.questions[:number].count(formula)
        lucky = seed_of(body["model"], formula, again) % 100 < skill
        return f"`{translate(formula)}`" if lucky else "xyz++"
