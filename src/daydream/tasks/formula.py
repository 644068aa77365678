"""formula: write the program that computes a formula. A family of small verifiable problems.

Owns the templates of formulas, their split, the two languages and the check. A problem is a formula
over u to z, each at most once, and at most one digit from 2 to 9. The answer is a program for a
stack machine (``language=stack``) or a Python expression (``language=python``), which is asked for
in words: ``words=nested`` says the product of (the sum of x and 3) and y, ``words=inline``, for
small models, (x plus 3) times y, behind a worked example. Programs are never executed: both
languages are worked out as polynomials with whole coefficients, which are compared exactly, so any
program that computes the formula everywhere counts and no other does. Refuses programs over the
length limit.

The split is by template, the shape of a formula with its operators. Templates that become the same
polynomial when their leaves are renamed go to the same split, so ``(a+b)+c`` and ``a+(b+c)`` are
never on two sides. Provenance: the family is ours.
"""

import ast
import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from daydream.canonical import hash_of, seed_of
from daydream.errors import TaskError
from daydream.tasks.base import (
    Args,
    Artifact,
    Evaluation,
    TaskInfo,
    choice,
    failed,
    json_artifact,
    ok,
    only,
    read_json,
    whole,
)
from daydream.tasks.program import MAX_INSTANCE

NAME: Final = "formula"
EVALUATOR: Final = "formula/1"
SPLITS: Final = ("train", "practice", "probe")
"""Worked examples, own attempts, the gate: no template is in two of them."""
LANGUAGES: Final = ("stack", "python")
WORDS: Final = ("nested", "inline")
VARIABLES: Final = "uvwxyz"
DIGITS: Final = "23456789"
OPERATORS: Final = "+-*"
LEAF_COUNTS: Final = (3, 4)
LONGEST: Final = 48
"""Characters of a program; the longest needed has 7 in the stack language."""
_SHARE: Final = {0: "probe", 1: "practice"}
"""Of four parts of the templates; the others train."""
_PRECEDENCE: Final = {"+": 1, "-": 1, "*": 2}
_PLAIN: Final = re.compile(r"[u-z1-9+*\-]+")
_EXPRESSION: Final = re.compile(r"[u-z0-9+*\-() ]+")

Monomial: TypeAlias = tuple[int, ...]
Polynomial: TypeAlias = Mapping[Monomial, int]
"""Exponents of the variables -> coefficient, never 0."""


class Apply(NamedTuple):
    """An operator with its operands, which are leaves (one character) or such again."""

    operator: str
    left: "Expression"
    right: "Expression"


Expression: TypeAlias = str | Apply


