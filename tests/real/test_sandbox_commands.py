"""``daydream sandbox`` and what other commands say of isolation, as people call them."""

import json
import sys
import tempfile
from pathlib import Path

import pytest

from daydream.cli.main import main
from daydream.sandbox import host, namespaces
from daydream.sandbox.bubblewrap import BubblewrapSandbox
from daydream.sandbox.process import ProcessSandbox
from daydream.sandbox.profiles import PROFILES
from daydream.sandbox.self_check import check
from tests.real.problems import HONEST, PROGRAM


def shown(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, object]]:
    code = main([*argv, "--json"] if "--" not in argv else list(argv))
    return code, json.loads(capsys.readouterr().out)


def folder() -> str:
    Path("mine").mkdir()
    Path("mine/initial_program.py").write_text(PROGRAM)
    Path("mine/evaluator.py").write_text(HONEST)
    return "./mine"


def test_exec_answers_with_what_became_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    script = "echo out; echo err >&2; pwd; exit 3"
    code, found = shown(
        capsys, "sandbox", "exec", "--profile", "compile", "--json", "--", "sh", "-c", script
    )
    assert code == 1
    assert {key: found[key] for key in ("outcome", "exit", "stdout", "stderr")} == {
        "outcome": "exited",
        "exit": 3,
        "stdout": "out\n/work\n",
        "stderr": "err\n",
    }
    assert set(found) == FIELDS
    assert found["layers"][0] == "bubblewrap"  # type: ignore[index]


FIELDS = {"outcome", "exit", "stdout", "stderr", "wall_s", "cpu_s", "peak_mb", "layers"}
SEES = """
import json, os, resource, socket
def tried(family):
    try: socket.socket(family).close()
    except OSError: return False
    return True
size = os.statvfs("/work")
print(json.dumps({
    "space": size.f_blocks * size.f_frsize >> 20,
    "file": resource.getrlimit(resource.RLIMIT_FSIZE)[0] >> 20,
    "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0],
    "sockets": tried(socket.AF_INET), "unix": tried(socket.AF_UNIX),
    "tool": os.environ.get("CUDA_HOME"), "key": os.environ.get("SOME_API_KEY")}))
"""


