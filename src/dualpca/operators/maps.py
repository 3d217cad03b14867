"""Memory maps: whose memory an array is, and what of its file it needs."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds


def map_of(data: Any) -> tuple[mmap.mmap | None, int]:
    """The map that the memory of an array is, and where in its file that begins, as far as known."""
    offset = 0
    while isinstance(data, (np.ndarray, memoryview)):
        offset = getattr(data, "offset", 0) or offset  # of numpy.memmap
        data = data.base if isinstance(data, np.ndarray) else data.obj
    whole = offset - offset % mmap.ALLOCATIONGRANULARITY
    return (data, whole) if isinstance(data, mmap.mmap) else (None, 0)


def extent(data: Any) -> tuple[mmap.mmap | None, int]:
    """The map of an array, and the bytes that its file must have; 0 where it is no file's."""
    found, whole = map_of(data)
    if found is None or not data.size:
        return found, 0
    with suppress(OSError, ValueError):
        found.size()
        start = np.frombuffer(found, np.uint8).ctypes.data
        return found, whole + byte_bounds(data)[1] - start
    return found, 0


def touch(block: np.ndarray) -> None:
    """Has the pages of a mapped block in memory: one number of each is copied."""
    steps = (max(1, mmap.PAGESIZE // max(1, abs(stride))) for stride in block.strides)
    block[tuple(slice(None, None, step) for step in steps)].copy()
