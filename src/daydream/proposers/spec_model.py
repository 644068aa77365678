"""A model proposes the numbers of a built-in policy as JSON, instead of code."""

import json
import re
from typing import Final

from daydream.canonical import JsonValue, dumps
from daydream.errors import UsageError
from daydream.policies.base import BuiltinSpec, PolicySpec
from daydream.policies.specs import families, spec_from_json
from daydream.prompting import prompt
from daydream.proposers.asked import Asking, fenced
from daydream.tree import Pool

FILE: Final = "spec.json"
MOST: Final = 100_000
"""Largest width, depth, patience or k: what no record has is worth nothing."""
_OBJECT: Final = re.compile(r"\{[^{}]*\}")


class SpecModel(Asking):
    """Asks for a setting, shows how it did, and asks again."""

    @property
    def prompts(self) -> tuple[str, str]:
        """The prompts for settings."""
        return "spec_model_system", "spec_model"

    def system(self, name: str) -> str:
        """Return the system prompt with the families that there are."""
        rows = [
            f"- {kind}: {', '.join(family.LETTERS.values())}"
            for kind, family in sorted(families().items())
        ]
        return prompt(name, families="\n".join(rows))

    def extract(self, answer: str) -> str:
        """Return the last JSON object with a ``kind``."""
        found = [text for text in _OBJECT.findall(answer) if '"kind"' in text]
        if not found:
            raise UsageError(
                'the answer holds no JSON object with the key "kind" (expected such as '
                '{"kind": "adaptive", "width": 4, "depth": 4, "patience": 3, "min_gain": 0.02})'
            )
        return str(found[-1])

    def read(self, text: str) -> PolicySpec:
        """Return the spec that the object is."""
        try:
            value: JsonValue = json.loads(text)
        except ValueError as error:
            raise UsageError(f"the JSON is malformed: {error} (expected one object)") from None
        spec = spec_from_json(value)
        if not isinstance(spec, BuiltinSpec):
            raise UsageError(
                f"kind {value.get('kind') if isinstance(value, dict) else value!r} is no built-in "
                f"family (expected one of {', '.join(sorted(families()))})"
            )
        large = {
            key: number for key in spec.LETTERS.values() if (number := getattr(spec, key)) > MOST
        }
        if large:
            raise UsageError(f"{min(large)} is {large[min(large)]} (expected at most {MOST})")
        return spec

    def shown(self, spec: PolicySpec, pool: Pool) -> str:
        """Return the spec in use as JSON, or the name of a file in use."""
        del pool
        if isinstance(spec, BuiltinSpec):
            return fenced(FILE, dumps(spec.to_json()).decode("utf-8"), "json")
        return f"A policy file, {spec.name}."

    def listed(self, text: str) -> str:
        """Return an earlier setting."""
        return fenced(FILE, text, "json")
