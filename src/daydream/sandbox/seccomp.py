"""The system call filter of the sandbox: a deny-list as classic BPF, assembled here.

It removes what a namespace does not take away: kernel interfaces that a program of numbers never
needs, new namespaces, sockets of any family that leaves the network namespace (``AF_VSOCK`` does),
and typing into a terminal. Everything else stays allowed, so that ordinary programs run. A filter
for one machine architecture kills a process that enters the kernel by another one's door.

The layout of instructions and of the data they see is ``struct sock_filter`` and ``struct
seccomp_data`` of Linux; the numbers are the kernel's own tables for x86-64 and for the generic
table that arm64 uses.
"""

import errno
import platform
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

_LOAD: Final = 0x20
_JUMP_EQUAL: Final = 0x15
_JUMP_AT_LEAST: Final = 0x35
_JUMP_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000
_KILL: Final = 0x80000000

_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets: the call, the architecture, the low halves of the first and the second argument."""
_NEW_NAMESPACES: Final = 0x7E020000
"""Every ``CLONE_NEW*`` flag that ``clone`` takes."""
_FAKE_INPUT: Final = (0x5412, 0x541C)
"""``TIOCSTI`` and ``TIOCLINUX``."""
UNIX: Final = 1
INTERNET: Final = (2, 10)
"""``AF_INET`` and ``AF_INET6``, which reach the sandbox's own loopback alone."""
ROUTES: Final = 16
"""``AF_NETLINK``, over which programs ask for the addresses of this machine."""

_X86_64: Final[Mapping[str, int]] = {
    "shmget": 29, "socket": 41, "clone": 56, "ioctl": 16, "ptrace": 101, "syslog": 103,
    "uselib": 134, "personality": 135, "vhangup": 153, "pivot_root": 155, "_sysctl": 156,
    "adjtimex": 159, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165,
    "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170,
    "setdomainname": 171, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176,
    "quotactl": 179, "nfsservctl": 180, "lookup_dcookie": 212, "clock_settime": 227,
    "mbind": 237, "set_mempolicy": 238, "mq_open": 240, "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "migrate_pages": 256, "unshare": 272, "vmsplice": 278,
    "move_pages": 279, "perf_event_open": 298, "fanotify_init": 300, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "memfd_create": 319,
    "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323, "modify_ldt": 154,
}  # fmt: skip
_GENERIC: Final[Mapping[str, int]] = {
    "lookup_dcookie": 18, "ioctl": 29, "umount2": 39, "mount": 40, "pivot_root": 41,
    "nfsservctl": 42, "chroot": 51, "vhangup": 58, "quotactl": 60, "vmsplice": 75, "acct": 89,
    "personality": 92, "unshare": 97, "kexec_load": 104, "init_module": 105,
    "delete_module": 106, "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142,
    "sethostname": 161, "setdomainname": 162, "settimeofday": 170, "adjtimex": 171,
    "mq_open": 180, "shmget": 194, "socket": 198, "add_key": 217, "request_key": 218,
    "keyctl": 219, "clone": 220, "swapon": 224, "swapoff": 225, "mbind": 235,
    "set_mempolicy": 237, "migrate_pages": 238, "move_pages": 239, "perf_event_open": 241,
    "fanotify_init": 262, "name_to_handle_at": 264, "open_by_handle_at": 265,
    "clock_adjtime": 266, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271,
    "kcmp": 272, "finit_module": 273, "memfd_create": 279, "bpf": 280, "userfaultfd": 282,
    "kexec_file_load": 294,
}  # fmt: skip
_EVERYWHERE: Final[Mapping[str, int]] = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "clone3": 435, "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442,
    "quotactl_fd": 443, "memfd_secret": 447, "set_mempolicy_home_node": 450, "statmount": 457,
    "listmount": 458,
}  # fmt: skip
"""Calls since Linux 5.1 have one number on every architecture."""

_JUDGED: Final = frozenset({"clone", "clone3", "ioctl", "socket"})
"""Allowed or not by their arguments."""
_HIDDEN_MEMORY: Final = frozenset({"memfd_create", "shmget", "mq_open"})
"""Memory that neither a limit of one process nor the size of a file system bounds."""


class _Machine(NamedTuple):
    audit: int
    calls: Mapping[str, int]
    second_table: int | None
    """Where the numbers of another calling convention start."""


_MACHINES: Final[Mapping[str, _Machine]] = {
    "x86_64": _Machine(0xC000003E, {**_X86_64, **_EVERYWHERE}, 0x40000000),
    "aarch64": _Machine(0xC00000B7, {**_GENERIC, **_EVERYWHERE}, None),
}


def known_machine() -> bool:
    """Return whether there is a table for this machine."""
    return platform.machine() in _MACHINES


def deny_list(
    *, loopback: bool, bounded_memory: bool, network: bool = False, machine: str | None = None
) -> bytes:
    """Return the filter as bytes for ``bwrap --seccomp``.

    With ``loopback`` a job may open internet sockets, else only Unix ones; with ``network`` it may
    ask for the machine's addresses as well. Without
    ``bounded_memory`` (no cgroup bounds the whole job) memory that no other limit sees is denied.

    Raises ``KeyError`` for a machine without a table; ask :func:`known_machine` first.
    """
    audit, calls, second_table = _MACHINES[machine or platform.machine()]
    allowed = _JUDGED | (_HIDDEN_MEMORY if bounded_memory else frozenset())
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_EQUAL, audit, then=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if second_table is not None:
        program += [_step(_JUMP_AT_LEAST, second_table, otherwise=1), _refuse(errno.ENOSYS)]
    for name, number in sorted(calls.items(), key=lambda item: item[1]):
        if name not in allowed:
            program += [_step(_JUMP_EQUAL, number, otherwise=1), _refuse(errno.EPERM)]
    # The arguments of clone3 lie in memory, which a filter cannot read; libraries fall back.
    program += [_step(_JUMP_EQUAL, calls["clone3"], otherwise=1), _refuse(errno.ENOSYS)]
    families = (UNIX, *INTERNET) if loopback or network else (UNIX,)
    families = (*families, ROUTES) if network else families
    program += _judge(
        calls["clone"],
        _FIRST,
        [_step(_JUMP_ANY_BIT, _NEW_NAMESPACES, otherwise=1), _refuse(errno.EPERM)],
    )
    program += _judge(
        calls["ioctl"],
        _SECOND,
        [
            part
            for request in _FAKE_INPUT
            for part in (_step(_JUMP_EQUAL, request, otherwise=1), _refuse(errno.EPERM))
        ],
    )
    welcome = [
        part
        for family in families
        for part in (_step(_JUMP_EQUAL, family, otherwise=1), _step(_RETURN, _ALLOW))
    ]
    program += _judge(calls["socket"], _FIRST, [*welcome, _refuse(errno.EACCES)])
    program.append(_step(_RETURN, _ALLOW))
    return b"".join(program)


def _judge(number: int, argument: int, verdict: list[bytes]) -> list[bytes]:
    """Return the instructions that load ``argument`` of call ``number`` and decide about it."""
    inside = [_step(_LOAD, argument), *verdict, _step(_RETURN, _ALLOW)]
    return [_step(_JUMP_EQUAL, number, otherwise=len(inside)), *inside]


def _refuse(reason: int) -> bytes:
    return _step(_RETURN, _ERRNO | reason)


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("<HBBI", code, then, otherwise, value)
