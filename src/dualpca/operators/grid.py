"""Chunks of zarr arrays and HDF5 data sets: how many are read at a time, and which were never written."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

#: Chunks of more bytes are read one by one, where zarr would unpack ten at a time. So many of
#: others are read at a time: zarr takes memory for each, besides its numbers.
LARGE, MANY = 2**24, 2**14


def rows_of(data: Any, start: int, stop: int) -> Any:
    """Rows of an array in chunks, of one dimension or two; few chunks are in memory at a time."""
    shape, chunks = tuple(data.shape), data.chunks
    if not chunks or len(shape) > 2:
        return data[start:stop]
    (height, *widths), (_, *columns) = chunks, shape
    across = math.prod(-(-n // w) for n, w in zip(columns, widths, strict=True))
    single = math.prod(chunks) * data.dtype.itemsize > LARGE
    tall = height if single else height * max(1, MANY // max(1, across))
    first = start - start % height
    if not single and stop - first <= tall and across <= MANY:
        return data[start:stop]
    out = np.empty((stop - start, *columns), dtype=data.dtype)
    wide = [w if single else w * MANY for w in widths]
    for top in range(first, stop, tall):
        low, high = max(top, start), min(top + tall, stop)
        for left in itertools.product(*map(range, itertools.repeat(0), columns, wide)):
            part = tuple(slice(a, a + w) for a, w in zip(left, wide, strict=True))
            place = (slice(low - start, high - start), *part)
            found = data[(slice(low, high), *part)]
            if found.shape != out[place].shape:  # it was shortened meanwhile
                return data[start:stop]
            out[place] = found
    return out


def unwritten(data: Any) -> tuple[int, int]:
    """How many chunks (of zarr: shards, where it has any) were never written, and how many there are.

    Of a zarr that is not in a folder none are known to be missing.
    """
    chunks = getattr(data, "shards", None) or data.chunks
    if not chunks or 0 in data.shape:
        return 0, 0
    grid = [-(-n // size) for n, size in zip(data.shape, chunks, strict=True)]
    total = math.prod(grid)
    if hasattr(data, "id"):
        return total - data.id.get_num_chunks(), total
    root = getattr(getattr(data, "store", None), "root", None)
    if not isinstance(root, Path):
        return 0, total
    folder = root / data.path
    written = {
        os.path.relpath(os.path.join(place, name), folder).replace(os.sep, "/")
        for place, _, names in os.walk(folder)
        for name in names
    }
    keys = map(data.metadata.encode_chunk_key, itertools.product(*map(range, grid)))
    return total - sum(key in written for key in keys), total


def gaps(data: Any) -> str | None:
    """A sentence about chunks that were never written; None where all were."""
    missing, total = unwritten(data)
    if not missing:
        return None
    fill = data.fillvalue if hasattr(data, "id") else data.fill_value
    read = 0 if fill is None else fill
    return (
        f"{missing:,} of {total:,} chunks are not in the file and are read as {read}: "
        "chunks that hold nothing else may be left out, but lost ones look the same; write them again "
        "if there should be other numbers"
    )
