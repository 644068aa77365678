"""The documentation says what is there: links, names of commands and flags, generated parts."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from daydream.cli.main import COMMANDS
from tests.conftest import ROOT
from tools import docs
from tools.figures import figures
from tools.model_figures import model_line

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]+)?\)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z_-]+")
OTHER_FLAGS = {
    *("--help", "--port", "--program_path", "--results_dir", "--slow", "--unpack"),
    *("--enable-lora", "--lora-modules"),  # of vLLM
}


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


def test_no_flag_has_a_default_that_says_nothing() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert "[default: " in text
    assert re.findall(r'\[default: (?:\[\]|""|False|None|\(\))\]', text) == []


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


def test_figures_come_from_result_files_alone(tmp_path: Path) -> None:
    assert figures(tmp_path) == ""
    row = {"nodes": 640, "limit": 8, "reveals_per_cpu_s": 1234567.8, "peak_mb": 1.6}
    rounds = [{"cum": 8, "best": 0.5, "policy": "parallel_refine-w1-d1", "calls": 8}]
    (tmp_path / "policy_line.json").write_text(
        json.dumps(
            {
                "six": {
                    "tasks": [{"task": "a|b", "fixed": rounds, "dream": rounds}],
                    "total": {"fixed": 8, "dream": 8},
                },
                "margin": {"0": rounds, "2": [*rounds, {**rounds[0], "off_record": 3}]},
            }
        )
    )
    (tmp_path / "replay.json").write_text(
        json.dumps(
            {
                "replay": [row, {**row, "limit": 32}],
                "replay_adaptive": [{**row, "reveals_per_cpu_s": 7654321.0}],
                "load": [{"nodes": 640, "seconds": 0.125}],
                "peers": [
                    {"name": "absent", "skipped": "absent is not installed"},
                    {**row, "name": "there", "version": "1.2", "times": 99.6},
                ],
            }
        )
    )
    text = figures(tmp_path)
    assert r"| `a\|b` | 8 | 8 | 0.5000 | 0.5000 | `parallel_refine-w1-d1` |" in text
    assert "| `--explore-margin 2` | 8, 8 | 0.5000, 0.5000 | -, 3 |" in text
    assert "| 640 | 8 | 1,234,568 | 7,654,321 |  | 2 MB | 0.12 s |" in text
    assert "| 640 | 32 | 1,234,568 |  |  | 2 MB | 0.12 s |" in text
    assert "| there 1.2 | 640 | 8 | 1,234,568 | 0 | 100 |" in text
    assert "absent" not in text


def test_runs_of_one_case_make_one_row(tmp_path: Path) -> None:
    run = {"case": "c", "task": "t:n=3", "goal": "min", "target": 1.5, "calls": 9, "cpu_s": 4.4}
    runs = (
        {**run, "measure": 1.75, "reached": False},
        {**run, "measure": 1.25, "reached": True, "calls": 11},
    )
    (tmp_path / "search.jsonl").write_text("".join(json.dumps(one) + "\n" for one in runs))
    row = "| `t:n=3` | 1.250000000 | at most 1.5 | 1 of 2 | 10 | 4 |"
    assert row in figures(tmp_path)


def test_paired_figures_show_means_with_their_intervals(tmp_path: Path) -> None:
    span = {"mean": 1.0, "low": -0.5, "high": 2.5, "n": 2}
    names = (
        "calls_saved",
        "quality_lost",
        "last_round_lost",
        "calls_to_fixed_best",
        "best_at_equal_calls",
    )
    summary = {**dict.fromkeys(names, span), "reached": 1, "wins": 1, "ties": 0, "losses": 1}
    paired = {"measure": "score", "summary": summary, "seeds": [{"seed": 0}, {"seed": 1}]}
    (tmp_path / "policy_line.json").write_text(
        json.dumps({"fresh": {"lasso": paired}, "real": {"sum-diff:cap=512": paired}})
    )
    text = figures(tmp_path)
    assert "2 paired seeds a task" in text
    assert "1.0 (-0.5 to 2.5) | 1.0000 (-0.5000 to 2.5000)" in text
    assert text.count("| 1, 0, 1 |") == 2


def test_a_night_with_a_real_model_is_told_as_its_file_has_it(tmp_path: Path) -> None:
    assert model_line(tmp_path) == ""
    rate = {"solved": 30, "rate": 0.3, "low": 0.2, "high": 0.4}
    trial = {"probes": 100, "low": -0.125, "high": 0.01}
    night = {
        "model": "Tiny.Q4",
        "family": "formula",
        "attempts": 40,
        "solved": 9,
        "successes": 8,
        "contrasts": 7,
        "rates": {"base": rate, "sft": rate, "dpo": {**rate, "solved": 25, "rate": 0.25}},
        "verdict": {"decision": "undecided", "reason": "no clear difference", "trial": trial},
        "cpu_s": {"wake": 100.0, "night": 80.0},
        "versions": dict.fromkeys(("torch", "transformers", "trl", "peft"), "1.0+cpu"),
    }
    (tmp_path / "model.json").write_text(json.dumps(night))
    text = " ".join(model_line(tmp_path).split())
    assert "| as it comes | 30 of 100 | 30.0 % (20.0 % to 40.0 %) |" in text
    assert "| the same, then DPO | 25 of 100 | 25.0 %" in text
    assert "**undecided** (no clear difference)" in text
    assert "-12.5 to +1.0 points" in text
    assert "3 CPU minutes, with torch 1.0, transformers 1.0, trl 1.0, peft 1.0." in text
