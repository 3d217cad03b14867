"""Data in rows: dense arrays, scipy.sparse matrices, and sequences of row blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array

from .._memory import ensure
from ..linalg import Array
from ..progress import reading
from .base import Operator, RowMap, Transposed, split
from .block_ops import (
    GRAM_FACTOR,
    THREADED,
    THREADED_COLUMNS,
    THREADED_PRODUCTS,
    as_float,
    as_float64,
    block_rows,
    cast,
    check_sound,
    compressed,
    dense,
    energy,
    moments,
    one_blas_thread,
    row_norms,
    row_parts,
    scale_rows,
    stack,
    sum_up,
    take,
    threads,
)

BlockMap = Callable[[slice, Any], Any]


class RowBlocked(Operator):
    """An operator that is read as row blocks, each once per pass."""

    def __init__(
        self, shape: tuple[int, int], dtype: Any, counter: list[int] | None = None
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self._counter = [0] if counter is None else counter
        self._norms: Array | None = None
        #: column_sums() where they are kept, and whether they are exact
        self._moments: tuple[Array, float, bool] | None = None
        #: whether a pass has found all entries finite
        self._finite = False

    @abstractmethod
    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        """``(rows, block)`` in order, the block dense or sparse and of the operator's dtype."""

    @property
    def passes(self) -> int:
        return self._counter[0]

    def read_blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        self._counter[0] += 1
        return reading(self.blocks(factor), self.shape[0])

    def _each(self, f: BlockMap, factor: int = 1) -> Iterable[Any]:
        """``f(rows, block)`` for each block, in order."""

        def sound(rows: slice, block: Any) -> Any:
            found = f(rows, block)
            if self._finite:
                check_sound(found, block)
            return found

        return (sound(rows, block) for rows, block in self.read_blocks(factor))

    def sum_blocks(self, f: BlockMap, factor: int = 1) -> tuple[Any, ...]:
        """The sums of what the tuples ``f(rows, block)`` hold, over the blocks."""
        return sum_up(self._each(f, factor))

    def map_rows(self, f: BlockMap, columns: int | None = None) -> Array:
        """``f(rows, block)`` below each other: as many rows as the block, of so many columns or 1-D."""
        return stack(list(self._each(f)))

    def take(self, rows: np.ndarray) -> Any:
        """The rows with these sorted indices, as one array or CSR matrix in memory."""
        cuts = (
            (block, *np.searchsorted(rows, [r.start, r.stop]), r.start)
            for r, block in self.read_blocks()
        )
        found = [take(block, rows[i:j] - first) for block, i, j, first in cuts if i < j]
        return sp.vstack(found, format="csr") if self.sparse else stack(found)

    def row_vector(self, values: Any) -> Array:
        """A number for each row, as an array of the data's kind, dtype and device."""
        return self.asarray(values)

    def matmul(self, W: Array) -> Array:
        return self.map_rows(lambda rows, block: block @ W, W.shape[1])

    def rmatmul(self, H: Array) -> Array:
        return self.sum_blocks(lambda rows, block: (block.T @ H[rows, :],))[0]

    def sweep(self, W: Array, row_map: RowMap | None = None) -> Any:
        def part(rows: slice, block: Any) -> tuple[Any, ...]:
            Y = block @ W
            H, sums = split(row_map(Y, rows)) if row_map else (Y, ())
            return block.T @ H, *sums

        total = self.sum_blocks(part)
        return total if len(total) > 1 else total[0]

    def rowwise(self, W: Array, f: RowMap) -> Array:
        return self.map_rows(lambda rows, block: f(block @ W, rows))

    def row_norms(self) -> Array:
        norms = self._norms  # another thread may forget them
        if norms is None:
            norms = self._norms = self.map_rows(lambda rows, block: row_norms(block))
        return norms

    def column_sums(
        self, weights: Array | None = None, *, exact: bool = True, keep: bool = False
    ) -> tuple[Array, float]:
        """``sum_i w_i x_i`` and ``sum_i w_i ||x_i||^2`` in one pass, w = 1 where None.

        Summed over the blocks in float64; within a block too where ``exact``, else in the data's
        precision, which leaves an error of about 10 eps. ``keep`` spares those who ask again a pass.
        """

        known = self._moments
        if weights is None and known is not None and known[2] >= exact:
            return known[:2]

        def part(rows: slice, block: Any) -> tuple[Array, float]:
            return moments(block, None if weights is None else weights[rows], exact)

        total, energy = self.sum_blocks(part)
        self._finite = self._finite or (weights is None and bool(np.isfinite(energy)))
        if keep:
            self._moments = total, energy, exact
        return total, energy

    def forget(self) -> None:
        """Drop what was kept of earlier passes: the data may have changed since."""
        self._norms = self._moments = None
        self._finite = False

    def energy(self) -> float:
        known = self._moments
        if known is not None:
            return known[1]
        return self.sum_blocks(lambda rows, block: (energy(block),))[0]

    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        """``X^T X`` or ``X^T Diag(weights) X``, summed over the blocks in float64.

        Squaring costs half the digits, so that the products are in float64 as well; ``single`` has
        them in float32, twice as fast and off by about eps of the trace. Those of sparse rows, added
        one by one, would be off by much more, and are always in float64.
        """
        self._ensure_square(self.shape[1])
        kind = "float32" if single and not self.sparse else "float64"

        def part(rows: slice, block: Any) -> tuple[Array]:
            block = cast(block, kind)
            other = block if weights is None else scale_rows(block, weights[rows])
            return (as_float64(dense(block.T @ other)),)

        return self.sum_blocks(part, GRAM_FACTOR)[0]

    def kernel(self, *, single: bool = False) -> Array:
        self._ensure_square(self.shape[0])
        kind = "float32" if single and not self.sparse else "float64"

        def strip(block: Any) -> Array:
            products = (
                cast(block, kind) @ cast(other, kind).T
                for _, other in self.read_blocks(GRAM_FACTOR)
            )
            return stack([as_float64(dense(product)) for product in products], axis=1)

        return stack([strip(block) for _, block in self.read_blocks(GRAM_FACTOR)])

    def todense(self) -> Array:
        """X as one dense array."""
        (N, d), itemsize = self.shape, np.dtype(str(self.dtype).rsplit(".", 1)[-1]).itemsize
        self._ensure(
            N * d * itemsize,
            f"the entries of X, {N:,} x {d:,}, in one dense array",
            "give fewer rows or columns, or take a solver that reads X by blocks, such as 'krylov'",
        )
        return stack([dense(block) for _, block in self.read_blocks()])

    def _ensure_square(self, n: int) -> None:
        """Refuse a Gram matrix and its eigenvectors, in float64, where memory has no room for them."""
        self._ensure(
            16 * n * n,
            f"a Gram matrix of {n:,} x {n:,} and its eigenvectors",
            "take a solver that needs none, such as 'krylov', or fewer columns or rows",
        )

    def _ensure(self, nbytes: int, what: str, remedy: str) -> None:
        ensure(nbytes, what, remedy, self.like)

    def asarray(self, values: Any) -> Array:
        return np.asarray(values, dtype=self.dtype)


