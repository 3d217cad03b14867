"""Data in rows: dense arrays, scipy.sparse matrices, and sequences of row blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array

from ..linalg import Array, max_abs
from .base import Operator, RowMap, split

#: Rows are swept in blocks of about this size: the second product then reads from the cache, which
#: makes a sweep one pass over memory (measured 0 to 25 % faster than two products, never slower).
BLOCK_BYTES = 4 * 2**20


#: A Gram matrix does d products for each number it reads, and wants blocks this many times larger.
GRAM_FACTOR = 8


def block_rows(columns: int, itemsize: int, factor: int = 1) -> int:
    """Rows of a block of about BLOCK_BYTES, at least 64 so that products stay efficient."""
    return max(64, factor * BLOCK_BYTES // max(1, columns * itemsize))


def as_float(data: Any) -> Any:
    """float32 and float64 data as it is, anything else as float64."""
    if str(data.dtype).rsplit(".", 1)[-1] in ("float32", "float64"):
        return data
    if sp.issparse(data):
        return data.astype(np.float64)
    xp = array_namespace(data)
    return xp.astype(data, xp.float64)


def compressed(data: Any) -> Any:
    """Sparse data of other formats as CSR: only CSR and CSC have fast products and row slices."""
    return data.tocsr() if sp.issparse(data) and data.format not in ("csr", "csc") else data


def as_float64(block: Any) -> Any:
    """The block in float64."""
    if sp.issparse(block):
        return block.astype(np.float64, copy=False)
    xp = array_namespace(block)
    return xp.astype(block, xp.float64, copy=False)


class RowBlocked(Operator):
    """An operator that is read as row blocks, each once per pass."""

    def __init__(
        self, shape: tuple[int, int], dtype: Any, counter: list[int] | None = None
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self._counter = [0] if counter is None else counter

    @abstractmethod
    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        """``(rows, block)`` in order, the block dense or sparse and of the operator's dtype."""

    @property
    def sparse(self) -> bool:
        """Whether the blocks are sparse, so that subtracting from them would densify."""
        return False

    @property
    def passes(self) -> int:
        return self._counter[0]

    def _read(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        self._counter[0] += 1
        return self.blocks(factor)

    def matmul(self, W: Array) -> Array:
        parts = [block @ W for _, block in self._read()]
        return parts[0] if len(parts) == 1 else array_namespace(*parts).concat(parts, axis=0)

    def rmatmul(self, H: Array) -> Array:
        return sum_up(block.T @ H[rows, :] for rows, block in self._read())

    def sweep(self, W: Array, row_map: RowMap | None = None) -> Any:
        Z: Any = None
        sums: tuple[Any, ...] = ()
        for rows, block in self._read():
            Y = block @ W
            H, parts = split(row_map(Y, rows)) if row_map else (Y, ())
            part = block.T @ H
            Z = part if Z is None else Z + part
            sums = tuple(a + b for a, b in zip(sums, parts, strict=True)) if sums else parts
        return (Z, *sums) if sums else Z

    def row_norms(self) -> Array:
        parts = [_row_norms(block) for _, block in self._read()]
        return parts[0] if len(parts) == 1 else array_namespace(*parts).concat(parts, axis=0)

    def column_sums(self) -> tuple[Array, float]:
        """The sum of the rows and ``||X||_F^2``, both accumulated in float64, in one pass."""
        parts = [_moments(block) for _, block in self._read()]
        return sum_up(p[0] for p in parts), sum(p[1] for p in parts)

    def energy(self) -> float:
        return self.column_sums()[1]

    def gram(self, weights: Array | None = None) -> Array:
        """``X^T X`` or ``X^T Diag(weights) X``, summed in float64: squaring costs half the digits."""

        def part(block: Any, rows: slice) -> Array:
            wide = as_float64(block)
            return dense(wide.T @ (wide if weights is None else scale_rows(wide, weights[rows])))

        return sum_up(part(block, rows) for rows, block in self._read(GRAM_FACTOR))

    def kernel(self) -> Array:
        strips = []
        for _, block in self._read(GRAM_FACTOR):
            wide = as_float64(block)
            parts = [dense(wide @ as_float64(other).T) for _, other in self._read(GRAM_FACTOR)]
            strips.append(
                parts[0] if len(parts) == 1 else array_namespace(*parts).concat(parts, axis=1)
            )
        return strips[0] if len(strips) == 1 else array_namespace(*strips).concat(strips, axis=0)

    def todense(self) -> Array:
        """X as one dense array."""
        parts = [dense(block) for _, block in self._read()]
        return parts[0] if len(parts) == 1 else array_namespace(*parts).concat(parts, axis=0)

    def asarray(self, values: Any) -> Array:
        return np.asarray(values, dtype=self.dtype)


class Matrix(RowBlocked):
    """A dense array (numpy, torch, cupy, any array-API namespace) or a scipy.sparse matrix.

    Sparse data is never densified; a dense numpy array is swept in cache-sized row blocks, which are
    views.
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
        super().__init__(tuple(data.shape), self.data.dtype, counter)

    @property
    def sparse(self) -> bool:
        return sp.issparse(self.data)

    @property
    def T(self) -> Operator:
        if self._transpose is None:
            self._transpose = Matrix(self.data.T, self._counter, self)
        return self._transpose

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        N, d = self.shape
        step = N
        if not self.sparse and is_numpy_array(self.data):
            step = block_rows(d, self.data.itemsize, factor)
        if step >= N:
            yield slice(0, N), self.data
            return
        for start in range(0, N, step):
            rows = slice(start, min(start + step, N))
            yield rows, self.data[rows]

    def matmul(self, W: Array) -> Array:
        self._counter[0] += 1
        return self.data @ W

    def rmatmul(self, H: Array) -> Array:
        self._counter[0] += 1
        return self.data.T @ H

    def kernel(self) -> Array:
        return self.T.gram()

    def asarray(self, values: Any) -> Array:
        if self.sparse:
            return np.asarray(values, dtype=self.dtype)
        # An array stays in its namespace: numpy cannot read one on a GPU.
        values = values if is_array_api_obj(values) else np.asarray(values)
        xp = array_namespace(self.data)
        return xp.asarray(values, dtype=self.dtype, device=device(self.data))


class Blocks(RowBlocked):
    """A sequence of row blocks: arrays, memory maps, sparse matrices, or functions that return one.

    Each block is read once per pass; a large array (a memory map, say) is walked in sub-blocks of
    about 4 MB, so that memory stays bounded and nothing is copied or written.
    """

    def __init__(
        self,
        blocks: Sequence[Any],
        *,
        shapes: Sequence[tuple[int, int]] | None = None,
        dtype: Any = None,
    ) -> None:
        if len(blocks) == 0:
            raise ValueError("blocks is empty; give at least one row block")
        self._blocks = [block if callable(block) else compressed(block) for block in blocks]
        if shapes is None:
            found = [_shape_and_dtype(self._load(block)) for block in self._blocks]
            shapes = [shape for shape, _ in found]
            dtype = np.result_type(*(kind for _, kind in found)) if dtype is None else dtype
        elif dtype is None:
            dtype = _shape_and_dtype(self._load(self._blocks[0]))[1]
        if len(shapes) != len(self._blocks):
            raise ValueError(
                f"there are {len(self._blocks)} blocks and {len(shapes)} shapes; "
                "give one shape for each block"
            )
        if len({columns for _, columns in shapes}) > 1:
            raise ValueError(
                f"the row blocks have {sorted({c for _, c in shapes})} columns; "
                "all blocks must have the same columns"
            )
        self._offsets = np.cumsum([0, *(n for n, _ in shapes)])
        super().__init__((int(self._offsets[-1]), int(shapes[0][1])), dtype)

    @property
    def sparse(self) -> bool:
        return sp.issparse(self._load(self._blocks[0]))

    @staticmethod
    def _load(block: Any) -> Any:
        return compressed(block()) if callable(block) else block

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        d = self.shape[1]
        for block, offset in zip(self._blocks, self._offsets[:-1], strict=True):
            data = self._load(block)
            step = (
                data.shape[0] if sp.issparse(data) else block_rows(d, data.dtype.itemsize, factor)
            )
            for start in range(0, data.shape[0], max(step, 1)):
                part = data if step >= data.shape[0] else data[start : start + step]
                if not sp.issparse(part):
                    part = np.asarray(part)
                if part.dtype != self.dtype:
                    part = part.astype(self.dtype)
                yield slice(int(offset) + start, int(offset) + start + part.shape[0]), part


class Shifted(RowBlocked):
    """``X - 1 c^T`` with c subtracted from each block before the products: keeps every digit."""

    def __init__(self, X: RowBlocked, center: Array) -> None:
        super().__init__(X.shape, X.dtype, X._counter)
        self._base = X
        self.asarray = X.asarray  # type: ignore[method-assign]
        # A float64 c is subtracted from float32 rows in two parts: its rounding, the same in every
        # row, would be as large as the spread where the mean is 1e7 times that.
        self.center = X.asarray(center)
        self._rest = X.asarray(center - self.center)
        self._exact = max_abs(self._rest) == 0

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        for rows, block in self._base.blocks(factor):
            shifted = block - self.center.T
            yield rows, shifted if self._exact else shifted - self._rest.T


def _shape_and_dtype(block: Any) -> tuple[tuple[int, int], Any]:
    if len(block.shape) != 2:
        raise ValueError(f"a row block has {len(block.shape)} dimension(s); expected a matrix")
    head = block[:0]
    return (block.shape[0], block.shape[1]), as_float(
        head if sp.issparse(head) else np.asarray(head)
    ).dtype


def sum_up(parts: Iterator[Any]) -> Any:
    """The sum of the parts, from the first on."""
    total = next(parts)
    for part in parts:
        total = total + part
    return total


def dense(S: Any) -> Any:
    """A small product as a dense array."""
    return S.toarray() if sp.issparse(S) else S


def scale_rows(block: Any, weights: Array) -> Any:
    """``Diag(weights) block``."""
    if sp.issparse(block):
        return sp.diags_array(weights) @ block
    return array_namespace(block).astype(weights, block.dtype, copy=False)[:, None] * block


def _row_norms(block: Any) -> Array:
    if sp.issparse(block):
        return np.sqrt(np.asarray(block.multiply(block).sum(axis=1)).ravel())
    xp = array_namespace(block)
    return xp.sqrt(xp.sum(block * block, axis=1))


def _moments(block: Any) -> tuple[Array, float]:
    if sp.issparse(block):
        if not block.has_canonical_format:  # entries stored in parts are squared after summing
            block = block.copy()
            block.sum_duplicates()
        data = np.asarray(block.data, dtype=np.float64)
        return np.asarray(block.sum(axis=0, dtype=np.float64)).ravel(), float(data @ data)
    wide = as_float64(block)
    xp = array_namespace(wide)
    with np.errstate(over="ignore"):  # an infinite energy is refused by whoever asked
        return xp.sum(wide, axis=0), float(xp.sum(wide * wide))
