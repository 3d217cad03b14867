"""Sequences of row blocks, in memory or in files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from .block_ops import block_rows
from .files import BLOCK, FunctionSource, Source, ahead, changed, float_type, source_of
from .row_blocks import RowBlocked

#: Bytes a second that files are taken to be read at (docs/scaling.md has what was measured).
READING = 1e9


class Blocks(RowBlocked):
    """A sequence of row blocks, each read once per pass; nothing is copied or written.

    A thread reads the next block of a file or a function while products with the one before are
    computed. The data must not change meanwhile: other shapes and NaN are errors, other numbers go
    unnoticed, and shortening a mapped file while a block of it is multiplied ends the process.

    Parameters
    ----------
    blocks : sequence
        Arrays, ``numpy.memmap``, scipy.sparse matrices, ``zarr.Array``, ``h5py.Dataset``, Arrow
        tables, record batches and IPC files, Parquet files and data sets of pyarrow, or functions
        without arguments that return one of these.
    shapes : sequence of (rows, columns), optional
        The shapes of all blocks. Without them each function is called once to learn its shape.
    dtype : data type, optional
        float32 or float64; the widest among the blocks where it is not given.
    block_bytes : int, default 32 MiB
        How much is read at a time. Memory stays below about three times this, besides a record
        batch, a few row groups of Parquet, a compressed chunk, or the block that a function returns,
        which can only be read whole.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca.operators import Blocks
    >>> X = Blocks([np.ones((2, 3)), lambda: np.zeros((4, 3))])
    >>> X.shape
    (6, 3)
    >>> X.take([1, 2])
    array([[1., 1., 1.],
           [0., 0., 0.]])
    """

    sparse: Any = property(lambda self: self._sources[0].sparse)

    def __init__(
        self,
        blocks: Sequence[Any],
        *,
        shapes: Sequence[tuple[int, int]] | None = None,
        dtype: Any = None,
        block_bytes: int = BLOCK,
    ) -> None:
        if not hasattr(blocks, "__len__"):
            raise TypeError(
                f"blocks is a {type(blocks).__name__}, which can be read only once; give a sequence, "
                "such as a list of functions that return the blocks"
            )
        if len(blocks) == 0:
            raise ValueError("blocks is empty; give at least one row block")
        if shapes is not None and len(shapes) != len(blocks):
            raise ValueError(
                f"shapes has {len(shapes)} entries for {len(blocks)} blocks; give one for each block"
            )
        self._sources: list[Source] = []
        given: Sequence[Any] = shapes or [None] * len(blocks)
        known = dtype
        for block, shape in zip(blocks, given, strict=True):
            source = FunctionSource(block, shape, known) if callable(block) else source_of(block)
            if shape is not None and source.shape != tuple(shape):
                raise ValueError(
                    f"shapes has {tuple(shape)} for a block of shape {source.shape}; "
                    "give the shape of each block, or no shapes"
                )
            if callable(block) and shapes:  # one function is called to learn the type
                known = source.dtype
            self._sources.append(source)
        if not block_bytes >= 1:
            raise ValueError(f"block_bytes={block_bytes} is no size; give at least 1, say 2**25")
        self._block_bytes = int(block_bytes)
        self._offsets = np.cumsum([0, *(source.shape[0] for source in self._sources)])
        columns = sorted({source.shape[1] for source in self._sources})
        if len(columns) > 1:
            raise ValueError(
                f"the row blocks have {columns} columns; all blocks must have the same columns"
            )
        N, d = int(self._offsets[-1]), columns[0]
        if 0 in (N, d):
            raise ValueError(f"the data has shape {N, d}; give at least one row and one column")
        if dtype is None:
            dtype = np.result_type(*(source.dtype for source in self._sources))
        super().__init__((N, d), float_type(dtype))
        files = (source for source in self._sources if source.slow)
        self.read_seconds = sum(math.prod(f.shape) * f.dtype.itemsize for f in files) / READING
        #: the names of the columns, where the data has any
        self.names = self._sources[0].names
        for source in self._sources:
            if source.names != self.names:
                raise ValueError(
                    f"the row blocks have columns named {self.names} and {source.names}; "
                    "all blocks must have the same columns in the same order"
                )
            source.advise(self._block_bytes)

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        read, start = self._unchanged(), 0
        for block in ahead(read) if any(source.slow for source in self._sources) else read:
            N, d = block.shape
            most = N if sp.issparse(block) else block_rows(d, self.dtype.itemsize, factor)
            count = -(-N // max(1, most))
            for i in range(count):  # parts of cache size, about equal
                part = block if count == 1 else block[i * N // count : (i + 1) * N // count]
                stop = start + part.shape[0]
                yield slice(start, stop), part.astype(self.dtype, copy=False)
                start = stop

    def _unchanged(self) -> Iterator[Any]:
        """Yield the blocks of all sources, which must have the shapes that they had at first."""
        for source in self._sources:
            rows, (expected, columns) = 0, source.shape
            for block in source.read(self._block_bytes):
                rows += block.shape[0]
                if rows > expected or block.shape[1] != columns:
                    raise changed(f"{rows} rows or more of {block.shape[1]} numbers", source.shape)
                yield block
                del block  # or it would be held while the next one is read
            if rows != expected:
                raise changed(f"{rows} rows", expected)

    def take(self, rows: Any) -> Any:
        """Return the rows with these sorted indices, as one array or CSR matrix.

        Only these rows of arrays and memory maps are read, only their chunks of zarr and HDF5, and
        all rows up to the last of them of Arrow and Parquet.
        """
        rows = np.asarray(rows, dtype=np.int64)
        N = self.shape[0]
        if len(rows) == 0 or rows[0] < 0 or rows[-1] >= N or np.any(np.diff(rows) < 0):
            raise ValueError(
                f"rows={rows} are not sorted indices from 0 to {N - 1}; give np.sort(rows)"
            )
        wanted = np.split(rows, np.searchsorted(rows, self._offsets[1:-1]))
        parts = []
        for source, offset, some in zip(self._sources, self._offsets[:-1], wanted, strict=True):
            if len(some) == 0:
                continue
            taken = source.take(some - offset)
            if taken.shape != (len(some), source.shape[1]):
                raise changed(f"{taken.shape[0]} of {len(some)} rows", source.shape)
            parts.append(taken.astype(self.dtype, copy=False))
        if len(parts) == 1:
            return parts[0]
        return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)