class ProgramFault(ValueError):  # noqa: N818 - a fact about one program
    """A program that computes nothing; ``kind`` is one word for tables."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def constant(value: int, width: int) -> Polynomial:
    """Return a number as a polynomial in ``width`` variables."""
    return {(0,) * width: value} if value else {}


def variable(index: int, width: int) -> Polynomial:
    """Return one variable as a polynomial."""
    return {tuple(int(index == place) for place in range(width)): 1}


def combine(operator: str, left: Polynomial, right: Polynomial) -> Polynomial:
    """Return the sum, difference or product."""
    result: dict[Monomial, int] = {}
    if operator == "*":
        for (one, a), (two, b) in itertools.product(left.items(), right.items()):
            key = tuple(i + j for i, j in zip(one, two, strict=True))
            result[key] = result.get(key, 0) + a * b
    else:
        result.update(left)
        sign = 1 if operator == "+" else -1
        for key, value in right.items():
            result[key] = result.get(key, 0) + sign * value
    return {key: value for key, value in result.items() if value}


def polynomial(expression: Expression, names: str) -> Polynomial:
    """Return what ``expression`` computes; a leaf in ``names`` is a variable, else a digit."""
    if isinstance(expression, Apply):
        left, right = polynomial(expression.left, names), polynomial(expression.right, names)
        return combine(expression.operator, left, right)
    if expression in names:
        return variable(names.index(expression), len(names))
    return constant(int(expression), len(names))


def canonical(value: Polynomial, width: int) -> str:
    """Return one text for all polynomials that differ in the names of their variables alone."""
    forms = []
    used = [place for place in range(width) if any(key[place] for key in value)]
    for order in itertools.permutations(used):
        moved = {tuple(key[place] for place in order): number for key, number in value.items()}
        forms.append(sorted(moved.items()))
    return hash_of([[list(key), number] for key, number in min(forms)])


def infix(expression: Expression, above: int = 0, *, right: bool = False) -> str:
    """Return the formula with no more parentheses than it needs."""
    if not isinstance(expression, Apply):
        return expression
    level = _PRECEDENCE[expression.operator]
    text = (
        infix(expression.left, level)
        + expression.operator
        + infix(expression.right, level, right=True)
    )
    return f"({text})" if level < above or (level == above and right) else text


def postfix(expression: Expression) -> str:
    """Return the program of the stack machine that computes ``expression``."""
    if not isinstance(expression, Apply):
        return expression
    return postfix(expression.left) + postfix(expression.right) + expression.operator


def spoken(expression: Expression) -> str:
    """Return ``expression`` in words."""
    if not isinstance(expression, Apply):
        return expression
    word = {"+": "the sum of", "-": "the difference of", "*": "the product of"}[expression.operator]
    parts = [
        f"({spoken(one)})" if isinstance(one, Apply) else one
        for one in (expression.left, expression.right)
    ]
    return f"{word} {parts[0]} and {parts[1]}"


def inline(expression: Expression, *, inner: bool = False) -> str:
    """Return ``expression`` in words, in the order of its signs."""
    if not isinstance(expression, Apply):
        return expression
    word = {"+": "plus", "-": "minus", "*": "times"}[expression.operator]
    left, right = (inline(one, inner=True) for one in (expression.left, expression.right))
    text = f"{left} {word} {right}"
    return f"({text})" if inner else text


def run_stack(program: str) -> Polynomial:
    """Return what a program of the stack machine computes; raises :class:`ProgramFault`."""
    stack: list[Polynomial] = []
    for character in program:
        if character in OPERATORS:
            if len(stack) < 2:
                raise ProgramFault("underflow", f"{character!r} finds fewer than two values")
            second, first = stack.pop(), stack.pop()
            stack.append(combine(character, first, second))
        elif character in VARIABLES:
            stack.append(variable(VARIABLES.index(character), len(VARIABLES)))
        elif character in "123456789":
            stack.append(constant(int(character), len(VARIABLES)))
        else:
            raise ProgramFault("syntax", f"{character!r} is no instruction")
    if len(stack) != 1:
        raise ProgramFault("stack", f"{len(stack)} values are left (expected one)")
    return stack[0]


def read_python(program: str) -> Polynomial:
    """Return what a Python expression computes, without running it; raises ProgramFault."""
    if not _EXPRESSION.fullmatch(program):
        raise ProgramFault("syntax", "the expression holds more than u to z, digits and + - * ( )")
    try:
        body = ast.parse(program.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise ProgramFault("syntax", "the expression cannot be parsed") from None
    return _of_ast(body)


_NODES: Final = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


def _of_ast(node: ast.expr) -> Polynomial:
    if isinstance(node, ast.BinOp) and type(node.op) in _NODES:
        return combine(_NODES[type(node.op)], _of_ast(node.left), _of_ast(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return combine("-", constant(0, len(VARIABLES)), _of_ast(node.operand))
    if isinstance(node, ast.Name) and node.id in VARIABLES:
        return variable(VARIABLES.index(node.id), len(VARIABLES))
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return constant(node.value, len(VARIABLES))
    raise ProgramFault("syntax", f"the expression holds {ast.unparse(node)!r:.40}")


def _shapes(leaves: int) -> Iterator[Expression]:
    """Yield the templates with so many leaves, which are all ``L``."""
    if leaves == 1:
        yield "L"
    for size in range(1, leaves):
        for left, right in itertools.product(_shapes(size), list(_shapes(leaves - size))):
            for operator in OPERATORS:
                yield Apply(operator, left, right)


@cache
def templates(split: str) -> tuple[Expression, ...]:
    """Return the templates of ``split``."""
    found = []
    for leaves in LEAF_COUNTS:
        names = "abcdefgh"[:leaves]
        for shape in _shapes(leaves):
            named = _fill(shape, iter(names))
            group = seed_of(NAME, canonical(polynomial(named, names), leaves)) % 4
            if _SHARE.get(group, "train") == split:
                found.append(shape)
    return tuple(found)


def _fill(shape: Expression, leaves: Iterator[str]) -> Expression:
    if not isinstance(shape, Apply):
        return next(leaves)
    left = _fill(shape.left, leaves)
    return Apply(shape.operator, left, _fill(shape.right, leaves))


def leaf_count(expression: Expression) -> int:
    """Return how many leaves ``expression`` has."""
    if not isinstance(expression, Apply):
        return 1
    return leaf_count(expression.left) + leaf_count(expression.right)


def problem(split: str, instance: int) -> Expression:
    """Return formula ``instance`` of ``split``: a function of the two alone."""
    rng = random.Random(seed_of(NAME, split, instance))
    shape = rng.choice(templates(split))
    leaves = rng.sample(VARIABLES, leaf_count(shape))
    if rng.random() < 0.5:
        leaves[rng.randrange(len(leaves))] = rng.choice(DIGITS)
    return _fill(shape, iter(leaves))


INSTRUCTIONS: Final = {
    "stack": """\
Write a program for a stack machine that computes a formula. A program is a row of characters
without spaces: a letter from u to z or a digit pushes a value; + - * take the two values on top,
the one below first, and push the result. One value must be left. Example: the formula (x+3)*y has
the program x3+y*. Answer with the program and nothing else.""",
    "python": """\
