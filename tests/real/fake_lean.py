"""A stand-in for the program ``lean``: it answers as Lean 4 does, by rules a test can foresee.

``omega`` proves, ``classical`` proves with axioms, ``native`` with one too many, ``quiet`` says
nothing about axioms, ``early`` answers about another name, ``spin`` never ends, anything else is
rejected. It checks that the file holds the statement that the question is about.
"""

import json
import re
import sys
import time
from pathlib import Path

put = print
PREFIX = str(Path(__file__).resolve().parents[1])


def said(severity: str, line: int, data: str) -> None:
    place = {"line": line, "column": 0}
    put(json.dumps({"severity": severity, "pos": place, "data": data, "fileName": "x"}))


def main() -> int:
    if sys.argv[1] == "--print-prefix":
        put(PREFIX)
        return 0
    if sys.argv[1] == "--version":
        put("Lean (version 4.0.0, a stand-in)")
        return 0
    text = Path(sys.argv[2]).read_text(encoding="utf-8")
    found = re.fullmatch(
        r"theorem (daydream_\w+) : (.+?) := by\n(.*)\n\n#print axioms \1\n", text, re.DOTALL
    )
    if found is None or sys.argv[1] != "--json":
        said("error", 1, "unexpected file")
        return 1
    name, proof, last = found[1], found[3], text.count("\n")
    if "spin" in proof:
        time.sleep(600)
    if "omega" in proof:
        said("information", last, f"'{name}' does not depend on any axioms")
    elif "classical" in proof:
        axioms = "propext,\n Classical.choice,\n Quot.sound"
        said("information", last, f"'{name}' depends on axioms: [{axioms}]")
    elif "native" in proof:
        said("information", last, f"'{name}' depends on axioms: [Lean.ofReduceBool]")
    elif "early" in proof:
        said("information", 2, f"'{name}' does not depend on any axioms")
        said("information", last, "'daydream_0' does not depend on any axioms")
    elif "quiet" not in proof:
        said("error", 2, "unsolved goals\n⊢ False")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
