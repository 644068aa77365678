"""The limits of tools/budgets.py fire on what they forbid, and on nothing else."""

from pathlib import Path

import pytest

from tools import budgets

SWALLOW = "try:\n    f()\nexcept Exception:\n    pass\n"


def problems(path: str, text: str) -> list[str]:
    return [breach.problem for breach in budgets.breaches(path, text)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n" * 501, "file has 501 lines"),
        ("def f():\n" + "    x = 1\n" * 80, "f has 81 lines"),
        ("def f(a, b, c, d, e, *, g, h, i): ...\n", "f takes 8 parameters"),
        ("x = 1  # TODO later\n", "TODO"),
        ("assert f()\n", "assert in src"),
        (SWALLOW, "broad except"),
        (SWALLOW.replace("Exception", "(ValueError, BaseException)"), "broad except"),
        (SWALLOW.replace(" Exception", ""), "broad except"),
    ],
)
def test_each_limit_fires_on_the_first_thing_past_it(text: str, said: str) -> None:
    [problem] = problems("src/daydream/some.py", text)
    assert said in problem


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n" * 500,
        "def f():\n" + "    x = 1\n" * 79,
        "class C:\n    def f(self, a, b, c, d, e, *, g, h): ...\n",
        "try:\n    f()\nexcept BaseException:\n    g()\n    raise\n",
        "try:\n    f()\nexcept (OSError, ValueError):\n    pass\n",
    ],
)
def test_no_limit_fires_before_it_is_reached(text: str) -> None:
    assert problems("src/daydream/some.py", text) == []


def test_a_command_may_have_twelve_options() -> None:
    command = "def f({}): ...\n"
    twelve = ", ".join(f"a{number}" for number in range(12))
    assert problems("src/daydream/cli/some.py", command.format(twelve)) == []
    assert problems("src/daydream/cli/some.py", command.format(twelve + ", b"))


def test_a_named_boundary_may_catch_everything() -> None:
    for path in budgets.BROAD_EXCEPT_ALLOWED:
        assert problems(path, SWALLOW) == []


def test_the_tool_names_the_place_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "bad.py").write_text("x = 1\nassert x\n")
    assert budgets.main([str(tmp_path)]) == 1
    assert "src/bad.py:2: assert in src" in capsys.readouterr().out