@pytest.mark.parametrize("name", PROFILES)
def test_exec_shows_what_each_profile_gives(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", "/cuda")
    monkeypatch.setenv("SOME_API_KEY", "secret")
    profile, python = PROFILES[name], (sys.executable, "-I", "-S", "-c", SEES)
    code, found = shown(capsys, "sandbox", "exec", "--profile", name, "--json", "--", *python)
    assert (code, set(found), found["outcome"], found["exit"]) == (0, FIELDS, "exited", 0)
    assert found["layers"] == list(BubblewrapSandbox(profile).layers)
    assert all(float(str(found[key])) > 0 for key in ("wall_s", "cpu_s", "peak_mb"))
    assert json.loads(str(found["stdout"])) == {
        "space": profile.space_mb,
        "file": profile.file_mb,
        "files": profile.open_files,
        "processes": (profile.limits.processes or 0) + 1,
        "sockets": profile.loopback,
        "unix": True,
        "tool": "/cuda" if profile.tools else None,
        "key": None,
    }


def test_a_gpu_is_given_on_request_alone_and_its_absence_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("sandbox", "exec", "--json")
    # Writing to this stand-in fails as on a full disk, which no ordinary file does.
    script = ("--", "sh", "-c", "test -c /dev/nvidia0 && ! echo x >/dev/nvidia0")
    with tempfile.TemporaryDirectory(prefix="daydream-devices-") as place:
        Path(place).chmod(0o755)
        monkeypatch.setattr(namespaces, "DEVICES", Path(place))
        assert main([*words, "--gpu", *script]) == 3
        told = " ".join(capsys.readouterr().err.split())
        assert "a GPU was asked for, and this machine has none" in told
        Path(place, "nvidia0").symlink_to("/dev/full")
        _, found = shown(capsys, *words, "--gpu", *script)
        assert found["exit"] == 0
        _, found = shown(capsys, *words, *script)
        assert (found["exit"], found["stderr"]) == (1, "")


def test_a_folder_that_wants_a_gpu_says_so_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(namespaces, "DEVICES", Path.cwd())
    source = folder()
    Path("mine/daydream.toml").write_text("[task]\ngpu = true\n")
    agent = f"command:cp {Path('mine/initial_program.py').resolve()} initial_program.py"
    assert main(["run", source, "--agent", agent, "--out", "r", "--json"]) == 3
    assert "this machine has none" in " ".join(capsys.readouterr().out.split())
    assert "attempt_finished" not in Path("r/journal.jsonl").read_text()


class Unfiltered(BubblewrapSandbox):
    """Lets every system call through."""

    def _filter(self, *, bounded: bool) -> bytes:
        return b"\x06\0\0\0\0\0\xff\x7f"


def test_a_layer_that_does_not_hold_closes_the_sandbox_and_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("daydream.sandbox.choose", "daydream.cli.doctor", "daydream.cli.sandboxes"):
        monkeypatch.setattr(f"{module}.BubblewrapSandbox", Unfiltered)
    assert main(["sandbox", "exec", "--", "true"]) == 3
    told = " ".join(capsys.readouterr().err.split())
    assert "does not hold what it promises here: view: it reaches refused system calls" in told
    _, found = shown(capsys, "doctor")
    isolation = next(one for one in found["checks"] if one["name"] == "isolation")  # type: ignore[attr-defined]
    assert (isolation["ok"], "refused system calls" in isolation["detail"]) == (False, True)
    monkeypatch.setenv("DAYDREAM_SANDBOX", "process")
    assert main(["sandbox", "exec", "--", "true"]) == 0


@pytest.mark.slow
def test_check_shows_which_layer_does_not_hold(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("daydream.sandbox.choose", "daydream.cli.sandboxes"):
        monkeypatch.setattr(f"{module}.BubblewrapSandbox", Unfiltered)
    code, found = shown(capsys, "sandbox", "check")
    bad = {one["name"] for one in found["checks"] if not one["ok"]}  # type: ignore[attr-defined]
    assert (code, found["ok"], bad) == (1, False, {"first job", "system calls", "network"})


def test_exec_hides_the_terminal_from_what_a_command_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["sandbox", "exec", "--", "printf", "\\033]0;owned\\007plain\\n"]) == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out
    assert "plain" in out
    assert "isolation: bubblewrap" in err.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("exec", "--profile", "policy"), "no command to run (expected one after --)"),
        (("exec", "--", ""), "no command to run"),
        (("exec", "--profile", "candidat", "--", "id"), 'Did you mean "candidate"?'),
        (("exec", "--jsn", "--", "id"), "Did you mean --json?"),
        (("exec", "id", "-u"), "unknown option: -u"),
        (("exec", "--read", "nowhere", "--", "id"), "--read nowhere: there is no such path"),
        (("exec", "--read", "/", "--", "id"), "the sandbox keeps this closed"),
        (("exec", "--read", "/proc/1", "--", "id"), "the sandbox keeps this closed"),
        (("exec", "--read", "/dev", "--", "id"), "take --gpu for a GPU"),
        (("check", "--profile"), "requires an argument"),
        (("check", "extra"), "extra"),
        (("chek",), 'Did you mean "check"?'),
    ],
)
def test_a_request_that_makes_no_sense_is_named(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sandbox", *words]) == 2
    told = "".join(c for c in capsys.readouterr().err if c not in "│╭╮╰╯─")
    assert said in " ".join(told.split())


def test_what_follows_the_dashes_is_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    script = ("sh", "-c", 'echo "$0 $1"', "--gpu", "--json")
    code, found = shown(capsys, "sandbox", "exec", "--json", "--", *script)
    assert (code, found["stdout"]) == (0, "--gpu --json\n")


def test_a_folder_cannot_have_opened_what_the_sandbox_keeps_closed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = folder()
    for place in ("/", "/proc", "/dev/../dev/mem"):
        Path("mine/daydream.toml").write_text(f"[task]\nreadable = [{place!r}]\n")
        assert main(["tasks", source]) == 2
        told = " ".join(capsys.readouterr().err.split())
        assert f"readable names {place}, which the sandbox keeps closed" in told


@pytest.mark.parametrize(
    "profile", ["candidate", pytest.param("evaluator", marks=pytest.mark.slow)]
)
def test_check_holds_every_promise(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = shown(capsys, "sandbox", "check", "--profile", profile)
    bad = [one for one in found["checks"] if not one["ok"]]  # type: ignore[attr-defined]
    assert (code, bad, found["ok"]) == (0, [], True)


@pytest.mark.slow
def test_check_finds_out_what_the_process_sandbox_does_not_hold() -> None:
    found = {one.name: one.ok for one in check(ProcessSandbox())}
    assert not any(found[name] for name in ("host files", "processes", "system calls"))
    assert all(found[name] for name in ("runs", "memory", "CPU time", "wall time", "nothing left"))


def test_a_missing_bubblewrap_is_named_with_its_package(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "PATH", str(Path.cwd()))
    monkeypatch.setattr(host, "programs", host.programs.__wrapped__)
    monkeypatch.setattr(host, "missing", host.missing.__wrapped__)
    assert main(["sandbox", "check"]) == 3
    assert "apt-get install bubblewrap" in capsys.readouterr().err.replace("\n", " ")
    code, found = shown(capsys, "doctor")
    details = {one["name"]: one["detail"] for one in found["checks"]}  # type: ignore[attr-defined]
    assert code == 0
    assert "bwrap is not installed" in details["isolation"]


def test_doctor_names_the_layers(capsys: pytest.CaptureFixture[str]) -> None:
    _, found = shown(capsys, "doctor")
    details = {one["name"]: one["detail"] for one in found["checks"]}  # type: ignore[attr-defined]
    assert details["isolation"].startswith("bubblewrap, user, namespaces, seccomp, rlimits, ")


def test_the_isolation_is_part_of_the_evaluators_version_and_kept_with_the_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = folder()
    _, strong = shown(capsys, "tasks", source)
    monkeypatch.setenv("DAYDREAM_SANDBOX", "process")
    _, weak = shown(capsys, "tasks", source)
    assert strong["evaluator"] != weak["evaluator"]
    assert (strong["isolation"][0], weak["isolation"]) == ("bubblewrap", ["process"])  # type: ignore[index]
    agent = f"command:cp {Path('mine/initial_program.py').resolve()} initial_program.py"
    argv = ["run", source, "--agent", agent, "--rounds", "1", "--max-calls", "1", "--out", "weak"]
    assert main(argv) == 0
    assert "isolation: process limits only" in capsys.readouterr().err.replace("\n", " ")
    assert 'isolation = ["process"]' in Path("weak/run.toml").read_text()
    monkeypatch.delenv("DAYDREAM_SANDBOX")
    assert main([*argv[:-1], "strong"]) == 0
    assert "process limits" not in capsys.readouterr().err
    assert 'isolation = ["bubblewrap"' in Path("strong/run.toml").read_text()


def test_a_wrong_level_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAYDREAM_SANDBOX", "docker")
    for words in (("sandbox", "exec", "--", "true"), ("sandbox", "check"), ("doctor",)):
        assert main(words) == 2
        told = " ".join(capsys.readouterr().err.split())
        assert "sandbox is 'docker' (expected one of auto, bubblewrap, process)" in told
    monkeypatch.setenv("DAYDREAM_SANDBOX", "process")
    _, found = shown(capsys, "doctor")
    details = {one["name"]: one["detail"] for one in found["checks"]}  # type: ignore[attr-defined]
    assert details["isolation"].startswith("process limits only, as DAYDREAM_SANDBOX asks")
