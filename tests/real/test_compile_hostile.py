"""Hostile C++: the compiler ends within its limits, makes nothing, and shows nothing secret."""

import re
import tempfile
from pathlib import Path

import msgspec
import pytest

from daydream.sandbox.base import Limits
from daydream.tasks import compiled
from daydream.tasks.base import Evaluation
from daydream.tree import Status
from tests.processes import with_variable

SHORT = msgspec.structs.replace(compiled.LIMITS, wall_s=8, memory_mb=600)
ENDED = {"compile_error", "timeout", "memory", "cpu", "output", "crash"}
MACROS = "\n".join(f"#define M{i + 1} M{i} M{i} M{i} M{i} M{i} M{i} M{i} M{i}" for i in range(9))
CASES = {
    "includes a secret of the host": '#include "/etc/shadow"\nint main() {}',
    "includes a file of the user": '#include "HOME/secret.txt"\nint main() {}',
    "embeds a secret of the host": 'asm(".incbin \\"/etc/shadow\\"");\nint main() {}',
    "includes a device without end": '#include "/dev/zero"\nint main() {}',
    "includes itself": '#include "solver.cpp"\nint main() {}',
    "templates without end": (
        "template <int N> struct A { static const long v = A<N + 1>::v + A<N + 2>::v; };\n"
        "int main() { return A<0>::v; }"
    ),
    "macros without end": f"#define M0 1 + 1 +\n{MACROS}\nint x = M9 0;\nint main() {{}}",
    "an object of a gigabyte": "char big[1L << 30] = {1};\nint main() { return big[7]; }",
    "constants without end": (
        "constexpr long f() { long s = 0; for (long i = 0; i < 1L << 60; ++i) s += i; return s; }\n"
        "constexpr long v = f();\nint main() { return v; }"
    ),
    "errors without end": "\n".join(f"int f{i}() {{ return x{i}; }}" for i in range(20_000)),
    "no program at all": "this is no program \x1b[2J",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_hostile_program_does_not_compile_and_nothing_leaks(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "5f3a-not-to-be-seen"
    (tmp_path / "secret.txt").write_text(secret)
    monkeypatch.setattr(compiled, "LIMITS", SHORT)
    text = CASES[case].replace("HOME", str(tmp_path))
    with tempfile.TemporaryDirectory(prefix="daydream-compile-") as place:
        Path(place).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", place)
        # A program that was made would come back as bytes.
        found = compiled.compiled({"solver.cpp": text.encode()}, "bubblewrap")
        assert with_variable(place) == []
        assert list(Path(place).iterdir()) == []
    assert (tmp_path / "secret.txt").read_text() == secret
    assert isinstance(found, Evaluation)
    assert (found.status is Status.OK, found.score) == (False, 0.0)
    assert found.error_class in ENDED, found
    assert not re.search(r"root:|\x1b", found.message + found.feedback)
    assert secret not in found.message + found.feedback


def test_an_honest_program_compiles_and_a_mistake_is_shown_without_our_paths() -> None:
    made = compiled.compiled({"a.cpp": b"int main() { return 0; }"}, "auto")
    assert isinstance(made, bytes)
    assert made.startswith(b"\x7fELF")
    found = compiled.compiled({"a.cpp": b"int main() { return y; }"}, "auto")
    assert isinstance(found, Evaluation)
    assert found.error_class == "compile_error"
    assert "a.cpp:1:" in found.message
    assert "/daydream-" not in found.message
    assert Limits(wall_s=90, memory_mb=1_500, processes=32, output_bytes=1 << 16) == compiled.LIMITS
