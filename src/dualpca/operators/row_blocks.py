"""Operators that are read as row blocks, and rows that are functions of the rows of another."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import native
from ..linalg import Array, namespace, to_numpy
from .base import BlockFunction, Operator
from .block_ops import (
    GRAM_FACTOR,
    as_float64,
    block_rows,
    cast,
    dense,
    energy,
    moments,
    multiply,
    multiply_transposed,
    row_norms,
    scale_rows,
    squares,
    stack,
    sum_up,
    take,
    threads,
)
from .sweep_maps import SweepMap, split
from .views import View

#: From ``rows, block`` of one operator to those of another: one or more of them.
BlockMap = Callable[[slice, Any], Iterable[tuple[slice, Any]]]


#: Solvers multiply by at least this many columns.
LEAST_COLUMNS = 16


def swept(rows: slice, block: Any, W: Array, row_map: SweepMap | None) -> tuple[Any, ...]:
    """Return what one block adds to a sweep: ``block^T row_map(block W)`` and the sums of the map."""
    Y = multiply(block, W)
    H, sums = split(row_map(Y, rows)) if row_map else (Y, ())
    return multiply_transposed(block, H), *sums


class RowBlocked(Operator):
    """An operator that is read as row blocks, each once per pass.

    A subclass calls ``__init__`` with its shape and dtype and defines :meth:`blocks`.
    """

    explicit_rows = True

    def __init__(
        self, shape: tuple[int, int], dtype: Any, counter: list[int] | None = None
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self._counter = [0] if counter is None else counter
        #: column_sums() where they are kept, and whether they are exact
        self._moments: tuple[Array, float, bool] | None = None
        #: how many entries are stored, where a pass has counted them
        self._stored: int | None = None

    @abstractmethod
    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]: ...

    @property
    def takes_rows(self) -> bool:  # type: ignore[override]
        return True

    @property
    def uses_kernels(self) -> bool:  # type: ignore[override]
        large = self.entries * LEAST_COLUMNS >= native.LEAST
        return native.native_available() and isinstance(self.dtype, np.dtype) and large

    @property
    def entries(self) -> int:
        return super().entries if self._stored is None else self._stored

    def take(self, rows: np.ndarray) -> Any:
        cuts = (
            (block, *np.searchsorted(rows, [r.start, r.stop]), r.start)
            for r, block in self.read_blocks()
        )
        parts = [take(block, rows[i:j] - first) for block, i, j, first in cuts if i < j]
        return sp.vstack(parts, format="csr") if self.sparse else stack(parts)

    def take_columns(self, features: np.ndarray) -> Operator:
        shape = (self.shape[0], len(features))
        return RowMap(self, shape, lambda rows, block: [(rows, take(block, features, axis=1))])

    def matmul(self, W: Array) -> Array:
        return self.map_rows(lambda rows, block: multiply(block, W), W.shape[1])

    def rmatmul(self, H: Array) -> Array:
        return self.sum_blocks(lambda rows, block: (multiply_transposed(block, H[rows, :]),))[0]

    def sweep(self, W: Array, row_map: SweepMap | None = None) -> Any:
        total = self.sum_blocks(lambda rows, block: swept(rows, block, W, row_map))
        return total if len(total) > 1 else total[0]

    def _measure_rows(self) -> Array:
        return self.map_rows(lambda rows, block: row_norms(block))

    def column_sums(
        self, weights: Array | None = None, *, exact: bool = True, keep: bool = False
    ) -> tuple[Array, float]:
        known = self._moments
        if weights is None and known is not None and known[2] >= exact:
            return known[:2]

        def part(rows: slice, block: Any) -> tuple[Array, float, int]:
            stored = block.nnz if sp.issparse(block) else block.shape[0] * block.shape[1]
            return *moments(block, None if weights is None else weights[rows], exact), stored

        total, energy, self._stored = self.sum_blocks(part)
        if keep:
            self._moments = total, energy, exact
        return total, energy

    def column_squares(self, weights: Array | None = None) -> np.ndarray:
        def part(rows: slice, block: Any) -> tuple[Array]:
            square = squares(as_float64(block))
            if weights is not None:
                square = scale_rows(square, weights[rows])
            if sp.issparse(square):
                return (np.asarray(square.sum(axis=0)).ravel(),)
            return (namespace(square).sum(square, axis=0),)

        return to_numpy(self.sum_blocks(part)[0])

    def forget(self) -> None:
        self._norms = self._moments = self._stored = None

    def energy(self) -> float:
        known = self._moments
        if known is not None:
            return known[1]
        return self.sum_blocks(lambda rows, block: (energy(block),))[0]

    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        self._ensure_square(self.shape[1])
        kind = "float32" if single and not self.sparse else "float64"

        def part(rows: slice, block: Any) -> tuple[Array]:
            if weights is not None:  # half of the products of a matrix with itself are the others
                w = weights[rows]
                block = scale_rows(cast(block, kind), namespace(w).sqrt(w))
            if native.takes_gram(block, threads()):
                return (native.gram(block, threads(), single=kind == "float32"),)
            block = cast(block, kind)
            return (as_float64(dense(block.T @ block)),)

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
        self._ensure_dense()
        return stack([dense(block) for _, block in self.read_blocks()])


class RowMap(View, RowBlocked):
    """Rows that are functions of the rows of X, computed from each block as it is read.

    ``block_map`` may travel to other machines: it must hold no more than it needs.
    """

    def __init__(
        self, X: Operator, shape: tuple[int, int], block_map: BlockMap, dtype: Any = None
    ) -> None:
        RowBlocked.__init__(self, shape, X.dtype if dtype is None else dtype, X._counter)
        View.__init__(self, X, shape, dtype)
        self.explicit_rows = X.explicit_rows
        self._block_map = block_map

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        for rows, block in self.X.blocks(factor):
            yield from self._block_map(rows, block)

    def sum_blocks(self, f: BlockFunction, factor: int = 1) -> tuple[Any, ...]:
        block_map = self._block_map
        return self.X.sum_blocks(
            lambda rows, block: sum_up(f(*part) for part in block_map(rows, block)), factor
        )

    def map_rows(self, f: BlockFunction, columns: int | None = None) -> Array:
        block_map = self._block_map
        return self.X.map_rows(
            lambda rows, block: stack([f(*part) for part in block_map(rows, block)]), columns
        )


class Selected(RowMap):
    """The rows of X where ``keep`` is true: what is left when outliers are dropped."""

    def __init__(self, X: Operator, keep: np.ndarray) -> None:
        keep = np.asarray(keep, dtype=bool)
        before = np.concatenate([[0], np.cumsum(keep)])

        def select(rows: slice, block: Any) -> list[tuple[slice, Any]]:
            chosen = np.nonzero(keep[rows])[0]
            new = slice(int(before[rows.start]), int(before[rows.stop]))
            return [(new, block if len(chosen) == block.shape[0] else take(block, chosen))]

        super().__init__(X, (int(keep.sum()), X.shape[1]), select)
        self._rows = np.flatnonzero(keep)

    def take(self, rows: np.ndarray) -> Any:
        return self.X.take(self._rows[rows])


class Mapped(RowMap):
    """``phi(X)``: each block of rows through a function, such as a feature map, in each pass."""

    sparse = False

    def __init__(self, X: Operator, phi: Callable[[Any], Any], columns: int, dtype: Any) -> None:
        step = block_rows(columns, np.dtype(dtype).itemsize, GRAM_FACTOR)

        def apply(rows: slice, block: Any) -> Iterator[tuple[slice, Any]]:
            for i in range(0, block.shape[0], step):
                part = block[i : i + step]
                yield slice(rows.start + i, rows.start + i + part.shape[0]), phi(part)

        super().__init__(X, (X.shape[0], columns), apply, dtype)

    @property
    def entries(self) -> int:
        return self.shape[0] * self.shape[1]

    # A function of rows costs more for each call than for each row.
    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        return super().blocks(GRAM_FACTOR)

    def sum_blocks(self, f: BlockFunction, factor: int = 1) -> tuple[Any, ...]:
        return super().sum_blocks(f, GRAM_FACTOR)
