"""Answers of models become files in every form, or a reason that the model can act on."""

import pytest

from daydream.agents.chat.answers import MAX_ANSWER, EditFailed, parse
from daydream.agents.chat.edits import apply

PROGRAM = b"import math\n\n\ndef area(r):\n    x = 1.0\n    return math.pi * r * r\n"
MARKED = b"head\n# EVOLVE-BLOCK-START\nold = 1\n# EVOLVE-BLOCK-END\ntail\n"


def _made(answer: str, files: dict[str, bytes], *, evolve: bool = False) -> dict[str, bytes]:
    return apply(parse(answer), files, evolve_only=evolve)


def _block(search: str, new: str, name: str = "") -> str:
    head = f"File: {name}\n" if name else ""
    return f"{head}<<<<<<< SEARCH\n{search}\n=======\n{new}\n>>>>>>> REPLACE\n"


def test_whole_files_are_replaced_made_and_deleted() -> None:
    answer = "I do it.\n\n**File: `a/b.py`**\n```python\nx = 1\n```\nDelete: c.py\n"
    assert _made(answer, {"c.py": b"y\n"}) == {"a/b.py": b"x = 1\n"}
    assert parse(answer).prose == "I do it."


def test_a_fence_may_hold_a_shorter_one() -> None:
    answer = "File: r.md\n````\ntext\n```\ncode\n```\n````\n"
    assert _made(answer, {"r.md": b"z\n"}) == {"r.md": b"text\n```\ncode\n```\n"}


def test_a_block_is_found_exactly_or_by_its_words() -> None:
    for search in ("    x = 1.0", "    x = 1.0   ", "x = 1.0"):
        made = _made(_block(search, search.rstrip().replace("1.0", "2.0")), {"p.py": PROGRAM})
        assert made == {"p.py": PROGRAM.replace(b"1.0", b"2.0")}


def test_line_ends_of_the_file_stay() -> None:
    files = {"p.py": PROGRAM.replace(b"\n", b"\r\n")}
    made = _made(_block("    x = 1.0", "    x = 2.0"), files)
    assert made["p.py"] == PROGRAM.replace(b"1.0", b"2.0").replace(b"\n", b"\r\n")


def test_a_diff_with_wrong_line_numbers_finds_its_place() -> None:
    answer = (
        "```diff\n--- a/p.py\n+++ b/p.py\n@@ -40,3 +40,3 @@\n def area(r):\n"
        "-    x = 1.0\n+    x = 2.0\n     return math.pi * r * r\n```\n"
    )
    assert _made(answer, {"p.py": PROGRAM}) == {"p.py": PROGRAM.replace(b"1.0", b"2.0")}


def test_only_the_marked_region_changes() -> None:
    wanted = {"p": MARKED.replace(b"old = 1", b"new = 2")}
    assert _made("```\nnew = 2\n```\n", {"p": MARKED}, evolve=True) == wanted
    whole = MARKED.decode().replace("old = 1", "new = 2").replace("head", "other head")
    assert _made(f"File: p\n```\n{whole}```\n", {"p": MARKED}, evolve=True) == wanted
    with pytest.raises(EditFailed, match="outside the EVOLVE-BLOCK"):
        _made(_block("tail", "more", "p"), {"p": MARKED}, evolve=True)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "empty"),
        ("I would rather not.", "no file"),
        pytest.param("x" * (MAX_ANSWER + 1), "characters", id="too long"),
        ("File: p.py\n```\nx = 1\n", "cut off"),
        (_block("y = 7", "y = 8"), "is not in p.py"),
        (_block("    x = 1.0", "    x = 1.0"), "changes nothing"),
        (_block("a", "b", "none.py"), "no file none.py"),
        ("File: ../up.py\n```\nx\n```\n", "relative path"),
        ("File: /etc/passwd\n```\nx\n```\n", "relative path"),
        ("Delete: p.py\n", "leaves no file"),
        ("```diff\n--- a/p.py\n+++ b/p.py\n@@ -1 +1 @@\n-nothing\n+some\n```\n", "does not fit"),
    ],
)
def test_an_answer_that_cannot_be_used_says_why(answer: str, reason: str) -> None:
    with pytest.raises(EditFailed, match=reason):
        _made(answer, {"p.py": PROGRAM})


def test_text_that_stands_twice_is_refused() -> None:
    with pytest.raises(EditFailed, match="2 times"):
        _made(_block("x = 1", "x = 2"), {"p.py": b"x = 1\nx = 1\n"})
