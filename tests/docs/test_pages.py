"""The documentation says what is there: links, names of commands and flags, generated parts."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from daydream.cli.main import COMMANDS
from tests.conftest import ROOT
from tools import docs

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]+)?\)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OTHER_FLAGS = {"--slow", "--check", "--no-deps", "--hypothesis-profile", "--help"}


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {"#" + re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page.name} links to {target}"
        if anchor and path.suffix == ".md" and path.name != "cli.md":
            assert anchor in _anchors(path), f"{page.name} links to {target}{anchor}"


def test_every_file_that_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:tests|tools|docs)/[\w./-]+)`", text))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", text, re.MULTILINE)
    layers = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    source = ROOT / "src" / "daydream"
    modules = {path.stem for path in source.glob("*.py")} - {"__init__", "__main__"}
    assert layers == modules | {path.parent.name for path in source.glob("*/__init__.py")}


def _commands_shown() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for line in re.findall(r"^\$ daydream (\S+)", page.read_text(encoding="utf-8"), re.M):
            yield page.name, line


def test_every_command_that_a_page_shows_exists() -> None:
    known = {name for name, _, _ in COMMANDS}
    shown = list(_commands_shown())
    assert shown
    assert [pair for pair in shown if pair[1] not in known] == []


def test_every_flag_that_a_page_names_is_in_the_reference() -> None:
    known = set(FLAG.findall((ROOT / "docs" / "cli.md").read_text(encoding="utf-8"))) | OTHER_FLAGS
    for page in PAGES:
        named = set(FLAG.findall(page.read_text(encoding="utf-8")))
        assert sorted(named - known) == [], page.name


def test_every_generated_part_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert docs.main(["--check"]) == 0, capsys.readouterr().out


def test_a_stale_page_is_shown_and_then_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    monkeypatch.setattr(docs, "PAGES", ("page.md",))
    monkeypatch.setattr(docs, "CLI_PAGE", "cli.md")
    page = tmp_path / "page.md"
    page.write_text("Kept.\n<!-- generated: aliases -->\nold\n<!-- end -->\nKept too.\n")
    assert docs.main(["--check"]) == 1
    assert "-old" in capsys.readouterr().out
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0
    text = page.read_text()
    assert "| `packing` | `circle-packing` |" in text
    assert text.startswith("Kept.\n")
    assert text.endswith("Kept too.\n")
    assert (tmp_path / "cli.md").read_text().startswith("# Command line\n")


def test_a_block_without_a_generator_is_an_error() -> None:
    with pytest.raises(KeyError, match="nothing-such"):
        docs.fill("<!-- generated: nothing-such -->\n<!-- end -->")


def test_figures_come_from_result_files_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    offer = '{{"order": {0}, "title": "T{0}", "columns": ["a"], "rows": [["x|y"]]}}'
    (results / "one.json").write_text(f'{{"readme": {offer.format(2)}}}')
    (results / "two.json").write_text(f'{{"readme": [{offer.format(1)}]}}')
    (results / "rows.json").write_text("[]")
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    text = docs.figures()
    assert text.index("**T1**") < text.index("**T2**")
    assert r"| x\|y |" in text
