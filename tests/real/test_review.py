"""``daydream review`` from the command line: three slips found, mended, tested and committed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.real.checkouts import AFTER, CHECKS, PLACES, git, seeded, state
from tests.real.commands import Ran, daydream
from tests.real.review_server import Fault, ReviewServer, Said

ALWAYS = ("--archive", "archive", "--non-interactive")
FIXED = ("--yes", "--test-command", CHECKS)


def _review(server: ReviewServer, *arguments: str, code: int = 0) -> Ran:
    return daydream("review", "repo", "-m", server.model, *ALWAYS, *arguments, code=code)


def _archived(outcome: Mapping[str, Any], name: str) -> Any:
    return json.loads(Path(outcome["archive"], name).read_text())


def test_three_slips_are_found_mended_tested_and_committed_beside_the_users_work() -> None:
    repo = seeded(Path("repo"))
    before = state(repo)
    with ReviewServer() as server:
        done = _review(server, *FIXED, "--json").json
    assert {(one["file"], one["line"]) for one in done["items"]} == PLACES
    assert [one["severity"] for one in done["items"]] == ["high", "medium", "low"]
    assert {one["verdict"] for one in done["verdicts"]} == {"consistent"}
    assert done["tests"]["passed"]
    assert (done["tests"]["exit"], done["tests"]["retries"]) == (0, 0)
    assert done["fix_failures"] == done["reviewers_failed"] == {}
    after = state(repo)
    assert after._replace(refs="") == before._replace(refs="")
    new = set(after.refs.splitlines()) - set(before.refs.splitlines())
    assert new == {f"{done['commit']} commit\trefs/heads/{done['branch']}"}
    assert git(repo, "rev-parse", f"{done['commit']}^") == before.head
    _is_our_commit(repo, done)
    _agrees(done, server)
    _is_whole(done, before.head)


def _is_our_commit(repo: Path, done: Mapping[str, Any]) -> None:
    form = "--format=%an <%ae>|%cn <%ce>|%B"
    said = git(repo, "show", "--no-patch", form, done["commit"])
    who = "Daydream Review <review@daydream.invalid>"
    assert said.startswith(f"{who}|{who}|Mend 3 findings of a review\n")
    assert f"Daydream-Run: {Path(done['archive']).name}\n" in said
    assert said.endswith("Daydream-Tests: passed")
    changed = git(repo, "diff", "--name-only", "HEAD", done["commit"]).split()
    assert changed == ["shelf.py", "stock.py", "till.py"]
    assert "is None" in git(repo, "show", f"{done['commit']}:shelf.py")


def _agrees(done: Mapping[str, Any], server: ReviewServer) -> None:
    """The ledger is the server's own count, and no two bodies are the same."""
    usage = done["usage"]
    assert usage["requests"] == len(server.seen)
    assert (usage["input_tokens"], usage["output_tokens"]) == server.tokens
    bodies = [json.dumps(one.body, sort_keys=True) for one in server.seen if one.fault == "ok"]
    assert len(set(bodies)) == len(bodies)
    assert all(not one.body.get("stream") for one in server.seen)


def _is_whole(done: Mapping[str, Any], head: str) -> None:
    archive = Path(done["archive"])
    names = {str(path.relative_to(archive)) for path in archive.rglob("*") if path.is_file()}
    forks = {"intent", "review-python", "structure", "verify", "fix-1", "fix-2", "fix-3"}
    assert names == {
        *("manifest.json", "trajectory.json", "review-output.md", "diff.patch"),
        *(f"trajectories/{fork}.json" for fork in forks),
        *("recommended.patch", "deep/intent.md", "deep/merged-items.json", "deep/dropped.json"),
        *("deep/stack-python-records.json", "deep/stack-structure-records.json"),
        *("deep/recommendation-verdicts.json", "deep/test-verdict.json"),
        *("deep/fix-failures.json", "deep/per-stack-failures.json"),
    }
    manifest = _archived(done, "manifest.json")
    assert (manifest["status"], manifest["git"]["head_sha"]) == ("complete", head)
    assert manifest["git"]["fix_sha"] == done["commit"]
    assert manifest["code_context"]["changed_files"] == sorted(AFTER)
    metrics = manifest["metrics"]
    assert metrics["total_prompt_tokens"] == done["usage"]["input_tokens"]
    assert (metrics["total_findings"], metrics["coverage_ratio"]) == (3, 1.0)
    whole = _archived(done, "trajectory.json")
    assert whole["final_metrics"]["total_prompt_tokens"] == done["usage"]["input_tokens"]
    assert set(whole["extra"]["subtrajectories"]) == {f"trajectories/{fork}.json" for fork in forks}


@pytest.mark.slow
def test_faults_of_the_server_are_counted_and_the_review_goes_on() -> None:
    faults: dict[tuple[str, int], Fault] = {
        ("intent", 0): "500",
        ("review-python", 0): "useless",
        ("verify", 0): "broken",
        ("fix-2", 0): "refused",
    }
    seeded(Path("repo"))
    with ReviewServer(lambda phase, number: faults.get((phase, number), "ok")) as server:
        done = _review(server, "--yes", "--json", code=1).json
    assert {(one["file"], one["line"]) for one in done["items"]} == PLACES
    assert list(done["fix_failures"]) == ["stock.py"]
    assert "takes no tools" in done["fix_failures"]["stock.py"]
    usage = done["usage"]
    assert usage["requests"] == len(server.seen)
    assert (usage["input_tokens"], usage["output_tokens"]) == server.tokens
    assert _archived(done, "manifest.json")["status"] == "partial"
    assert done["commit"]


