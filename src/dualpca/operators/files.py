"""Where row blocks come from: arrays, memory maps, zarr, HDF5, Arrow, Parquet, functions."""

from __future__ import annotations

import itertools
import math
import mmap
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from .block_ops import compressed, float_type
from .readable import check_readable

#: Bytes of a block where nothing else is said.
BLOCK = 32 * 2**20

#: Rows that are sought one by one in a file without chunks are read in pieces of this size.
_PIECE = 2**18

#: Chunks of more than LARGE bytes are read one by one, where zarr would unpack ten at a time. Of
#: smaller ones at most MANY are read at a time, since zarr takes memory for each.
LARGE, MANY = 2**24, 2**14


class Source(ABC):
    """Rows that are read in order, in blocks, or taken by their indices. Nothing is ever written.

    ``shape`` and ``dtype`` (float32 or float64) are those of the matrix; blocks may come in the type
    that is stored. ``names`` are those of the columns, if they have any.
    """

    names: list[str] | None = None
    sparse: bool = False
    #: whether reading waits for a file or a function, so that it should run ahead of the products
    slow: bool = True
    #: whether it warns of chunks that were never written
    tells: bool = True

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        if len(shape) != 2:
            raise ValueError(
                f"a row block has {len(shape)} dimension(s); expected a matrix, rows by columns"
            )
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = float_type(dtype)
        self._row_bytes = max(1, self.shape[1] * np.dtype(dtype).itemsize)  # as stored

    @abstractmethod
    def read(self, block_bytes: int) -> Iterator[Any]:
        """Yield consecutive row blocks of about ``block_bytes``, each part of the data read once."""

    def take(self, rows: np.ndarray) -> Any:
        """Return the rows with these sorted indices, as one array or CSR matrix."""
        parts, start, j = [np.empty((0, self.shape[1]), self.dtype)], 0, 0
        for block in self.read(BLOCK):
            i, j = np.searchsorted(rows, [start, start + block.shape[0]])
            parts.append(block[rows[i:j] - start])
            start += block.shape[0]
            if j == len(rows):
                break
        return np.concatenate(parts)

    def advise(self, block_bytes: int) -> None:  # noqa: B027 (most have nothing to say)
        """Warn if blocks of that size are slow to read, or parts of the data are missing."""

    def _rows(self, block_bytes: int) -> int:
        return max(1, block_bytes // self._row_bytes)


def changed(found: Any, expected: Any) -> OSError:
    """Return the error for data that is not what it was when it was opened."""
    return OSError(
        f"the data changed while it was read: there are {found} where there were {expected}; let "
        "nothing write to it, open it anew and fit again"
    )


def map_of(data: Any) -> tuple[Any, int]:
    """Return the memory map of an array, and how long its file must be, if that is known."""
    offset = 0
    while isinstance(data, (np.ndarray, memoryview)):
        offset = getattr(data, "offset", 0) or offset  # of numpy.memmap
        data = data.base if isinstance(data, np.ndarray) else data.obj
    if not isinstance(data, mmap.mmap):
        return None, 0
    with suppress(OSError, ValueError):  # of a map without a file
        data.size()
        return data, offset - offset % mmap.ALLOCATIONGRANULARITY + len(data)
    return data, 0


class ArraySource(Source):
    """A numpy array or scipy.sparse matrix, one block; or a memory map. All blocks are views.

    A file that was shortened under a map would end the process (SIGBUS), so that its size is checked
    before each block. Shortening it while a block is multiplied still ends the process.
    """

    def __init__(self, data: Any) -> None:
        check_readable(data, "a block of X")
        super().__init__(data.shape, data.dtype)
        self.sparse = sp.issparse(data)
        self._file, self._needed = map_of(data)
        self.slow = self._file is not None
        self._data = compressed(data) if self.sparse else np.asarray(data)
        self._check_size()

    def _check_size(self) -> None:
        if self._needed and self._file.size() < self._needed:
            raise changed(f"{self._file.size():,} bytes in a mapped file", f"{self._needed:,}")

    def read(self, block_bytes: int) -> Iterator[Any]:
        if not self.slow:
            yield self._data
            return
        step = self._rows(block_bytes)
        for start in range(0, self.shape[0], step):
            block = self._data[start : start + step]
            self._check_size()
            # A copy of a number of each page brings the pages into memory.
            steps = (max(1, mmap.PAGESIZE // max(1, abs(stride))) for stride in block.strides)
            block[tuple(slice(None, None, each) for each in steps)].copy()
            yield block

    def take(self, rows: np.ndarray) -> Any:
        self._check_size()
        return self._data[rows].tocsr() if self.sparse else self._data[rows]


def rows_of(data: Any, start: int, stop: int) -> Any:
    """Read rows of a chunked array of one dimension or two, few chunks at a time."""
    shape, chunks = tuple(data.shape), data.chunks
    if not chunks or len(shape) > 2:
        return data[start:stop]
    (height, *widths), (_, *columns) = chunks, shape
    most = 1 if math.prod(chunks) * data.dtype.itemsize > LARGE else MANY
    across = math.prod(-(-n // w) for n, w in zip(columns, widths, strict=True))
    tall, wide = height * max(1, most // max(1, across)), [w * most for w in widths]
    tops = range(start - start % height, stop, tall)
    if len(tops) == 1 and across <= most:
        return data[start:stop]
    out = np.empty((stop - start, *columns), dtype=data.dtype)
    for top, *left in itertools.product(tops, *map(range, itertools.repeat(0), columns, wide)):
        low, high = max(top, start), min(top + tall, stop)
        part = [slice(a, a + w) for a, w in zip(left, wide, strict=True)]
        block = data[(slice(low, high), *part)]
        place = out[(slice(low - start, high - start), *part)]
        if block.shape != place.shape:  # it was shortened meanwhile
            return data[start:stop]
        place[...] = block
    return out


def gaps(data: Any) -> str | None:
    """Return a sentence about chunks that were never written; None if all were."""
    units = getattr(data, "shards", None) or data.chunks
    if not units or 0 in data.shape:
        return None
    total = math.prod(-(-n // size) for n, size in zip(data.shape, units, strict=True))
    if hasattr(data, "id"):  # HDF5
        missing, fill = total - data.id.get_num_chunks(), data.fillvalue
    else:  # zarr, which counts all chunks of each shard
        chunks_of_a_shard = math.prod(units) // math.prod(data.chunks)
        missing, fill = total - data.nchunks_initialized // chunks_of_a_shard, data.fill_value
    if not missing:
        return None
    return (
        f"{missing:,} of {total:,} chunks are not in the file and are read as {fill or 0}: "
        "chunks that hold nothing else may be left out, but lost ones look the same; write them again "
        "if there should be other numbers"
    )


class ChunkedSource(Source):
    """A zarr array or HDF5 data set, read in whole rows of chunks."""

    def __init__(self, data: Any) -> None:
        super().__init__(data.shape, data.dtype)
        self._data = data
        # A shard of zarr is read as a whole, as chunks elsewhere are.
        chunks = getattr(data, "shards", None) or data.chunks
        self._chunked = bool(chunks)
        self._height = max(1, min(chunks[0] if chunks else self._rows(_PIECE), self.shape[0]))

    def advise(self, block_bytes: int) -> None:
        if self.tells and (words := gaps(self._data)):
            warnings.warn(words, stacklevel=3)
        times = -(-self._height // self._rows(block_bytes))
        if self._chunked and times > 1:
            warnings.warn(
                f"a row of chunks, {self._height} rows of {self.shape[1]} numbers, is larger than "
                f"block_bytes={block_bytes}, so that each chunk is read {times} times a pass; "
                "rechunk the data to whole rows in chunks of about 16 MB, or raise block_bytes",
                stacklevel=3,
            )

    def read(self, block_bytes: int) -> Iterator[Any]:
        N, step = self.shape[0], self._rows(block_bytes)
        step -= step % self._height if step > self._height else 0
        for start in range(0, N, step):
            yield rows_of(self._data, start, min(start + step, N))

    def take(self, rows: np.ndarray) -> Any:
        out = np.empty((len(rows), self.shape[1]), dtype=self._data.dtype)
        cuts = np.flatnonzero(np.diff(rows // self._height)) + 1
        for start, stop in itertools.pairwise([0, *cuts.tolist(), len(rows)]):
            wanted = rows[start:stop]
            block = rows_of(self._data, int(wanted[0]), int(wanted[-1]) + 1)
            if block.shape != (wanted[-1] - wanted[0] + 1, self.shape[1]):
                raise changed(f"{tuple(self._data.shape)} numbers", self.shape)
            out[start:stop] = block[wanted - wanted[0]]
        return out


class FunctionSource(Source):
    """A function without arguments that returns a block of one of the other kinds."""

    def __init__(self, function: Callable[[], Any], shape: Any = None, dtype: Any = None) -> None:
        self._function = function
        if shape is None or dtype is None:
            first = source_of(function())
            self.sparse = first.sparse
            shape, dtype = shape or first.shape, first.dtype if dtype is None else dtype
        super().__init__(shape, dtype)

    @cached_property
    def sparse(self) -> bool:  # type: ignore[override]
        return self._load().sparse

    def _load(self) -> Source:
        source = source_of(self._function())
        if source.shape != self.shape:
            raise ValueError(
                f"a function returned a block of shape {source.shape} where {self.shape} was "
                "expected; give the shapes of the blocks, the same at each call"
            )
        return source

    def read(self, block_bytes: int) -> Iterator[Any]:
        return self._load().read(block_bytes)

    def take(self, rows: np.ndarray) -> Any:
        return self._load().take(rows)


_CHUNKED = {("zarr", "Array"), ("h5py", "Dataset")}
_ARROW = {
    ("pyarrow", name)
    for name in ("Table", "RecordBatch", "RecordBatchFileReader", "ParquetFile", "Dataset")
}


def _is(data: Any, names: set[tuple[str, str]]) -> bool:
    """Return whether data is of one of these classes, none of which is imported here."""
    classes = type(data).__mro__
    return any((kind.__module__.split(".")[0], kind.__name__) in names for kind in classes)


def out_of_core(data: Any) -> bool:
    """Return whether data lies in a file or in columns, so that it must not be loaded whole."""
    return map_of(data)[0] is not None or _is(data, _CHUNKED | _ARROW)


def is_streamed(X: Any) -> bool:
    """Return whether X is not in the memory of this process: a file, or a dask collection."""
    return hasattr(X, "__dask_graph__") or out_of_core(X)


def source_of(data: Any) -> Source:
    """Return the source of a block; numpy reads blocks of other kinds."""
    if isinstance(data, Source):
        return data
    if isinstance(data, np.ndarray) or sp.issparse(data):
        return ArraySource(data)
    if _is(data, _CHUNKED):
        return ChunkedSource(data)
    if _is(data, _ARROW):
        from .arrow import ArrowSource

        return ArrowSource(data)
    return FunctionSource(data) if callable(data) else ArraySource(np.asarray(data))


def ahead(blocks: Iterator[Any]) -> Iterator[Any]:
    """Yield the same blocks; a thread reads the next one while the caller computes on the last."""
    end, context = object(), copy_context()  # np.errstate lives in the context

    def read() -> Any:
        return context.run(next, blocks, end)

    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as pool:
        following = pool.submit(read)
        while (block := following.result()) is not end:
            following = pool.submit(read)
            yield block
