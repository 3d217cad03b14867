"""Refuse arrays that memory has no room for, before any work, with the number of bytes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .linalg import Array, namespace, on_gpu

#: The folder of the system's files; tests replace it.
ROOT = Path("/")

#: For each version of control groups: the folder, the limit, the usage, and what of it can be dropped.
GROUPS = {
    1: ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("", "memory.max", "memory.current", "inactive_file"),
}

#: Fewer bytes are not checked, since asking the system takes longer than a small product.
SMALL = 2**26


def ensure(nbytes: int, what: str, remedy: str, like: Array | None = None) -> None:
    """Raise MemoryError if ``nbytes`` are not available.

    ``what`` (a plural) and ``remedy`` are phrases for the message. ``like`` is an array of the kind
    that is to be made; on a GPU the check is skipped, since CUDA reports sizes itself.
    """
    if like is not None and on_gpu(like):
        return
    if nbytes < SMALL or (left := available()) is None or nbytes <= left:
        return
    raise MemoryError(
        f"{what} take {nbytes:,} bytes ({_short(nbytes)}), and {left:,} ({_short(left)}) are "
        f"available; {remedy}"
    )


def itemsize(A: Array) -> int:
    """Bytes of one number of an array, whatever its library."""
    return int(namespace(A).finfo(A.dtype).bits) // 8


def refusal(error: MemoryError) -> str | None:
    """The message for an array that numpy has found no room for; None for other errors."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if shape is None or dtype is None:
        return None
    nbytes, left = math.prod(shape) * dtype.itemsize, available()
    what = f"the numbers of an array of shape {tuple(shape)} take {nbytes:,} bytes"
    room = "" if left is None else f", and {left:,} ({_short(left)}) are available"
    return (
        f"{what} ({_short(nbytes)}){room}; ask for fewer components, landmarks or random features, or "
        "give fewer rows"
    )


def available() -> int | None:
    """Bytes that this process may still take; None if the system does not tell."""
    return min((max(0, left) for left in _limits()), default=None)


def _limits() -> Iterator[int]:
    with suppress(OSError, ValueError, KeyError):  # Linux: free, droppable and swap memory
        lines = (line.split() for line in (ROOT / "proc/meminfo").read_text().splitlines())
        known = {line[0]: 1024 * int(line[1]) for line in lines}
        yield known["MemAvailable:"] + known["SwapFree:"]
    yield from _groups()
    with suppress(ImportError, OSError, ValueError):  # ulimit -v
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            yield limit - pages * resource.getpagesize()
    with suppress(AttributeError, OSError, ValueError):  # elsewhere, all memory
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _groups() -> Iterator[int]:
    """Bytes left to the control groups of the process, such as a container's, and to their parents.

    In a container the first version names groups that are invisible there; the innermost visible one
    is its own.
    """
    with suppress(OSError):
        for line in (ROOT / "proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            version = 2 if number == "0" else 1
            if version == 1 and "memory" not in controllers.split(","):
                continue
            top, limit, usage, idle = GROUPS[version]
            names = [name for name in path.split("/") if name not in ("", "..")]
            for depth in range(len(names), -1, -1):
                folder = ROOT.joinpath("sys/fs/cgroup", top, *names[:depth])
                with suppress(OSError, ValueError, KeyError):  # "max" is no number, and no limit
                    most = int((folder / limit).read_text())
                    stat = (folder / "memory.stat").read_text().splitlines()
                    dropped = int(dict(entry.split() for entry in stat)[idle])
                    yield most - int((folder / usage).read_text()) + dropped


def _short(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.3g} TiB"
