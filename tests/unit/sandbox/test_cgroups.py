"""Control groups in trees of plain files, shaped as the kernel shapes both versions."""

import os
from pathlib import Path

import pytest

from daydream.sandbox import cgroups


def unified(root: Path, *, handed_on: str = "cpu memory pids", members: str = "1\n2\n") -> Path:
    own = root / "user.slice" / "run.scope"
    own.mkdir(parents=True)
    (own / "cgroup.controllers").write_text("cpu io memory pids\n")
    (own / "cgroup.subtree_control").write_text(f"{handed_on}\n")
    (own / "cgroup.procs").write_text(members)
    return own


def mounts(*lines: tuple[str, Path, str]) -> str:
    return "".join(
        f"24 1 0:22 / {point} rw shared:1 - {kind} {kind} {options}\n"
        for kind, point, options in lines
    )


def removable(place: Path) -> None:
    """Empty a group, as the kernel's folders always are to ``rmdir``."""
    for file in place.iterdir():
        file.unlink()


@pytest.fixture(autouse=True)
def _folders_of_groups_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Path.rmdir

    def rmdir(self: Path) -> None:
        removable(self)
        plain(self)

    monkeypatch.setattr(Path, "rmdir", rmdir)


def test_version_2_is_used_where_memory_and_pids_are_handed_on(tmp_path: Path) -> None:
    own = unified(tmp_path)
    kind, places = cgroups.find(mounts(("cgroup2", tmp_path, "rw")), "0::/user.slice/run.scope\n")
    assert kind == "cgroup-v2"
    assert places is not None
    group = places.make("daydream-x", 64 << 20, 9)
    place = own / "daydream-x"
    assert group.doors == (str(place / "cgroup.procs"),)
    written = {path.name: path.read_text() for path in place.iterdir()}
    assert written["memory.max"] == str(64 << 20)
    assert written["pids.max"] == "9"
    assert (written["memory.swap.max"], written["memory.oom.group"]) == ("0", "1")
    assert (group.killed_for_memory(), group.peak_bytes(), group.cpu_s()) == (False, 0, 0.0)
    (place / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    (place / "memory.peak").write_text("4096\n")
    (place / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    assert (group.killed_for_memory(), group.peak_bytes(), group.cpu_s()) == (True, 4096, 2.5)
    group.close()
    assert not place.exists()


def test_who_is_alone_in_a_group_hands_it_on_and_who_is_not_takes_nothing(tmp_path: Path) -> None:
    own = unified(tmp_path / "alone", handed_on="", members=f"{os.getpid()}\n")
    text = "0::/user.slice/run.scope\n"
    kind, _ = cgroups.find(mounts(("cgroup2", tmp_path / "alone", "rw")), text)
    assert kind == "cgroup-v2"
    assert (own / "daydream-main" / "cgroup.procs").read_text() == str(os.getpid())
    assert (own / "cgroup.subtree_control").read_text() == "+memory +pids"
    unified(tmp_path / "shared", handed_on="")
    assert cgroups.find(mounts(("cgroup2", tmp_path / "shared", "rw")), text)[0] == "watchdog"


def test_version_1_needs_memory_and_pids(tmp_path: Path) -> None:
    for name in ("memory", "pids", "cpuacct"):
        (tmp_path / name / "job").mkdir(parents=True)
    listing = mounts(
        ("cgroup2", tmp_path / "unified", "rw"),
        ("cgroup", tmp_path / "memory", "rw,memory"),
        ("cgroup", tmp_path / "pids", "rw,pids"),
        ("cgroup", tmp_path / "cpuacct", "rw,cpu,cpuacct"),
    )
    own = "4:memory:/job\n3:pids:/job\n2:cpu,cpuacct:/job\n0::/\n"
    kind, places = cgroups.find(listing, own)
    assert kind == "cgroup-v1"
    assert places is not None
    group = places.make("daydream-y", 1 << 20, 5)
    memory = tmp_path / "memory" / "job" / "daydream-y"
    assert (memory / "memory.limit_in_bytes").read_text() == str(1 << 20)
    assert (tmp_path / "pids" / "job" / "daydream-y" / "pids.max").read_text() == "5"
    assert len(group.doors) == 3
    (memory / "memory.oom_control").write_text("under_oom 0\noom_kill 2\n")
    (tmp_path / "cpuacct" / "job" / "daydream-y" / "cpuacct.usage").write_text("1500000000\n")
    assert (group.killed_for_memory(), group.cpu_s()) == (True, 1.5)
    group.close()
    assert not memory.exists()
    assert cgroups.find(listing, "4:memory:/job\n0::/\n")[0] == "watchdog"


def test_no_group_at_all_leaves_the_watchdog(tmp_path: Path) -> None:
    assert cgroups.find("", "") == ("watchdog", None)
    assert cgroups.find(mounts(("cgroup2", tmp_path, "rw")), "0::/gone\n")[0] == "watchdog"


def test_groups_of_dead_processes_are_swept_and_no_others(tmp_path: Path) -> None:
    from daydream.sandbox.supervisor import read_process

    me = read_process(os.getpid())
    assert me is not None
    kept = tmp_path / f"daydream-{os.getpid()}-{me.start}-0"
    reused = tmp_path / f"daydream-{os.getpid()}-{me.start + 1}-0"
    dead = tmp_path / "daydream-4194304-7-3"
    for place in (kept, reused, dead, tmp_path / "other-1-2-3"):
        place.mkdir()
    cgroups.sweep([tmp_path])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([kept.name, "other-1-2-3"])
