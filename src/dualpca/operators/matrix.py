"""Arrays and sparse matrices in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import device, is_array_api_obj, is_numpy_array

from .. import native
from ..linalg import Array, namespace, on_gpu
from ..progress import reading
from .base import BlockFunction, Operator
from .block_ops import (
    GRAM_FACTOR,
    as_float,
    block_rows,
    compressed,
    multiply,
    multiply_transposed,
    one_blas_thread,
    one_thread,
    sum_up,
    take,
    threads,
)
from .row_blocks import RowBlocked, swept
from .sweep_maps import Reweighting, Shift, SweepMap

#: From so many products on, threads of our own sum a Gram matrix of their rows each. Threads of BLAS
#: take longer (60,000 x 784 in float32: 217 ms and 186), and spin for a while after it: eigenvectors
#: by SciPy, which has a BLAS of its own, then wait for them (2000 x 500: a fit of 138 ms and 23).
THREADED_PRODUCTS = 10**8

#: Their sums, products and casts take at most so many bytes; else BLAS has its threads.
THREADED_BYTES = 2**30

#: Up to so many columns BLAS would use one thread for a Gram matrix.
THREADED_COLUMNS = 128

#: Kernels sweep with a row map in blocks that are larger by this factor: fewer sums of blocks are added.
KERNEL_FACTOR = 4

#: Below so many entries, of a sparse matrix and of an array, starting threads costs more than they save
#: (norms of 2000 x 784 rows: 0.8 ms with two, 0.5 without).
THREADED, THREADED_ARRAY = 2**18, 2**21


def row_parts(data: Any) -> list[tuple[slice, Any]]:
    """Return views of CSR rows, one for each thread, with about equally many entries."""
    N = data.shape[0]
    count = threads() if data.format == "csr" and data.nnz >= THREADED else 1
    if count == 1:
        return [(slice(0, N), data)]
    ends = np.searchsorted(data.indptr, np.linspace(0, data.nnz, count + 1)[1:-1])
    cuts = np.unique(np.concatenate([[0], ends, [N]]))
    parts = []
    for start, stop in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        indptr = data.indptr[start : stop + 1]
        entries = slice(int(indptr[0]), int(indptr[-1]))
        part = type(data)((stop - start, data.shape[1]), dtype=data.dtype)
        # Set one by one: the constructor would copy them.
        part.data, part.indices = data.data[entries], data.indices[entries]
        part.indptr = indptr - indptr[0]
        parts.append((slice(start, stop), part))
    return parts


def reweighed(data: Any, W: Array, row_map: Reweighting, **given: Any) -> tuple[Any, ...] | None:
    """Return the sweep of an array by the kernels; None where they do not know the losses of its rows."""
    losses, narrow = row_map.row_losses(), data.shape[1] <= native.MANY
    taken = narrow and not sp.issparse(data) and native.takes(native.SWEEP, data, W, convert=True)
    if losses is None or not taken:
        return None
    return row_map.from_kernels(
        lambda shift: native.reweigh(data, W, losses, threads(), shift=shift, **given), W
    )


class Matrix(RowBlocked):
    """A dense array (numpy, torch, cupy, any array-API namespace) or a scipy.sparse matrix.

    Sparse data is never densified. C kernels multiply numpy arrays and CSR rows, in as many parts as
    there are threads; without them a dense numpy array is swept in cache-sized row blocks.
    """

    def __init__(
        self, data: Any, counter: list[int] | None = None, transpose: Matrix | None = None
    ) -> None:
        if data.ndim != 2:
            raise ValueError(
                f"X has {data.ndim} dimension(s); expected a matrix, N rows by d columns"
            )
        self.data = as_float(compressed(data))
        self.sparse = sp.issparse(self.data)
        self._transpose = transpose
        self._parts: list[tuple[slice, Any]] | None = None
        super().__init__(tuple(data.shape), self.data.dtype, counter)

    @property
    def entries(self) -> int:
        return self.data.nnz if self.sparse else super().entries

    @property
    def T(self) -> Operator:
        if self._transpose is None:
            self._transpose = Matrix(self.data.T, self._counter, self)
        return self._transpose

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        N, d = self.shape
        if self.sparse:
            if self._parts is None:
                self._parts = row_parts(self.data)
            yield from self._parts
            return
        step = block_rows(d, self.data.itemsize, factor) if is_numpy_array(self.data) else N
        if step >= N:
            yield slice(0, N), self.data
            return
        for start in range(0, N, step):
            rows = slice(start, min(start + step, N))
            yield rows, self.data[rows]

    def _each(self, f: BlockFunction, factor: int = 1) -> Iterable[Any]:
        parts = list(self.blocks(factor)) if self.sparse else self._shares(factor)
        if len(parts) < 2:
            return super()._each(f, factor)
        self._counter[0] += 1
        return (part for _, part in reading(self._in_threads(f, parts), self.shape[0]))

    def _shares(self, factor: int) -> list[tuple[slice, Any]]:
        """Return blocks of equal size, as many for each thread; none where one thread does all."""
        N, d = self.shape
        # Without kernels, blocks are small products, which BLAS shares out to its own threads.
        blocks = N * d >= THREADED_ARRAY and native.takes_array(self.data)
        if not (self._large_gram if factor >= GRAM_FACTOR else blocks):
            return []
        if not 1 < (count := threads()) <= N:
            return []
        number = -(-N // (count * block_rows(d, self.data.itemsize, factor))) * count
        slices = (slice(*ends) for ends in pairwise(i * N // number for i in range(number + 1)))
        return [(rows, self.data[rows]) for rows in slices if rows.start < rows.stop]

    def _in_threads(
        self, f: BlockFunction, parts: Sequence[tuple[slice, Any]]
    ) -> Iterator[tuple[slice, Any]]:
        """Yield the slice and ``f(rows, block)`` of each block; the threads take a block each in turn."""
        count = threads()

        def alone(context: Any, part: tuple[slice, Any]) -> Any:
            with one_thread():  # np.errstate is part of the context
                return context.run(f, *part)

        with one_blas_thread(), ThreadPoolExecutor(count) as pool:
            for i in range(0, len(parts), count):
                some = parts[i : i + count]
                contexts = [copy_context() for _ in some]
                done = pool.map(alone, contexts, some)
                yield from zip((rows for rows, _ in some), done, strict=True)

    def take(self, rows: np.ndarray) -> Any:
        return take(self.data.tocsr() if self._by_columns else self.data, rows)

    def blas_limited(self) -> AbstractContextManager[Any]:
        few = self.shape[1] <= THREADED_COLUMNS and self._large_gram
        threaded = self.data.nnz >= THREADED if self.sparse else few
        kernels = native.takes_array(self.data) or native.takes_array(self.data.T)
        # Small matrices of a GPU's fit are factored on the host, where threads only delay them.
        alone = threaded or kernels or (not self.sparse and on_gpu(self.data))
        return one_blas_thread() if alone else nullcontext()

    @property
    def _large_gram(self) -> bool:
        """Whether threads of our own sum a Gram matrix faster than BLAS."""
        N, d = self.shape
        if N * d * d < THREADED_PRODUCTS or self.sparse or not is_numpy_array(self.data):
            return False
        return 24 * d * d * threads() <= THREADED_BYTES

    @property
    def _by_columns(self) -> bool:
        """Whether the data is stored by columns, so that its threads work on the transpose."""
        return self.sparse and self.data.format == "csc"

    def matmul(self, W: Array) -> Array:
        if self.sparse and not native.native_available():
            return self.T.rmatmul(W) if self._by_columns else super().matmul(W)
        self._counter[0] += 1
        return multiply(self.data, W)

    def rmatmul(self, H: Array) -> Array:
        if self.sparse and not native.native_available():
            return self.T.matmul(H) if self._by_columns else super().rmatmul(H)
        self._counter[0] += 1
        return multiply_transposed(self.data, H)

    def sweep(self, W: Array, row_map: SweepMap | None = None) -> Any:
        if row_map is None and not (self.sparse or is_numpy_array(self.data)):
            self._counter[0] += 1
            return self.data.T @ (self.data @ W)  # a GPU waits for what the host does between them
        if isinstance(row_map, Reweighting):
            found = reweighed(self.data, W, row_map)
            self._counter[0] += found is not None
            return super().sweep(W, row_map) if found is None else found
        shift = row_map.shift if isinstance(row_map, Shift) else None
        if row_map is None and native.takes(native.COSWEEP, self.data.T, W):
            return self.T.cosweep(W)
        if (row_map is None or shift is not None) and native.takes(native.SWEEP, self.data, W):
            self._counter[0] += 1
            return native.multiply(native.SWEEP, self.data, W, threads(), shift=shift)
        if native.takes(native.MATMUL, self.data, W) and not self.sparse:
            # The kernels have threads of their own. Threads of Python, each with a block, would wait for
            # each other at every small operation of the row map (60,000 x 784 with 50 columns and a
            # robust loss: 42 ms, and 36 so).
            blocks = self.read_blocks(KERNEL_FACTOR)
            total = sum_up(swept(rows, block, W, row_map) for rows, block in blocks)
            return total if len(total) > 1 else total[0]
        kernels = any(native.takes(native.MATMUL, part, W) for part in (self.data, self.data.T))
        if not (self._by_columns or kernels):
            return super().sweep(W, row_map)
        total = Operator.sweep(self, W, row_map)
        self._counter[0] -= 1  # the two products are one sweep
        return total

    def takes_strips(self, W: Array) -> bool:
        return native.takes(native.COSWEEP, self.data, W)

    def cosweep(self, W: Array) -> Array:
        if not self.takes_strips(W):
            return super().cosweep(W)
        self._counter[0] += 1
        return native.multiply(native.COSWEEP, self.data, W, threads())

    def column_sums(
        self, weights: Array | None = None, *, exact: bool = True, keep: bool = False
    ) -> tuple[Array, float]:
        known = weights is None and self._moments
        if known or not native.takes_array(self.data):
            return super().column_sums(weights, exact=exact, keep=keep)
        self._counter[0] += 1
        self._stored = self.data.size
        sums = native.moments(self.data, threads(), weights)
        if keep and weights is None:
            self._moments = *sums, True
        return sums

    @property
    def rows_by_kernels(self) -> bool:  # type: ignore[override]
        return self.uses_kernels and native.takes_array(self.data)

    def _measure_rows(self) -> Array:
        norms = native.row_norms(self.data, threads()) if self.rows_by_kernels else None
        if norms is None:
            return super()._measure_rows()
        self._counter[0] += 1
        return norms

    @property
    def grams_by_kernels(self) -> bool:  # type: ignore[override]
        N, d = self.shape
        return native.takes_gram(self.data if d <= N else self.data.T, threads())

    def select(self, keep: Any, weights: Any = None) -> tuple[Operator, Array | None]:
        if self.shape[0] < self.shape[1] or not self.grams_by_kernels:
            return super().select(keep, weights)
        # The kernels leave out rows of weight 0, which need not be copied.
        return self, self.row_vector(keep if weights is None else keep * weights)

    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        if not native.takes_gram(self.data, threads()):
            return super().gram(weights, single=single)
        self._ensure_square(self.shape[1])
        self._counter[0] += 1
        return native.gram(self.data, threads(), single=single, weights=weights)

    def kernel(self, *, single: bool = False) -> Array:
        return self.T.gram(single=single)

    def in_float32(self, scale: float, center: Array | None = None) -> Operator | None:
        if self.sparse:  # its products are bound by the indices, not by the numbers
            return None
        if not is_numpy_array(self.data):
            xp = namespace(self.data)
            self._counter[0] += 1
            block = self.data if center is None else self.data - center.T
            return Matrix(xp.astype(block * scale, xp.float32), self._counter)
        if not native.takes_array(self.data):  # NumPy converts more slowly than it multiplies
            return None
        from .affine import Affine

        c = np.zeros(self.shape[1]) if center is None else np.asarray(center, dtype=float)[:, 0]

        def convert(rows: slice, block: Any) -> list[tuple[slice, Any]]:
            return [(rows, ((block - c) * scale).astype(np.float32))]

        return Affine(self, convert, c, scale, np.dtype(np.float32))

    @property
    def like(self) -> Array:
        # A view: nothing is sent to a GPU.
        return super().like if self.sparse else self.data[:0, :0]

    def asarray(self, values: Any) -> Array:
        if self.sparse:
            return super().asarray(values)
        if type(self.data) is np.ndarray and type(values) is np.ndarray:
            return np.asarray(values, dtype=self.dtype)
        # An array stays in its namespace: numpy cannot read one on a GPU.
        values = values if is_array_api_obj(values) else np.asarray(values)
        xp = namespace(self.data)
        return xp.asarray(values, dtype=self.dtype, device=device(self.data))