Write a Python expression that computes what is described. Use + - * and parentheses only. Example:
the product of (the sum of x and 3) and y is (x+3)*y. Answer with the expression and nothing
else.""",
    "inline": "Translate words to symbols.",
}
SHOWN: Final = ("u minus (v plus 3)", "u - (v + 3)")
"""The worked example of ``words=inline``; its template is one of those for examples."""


class Formula:
    """One problem. Stateless."""

    target = 1.0

    def __init__(self, split: str, instance: int, language: str, words: str = "nested") -> None:
        self.expression = problem(split, instance)
        self.language = language
        self._inline = words == "inline"
        parts = {"instance": str(instance), "language": language, "split": split, "words": words}
        usual = {"instance": "0", "language": "stack", "split": "train", "words": "nested"}
        said = ",".join(f"{key}={value}" for key, value in parts.items() if value != usual[key])
        shown = "".join(f"Example: {asked} is {answer}\n" for asked, answer in self.examples())
        self.info = TaskInfo(
            name=f"{NAME}:{said}" if said else NAME,
            title="A program for a formula",
            statement=f"{self.instructions()}\n\n{shown}The problem: {self.question()}\n\n"
            'Write artifact.json holding {"program": "..."}. '
            "Score 1 for a program that computes the formula for all values, else 0.",
            evaluator=EVALUATOR,
            policy="parallel_refine-w4-d4",
            agent="scripted",
            measure="solved",
            attempt_cost="one translation",
        )

    @property
    def stratum(self) -> str:
        """The number of leaves."""
        return f"{leaf_count(self.expression)} leaves"

    @property
    def keys(self) -> tuple[str, ...]:
        """The formula as a polynomial, whatever its variables are called."""
        value = polynomial(self.expression, VARIABLES)
        return (f"formula:{canonical(value, len(VARIABLES))}",)

    def question(self) -> str:
        """Return the formula, in words where the answer is a Python expression."""
        if self.language == "stack":
            return f"{infix(self.expression)}="
        return inline(self.expression) if self._inline else f"{spoken(self.expression)}."

    def instructions(self) -> str:
        """Return what the language is."""
        return INSTRUCTIONS["inline" if self._inline else self.language]

    def examples(self) -> tuple[tuple[str, str], ...]:
        """Return the worked example that stands before the question where words are inline."""
        return (SHOWN,) if self._inline else ()

    def solution(self) -> str:
        """Return the worked answer: one program that solves the problem."""
        return postfix(self.expression) if self.language == "stack" else infix(self.expression)

    def root(self) -> Artifact:
        """Return the program that gives x, whatever the formula."""
        return json_artifact({"program": "x"})

    def read_answer(self, text: str) -> Artifact:
        """Return the last line that looks like a program, without marks around it."""
        wanted = _PLAIN if self.language == "stack" else _EXPRESSION
        lines = [line.strip().strip("`$ ") for line in text.strip().splitlines()]
        found = [line for line in lines if wanted.fullmatch(line)]
        if not found:
            raise ValueError("the answer holds no line that is a program")
        return json_artifact({"program": found[-1]})

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Score 1 when the program computes the formula, 0 when it computes something else."""
        try:
            value = self._value(artifact)
        except ProgramFault as fault:
            return failed(fault.kind, str(fault))
        right = value == polynomial(self.expression, VARIABLES)
        return ok(1.0 if right else 0.0, feedback="" if right else "it computes something else")

    def behaviour(self, artifact: Artifact) -> str:
        """Return the polynomial that the program computes; empty where it computes none."""
        try:
            value = self._value(artifact)
        except ProgramFault:
            return ""
        return hash_of([[list(key), number] for key, number in sorted(value.items())])[:16]

    def _value(self, artifact: Artifact) -> Polynomial:
        program = program_in(artifact)
        return run_stack(program) if self.language == "stack" else read_python(program)


def program_in(artifact: Artifact) -> str:
    """Return the program in ``artifact``; raises :class:`ProgramFault`."""
    try:
        value = read_json(artifact, limit=4_096)
    except ValueError as error:
        raise ProgramFault("unreadable", str(error)) from None
    program = value.get("program") if isinstance(value, Mapping) else None
    if not isinstance(program, str) or (isinstance(value, Mapping) and len(value) != 1):
        raise ProgramFault("shape", 'artifact.json is not {"program": "..."}')
    if not 0 < len(program) <= LONGEST:
        raise ProgramFault(
            "length", f"the program has {len(program)} characters (expected 1 to {LONGEST})"
        )
    return program


def worked_examples(split: str, instances: Sequence[int]) -> list[tuple[str, str]]:
    """Return (question, answer) of problems, for a model that is to learn the language."""
    tasks = (Formula(split, instance, "stack") for instance in instances)
    return [(task.question(), task.solution()) for task in tasks]


def build(args: Args) -> Formula:
    """Return the problem that ``args`` name; raises :class:`~daydream.errors.TaskError`."""
    only(NAME, args, "instance", "language", "split", "words")
    language = choice(args, "language", "stack", LANGUAGES)
    words = choice(args, "words", "nested", WORDS)
    if words == "inline" and language != "python":
        raise TaskError(
            f"task parameter words={words!r} with language={language!r}, which is asked without "
            "words (expected language=python)"
        )
    return Formula(
        choice(args, "split", "train", SPLITS),
        whole(args, "instance", 0, low=0, high=MAX_INSTANCE),
        language,
        words,
    )
