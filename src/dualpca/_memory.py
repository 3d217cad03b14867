"""Memory that the machine has not: refused before any work, with the number of bytes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .linalg import Array, namespace, on_gpu

#: Where the files of the system are.
ROOT = Path("/")

#: Of both versions of control groups: the folder, the limit, what is used, and what of it can be dropped.
GROUPS = {
    1: ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("", "memory.max", "memory.current", "inactive_file"),
}

#: What takes fewer bytes is not looked at: asking the system takes longer than a small product.
SMALL = 2**26


def ensure(nbytes: int, what: str, remedy: str, beside: Array | None = None) -> None:
    """Refuse what takes more bytes than there are; ``what`` is a plural, the ``remedy`` a request.

    ``beside`` is an array of the kind that it will be: a GPU's own errors have the number of bytes.
    """
    if beside is not None and on_gpu(beside):
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
    """What to say of an array that numpy has found no room for; None where it was something else."""
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
    """Bytes that this process may still take; None where the system does not tell."""
    return min((max(0, left) for left in _limits()), default=None)


def _limits() -> Iterator[int]:
    with suppress(
        OSError, ValueError, KeyError
    ):  # Linux: what it has, and what it would drop or swap
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
    with suppress(AttributeError, OSError, ValueError):  # elsewhere at least all there is
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _groups() -> Iterator[int]:
    """What is left to the control groups of the process, a container's say, and to those around them.

    In a container the first version names groups that are not to be seen there; the innermost that is
    to be seen is its own.
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
