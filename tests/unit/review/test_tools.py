"""What a reviewer's tools do with arguments, files and patterns that nobody planned for."""

from pathlib import Path

import pytest

from daydream.canonical import JsonValue
from daydream.review import tools
from daydream.review.tools import Shell, ToolFailed, Tools


def _tools() -> Tools:
    Path("tree").mkdir()
    return Tools(Path("tree"), Shell(), scope=("a.py", "new.py"))


def test_an_edit_keeps_bytes_that_are_no_utf_8_and_the_ends_of_lines() -> None:
    hands = _tools()
    place = Path("tree", "a.py")
    place.write_bytes(b"# caf\xe9\r\nx = 1\r\ny = 2\r\n")
    hands.call("edit", {"path": "a.py", "old": "x = 1\ny = 2", "new": "x = 3\ny = 4"})
    assert place.read_bytes() == b"# caf\xe9\r\nx = 3\r\ny = 4\r\n"
    with pytest.raises(ToolFailed, match="no UTF-8 text"):
        hands.call("write", {"path": "a.py", "content": "x"})
    place.write_bytes(b"x = 1\r\n")
    hands.call("write", {"path": "a.py", "content": "x = 3\ny = 4\n"})
    assert place.read_bytes() == b"x = 3\r\ny = 4\r\n"


def test_only_a_line_feed_ends_a_line() -> None:
    hands = _tools()
    Path("tree", "a.py").write_text("one\x0ctwo\u2028three\nfour\n")
    assert hands.call("read", {"path": "a.py", "start": 2}).split() == ["2", "four"]
    assert hands.call("grep", {"pattern": "four"}) == "a.py:2: four\n"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read", {"path": "nul\0byte"}),
        ("read", {"path": "loop"}),
        ("read", {"path": "n" * 5_000}),
        ("read", {"path": "a.py", "start": "\u00b2"}),
        ("read", {"path": "a.py", "end": "9" * 5_000}),
        ("read", {"path": ["a.py"]}),
        ("read", {}),
        ("grep", {"pattern": "("}),
        ("edit", {"path": "a.py", "old": "", "new": "x"}),
        ("edit", {"path": "a.py", "old": "\ud800", "new": "x"}),
        ("write", {"path": "tree/../../x", "content": "x"}),
        ("write", {"path": "loop", "content": "x"}),
        ("ls", {"path": "a.py"}),
        ("sudo", {"command": "x"}),
    ],
)
def test_odd_arguments_are_answers_to_the_model(name: str, arguments: dict[str, JsonValue]) -> None:
    hands = _tools()
    Path("tree", "a.py").write_text("x = 1\n")
    Path("tree", "loop").symlink_to("loop")
    with pytest.raises((ToolFailed, OSError)):
        hands.call(name, arguments)
    assert sorted(one.name for one in Path("tree").iterdir()) == ["a.py", "loop"]
    assert Path("tree", "a.py").read_text() == "x = 1\n"


def test_a_pattern_that_takes_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "GREP_S", 0.5)
    hands = _tools()
    Path("tree", "a.py").write_text("a" * 60 + "!\n")
    assert "stopped after 0.5 s" in hands.call("grep", {"pattern": "(a+)+$"})
