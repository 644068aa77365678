"""A model rewrites the policy as a Python file. The file runs isolated, wherever it is played."""

import re
import sys
from bisect import bisect_right
from typing import Final

from daydream.errors import UsageError
from daydream.policies.adaptive import Adaptive
from daydream.policies.base import PolicySpec
from daydream.policies.parallel_refine import ParallelRefine
from daydream.policies.python_file import MAX_SOURCE_BYTES, PythonFileSpec
from daydream.prompting import prompt
from daydream.proposers.asked import Asking, fenced
from daydream.tree import Pool

FILE: Final = "policy.py"
_FENCE: Final = re.compile(r"`{3,}|~{3,}")
_POLICY: Final = re.compile(r"^(class (Policy|OptimalPolicy)\b|def select_batch\b)", re.MULTILINE)


class Developer(Asking):
    """Asks for a whole file, shows how it did, and asks again."""

    @property
    def prompts(self) -> tuple[str, str]:
        """The developer's prompts."""
        return "developer_system", "developer"

    def extract(self, answer: str) -> str:
        """Return the last fenced block that defines a policy."""
        blocks = fenced_blocks(answer)
        found = [block for block in blocks if _POLICY.search(block)]
        if not found:
            raise UsageError(
                f"the answer has {len(blocks)} fenced blocks and none defines `class Policy`, "
                "`class OptimalPolicy` or `def select_batch` (expected the whole file in one "
                "block)"
            )
        return found[-1].rstrip() + "\n"

    def read(self, text: str) -> PolicySpec:
        """Return ``text`` as a policy file; it is neither compiled nor run in this process."""
        size = len(text.encode("utf-8", "replace"))
        if size > MAX_SOURCE_BYTES:
            raise UsageError(f"the file has {size} bytes (expected at most {MAX_SOURCE_BYTES})")
        return PythonFileSpec(FILE, text)

    def same(self, one: PolicySpec, other: PolicySpec) -> bool:
        """Compare sources."""
        if isinstance(one, PythonFileSpec) and isinstance(other, PythonFileSpec):
            return one.source.strip() == other.source.strip()
        return False

    def shown(self, spec: PolicySpec, pool: Pool) -> str:
        """Return the file in use, or a file that decides as the spec in use does."""
        return fenced(FILE, source_of(spec, pool.scale), "python")

    def listed(self, text: str) -> str:
        """Return an earlier file."""
        return fenced(FILE, text, "python")


def fenced_blocks(answer: str) -> list[str]:
    """Return the fenced blocks of ``answer`` that are closed, in time linear in its length."""
    lines = answer.split("\n")
    closings: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        if line.startswith(("```", "~~~")):
            closings.setdefault(line.rstrip(), []).append(number)
    blocks: list[str] = []
    number = 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        ends = closings.get(opening[0], []) if opening else []
        following = bisect_right(ends, number)
        if following < len(ends):
            blocks.append("\n".join(lines[number + 1 : ends[following]]))
            number = ends[following]
        number += 1
    return blocks


def source_of(spec: PolicySpec, scale: float) -> str:
    """Return a policy file that decides as ``spec`` does on a task with score scale ``scale``.

    ``best_first`` and families of others have no such file: theirs is one to start from.
    """
    if isinstance(spec, PythonFileSpec):
        return spec.source
    width, depth, patience, gain = 4, 4, 3, 0.02
    if isinstance(spec, Adaptive):
        width, depth, patience, gain = spec.width, spec.depth, spec.patience, spec.min_gain
    elif isinstance(spec, ParallelRefine):
        width, depth, patience = spec.width, spec.depth, spec.depth
    return prompt(
        "policy_file",
        width=str(width),
        depth=str(depth),
        patience=str(patience),
        min_gain=repr(min(float(gain * scale), sys.float_info.max)),
    )
