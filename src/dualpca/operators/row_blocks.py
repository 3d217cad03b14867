"""Operators that are read as row blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace

from ..linalg import Array, to_numpy
from ..progress import reading
from .base import Operator, SweepMap, split
from .block_ops import (
    GRAM_FACTOR,
    as_float64,
    cast,
    dense,
    energy,
    moments,
    row_norms,
    scale_rows,
    stack,
    sum_up,
    take,
)

#: A function of ``rows, block``: the slice that a block is of all rows, and the block.
BlockFunction = Callable[[slice, Any], Any]


class RowBlocked(Operator):
    """An operator that is read as row blocks, each once per pass.

    A subclass calls ``__init__`` with its shape and dtype and defines :meth:`blocks`.
    """

    #: whether reading all blocks costs one pass, so that the rows may be changed before products
    explicit_rows: bool = True

    def __init__(
        self, shape: tuple[int, int], dtype: Any, counter: list[int] | None = None
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self._counter = [0] if counter is None else counter
        self._norms: Array | None = None
        #: column_sums() where they are kept, and whether they are exact
        self._moments: tuple[Array, float, bool] | None = None
        #: how many entries are stored, where a pass has counted them
        self._stored: int | None = None
        #: whether a pass has found all entries finite
        self._finite = False

    @abstractmethod
    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        """``(rows, block)`` in order, the block dense or sparse and of the operator's dtype.

        A ``factor`` above 1 asks for blocks that are so many times larger than the cache.
        """

    @property
    def passes(self) -> int:
        return self._counter[0]

    @property
    def entries(self) -> int:
        return super().entries if self._stored is None else self._stored

    def read_blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        """The blocks, as a pass that is counted and reported."""
        self._counter[0] += 1
        return reading(self.blocks(factor), self.shape[0])

    def _each(self, f: BlockFunction, factor: int = 1) -> Iterable[Any]:
        """``f(rows, block)`` for each block, in order."""
        return (f(rows, block) for rows, block in self.read_blocks(factor))

    def sum_blocks(self, f: BlockFunction, factor: int = 1) -> tuple[Any, ...]:
        """The sums over the blocks of what the tuples ``f(rows, block)`` hold."""
        return self._checked(sum_up(self._each(f, factor)))

    def map_rows(self, f: BlockFunction, columns: int | None = None) -> Array:
        """``f(rows, block)`` below each other: a row for each row, of ``columns`` numbers or one."""
        return self._checked((stack(list(self._each(f))),))[0]

    def _checked(self, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """Refuse the results of a pass if X now holds NaN, which it did not when it was first read."""
        numbers = [array for array in results if isinstance(array, np.ndarray)]
        with np.errstate(over="ignore", invalid="ignore"):
            if not self._finite or all(np.isfinite(np.sum(array)) for array in numbers):
                return results
        for _, block in self.blocks():
            if not np.isfinite(block.data if sp.issparse(block) else block).all():
                raise ValueError(
                    "X contains NaN or infinity, which it did not when the fit began; let nothing "
                    "write to it, and fit again"
                )
        return results

    def take(self, rows: np.ndarray) -> Any:
        cuts = (
            (block, *np.searchsorted(rows, [r.start, r.stop]), r.start)
            for r, block in self.read_blocks()
        )
        parts = [take(block, rows[i:j] - first) for block, i, j, first in cuts if i < j]
        return sp.vstack(parts, format="csr") if self.sparse else stack(parts)

    def take_columns(self, features: np.ndarray) -> Operator:
        from .row_maps import Columns

        return Columns(self, features)

    def select(self, keep: Any, weights: Any = None) -> tuple[RowBlocked, Array | None]:
        """The rows where ``keep`` is true, and their weights.

        Distributed rows all stay where they are; those that are not kept weigh nothing.
        """
        from .row_maps import Selected

        if self.is_distributed:
            return self, self.row_vector(keep if weights is None else keep * weights)
        keep = to_numpy(keep)
        chosen = None if weights is None else self.asarray(to_numpy(weights)[keep])
        return Selected(self, keep), chosen

    def matmul(self, W: Array) -> Array:
        return self.map_rows(lambda rows, block: block @ W, W.shape[1])

    def rmatmul(self, H: Array) -> Array:
        return self.sum_blocks(lambda rows, block: (block.T @ H[rows, :],))[0]

    def sweep(self, W: Array, row_map: SweepMap | None = None) -> Any:
        def part(rows: slice, block: Any) -> tuple[Any, ...]:
            Y = block @ W
            H, sums = split(row_map(Y, rows)) if row_map else (Y, ())
            return block.T @ H, *sums

        total = self.sum_blocks(part)
        return total if len(total) > 1 else total[0]

    def row_norms(self) -> Array:
        norms = self._norms  # another thread may forget them
        if norms is None:
            norms = self._norms = self.map_rows(lambda rows, block: row_norms(block))
        return norms

    def column_sums(
        self, weights: Array | None = None, *, exact: bool = True, keep: bool = False
    ) -> tuple[Array, float]:
        """``sum_i w_i x_i`` and ``sum_i w_i ||x_i||^2`` in one pass, w = 1 where None.

        Blocks are summed in float64; the rows of a block too where ``exact``, else in the data's
        precision, which leaves an error of about 10 eps. ``keep`` spares later calls the pass.
        """
        known = self._moments
        if weights is None and known is not None and known[2] >= exact:
            return known[:2]

        def part(rows: slice, block: Any) -> tuple[Array, float, int]:
            stored = block.nnz if sp.issparse(block) else block.shape[0] * block.shape[1]
            return *moments(block, None if weights is None else weights[rows], exact), stored

        total, energy, self._stored = self.sum_blocks(part)
        self._finite = self._finite or (weights is None and bool(np.isfinite(energy)))
        if keep:
            self._moments = total, energy, exact
        return total, energy

    def column_squares(self, weights: Array | None = None) -> np.ndarray:
        def part(rows: slice, block: Any) -> tuple[Array]:
            block = as_float64(block)
            square = block.multiply(block) if sp.issparse(block) else block * block
            if weights is not None:
                square = scale_rows(square, weights[rows])
            if sp.issparse(square):
                return (np.asarray(square.sum(axis=0)).ravel(),)
            return (array_namespace(square).sum(square, axis=0),)

        return to_numpy(self.sum_blocks(part)[0])

    def forget(self) -> None:
        """Drop what was kept of earlier passes, since the data may have changed."""
        self._norms = self._moments = self._stored = None
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
        self._ensure_dense()
        return stack([dense(block) for _, block in self.read_blocks()])
