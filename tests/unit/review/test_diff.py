"""Taking a difference apart: names as git writes them, and no file that git did not name."""

import pytest

from daydream.review.diff import cut, parse_diff, parts_of, shown_of


def _text(name: str, *lines: str, quoted: str = "") -> str:
    told = quoted or name
    left, right = (f'"{side}/{told}"' if quoted else f"{side}/{told}" for side in "ab")
    body = "\n".join((f"@@ -0,0 +1,{len(lines)} @@", *lines))
    return f"diff --git {left} {right}\nindex 1..2 100644\n--- {left}\n+++ {right}\n{body}\n"


@pytest.mark.parametrize("sign", ["\r", "\f", "\v", "\x1c", "\x85", "\u2028"])
def test_no_break_inside_of_a_line_makes_a_file_that_git_did_not_name(sign: str) -> None:
    forged = f"+x = 1{sign}diff --git a/ci.yml b/ci.yml{sign}+++ b/ci.yml"
    files = parse_diff(_text("one.py", forged) + _text("two.py", "+y = 2"))
    assert [one.path for one in files] == ["one.py", "two.py"]
    assert forged in files[0].text


def test_an_added_line_that_looks_like_a_header_names_no_file() -> None:
    files = parse_diff(_text("one.py", "+++ b/ci.yml", "+rename to other.py"))
    assert [one.path for one in files] == ["one.py"]


@pytest.mark.parametrize(
    ("quoted", "name"),
    [
        (r"caf\303\251.py", "caf\u00e9.py"),
        (r"line\nbreak.py", "line\nbreak.py"),
        (r"tab\tquote\"back\\slash.py", 'tab\tquote"back\\slash.py'),
        (r"odd\377.py", "odd\ufffd.py"),
    ],
)
def test_names_that_git_quotes_are_read_as_they_are(quoted: str, name: str) -> None:
    assert [one.path for one in parse_diff(_text("", "+x", quoted=quoted))] == [name]
    bare = f'diff --git "a/{quoted}" "b/{quoted}"\nold mode 100644\nnew mode 100755\n'
    assert [one.path for one in parse_diff(bare)] == [name]


def test_a_name_with_a_blank_and_a_b_is_read_from_its_length() -> None:
    bare = "diff --git a/x b/y b/x b/y\nold mode 100644\nnew mode 100755\n"
    assert [one.path for one in parse_diff(bare)] == ["x b/y"]


def test_a_file_that_is_cut_does_not_count_as_shown() -> None:
    files = parse_diff(_text("a.py", "+a") + _text("b.py", "+" + "b" * 500))
    size = len(files[0].text)
    assert shown_of(files, size)[1] == ["a.py"]
    assert shown_of(files, size - 1)[1] == []
    assert shown_of(files, 10_000) == ("\n".join(one.text for one in files), ["a.py", "b.py"])
    assert cut("x" * 20, 10).startswith("x" * 10 + "\n... 10 characters")


def test_what_no_piece_holds_is_told() -> None:
    files = parse_diff("".join(_text(f"{n}.{end}", "+x") for n in range(3) for end in ("py", "go")))
    pieces, left = parts_of(files, most=1)
    assert {one.path for one in pieces[0].files} | {one.path for one in left} == {
        one.path for one in files
    }
    assert len(pieces) == 1
    assert len(left) == 3
