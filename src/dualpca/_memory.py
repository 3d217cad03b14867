"""Arrays that memory has no room for are refused before any work, with the number of bytes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .linalg import Array, finfo, on_gpu

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
    if nbytes < SMALL or (like is not None and on_gpu(like)):
        return
    if (left := available()) is not None and nbytes > left:
        raise MemoryError(_message(nbytes, what, left, remedy))


def itemsize(A: Array) -> int:
    """Return the bytes of one number of an array, whatever its library."""
    return finfo(A).bits // 8


def refusal(error: MemoryError) -> str | None:
    """Return a message for an array that numpy found no room for; None for other errors."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if shape is None or dtype is None:
        return None
    what = f"the numbers of an array of shape {tuple(shape)}"
    remedy = "ask for fewer components, landmarks or random features, or give fewer rows"
    return _message(math.prod(shape) * dtype.itemsize, what, available(), remedy)


def _message(nbytes: int, what: str, left: int | None, remedy: str) -> str:
    room = "" if left is None else f", and {left:,} ({_short(left)}) are available"
    return f"{what} take {nbytes:,} bytes ({_short(nbytes)}){room}; {remedy}"


def _short(nbytes: float) -> str:
    power = min(int(math.log2(max(nbytes, 1))) // 10, 4)
    return f"{nbytes / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def available() -> int | None:
    """Return the bytes that this process may still take; None if the system does not tell."""
    return min((max(0, left) for left in _limits()), default=None)


def _limits() -> Iterator[int]:
    with suppress(OSError, ValueError, KeyError):  # Linux: free, droppable and swap memory
        known = _table(ROOT / "proc/meminfo")
        yield 1024 * (known["MemAvailable:"] + known["SwapFree:"])
    with suppress(OSError):
        for line in (ROOT / "proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0" or "memory" in controllers.split(","):
                yield from _group(path, *GROUPS[2 if number == "0" else 1])
    with suppress(ImportError, OSError, ValueError):  # ulimit -v
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            yield limit - pages * resource.getpagesize()
    with suppress(AttributeError, OSError, ValueError):  # elsewhere, all memory
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _group(path: str, top: str, limit: str, usage: str, idle: str) -> Iterator[int]:
    """Yield the bytes left to a control group, such as a container's, and to its parents.

    In a container the first version names groups that are invisible there; the innermost visible one
    is its own.
    """
    names = [name for name in path.split("/") if name not in ("", "..")]
    for depth in range(len(names), -1, -1):
        folder = ROOT.joinpath("sys/fs/cgroup", top, *names[:depth])
        with suppress(OSError, ValueError, KeyError):  # "max" is no number, and no limit
            most, used = (int((folder / file).read_text()) for file in (limit, usage))
            yield most - used + _table(folder / "memory.stat")[idle]


def _table(file: Path) -> dict[str, int]:
    return {line.split()[0]: int(line.split()[1]) for line in file.read_text().splitlines()}
