"""The filter of system calls, run instruction by instruction as the kernel runs it."""

import errno
import struct

import pytest

from daydream.sandbox.seccomp import deny_list

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL = "allow", "kill"


def verdict(program: bytes, audit: int, number: int, *arguments: int) -> str:
    """Return what the filter says to one call: allow, kill, or the name of an error."""
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("<IIQ6Q", number, audit, 0, *padded)
    steps = list(struct.iter_unpack("<HBBI", program))
    held, at = 0, 0
    for _ in range(len(steps)):
        code, then, otherwise, value = steps[at]
        at += 1
        if code == 0x20:
            (held,) = struct.unpack_from("<I", data, value)
        elif code == 0x06:
            kind = value & 0xFFFF0000
            named = {0x7FFF0000: ALLOW, 0x80000000: KILL}
            return named.get(kind) or errno.errorcode[value & 0xFFFF]
        else:
            test = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
            at += then if test else otherwise
    raise AssertionError("the filter ran out of instructions")


CALLS = {
    "x86_64": {"read": 0, "openat": 257, "ptrace": 101, "bpf": 321, "mount": 165, "clone": 56,
               "ioctl": 16, "socket": 41, "memfd_create": 319, "unshare": 272, "execve": 59},
    "aarch64": {"read": 63, "openat": 56, "ptrace": 117, "bpf": 280, "mount": 40, "clone": 220,
                "ioctl": 29, "socket": 198, "memfd_create": 279, "unshare": 97, "execve": 221},
}  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_each_call_gets_its_verdict(machine: str) -> None:
    program = deny_list(loopback=False, bounded_memory=True, machine=machine)
    calls = CALLS[machine]

    def said(name: str, *arguments: int) -> str:
        return verdict(program, MACHINES[machine], calls[name], *arguments)

    for name in ("read", "openat", "execve", "memfd_create"):
        assert said(name) == ALLOW
    for name in ("ptrace", "bpf", "mount", "unshare"):
        assert said(name) == "EPERM"
    assert said("clone", 0x11) == ALLOW
    for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert said("clone", flag | 0x11) == "EPERM"
    assert (said("ioctl", 0, 0x5401), said("ioctl", 0, 0x5412)) == (ALLOW, "EPERM")
    assert said("ioctl", 0, 0x541C) == "EPERM"
    assert [said("socket", family) for family in (1, 2, 10, 16, 40)] == [ALLOW, *["EACCES"] * 4]
    assert verdict(program, MACHINES[machine], 435) == "ENOSYS"
    assert verdict(program, MACHINES[machine], 425) == "EPERM"


@pytest.mark.parametrize("machine", MACHINES)
def test_the_options_change_sockets_and_hidden_memory_alone(machine: str) -> None:
    program = deny_list(loopback=True, bounded_memory=False, machine=machine)
    calls, audit = CALLS[machine], MACHINES[machine]
    families = [verdict(program, audit, calls["socket"], family) for family in (1, 2, 10, 16, 40)]
    assert families == [ALLOW, ALLOW, ALLOW, "EACCES", "EACCES"]
    assert verdict(program, audit, calls["memfd_create"]) == "EPERM"
    assert verdict(program, audit, calls["read"]) == ALLOW


def test_another_way_into_the_kernel_is_shut() -> None:
    program = deny_list(loopback=True, bounded_memory=True, machine="x86_64")
    assert verdict(program, 0x40000003, 0) == KILL
    assert verdict(program, MACHINES["x86_64"], 0x40000000) == "ENOSYS"


def test_the_filter_fits_into_the_kernels_limit() -> None:
    for machine in MACHINES:
        program = deny_list(loopback=True, bounded_memory=False, machine=machine)
        assert len(program) % 8 == 0
        assert len(program) // 8 < 4096
