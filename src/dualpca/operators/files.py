"""Where row blocks come from: arrays, memory maps, zarr, HDF5, Arrow, Parquet, functions."""

from __future__ import annotations

import itertools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from .block_ops import compressed, float_type
from .grid import gaps, rows_of
from .maps import extent, map_of, touch
from .pandas_index import index_of
from .readable import check_readable

#: Bytes of a block where nothing else is said.
BLOCK = 32 * 2**20

#: Rows that are sought one by one in a file without chunks are read in pieces of this size.
_PIECE = 2**18


class Source(ABC):
    """Rows that are read in order, in blocks, or taken by their indices. Nothing is ever written.

    ``shape`` and ``dtype`` are those of the matrix: float32 or float64. Blocks may come in the type
    the data is stored in. ``names`` are those of the columns, where they have any.
    """

    names: list[str] | None = None
    sparse: bool = False
    #: whether reading waits for something, so that it should run ahead of the computing
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
        """Consecutive row blocks of about ``block_bytes``, each part of the data read once."""

    @abstractmethod
    def take(self, rows: np.ndarray) -> Any:
        """The rows with these sorted indices, as one array or CSR matrix."""

    def advise(self, block_bytes: int) -> None:  # noqa: B027 (most have nothing to say)
        """Warns where blocks of that size are slow to read, or parts of the data are not there."""

    def _rows(self, block_bytes: int) -> int:
        return max(1, block_bytes // self._row_bytes)


def changed(found: Any, expected: Any) -> OSError:
    """What to say of data that is not what it was when it was opened."""
    return OSError(
        f"the data changed while it was read: there are {found} where there were {expected}; let "
        "nothing write to it, open it anew and fit again"
    )


class ArraySource(Source):
    """A numpy array or scipy.sparse matrix, one block; or a memory map. All blocks are views.

    A file that was shortened under a map would end the process (SIGBUS), so that its size is looked
    at before each block. What shortens it while a block is multiplied still ends the process.
    """

    def __init__(self, data: Any) -> None:
        check_readable(data, "a block of X")
        super().__init__(data.shape, data.dtype)
        self.sparse = sp.issparse(data)
        self._file: Any
        self._file, self._needed = (None, 0) if self.sparse else extent(data)
        self.slow = self._file is not None
        self._data = compressed(data) if self.sparse else np.asarray(data)
        self._check_size()

    def _check_size(self) -> None:
        if self._needed and self._file.size() < self._needed:
            raise changed(f"{self._file.size():,} bytes in a mapped file", f"{self._needed:,}")

    def read(self, block_bytes: int) -> Iterator[Any]:
        step = self._rows(block_bytes)
        for start in range(0, self.shape[0], step) if self.slow else ():
            block = self._data[start : start + step]
            self._check_size()
            touch(block)
            yield block
        if not self.slow:
            yield self._data

    def take(self, rows: np.ndarray) -> Any:
        self._check_size()
        return self._data[rows].tocsr() if self.sparse else self._data[rows]


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


def _count(data: Any) -> int:
    """The rows of an IPC file or a data set; older releases of pyarrow do not count those of a file."""
    if hasattr(data, "count_rows"):
        return data.count_rows()
    return sum(data.get_batch(i).num_rows for i in range(data.num_record_batches))


class ArrowSource(Source):
    """Columns of Arrow or Parquet, streamed by record batches; nulls become NaN.

    The index of a pandas data frame is left out, as that of one in memory is. A record batch, of
    Parquet a few row groups, is in memory as a whole besides the blocks.
    """

    def __init__(self, data: Any) -> None:
        schema = getattr(data, "schema_arrow", None) or data.schema
        index = index_of(schema)[0]
        self._columns = [j for j, name in enumerate(schema.names) if name not in index]
        self.names = [schema.names[j] for j in self._columns]
        kinds = [_arrow_type(schema.names[j], schema.field(j).type) for j in self._columns]
        dtype = np.result_type(*kinds) if kinds else np.dtype("float64")
        if hasattr(data, "read_row_group"):
            rows = data.metadata.num_rows
        else:
            rows = data.num_rows if hasattr(data, "num_rows") else _count(data)
        super().__init__((rows, len(kinds)), dtype)
        self._data = data

    def _batches(self, step: int) -> Iterator[Any]:
        return (batch.select(self._columns) for batch in self._whole_batches(step))

    def _whole_batches(self, step: int) -> Iterator[Any]:
        data = self._data
        if hasattr(data, "num_record_batches"):  # an IPC file
            return (data.get_batch(i) for i in range(data.num_record_batches))
        if hasattr(data, "read_row_group"):  # a Parquet file
            groups = (data.read_row_group(i) for i in range(data.num_row_groups))
            return (batch for group in groups for batch in group.to_batches())
        if hasattr(data, "scanner"):  # a data set
            options: dict[str, Any] = {"batch_readahead": 1, "fragment_readahead": 1}
            if type(getattr(data, "format", None)).__name__ == "ParquetFileFormat":
                from pyarrow.dataset import ParquetFragmentScanOptions

                # Buffers read before their time are kept to the end: in the end all of the file.
                options["fragment_scan_options"] = ParquetFragmentScanOptions(pre_buffer=False)
            return data.to_batches(batch_size=step, **options)
        return iter(data.to_batches() if hasattr(data, "to_batches") else [data])

    def read(self, block_bytes: int) -> Iterator[Any]:
        (left, d), step = self.shape, self._rows(block_bytes)
        block, filled = _by_columns(min(step, left), d, self.dtype), 0
        for batch in self._batches(step):
            start = 0
            while start < batch.num_rows:
                if len(block) == 0:
                    raise changed(f"more than {self.shape[0]} rows", self.shape[0])
                part = batch.slice(start, len(block) - filled)
                _fill(block[filled : filled + part.num_rows], part)
                start, filled = start + part.num_rows, filled + part.num_rows
                if filled == len(block):
                    yield block
                    left -= filled
                    block, filled = _by_columns(min(step, left), d, self.dtype), 0

    def take(self, rows: np.ndarray) -> Any:
        import pyarrow as pa

        out = _by_columns(len(rows), self.shape[1], self.dtype)
        start = done = 0
        for batch in self._batches(self._rows(BLOCK)):
            stop = start + batch.num_rows
            end = int(np.searchsorted(rows, stop))
            if end > done:
                _fill(out[done:end], batch.take(pa.array(rows[done:end] - start)))
            start, done = stop, end
            if done == len(rows):
                break
        if done < len(rows):
            raise changed(f"{start} rows", self.shape[0])
        return out


def _arrow_type(name: str, kind: Any) -> np.dtype:
    from pyarrow import types

    if types.is_float32(kind):
        return np.dtype("float32")
    number = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    if not any(is_kind(kind) for is_kind in number):
        raise ValueError(
            f"column {name!r} has type {kind}, not numbers; leave it out: select([...]) of a table, "
            "replace_schema(...) of a data set, or encode it as numbers"
        )
    return np.dtype("float64")


def _by_columns(rows: int, columns: int, dtype: Any) -> np.ndarray:
    return np.empty((rows, columns), dtype=dtype, order="F")


def _fill(block: np.ndarray, batch: Any) -> None:
    import pyarrow as pa

    for j, column in enumerate(batch.columns):
        if not pa.types.is_floating(column.type):
            # Unsafe as in numpy: integers beyond 2^53 are rounded.
            column = column.cast(pa.float64(), safe=False)
        block[:, j] = column.to_numpy(zero_copy_only=False)


class FunctionSource(Source):
    """A function without arguments that returns a block of one of the other kinds."""

    def __init__(
        self, function: Callable[[], Any], shape: tuple[int, int] | None = None, dtype: Any = None
    ) -> None:
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
    """Whether data is of one of these classes, none of which is imported for that."""
    classes = type(data).__mro__
    return any((kind.__module__.split(".")[0], kind.__name__) in names for kind in classes)


def out_of_core(data: Any) -> bool:
    """Whether data lies in a file, or in columns, and must not be loaded whole."""
    return map_of(data)[0] is not None or _is(data, _CHUNKED | _ARROW)


def as_source(data: Any) -> Source | None:
    """The source of some data; None where it is of no kind that has one."""
    if isinstance(data, Source):
        return data
    if isinstance(data, np.ndarray) or sp.issparse(data):
        return ArraySource(data)
    if _is(data, _CHUNKED):
        return ChunkedSource(data)
    if _is(data, _ARROW):
        return ArrowSource(data)
    return FunctionSource(data) if callable(data) else None


def source_of(block: Any) -> Source:
    """The source of a block, which numpy reads where it is of no other kind."""
    return as_source(block) or ArraySource(np.asarray(block))


def ahead(blocks: Iterator[Any]) -> Iterator[Any]:
    """The same blocks, the next one read in a thread while the caller computes on one."""
    end, context = object(), copy_context()  # np.errstate lives in the context

    def following() -> Any:
        return context.run(next, blocks, end)

    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as pool:
        coming = pool.submit(following)
        while (block := coming.result()) is not end:
            coming = pool.submit(following)
            yield block
