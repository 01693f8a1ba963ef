"""Reads how much memory the machine has, and how much this process uses; gives back what it does not.

Reads /proc and /sys on Linux. Elsewhere these are unknown, and memory is not limited.
"""

from __future__ import annotations

import ctypes
import resource
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

_PAGE = resource.getpagesize()
_STATM = "/proc/self/statm"
_MEMORY = Path("/proc/meminfo")
_GROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def usage() -> tuple[int, int]:
    """Returns the bytes of address space and of resident memory; zeros if unknown."""
    try:
        with open(_STATM, "rb") as status:
            size, resident, *_ = status.read().split()
    except OSError:
        return 0, 0
    return int(size) * _PAGE, int(resident) * _PAGE


def give_back() -> None:
    """Returns memory that is free, but that Arrow and the C library keep, to the system.

    Takes some milliseconds. After long work on files, that is about half of what the process uses. The C
    library does it only if it is glibc.
    """
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


@lru_cache(maxsize=1)
def machine_memory() -> int | None:
    """Returns the memory of the machine, or of the container if that has less."""
    found = []
    for path in _GROUP_LIMITS:
        try:
            found.append(int(path.read_text()))
        except (OSError, ValueError):  # missing, or "max"
            continue
    with suppress(OSError, ValueError, IndexError):
        found.append(int(_MEMORY.read_text().split("MemTotal:")[1].split()[0]) * 1024)
    return min(found) if found else None


def room(share: float) -> int | None:
    """Returns how many bytes may be used: a share of all memory, and at most half of what a limit leaves.

    None if unknown.
    """
    whole = machine_memory()
    rooms = [] if whole is None else [int(whole * share)]
    size, resident = usage()
    for limit, used in ((resource.RLIMIT_AS, size), (resource.RLIMIT_DATA, resident)):
        most, _ = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY:
            rooms.append(max(0, most - used) // 2)
    return min(rooms) if rooms else None
