"""Every test runs without a network, in an empty folder, with a home and environment of its own."""

import os
import sys
import tempfile
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir

from tests.real import commands

pytest_plugins = ("tests.cpu_time",)
ROOT = Path(__file__).resolve().parents[1]

# Tests leave the checkout, and found examples should survive that.
set_hypothesis_home_dir(ROOT / ".hypothesis")
settings.register_profile(
    "default",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
    max_examples=30,
)
settings.register_profile("ci", parent=settings.get_profile("default"), max_examples=100)
settings.register_profile(
    "deep",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=2_000,
)
settings.load_profile("default")

_HOME = tempfile.TemporaryDirectory(prefix="daydream-tests-home-")


def _isolate_environment() -> None:
    for name in list(os.environ):
        if name.startswith(("DAYDREAM_", "XDG_")) or name in {"FORCE_COLOR", "NO_COLOR"}:
            del os.environ[name]
    os.environ["HOME"] = _HOME.name
    os.environ["COLUMNS"] = "100"
    os.environ["TERM"] = "dumb"
    # Threads of linear algebra on small matrices fight over the cores and change no result.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
    # Hundreds of children start; none should compile what the one before it compiled.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Children must load this checkout too, from whatever folder they start in.
    os.environ["PYTHONPATH"] = str(ROOT / "src")


def _is_local(host: object) -> bool:
    if host in (None, "", "localhost"):
        return True
    try:
        return ip_address(str(host)).is_loopback
    except ValueError:
        return False


def _refuse_network(event: str, arguments: tuple[object, ...]) -> None:
    if event in {"socket.connect", "socket.sendto"}:
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None
    elif event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        host = arguments[0]
    else:
        return
    if not _is_local(host):
        raise PermissionError(f"a test reached for {host!r} (expected loopback addresses only)")


_isolate_environment()
sys.addaudithook(_refuse_network)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")
    parser.addoption(
        "--training", action="store_true", help="collect tests/training, which needs torch"
    )
    parser.addoption("--model", action="store_true", help="collect tests/model: make test-model")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests that need heavy extras, unless they are asked for."""
    asked = {"training": config.getoption("--training"), "model": config.getoption("--model")}
    apart = collection_path.parent == ROOT / "tests" and not asked.get(collection_path.name, True)
    return True if apart else None


def pytest_configure(config: pytest.Config) -> None:
    commands.APART = config.getoption("--slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    left_out = [item for item in items if item.get_closest_marker("slow")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each test in its own empty folder, so that nothing lands in the checkout."""
    monkeypatch.chdir(tmp_path)
