"""Which sandbox is taken, what is said of a weaker one, and what the interpreter needs."""

import sys
from pathlib import Path

import pytest

from daydream.errors import ConfigError, EnvironmentMissing
from daydream.sandbox import host, namespaces
from daydream.sandbox.base import Job, Limits
from daydream.sandbox.bubblewrap import BubblewrapSandbox
from daydream.sandbox.choose import choose, strength, weakness
from daydream.sandbox.process import ProcessSandbox
from daydream.sandbox.profiles import ONLINE, PROFILES, profile

CANDIDATE = PROFILES["candidate"]


@pytest.fixture
def without_bwrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "missing", lambda: "bwrap is not installed; install it")


def test_the_strongest_sandbox_is_taken_by_default() -> None:
    chosen = choose("auto", CANDIDATE)
    assert isinstance(chosen, BubblewrapSandbox)
    assert chosen.layers[:2] == ("bubblewrap", "user")
    assert weakness(chosen.layers) == ""
    assert strength(chosen.layers) != strength(ProcessSandbox().layers)


@pytest.mark.usefixtures("without_bwrap")
def test_a_weaker_sandbox_is_announced_and_refused_to_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host, "user", lambda: None)
    chosen = choose("auto", CANDIDATE)
    assert isinstance(chosen, ProcessSandbox)
    assert "see your files" in weakness(chosen.layers)
    monkeypatch.setattr(host, "user", lambda: host.USER)
    with pytest.raises(EnvironmentMissing, match="As root nothing else") as caught:
        choose("auto", CANDIDATE)
    assert caught.value.exit_code == 3
    assert isinstance(choose("process", CANDIDATE), ProcessSandbox)
    with pytest.raises(EnvironmentMissing, match="bwrap is not installed"):
        choose("bubblewrap", CANDIDATE)
    with pytest.raises(EnvironmentMissing, match="bwrap is not installed"):
        BubblewrapSandbox().run(Job(("true",), "/"), Limits())


def test_a_profile_passes_no_key_on() -> None:
    known = {"OPENAI_API_KEY": "k", "TZ": "UTC", "CUDA_HOME": "/cuda", "HF_TOKEN": "t", "PATH": "p"}
    assert set(CANDIDATE.environment(known)) - {*CANDIDATE.environment({})} == {"TZ"}
    assert CANDIDATE.environment(known)["PATH"] != "p"
    evaluator = PROFILES["evaluator"].environment(known)
    assert (evaluator["PATH"], evaluator["CUDA_HOME"]) == ("p", "/cuda")
    assert not {"OPENAI_API_KEY", "HF_TOKEN"} & set(evaluator)
    with pytest.raises(ConfigError, match="candidate, compile"):
        profile("nosuch")


def test_every_profile_is_what_some_part_runs_its_jobs_in() -> None:
    source = Path(host.__file__).parents[1]
    texts = [
        path.read_text(encoding="utf-8")
        for path in source.rglob("*.py")
        if path.parent.name not in {"sandbox", "cli"}
    ]
    used = {name for name in PROFILES if any(f'PROFILES["{name}"]' in text for text in texts)}
    # The agents that work in a checkout take the one with a network.
    assert ONLINE.name == "rollout"
    used |= {ONLINE.name for text in texts if "import ONLINE" in text}
    assert used == set(PROFILES)


def test_an_interpreter_brings_its_environment_and_what_it_was_made_of(tmp_path: Path) -> None:
    base, venv = tmp_path / "base", tmp_path / "venv"
    for folder in (base / "bin", venv / "bin"):
        folder.mkdir(parents=True)
    (base / "bin" / "python3").touch()
    (venv / "bin" / "python").symlink_to(base / "bin" / "python3")
    (venv / "pyvenv.cfg").write_text(f"home = {base / 'bin'}\n")
    assert set(namespaces.interpreter_roots(str(venv / "bin" / "python"))) == {str(base), str(venv)}
    assert namespaces.interpreter_roots("/usr/bin/python3") == ()
    assert namespaces.interpreter_roots(sys.executable) == namespaces.interpreter_roots()


def test_a_home_is_never_shown_because_an_interpreter_lies_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.touch()
    assert namespaces.interpreter_roots(str(python)) == (str(python),)
    assert namespaces.holds_home(tmp_path.parent)
    assert not namespaces.holds_home(tmp_path / "bin")


def test_what_lies_in_a_closed_folder_is_found_by_its_innermost_barrier(tmp_path: Path) -> None:
    inner = tmp_path / "home" / "tool"
    (inner / "lib").mkdir(parents=True)
    tmp_path.joinpath("home").chmod(0o700)
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path("/tmp"):
            break
        folder.chmod(0o755)
    hidden = namespaces.hidden_from([str(inner / "lib"), str(tmp_path), "/usr/lib"], 59_872)
    assert hidden == {str(inner / "lib"): str(inner)}
