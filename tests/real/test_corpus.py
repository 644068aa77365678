"""``daydream corpus`` as a user runs it, against a server that speaks GitHub's API."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daydream.cli.main import main
from daydream.corpus.github import GitHub, Manners
from daydream.corpus.harvest import Wanted, harvest
from daydream.corpus.reading import read_corpus
from daydream.corpus.records import Index, Record, entry_of, record_path, write_corpus, write_json
from daydream.errors import CorpusError
from daydream.llm.http import Transport
from tests.real.commands import daydream
from tests.real.github_server import BOT, TOKEN, GitHubServer, comment, pull, review, sha, thread


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    """Return a repository with five pull requests, three of them reviewed by the bot."""
    with GitHubServer() as made:
        made.pulls = [
            pull(5, state="open", merged_at=None),
            pull(4),
            pull(3),
            pull(2),
            pull(1, merged_at=None),
        ]
        made.reviews = {
            4: [review(40, commit=104), review(41, commit=114, body=" ")],
            3: [review(30, commit=103, who="human")],
            2: [review(20, commit=102), review(21, commit=112), review(22, commit=9, who="human")],
        }
        made.comments = {
            5: [comment(50, commit=105)],
            2: [
                comment(200, commit=112),
                comment(201, commit=112, in_reply_to_id=200),
                comment(202, commit=102),
                comment(203, commit=112, who="human"),
                comment(204, commit=112, path="README.md", original_line=1),
            ],
        }
        made.threads = {
            2: [
                thread(200),
                thread(202, isResolved=False, logins=("helper", "ann")),
                thread(203, logins=("ann", "helper")),
                thread(204, isOutdated=False),
            ]
        }
        yield made


def _harvest(server: GitHubServer, out: str, *changes: str) -> tuple[str, ...]:
    """Return a harvest of ``server``; ``changes`` are flags and values that replace its own."""
    flags = {"--repo": "acme/widgets", "--bot": BOT, "--out": out, "--api": server.url}
    flags |= dict(zip(changes[::2], changes[1::2], strict=True))
    return ("corpus", "harvest", *(word for pair in flags.items() for word in pair))


def _run(*arguments: str) -> int:
    return main(list(arguments))


def _json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)


def test_a_harvest_writes_the_reviewed_pull_requests_newest_first(server: GitHubServer) -> None:
    done = daydream(*_harvest(server, "corpus"), "--json")
    assert (done.json["with_bot"], done.json["replayable"], done.json["fetched"]) == (3, 3, 5)
    index = json.loads(Path("corpus/index.json").read_text())
    assert [entry["pr_number"] for entry in index["prs"]] == [5, 4, 2]
    assert [entry["review_commit_id"] for entry in index["prs"]] == [sha(105), sha(104), sha(112)]
    assert server.tokens == {f"Bearer {TOKEN}"}
    golden = json.loads(Path("corpus/results/benchmark_data.json").read_text())
    entry = golden["https://github.com/acme/widgets/pull/2"]
    kept = [(one["path"], one["line"], one["resolved"]) for one in entry["golden_comments"]]
    assert kept == [("src/app.py", 5, True), ("README.md", 1, True)]
    assert daydream("corpus", "check", "corpus").code == 0


def test_a_second_harvest_reads_only_what_changed(server: GitHubServer) -> None:
    assert _run(*_harvest(server, "corpus")) == 0
    before = Path("corpus/index.json").read_bytes(), len(server.paths)
    server.pulls[3] = pull(2, updated_at="2026-03-01T00:00:00Z")
    server.paths.clear()
    assert _run(*_harvest(server, "corpus")) == 0
    assert set(server.count()) == {
        "/repos/acme/widgets/pulls",
        "/repos/acme/widgets/pulls/N/reviews",
        "/repos/acme/widgets/pulls/N/comments",
        "/graphql",
    }
    assert {path for path in server.paths if path.endswith("reviews")} == {
        "/repos/acme/widgets/pulls/2/reviews"
    }
    assert len(server.paths) < before[1]


def test_an_interrupted_harvest_keeps_what_it_read_and_continues(
    server: GitHubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.plan = {9: (404, {})}
    assert _run(*_harvest(server, "corpus")) == 1
    assert "GitHub answered 404" in capsys.readouterr().err
    assert not Path("corpus/index.json").exists()
    kept = {path.name for path in Path("corpus/harvest").iterdir()}
    assert "pr-5.json" in kept
    server.plan = {}
    server.paths.clear()
    assert _run(*_harvest(server, "corpus")) == 0
    assert "/repos/acme/widgets/pulls/5/reviews" not in server.paths
    whole = {p.name: p.read_bytes() for p in Path("corpus").rglob("*.json")}
    assert _run(*_harvest(server, "other")) == 0
    for path in Path("other").rglob("*.json"):
        if path.name != "index.json":
            assert whole[path.name] == path.read_bytes()


def _quiet(server: GitHubServer, transport: Transport, waits: list[float]) -> GitHub:
    return GitHub(transport, server.url, TOKEN, Manners(waits.append, lambda: 1_000.0))


def _told(client: GitHub) -> None:
    harvest(client, Wanted("acme/widgets", BOT), Path("corpus"), lambda _: None, "now")


def test_rate_limits_are_waited_for_as_the_server_states_them(server: GitHubServer) -> None:
    spent = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1030"}
    server.plan = {
        0: (403, spent),
        2: (429, {"retry-after": "7"}),
        4: (500, {}),
        6: (200, spent),
    }
    waits: list[float] = []
    with Transport(lambda: 0.0) as transport:
        _told(_quiet(server, transport, waits))
    assert waits == [31.0, 7.0, 2.0, 31.0]
    assert read_corpus(Path("corpus")).errors == ()


def test_a_limit_beyond_the_patience_ends_the_harvest_with_what_to_do(
    server: GitHubServer,
) -> None:
    server.plan = {8: (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "9000"})}
    waits: list[float] = []
    with Transport(lambda: 0.0) as transport, pytest.raises(CorpusError, match="8001 s") as caught:
        _told(_quiet(server, transport, waits))
    assert "same command again" in str(caught.value)
    assert waits == []
    assert TOKEN not in str(caught.value)


def test_conversations_that_cannot_be_read_are_said_to_be_incomplete(
    server: GitHubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.no_graphql = True
    assert _json(capsys, *_harvest(server, "corpus"))["incomplete"] == [5, 4, 2]
    counts = _json(capsys, "corpus", "label", "corpus")
    assert (counts["unknown"], counts["rejected"]) == (4, 0)
    warnings = _json(capsys, "corpus", "check", "corpus")["findings"]
    assert {one["level"] for one in warnings} == {"warning"}


def test_labels_come_with_their_evidence(
    server: GitHubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(*_harvest(server, "corpus")) == 0
    counts = _json(capsys, "corpus", "label", "corpus")
    found = {name: counts[name] for name in ("accepted", "contested", "rejected", "unknown")}
    assert found == {"accepted": 1, "contested": 1, "rejected": 1, "unknown": 1}
    labels = json.loads(Path("corpus/results/labels.json").read_text())
    by_id = {one["comment_id"]: one for one in labels["https://github.com/acme/widgets/pull/2"]}
    assert 201 not in by_id
    assert by_id[202]["evidence"] == "answered by ann and not resolved"


def test_only_merged_or_few_pull_requests_are_taken_when_asked(
    server: GitHubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    done = _json(capsys, *_harvest(server, "merged", "--state", "merged"))
    assert (done["looked_at"], done["with_bot"]) == (3, 2)
    done = _json(capsys, *_harvest(server, "two", "--limit", "2"))
    assert (done["looked_at"], done["with_bot"]) == (2, 2)


BAD = (
    (("--repo", "getsentry/Sentry"), 2, "held out"),
    (("--repo", "no-slash"), 2, "OWNER/NAME"),
    (("--limit", "0"), 2, "at least 1"),
    (("--api", "ftp://here"), 2, "--api"),
    (("--api", "http://192.0.2.1"), 2, "in clear"),
    (("--repo", "acme/missing"), 1, "check the name"),
    (("--api", "http://127.0.0.1:9"), 1, "run the same command again"),
    (("--state", "odd"), 2, "odd"),
)


@pytest.mark.parametrize(("flags", "code", "words"), BAD, ids=lambda value: str(value)[:30])
def test_bad_requests_are_refused_with_what_to_do(
    server: GitHubServer,
    flags: tuple[str, str],
    code: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert _run(*_harvest(server, "corpus", *flags)) == code
    told = capsys.readouterr()
    assert words in " ".join((told.err + told.out).split())
    assert TOKEN not in told.err + told.out
    assert not Path("corpus/index.json").exists()


def test_without_a_token_nothing_is_asked(
    server: GitHubServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")
    monkeypatch.delenv("GH_TOKEN", raising=False)
    assert _run(*_harvest(server, "corpus")) == 3
    assert "GITHUB_TOKEN" in capsys.readouterr().err
    assert server.paths == []


def test_a_folder_of_another_repository_is_left_alone(
    server: GitHubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(*_harvest(server, "corpus")) == 0
    before = Path("corpus/index.json").read_bytes()
    assert _run(*_harvest(server, "corpus", "--bot", "other")) == 2
    assert "choose another folder" in " ".join(capsys.readouterr().err.split())
    assert Path("corpus/index.json").read_bytes() == before


def _git(*words: str) -> str:
    identity = (
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@b.invalid",
        "-c",
        "init.defaultBranch=main",
    )
    done = subprocess.run(
        ["git", *identity, *words], cwd="repo", capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository() -> Path:
    """Return a repository with three merges, the last of which changes nothing."""
    place = Path("repo").absolute()
    place.mkdir()
    _git("init", "-q")
    _git("commit", "-q", "--allow-empty", "-m", "Begin")
    for number, subject in ((1, "Merge pull request #41 from a/b"), (2, "Merge branch 'topic'")):
        _git("switch", "-q", "-c", f"topic-{number}")
        (place / f"file{number}.py").write_text(f"x = {number}\n")
        _git("add", ".")
        _git("commit", "-q", "-m", f"Add {number}")
        _git("switch", "-q", "main")
        _git("merge", "-q", "--no-ff", "-m", subject, f"topic-{number}")
    _git("switch", "-q", "-c", "nothing")
    _git("commit", "-q", "--allow-empty", "-m", "Nothing")
    _git("switch", "-q", "main")
    _git("merge", "-q", "--no-ff", "-m", "Merge nothing", "nothing")
    return place


def test_merges_of_a_local_repository_make_a_corpus(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = _json(capsys, "corpus", "from-git", "repo", "--out", "corpus")
    assert {k: done[k] for k in ("merges", "tasks", "skipped")} == {
        "merges": 3,
        "tasks": 2,
        "skipped": 1,
    }
    corpus = read_corpus(Path("corpus"))
    assert corpus.findings == ()
    assert corpus.index.repo == "local/repo"
    found = {e.pr_number: (e.base_sha, e.review_commit_id) for e in corpus.index.prs}
    assert found == {
        41: (_git("rev-list", "--max-parents=0", "HEAD"), _git("rev-parse", "topic-1")),
        42: (_git("rev-parse", "HEAD~2"), _git("rev-parse", "topic-2")),
    }


def test_programs_that_a_repository_names_are_not_run(repository: Path) -> None:
    trap = repository / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {repository}/sprung\n")
    trap.chmod(0o755)
    for name in ("core.fsmonitor", "diff.external", "core.pager", "gpg.program"):
        _git("config", name, str(trap))
    _git("config", "log.showSignature", "true")
    assert _run("corpus", "from-git", "repo", "--out", "corpus") == 0
    assert not (repository / "sprung").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nowhere", "--out", "c"), 2, "no folder"),
        ((".", "--out", "c"), 2, "no Git repository"),
        (("repo", "--out", "c", "--ref=--all"), 2, "no commit"),
        (("repo", "--out", "c", "--ref", "nothing~1"), 1, "none with a change"),
        (("repo", "--out", "c", "--repo", "x"), 2, "OWNER/NAME"),
        (("repo", "--out", "c", "--limit", "0"), 2, "at least 1"),
        (("repo", "--out", "repo/file1.py"), 2, "new folder"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_repository_is_named(
    repository: Path,
    arguments: tuple[str, ...],
    code: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "nothing~1" in arguments:
        _git("branch", "-f", "nothing", "topic-1")
    assert _run("corpus", "from-git", *arguments) == code
    assert words in " ".join(capsys.readouterr().err.split())
    assert not Path("c/index.json").exists()


def _broken(capsys: pytest.CaptureFixture[str], change: Any) -> list[str]:
    write_small_corpus(Path("corpus"))
    index = json.loads(Path("corpus/index.json").read_text())
    golden_path = Path("corpus/results/benchmark_data.json")
    golden = json.loads(golden_path.read_text())
    change(index, golden)
    Path("corpus/index.json").write_text(json.dumps(index))
    golden_path.write_text(json.dumps(golden))
    done = _json(capsys, "corpus", "check", "corpus", code=1)
    return [f"{one['where']}: {one['problem']}" for one in done["findings"]]


def write_small_corpus(place: Path, repo: str = "local/repo", head: str = "b" * 40) -> None:
    """Write a corpus of one pull request."""
    record = Record(
        repo=repo,
        pr_number=41,
        title="Change",
        state="closed",
        base_ref="main",
        base_sha="a" * 40,
        head_ref="topic",
        bot="helper",
        review_commit_id=head,
        threads_complete=True,
    )
    write_json(record_path(place, 41), record)
    write_corpus(place, Index(repo, "helper", (entry_of(record),), 1), [record])


URL = "https://github.com/local/repo/pull/41"
BREAKS = (
    (lambda i, g: i["prs"][0].update(base_sha="abc"), "base_sha is 'abc'"),
    (lambda i, g: i["prs"].append(i["prs"][0]), "listed 2 times"),
    (lambda i, g: g.pop(URL), "has no entry for it"),
    (lambda i, g: g[URL].update(repo_name="a/b"), "repo_name is 'a/b'"),
    (lambda i, g: i.update(repo="Grafana/grafana"), "held out"),
    (lambda i, g: i["prs"][0].update(base_sha=None), "base_sha is missing"),
    (
        lambda i, g: g[URL].update(golden_comments=[{"comment": "x", "path": "../x"}]),
        "path is '../x'",
    ),
    (lambda i, g: i["prs"][0].update(base_ref=""), "base_ref is missing"),
    (lambda i, g: i["prs"][0].update(base_sha=i["prs"][0]["review_commit_id"]), "same commit"),
)


@pytest.mark.parametrize(("change", "words"), BREAKS, ids=[words for _, words in BREAKS])
def test_what_is_wrong_with_a_corpus_is_named(
    change: Any, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in " | ".join(_broken(capsys, change))


def test_files_that_are_no_corpus_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("corpus", "check", "nowhere") == 1
    assert "corpus harvest" in " ".join(capsys.readouterr().err.split())
    place = Path("corpus")
    place.mkdir()
    (place / "index.json").write_text('{"repo": 3}')
    assert _run("corpus", "check", "corpus") == 1
    assert "$.repo" in capsys.readouterr().err


def test_two_corpora_with_one_task_are_not_disjoint(capsys: pytest.CaptureFixture[str]) -> None:
    write_small_corpus(Path("one"))
    write_small_corpus(Path("two"), repo="other/name")
    done = _json(capsys, "corpus", "check", "one", "--against", "two", code=1)
    assert "same commit" in done["shared"][0]["task"]
    write_small_corpus(Path("three"), repo="other/name", head="d" * 40)
    assert _run("corpus", "check", "one", "--against", "three") == 0


def _archived(place: Path, head: str, file: str) -> None:
    (place / "deep").mkdir(parents=True)
    manifest = {
        "session_id": place.name,
        "code_context": {"head_sha": head},
        "metrics": {"grounding_rate": 0.5},
    }
    item = {"id": 1, "file": file, "description": "x"}
    contents = {
        "manifest.json": manifest,
        "trajectory.json": {"steps": [], "final_metrics": {"total_steps": 1}},
        "deep/merged-items.json": {"items": [item]},
        "deep/recommendation-verdicts.json": {
            "verdicts": [{"issue_id": 1, "verdict": "consistent"}]
        },
    }
    for name, content in contents.items():
        (place / name).write_text(json.dumps(content))


def test_archived_reviews_of_a_corpus_are_scored(
    server: GitHubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(*_harvest(server, "corpus")) == 0
    _archived(Path("archive/runs/one"), sha(112), "src/app.py")
    _archived(Path("archive/runs/other"), sha(9), "src/app.py")
    Path("archive/runs/half").mkdir()
    (run,) = _json(capsys, "corpus", "label", "corpus", "--archive", "archive")["runs"]
    assert run["pull_request"].endswith("/pull/2")
    assert (run["session"], run["golden_overlap"]) == ("one", 0.5)
    # 0.6 of correctness 1 and 0.4 of grounding 0.5; the strict version found no reads.
    assert run["seed"]["composite"] == 0.8
    assert run["strict"]["correctness_per_finding"] == 1.0
    assert Path("corpus/results/annotations.json").is_file()
    assert _run("corpus", "label", "corpus", "--archive", "archive") == 0
    assert "Archived reviews" in capsys.readouterr().out
    assert _run("corpus", "label", "corpus", "--archive", "nowhere") == 1
    assert "no archive" in capsys.readouterr().err
