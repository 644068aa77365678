"""Reviews that cannot begin: each says what was found and what to do, and nothing is changed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.checkouts import CHECKS, PLACES, commit, git, put, seeded, state
from tests.real.commands import Ran, daydream
from tests.real.review_server import ReviewServer

MOCK = ("-m", "mock:", "--archive", "archive", "--non-interactive")


def _review(path: Path | str, *arguments: str, code: int = 0) -> Ran:
    return daydream("review", str(path), *MOCK, *arguments, code=code)


def _no_repository() -> Path:
    Path("plain").mkdir()
    return Path("plain")


def _no_commit() -> Path:
    git(".", "init", "--quiet", "--initial-branch=main", "fresh")
    return Path("fresh")


def _bare() -> Path:
    git(".", "init", "--quiet", "--bare", "bare.git")
    return Path("bare.git")


def _no_main() -> Path:
    repo = seeded(Path("repo"))
    git(repo, "branch", "--move", "main", "trunk")
    return repo


def _strangers() -> Path:
    repo = seeded(Path("repo"))
    git(repo, "switch", "--quiet", "--orphan", "other")
    put(repo, {"other.py": "x = 1\n"})
    commit(repo, "Other")
    return repo


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "arguments", "code", "words"),
    [
        (lambda: Path("nowhere"), (), 2, "nowhere is no folder"),
        (_no_repository, (), 2, "plain is no checkout of a Git repository"),
        (_bare, (), 2, "bare.git is no checkout of a Git repository"),
        (_no_commit, (), 2, "fresh has no commit yet"),
        (_no_main, (), 2, "no commit origin/HEAD or main or master"),
        (_strangers, (), 2, "share no commit"),
        (_strangers, ("--base", "nothing"), 2, "has no commit nothing"),
        (_strangers, ("--base=--output=x",), 2, "has no commit --output=x"),
    ],
)
def test_a_repository_that_cannot_be_reviewed_is_refused(
    make: Callable[[], Path], arguments: tuple[str, ...], code: int, words: str
) -> None:
    said = _review(make(), *arguments, code=code)
    assert words in " ".join(said.err.split())
    assert "expected" in said.err
    assert not Path("x").exists()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give one checkout for all that is refused before anything happens to it."""
    return seeded(tmp_path_factory.mktemp("shared") / "repo")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("-m", "mock:", "--fanout", "0"), 2, "--fanout is 0 (expected at least 1)"),
        (("-m", "mock:", "--max-requests", "0"), 2, "--max-requests is 0 (expected at least 1)"),
        (("-m", "mock:", "--max-time", "nan"), 2, "--max-time is nan (expected seconds"),
        (("-m", "mock:", "--budget", "5 pounds"), 2, "budget '5 pounds': cannot use"),
        (
            ("-m", "local/m@http://127.0.0.1:1/v1", "--budget", "1usd"),
            2,
            "needs the price of local",
        ),
        (("-m", "mock:", "--prompts", "nowhere"), 2, "prompts is 'nowhere', which is no folder"),
        (("-m", "mock:", "--no-fix", "--yes"), 2, "--no-fix leaves nothing for --yes"),
        (("-m", "mock:", "--backend", "osprey"), 2, "osprey"),
        (("-m", "mock:", "--backend", "claude"), 2, "mock: is no model of claude"),
        (("-m", "mock:", "--format", "xml"), 2, "xml"),
        (("-m", "nonsense"), 2, "nonsense"),
        ((), 2, "no model to review with"),
        (("-m", "openai/gpt-5-mini"), 3, "OPENAI_API_KEY"),
        (("-m", "mock:", "--archive", "file/archive"), 2, "name another with --archive"),
    ],
)
def test_flags_that_mean_nothing_are_refused_before_anything_is_asked(
    shared: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    Path("file").write_text("")
    before = state(shared)
    given = arguments if "--archive" in arguments else (*arguments, "--archive", "archive")
    said = daydream("review", str(shared), *given, code=code, env={"OPENAI_API_KEY": ""})
    assert words in " ".join(said.err.split())
    assert state(shared) == before


def test_a_change_of_nothing_is_reviewed_as_nothing() -> None:
    repo = seeded(Path("repo"))
    before = state(repo)
    done = _review(repo, "--base", "HEAD", "--yes", "--json").json
    assert (done["items"], done["commit"], done["usage"]["requests"]) == ([], None, 0)
    assert _review(repo, "--base", "HEAD").out.startswith("No findings.")
    assert state(repo) == before


@pytest.mark.slow
def test_a_detached_head_is_reviewed_and_moved_in_place() -> None:
    repo = seeded(Path("repo"))
    git(repo, "switch", "--quiet", "--detach")
    topic = git(repo, "rev-parse", "topic")
    done = _review(repo, "--yes", "--in-place", "--json").json
    assert {(one["file"], one["line"]) for one in done["items"]} == PLACES
    assert git(repo, "rev-parse", "HEAD") == done["commit"]
    assert git(repo, "rev-parse", "topic") == topic
    assert git(repo, "status", "--porcelain") == ""


@pytest.mark.slow
def test_a_shallow_clone_is_reviewed_as_far_as_it_reaches() -> None:
    repo = seeded(Path("whole"))
    put(repo, {"more.py": "def f(x):\n    return x is 3\n"})
    commit(repo, "More")
    url = f"file://{repo.absolute()}"
    git(".", "clone", "--quiet", "--depth", "2", "--branch", "topic", url, "repo")
    done = _review("repo", "--base", "HEAD~1", "--yes", "--json").json
    assert [one["file"] for one in done["items"]] == ["more.py"]
    assert git("repo", "rev-parse", done["branch"]) == done["commit"]
    assert "x == 3" in git("repo", "show", f"{done['commit']}:more.py")
    said = _review("repo", "--base", "origin/topic~2", code=2)
    assert "has no commit origin/topic~2" in " ".join(said.err.split())


@pytest.mark.slow
def test_a_worktree_is_reviewed_and_moved_and_its_neighbour_is_not() -> None:
    repo = seeded(Path("repo"))
    git(repo, "switch", "--quiet", "main")
    git(repo, "worktree", "add", "--quiet", "../side", "topic")
    before = state(repo)
    (Path("side") / "sub").mkdir()
    done = _review("side/sub", "--yes", "--in-place", "--test-command", CHECKS, "--json").json
    assert {(one["file"], one["line"]) for one in done["items"]} == PLACES
    assert git("side", "rev-parse", "topic") == done["commit"]
    assert git("side", "status", "--porcelain") == ""
    assert state(repo)._replace(refs="") == before._replace(refs="")


def test_settings_that_cannot_be_read_are_named(shared: Path) -> None:
    Path("daydream.toml").write_text("[run]\nsandbox = 3\n")
    assert "daydream.toml" in _review(shared, "--no-fix", code=2).err


def _asked(*arguments: str, env: dict[str, str] | None = None) -> tuple[list[str], str]:
    """Return what the reviewers were told what to do, and what was said on the screen."""
    with ReviewServer() as server:
        given = ("review", *arguments, "-m", server.model, "--no-fix", "--max-requests", "1")
        ran = daydream(*given, "--non-interactive", env=env)
        return [one.body["messages"][1]["content"] for one in server.seen], ran.err


@pytest.mark.slow
def test_own_texts_stand_in_place_of_ours_and_a_checkout_chooses_none(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Path("texts/review_intent.md")
    put(Path(), {str(own): "Say in a verse what it is for: $files\n"})
    texts = str(own.parent.resolve())
    archive = ("--archive", str(Path("archive").resolve()))
    for flags, env in ((("--prompts", texts), {}), ((), {"DAYDREAM_PROMPTS": texts})):
        (told,), _ = _asked(str(shared), *archive, *flags, env=env)
        assert told.startswith("Say in a verse what it is for: ")
    put(Path(), {"daydream.toml": '[run]\nprompts = "texts"\n'})
    (told,), _ = _asked(str(shared), *archive)
    assert told.startswith("Say in a verse")
    put(shared, {"daydream.toml": f'[run]\nprompts = "{texts}"\n'})
    monkeypatch.chdir(shared)
    (told,), said = _asked(".", *archive)
    assert told.startswith("# The change")
    assert "prompts in ./daydream.toml is not used" in said
    Path("daydream.toml").unlink()
