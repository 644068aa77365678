"""The strictest profile: a process that locks itself in before it runs code that is not ours.

What the code may use is imported first; afterwards the kernel allows memory, locks, reading one
descriptor, writing another one, and ending. No file can be opened, no process or thread started, no
socket made, no signal sent, whatever the code does in its own address space. Root becomes an
unprivileged user, and limits bound memory and CPU time.

The filter is an allow-list in classic BPF (``struct sock_filter`` and ``struct seccomp_data`` of
Linux). Tables are there for x86-64, where tests run it, and for arm64, where none does yet. On
other machines the limits hold alone, and the layers say so.
"""

import contextlib
import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

USER: Final = 59_872
"""The user and group that root becomes: no person's and no service's on any common system."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST = 0, 4, 16
_PDEATHSIG, _SECCOMP, _NO_NEW_PRIVILEGES, _FILTER = 1, 22, 38, 2


class _Machine(NamedTuple):
    audit: int
    read: int
    write: int
    harmless: tuple[int, ...]


# close fstat lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn sched_yield
# mremap madvise getpid exit getrusage sigaltstack gettid futex clock_gettime exit_group
# set_robust_list getrandom membarrier rseq
_MACHINES: Final[Mapping[str, _Machine]] = {
    "x86_64": _Machine(
        0xC000003E, 0, 1,
        (3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 28, 39, 60, 98, 131, 186, 202, 228, 231, 273,
         318, 324, 334),
    ),
    "aarch64": _Machine(
        0xC00000B7, 63, 64,
        (57, 80, 62, 222, 226, 215, 214, 134, 135, 139, 124, 216, 233, 172, 93, 165, 132, 178, 98,
         113, 94, 99, 278, 283, 293),
    ),
}  # fmt: skip


def lock_in(*, parent: int, pipes: tuple[int, int], memory_mb: int, cpu_s: int) -> tuple[str, ...]:
    """Lock this process in for good and return the layers that hold.

    ``parent`` is the process that must be alive, ``pipes`` the descriptors that stay readable and
    writable. Ends the process when the parent is gone. Raises ``OSError`` when a limit that this
    system has is refused.
    """
    layers = ["process"]
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
        layers.append("uid")
    _limit(memory_mb << 20, cpu_s)
    if sys.platform == "linux":
        # A change of user clears the death signal, so this comes after it.
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
        if os.getppid() not in (parent, 0):
            os._exit(1)
        machine = _MACHINES.get(platform.machine())
        if machine is not None and _filter(allow_list(machine, pipes)):
            layers.append("seccomp")
    for name in ("ctypes", "_ctypes"):
        sys.modules.pop(name, None)
    return tuple(layers)


def _limit(memory: int, cpu_s: int) -> None:
    for kind, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        # macOS refuses some of these limits for a process that is already larger.
        with contextlib.suppress(*(() if sys.platform == "linux" else (OSError, ValueError))):
            resource.setrlimit(kind, (value, value))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))


def _filter(program: bytes) -> bool:
    """Install ``program`` for this process; return whether the kernel took it."""
    library = ctypes.CDLL(None, use_errno=True)
    held = ctypes.create_string_buffer(program)
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(held))
    if library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    return bool(library.prctl(_SECCOMP, _FILTER, header, 0, 0) == 0)


def allow_list(machine: _Machine, pipes: tuple[int, int]) -> bytes:
    """Return the filter that leaves ``pipes`` (one to read, one to write) and memory alone."""
    reader, writer = pipes
    refuse = _step(_RETURN, _ERRNO | errno.EPERM)
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, machine.audit, then=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    for number in sorted(machine.harmless):
        program += [_step(_EQUAL, number, otherwise=1), _step(_RETURN, _ALLOW)]
    for number, descriptor in ((machine.read, reader), (machine.write, writer)):
        program += [
            _step(_EQUAL, number, otherwise=4),
            _step(_LOAD, _FIRST),
            _step(_EQUAL, descriptor, otherwise=1),
            _step(_RETURN, _ALLOW),
            refuse,
        ]
    return b"".join([*program, refuse])


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("<HBBI", code, then, otherwise, value)