@pytest.mark.slow
def test_a_reviewer_that_never_answers_in_form_is_named_and_not_counted_as_coverage() -> None:
    seeded(Path("repo"), {**AFTER, "page.js": "let a = 1\n"})
    with ReviewServer(lambda phase, number: "useless" if phase == "review-web" else "ok") as server:
        done = _review(server, "--no-fix", "--json", code=1).json
    assert list(done["reviewers_failed"]) == ["review-web"]
    assert _archived(done, "manifest.json")["metrics"]["coverage_ratio"] == 0.8


@pytest.mark.slow
def test_tests_that_stay_red_mean_no_commit_and_exit_code_1() -> None:
    repo = seeded(Path("repo"))
    before = state(repo)
    with ReviewServer() as server:
        done = _review(server, "--yes", "--test-command", "exit 3", "--json", code=1).json
    assert state(repo) == before
    assert (done["commit"], done["branch"]) == (None, None)
    assert (done["tests"]["exit"], done["tests"]["retries"]) == (3, 1)
    assert "heal" in server.phases
    assert Path(done["archive"], "recommended.patch").read_text().startswith("diff --git")
    assert _archived(done, "deep/test-verdict.json")["passed"] is False


def _heals(messages: Sequence[Mapping[str, Any]]) -> Said:
    if messages[-1]["role"] == "tool":
        return "Done.", ()
    return "", [("edit", {"path": "till.py", "old": "return 0", "new": "return None"})]


@pytest.mark.slow
def test_one_healing_round_can_turn_red_tests_green() -> None:
    repo = seeded(Path("repo"))
    with ReviewServer(scripts={"heal": _heals}) as server:
        done = _review(
            server, "--yes", "--test-command", "grep -q 'return None' till.py", "--json"
        ).json
    assert (done["tests"]["passed"], done["tests"]["retries"]) == (True, 1)
    assert "return None" in git(repo, "show", f"{done['branch']}:till.py")


@pytest.mark.slow
def test_in_place_moves_what_is_checked_out_where_it_is_clean_and_refuses_else() -> None:
    repo = seeded(Path("repo"))
    (repo / "till.py").write_text("mine\n")
    before = state(repo)
    with ReviewServer() as server:
        said = _review(server, *FIXED, "--in-place", code=2)
        assert "changes of yours" in said.err
        assert (state(repo), server.seen) == (before, [])
        git(repo, "checkout", "--", "till.py")
        (repo / "notes.txt").write_text("mine, and known to nobody\n")
        done = _review(server, *FIXED, "--in-place", "--json").json
    after = state(repo)
    assert (after.head, after.branch) == (done["commit"], "topic")
    assert after.status == "?? notes.txt"
    assert "except Exception:" in (repo / "till.py").read_text()


@pytest.mark.slow
def test_push_brings_the_branch_to_origin_and_nothing_else_there() -> None:
    repo = seeded(Path("repo"))
    git(".", "clone", "--quiet", "--bare", "repo", "origin.git")
    git(repo, "remote", "add", "origin", str(Path("origin.git").absolute()))
    before = state(repo)
    theirs = git("origin.git", "for-each-ref")
    with ReviewServer() as server:
        done = _review(server, *FIXED, "--push", "--base", "main", "--json").json
        line = f"{done['commit']} commit\trefs/heads/{done['branch']}"
        assert set(git("origin.git", "for-each-ref").splitlines()) == {*theirs.splitlines(), line}
        assert state(repo)._replace(refs="") == before._replace(refs="")
        git(repo, "remote", "set-url", "origin", "/nowhere/at/all")
        lost = _review(server, *FIXED, "--push", "--base", "main", "--json", code=1).json
    assert "origin did not take" in lost["fix_failures"]["push"]
    assert git(repo, "rev-parse", lost["branch"]) == lost["commit"]


@pytest.mark.slow
def test_without_agreement_nothing_is_mended_and_each_format_says_the_same() -> None:
    repo = seeded(Path("repo"))
    before = state(repo)
    with ReviewServer() as server:
        sarif = _review(server, "--format", "sarif").json
        github = _review(server, "--no-fix", "--format", "github").json
    assert state(repo) == before
    assert not any(phase.startswith("fix") for phase in server.phases)
    run = sarif["runs"][0]
    places = set()
    for one in run["results"]:
        where = one["locations"][0]["physicalLocation"]
        places.add((where["artifactLocation"]["uri"], where["region"]["startLine"]))
        assert one["ruleId"] in {rule["id"] for rule in run["tool"]["driver"]["rules"]}
        assert one["message"]["text"]
        assert one["level"] in {"error", "warning", "note"}
    assert (sarif["version"], run["tool"]["driver"]["name"]) == ("2.1.0", "daydream")
    assert places == PLACES
    assert {(one["path"], one["line"]) for one in github["comments"]} == PLACES
    assert (github["event"], github["commit_id"]) == ("COMMENT", before.head)


@pytest.mark.slow
def test_the_text_and_the_json_lines_name_every_finding() -> None:
    seeded(Path("repo"))
    with ReviewServer() as server:
        text = _review(server, "--no-fix").out
        plain = _review(server, "--no-fix", "--format", "json").json
        lines = _review(server, "--no-fix", "--json").lines
    assert all(f"[{file}:{line}]" in text for file, line in PLACES)
    assert {(one["file"], one["line"]) for one in plain["items"]} == PLACES
    began = [one["phase"] for one in lines if one["event"] == "phase"]
    assert began == ["diff", "intent", "review", "verify"]
    assert lines[-1]["event"] == "done"
