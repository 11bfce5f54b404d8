"""A filter for system calls that no test program needs and that bypass a limit or widen the kernel's attack surface.

The filter is a small BPF program (seccomp(2)): calls of another architecture kill the process, the calls below
fail with EPERM, `clone` fails if it requests a namespace, and `clone3` (whose flags a filter cannot see) fails with
ENOSYS, so that C libraries fall back to `clone`. This is a deny list: a new system call passes.
"""

from __future__ import annotations

import platform
import struct

# name: (x86_64, aarch64)
FORBIDDEN: dict[str, tuple[int, int]] = {
    "memfd_create": (319, 279),  # memory that belongs to no process
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "ptrace": (101, 117),  # other processes
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "unshare": (272, 97),  # namespaces and mounts
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "bpf": (321, 280),  # parts of the kernel with many past vulnerabilities
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "swapon": (167, 224),
    "reboot": (169, 142),
    "open_by_handle_at": (304, 265),
    "quotactl": (179, 60),
    "acct": (163, 89),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
}
# Refused as well where no cgroup counts memory: buffers of up to 400 KiB for each socket.
UNCOUNTED: dict[str, tuple[int, int]] = {"socket": (41, 198), "socketpair": (53, 199)}
_MMAP = (9, 222)
_AUDIT = {"x86_64": (0xC000_003E, 0, 56), "aarch64": (0xC000_00B7, 1, 220)}  # arch, column, clone
_CLONE3 = 435
_NAMESPACES = 0x7E02_0000  # CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET
_X32 = 0x4000_0000  # x86_64: the x32 variants of the same calls

_MAP_SHARED, _MAP_TYPE, _MAP_ANONYMOUS = 0x01, 0x0F, 0x20

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_KILL, _ALLOW, _EPERM, _ENOSYS = 0x8000_0000, 0x7FFF_0000, 0x0005_0001, 0x0005_0026


def filter_program(machine: str | None = None, *, counted: bool = True) -> bytes:
    """The filter for this machine, as bubblewrap's --seccomp reads it; empty for an unknown architecture.

    `counted`: a cgroup counts all memory. Otherwise the filter also refuses sockets (their buffers belong to no
    process) and shared anonymous maps (which keep their memory when no process has it mapped).
    """
    known = _AUDIT.get(machine or platform.machine())
    if known is None:
        return b""
    architecture, column, clone = known
    forbidden = FORBIDDEN if counted else FORBIDDEN | UNCOUNTED
    numbers = sorted(numbers[column] for numbers in forbidden.values())
    # (code, jump if true, jump if false, value): jumps are counted from the next instruction.
    program: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, 4),  # seccomp_data.arch
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),  # seccomp_data.nr
    ]
    if column == 0:
        program += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    for number in numbers:
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    if not counted:
        program += [
            (_EQUAL, 0, 5, _MMAP[column]),
            (_LOAD, 0, 0, 40),  # the low half of the fourth argument: flags
            (_AND, 0, 0, _MAP_TYPE | _MAP_ANONYMOUS),
            (_EQUAL, 0, 1, _MAP_SHARED | _MAP_ANONYMOUS),
            (_RETURN, 0, 0, _EPERM),
            (_LOAD, 0, 0, 0),
        ]
    program += [
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ENOSYS),
        (_EQUAL, 0, 3, clone),
        (_LOAD, 0, 0, 16),  # the low half of the first argument
        (_ANY_BIT, 0, 1, _NAMESPACES),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
