"""Lean 4: prove a statement that the kernel accepts, without ``sorry`` and without new axioms.

Owns eight statements of our own about the core library, and what counts as a proof. The artifact is
``proof.lean``: the tactics after ``:= by``. The statement is never the candidate's: it is written
anew into every file that is checked, under a name with a random word, and after the proof Lean is
asked which axioms that name depends on. ``propext``, ``Classical.choice`` and ``Quot.sound`` are
those of ordinary mathematics; any other one, ``sorryAx`` and that of compiled evaluation among
them, makes it no proof.

A proof is tactics and terms. Words that end the proof or start a command (``theorem``, ``axiom``,
``macro``, ``open``, ``#eval``), and those that run code while Lean elaborates, are refused before
Lean sees them: with them a file could change what the statement means, or print an answer itself.

Needs a Lean 4 toolchain, found by the program ``lean``. The tests have a stand-in for it, so they
show what counts as a proof and do not show that the eight statements have one.
"""

import json
import re
import secrets
import shutil
import textwrap
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from daydream.canonical import hash_of
from daydream.config import SandboxLevel, user_environment
from daydream.errors import EnvironmentMissing
from daydream.sandbox.base import ExecResult, Job, Limits, Sandbox
from daydream.sandbox.choose import choose, strength
from daydream.sandbox.process import ProcessSandbox
from daydream.sandbox.profiles import PROFILES
from daydream.sandbox.workspace import let_others_read, workspace, write_files
from daydream.tasks.base import Args, Artifact, Evaluation, TaskInfo, choice, failed, ok, only
from daydream.tasks.candidate import ended_badly, file_problem, printed, shown_text
from daydream.tree import Status

NAME: Final = "lean"
PROOF: Final = "proof.lean"
VERSION: Final = 1
"""Raised with every change here that can change a verdict."""
LIMITS: Final = Limits(wall_s=120, memory_mb=4_096, processes=64)
ASK: Final = Limits(wall_s=60, memory_mb=2_048)
AXIOMS: Final = frozenset({"propext", "Classical.choice", "Quot.sound"})

STATEMENTS: Final = {
    "add-swap": "∀ a b c : Nat, a + (b + c) = c + (b + a)",
    "half": "∀ n : Nat, ∃ k : Nat, n = 2 * k ∨ n = 2 * k + 1",
    "append-length": ("∀ (α : Type) (xs ys : List α), (xs ++ ys).length = ys.length + xs.length"),
    "double-negation": "∀ p : Prop, ¬¬p → p",
    "bool-de-morgan": "∀ a b : Bool, (a && b) = !(!a || !b)",
    "difference": "∀ a b : Nat, a ≤ b → ∃ c : Nat, b = a + c",
    "no-largest": "¬ ∃ m : Nat, ∀ n : Nat, n ≤ m",
    "sum-of-odds": ("∀ n : Nat, (List.range n).foldl (fun s k => s + (2 * k + 1)) 0 = n * n"),
}
"""Name to proposition, all over what Lean loads by itself."""

_COMMANDS: Final = frozenset(
    """
    abbrev add_decl_doc admit alias attribute axiom builtin_initialize class constant
    declare_syntax_cat def deriving elab elab_rules end example export extern implemented_by import
    inductive infix infixl infixr init_quot initialize instance lemma local macro macro_rules mutual
    namespace native_decide noncomputable notation notation3 opaque open partial postfix prefix
    prelude private protected public run_cmd run_elab run_meta run_tac scoped section set_option
    simproc sorry sorryAx structure syntax theorem universe unsafe variable variables by_elab eval
    ofReduceBool ofReduceNat trustCompiler unseal seal include_str include_bytes
    """.split()  # noqa: SIM905 - a table of words
)
"""Words that no tactic of a proof needs."""
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_']*")
_SIGNS: Final = re.compile(r"#|@\[|«|[A-Za-z_]{3,}%")
_FOUND: Final = re.compile(r"'([^']+)' (?:depends on axioms: \[([^\]]*)\]|does not depend on any)")


class Toolchain(NamedTuple):
    """A Lean installation."""

    prefix: str
    version: str

    @property
    def lean(self) -> str:
        """Path of the compiler."""
        return str(Path(self.prefix, "bin", "lean"))


class LeanTask(msgspec.Struct, frozen=True):
    """The task of one statement."""

    info: TaskInfo
    statement: str
    sandbox: Sandbox

    def ready(self) -> None:
        """Raise :class:`EnvironmentMissing` without a Lean 4 toolchain."""
        toolchain()

    def root(self) -> Artifact:
        """Return the proof that is none."""
        return proof("sorry\n")

    def evaluate(self, artifact: Artifact) -> Evaluation:
        """Return 1 for a proof that Lean accepts; anything else fails with Lean's own words.

        Raises :class:`EnvironmentMissing` without a toolchain.
        """
        refusal = file_problem(artifact, PROOF)
        if refusal is not None:
            return refusal
        try:
            text = artifact.files[PROOF].decode("utf-8")
        except UnicodeDecodeError:
            return failed("not_text", f"{PROOF} is no UTF-8 text")
        refusal = word_problem(text)
        if refusal is not None:
            return refusal
        known = toolchain()
        name = f"daydream_{secrets.token_bytes(12).hex()}"
        source = file_of(name, self.statement, text)
        with workspace() as place:
            write_files(place / "proof", {"Check.lean": source.encode()})
            let_others_read(place / "proof")
            path = str(place / "proof" / "Check.lean")
            job = Job(
                argv=(known.lean, "--json", path),
                cwd=str(place / "proof"),
                env=PROFILES["candidate"].environment(user_environment()),
                readable=(known.prefix, path),
                scratch=(str(place), str(place / "proof")),
            )
            result = self.sandbox.run(job, LIMITS)
        return judged(result, name, source.count("\n"), known)