class Matrix(RowBlocked):
    """A dense array (numpy, torch, cupy, any array-API namespace) or a scipy.sparse matrix.

    Sparse data is never densified; CSR rows are multiplied in as many parts as there are threads. A
    dense numpy array is swept in cache-sized row blocks. All of these are views.
    """

    def __init__(
        self, data: Any, counter: list[int] | None = None, transpose: Matrix | None = None
    ) -> None:
        if data.ndim != 2:
            raise ValueError(
                f"X has {data.ndim} dimension(s); expected a matrix, N rows by d columns"
            )
        self.data = as_float(compressed(data))
        self._transpose = transpose
        self._parts: list[tuple[slice, Any]] | None = None
        super().__init__(tuple(data.shape), self.data.dtype, counter)

    @property
    def sparse(self) -> bool:
        return sp.issparse(self.data)

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

    def _each(self, f: BlockMap, factor: int = 1) -> Iterable[Any]:
        if not self.sparse:
            return super()._each(f, factor)
        parts = list(self.read_blocks(factor))
        if len(parts) == 1:
            return [f(*parts[0])]
        with ThreadPoolExecutor(len(parts)) as pool:
            return list(pool.map(lambda part: f(*part), parts))

    def take(self, rows: np.ndarray) -> Any:
        return take(self.data.tocsr() if self._columns else self.data, rows)

    def blas_limited(self) -> AbstractContextManager[Any]:
        threaded = self.data.nnz >= THREADED if self.sparse else self._few_columns
        return one_blas_thread() if threaded else nullcontext()

    @property
    def _few_columns(self) -> bool:
        N, d = self.shape
        few = d <= THREADED_COLUMNS and N * d * d >= THREADED_PRODUCTS
        return few and not self.sparse and is_numpy_array(self.data)

    def sum_blocks(self, f: BlockMap, factor: int = 1) -> tuple[Any, ...]:
        count = min(threads(), self.shape[0])
        if factor == 1 or count == 1 or not self._few_columns:
            return super().sum_blocks(f, factor)
        self._counter[0] += 1
        step = block_rows(self.shape[1], self.data.itemsize, factor)

        def span(start: int, stop: int) -> Any:
            slices = (slice(i, min(i + step, stop)) for i in range(start, stop, step))
            return sum_up(f(rows, self.data[rows]) for rows in slices)

        cuts = [i * self.shape[0] // count for i in range(count + 1)]
        with one_blas_thread(), ThreadPoolExecutor(count) as pool:
            return sum_up(pool.map(span, cuts[:-1], cuts[1:]))

    @property
    def _columns(self) -> bool:
        """Whether the data is stored by columns, so that its threads work on the transpose."""
        return self.sparse and self.data.format == "csc"

    def matmul(self, W: Array) -> Array:
        if self.sparse:
            return self.T.rmatmul(W) if self._columns else super().matmul(W)
        self._counter[0] += 1
        return self.data @ W

    def rmatmul(self, H: Array) -> Array:
        if self.sparse:
            return self.T.matmul(H) if self._columns else super().rmatmul(H)
        self._counter[0] += 1
        return self.data.T @ H

    def sweep(self, W: Array, row_map: RowMap | None = None) -> Any:
        if not self._columns:
            return super().sweep(W, row_map)
        total = Transposed(self.T).sweep(W, row_map)
        self._counter[0] -= 1  # the two products are one sweep
        return total

    def kernel(self, *, single: bool = False) -> Array:
        return self.T.gram(single=single)

    def float32_copy(self, scale: float, center: Array | None = None) -> Operator | None:
        if self.sparse:  # its products are bound by the indices, not by the numbers
            return None
        xp = array_namespace(self.data)
        copy = xp.empty(self.shape, dtype=xp.float32, device=device(self.data))
        self._counter[0] += 1
        for rows, block in self.blocks():  # only a block at a time exists in float64 twice
            block = block if center is None else block - center.T
            copy[rows, :] = xp.astype(block * scale, xp.float32)
        return Matrix(copy, self._counter)

    def asarray(self, values: Any) -> Array:
        if self.sparse:
            return np.asarray(values, dtype=self.dtype)
        # An array stays in its namespace: numpy cannot read one on a GPU.
        values = values if is_array_api_obj(values) else np.asarray(values)
        xp = array_namespace(self.data)
        return xp.asarray(values, dtype=self.dtype, device=device(self.data))
