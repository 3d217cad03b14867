"""Memory that the machine has not: refused before any work, with the number of bytes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .linalg import Array, namespace, on_gpu

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
        lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        known = {line[0]: 1024 * int(line[1]) for line in lines}
        yield known["MemAvailable:"] + known["SwapFree:"]
    with suppress(OSError, ValueError, KeyError):  # of the control group, a container's say
        group = Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
        folder = Path("/sys/fs/cgroup", group)
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        used = int((folder / "memory.current").read_text()) - int(stat["inactive_file"])
        yield int((folder / "memory.max").read_text()) - used  # "max" is none
    with suppress(ImportError, OSError, ValueError):  # ulimit -v
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            yield limit - pages * resource.getpagesize()
    with suppress(AttributeError, OSError, ValueError):  # elsewhere at least all there is
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _short(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.3g} TiB"