def file_of(name: str, statement: str, text: str) -> str:
    """Return the file to check: the statement under ``name``, the proof, the question."""
    body = textwrap.indent(text.strip("\n"), "  ")
    return f"theorem {name} : {statement} := by\n{body}\n\n#print axioms {name}\n"


def word_problem(text: str) -> Evaluation | None:
    """Return why ``text`` may not be shown to Lean; None when it is tactics and terms."""
    if not text.strip():
        return failed("empty", f"{PROOF} holds nothing (expected tactics)")
    sign = _SIGNS.search(text)
    word = next((word for word in _WORD.findall(text) if word in _COMMANDS), None)
    found = sign[0] if sign else word
    if found is None:
        return None
    kind = "sorry" if found in {"sorry", "admit", "sorryAx"} else "forbidden"
    return failed(
        kind,
        f"{PROOF} holds {found!r} (expected tactics and terms alone: no command, no option, no "
        "code that runs while Lean elaborates); prove it without",
    )


def judged(result: ExecResult, name: str, last: int, known: Toolchain) -> Evaluation:
    """Return the verdict on what Lean said about ``name``, asked in line ``last``."""
    messages = [one for line in result.stdout.splitlines() if (one := _message(line))]
    errors = [one for one in messages if one.get("severity") == "error"]
    said = "\n".join(shown_text(str(one.get("data")).encode()) for one in errors[:5])
    if errors:
        return failed("rejected", f"Lean rejects the proof:\n{said}", feedback=said)
    problem = ended_badly(result, LIMITS, "Lean")
    if problem is not None:
        return problem
    answers = [
        match
        for one in messages
        if _line(one) == last and (match := _FOUND.match(str(one.get("data")))) and match[1] == name
    ]
    if len(answers) != 1:
        return failed(
            "no_answer",
            "Lean did not say which axioms the proof depends on (expected one answer); the proof "
            "may end too early",
            status=Status.ERROR,
            feedback=printed(result),
        )
    axioms = {axiom.strip() for axiom in (answers[0][2] or "").split(",") if axiom.strip()}
    extra = sorted(axioms - AXIOMS)
    if extra:
        return failed(
            "axiom",
            f"the proof depends on {', '.join(extra)} (allowed: {', '.join(sorted(AXIOMS))})",
        )
    return ok(1.0, axioms=sorted(axioms), toolchain=known.version)


def _message(line: bytes) -> dict[str, object] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _line(message: dict[str, object]) -> int | None:
    place = message.get("pos")
    line = place.get("line") if isinstance(place, dict) else None
    return line if isinstance(line, int) else None


def toolchain() -> Toolchain:
    """Return the user's Lean; raises :class:`EnvironmentMissing` without one that answers."""
    known = user_environment()
    found = shutil.which("lean", path=known.get("PATH", ""))
    if found is None:
        raise EnvironmentMissing(
            "task lean needs a Lean 4 toolchain: there is no program lean on PATH (expected Lean 4 "
            "with --json); install one with elan, as lean-lang.org tells"
        )
    prefix, version = (_asked(found, word, known) for word in ("--print-prefix", "--version"))
    if not (prefix and Path(prefix, "bin", "lean").exists()):
        raise EnvironmentMissing(
            f"{found} --print-prefix says {prefix!r} (expected the folder of a Lean 4 toolchain); "
            "run lean --version once by hand, which may have to download it"
        )
    return Toolchain(prefix, version)


def _asked(program: str, word: str, known: dict[str, str]) -> str:
    """Return what the user's own ``program`` answers to ``word``; empty when it fails."""
    result = ProcessSandbox().run(Job((program, word), "/", known), ASK)
    good = result.outcome == "exited" and result.exit == 0
    return shown_text(result.stdout).strip() if good else ""


def proof(text: str) -> Artifact:
    """Return the artifact with this proof."""
    return Artifact({PROOF: text.encode()})


def build(args: Args, sandbox: SandboxLevel = "auto") -> LeanTask:
    """Return the task of ``lean[:statement=NAME]``, by default the first statement.

    Raises :class:`TaskError` for other parameters, :class:`EnvironmentMissing` where ``sandbox``
    cannot run.
    """
    only(NAME, args, "statement")
    first = next(iter(STATEMENTS))
    key = choice(args, "statement", first, tuple(STATEMENTS))
    statement = STATEMENTS[key]
    chosen = choose(sandbox, PROFILES["candidate"])
    info = TaskInfo(
        name=NAME if key == first else f"{NAME}:statement={key}",
        title=f"Prove in Lean 4: {key}",
        statement=(
            f"Prove in Lean 4, with the core library alone:\n    {statement}\n"
            f"Write {PROOF}: the tactics that follow `:= by`, and nothing else. No command, no "
            "import, no option, no sorry. The kernel has to accept it, and it may depend on no "
            f"axioms but {', '.join(sorted(AXIOMS))}."
        ),
        evaluator=hash_of([NAME, VERSION, statement, strength(chosen.layers)]),
        policy="parallel_refine-w4-d4",
        agent="",
        measure="proved",
        scale=1.0,
        attempt_cost="one run of Lean",
        isolation=chosen.layers,
        entry=PROOF,
    )
    return LeanTask(info, statement, chosen)
