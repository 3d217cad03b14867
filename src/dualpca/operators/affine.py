"""Rows that are shifted, scaled and rounded as they are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import native
from ..linalg import Array
from .base import Operator
from .block_ops import threads
from .matrix import Matrix, reweighed
from .row_blocks import RowMap
from .sweep_maps import Reweighting, SweepMap


class Affine(RowMap):
    """``scale (X - 1 c^T)``, computed from the rows of X as they are read.

    ``block_map`` computes it for one block. C kernels do it in float64 for a few rows of a numpy array
    at a time, and round to ``dtype``; ``center`` is c in float64, or None where it has no digits for c.
    """

    def __init__(
        self,
        X: Operator,
        block_map: Any,
        center: np.ndarray | None,
        scale: float = 1.0,
        dtype: Any = None,
    ) -> None:
        super().__init__(X, X.shape, block_map, dtype)
        self._data = X.data if isinstance(X, Matrix) and center is not None else None
        self._given: dict[str, Any] = {"center": center, "scale": scale}

    def asarray(self, values: Any) -> Array:
        array = super().asarray(values)
        return array if self.dtype == self.X.dtype else array.astype(self.dtype)

    def _product(self, kind: int, W: Array) -> Array | None:
        if self._data is None or not native.takes(kind, self._data, W, convert=True):
            return None
        self._counter[0] += 1
        return native.multiply(kind, self._data, W, threads(), **self._given)

    def matmul(self, W: Array) -> Array:
        Y = self._product(native.MATMUL, W)
        return super().matmul(W) if Y is None else Y

    def rmatmul(self, H: Array) -> Array:
        Z = self._product(native.RMATMUL, H)
        return super().rmatmul(H) if Z is None else Z

    def sweep(self, W: Array, row_map: SweepMap | None = None) -> Any:
        if isinstance(row_map, Reweighting) and self._data is not None:
            Z = reweighed(self._data, W, row_map, **self._given)
            self._counter[0] += Z is not None
        else:
            Z = self._product(native.SWEEP, W) if row_map is None else None
        return super().sweep(W, row_map) if Z is None else Z

    def cosweep(self, W: Array) -> Array:
        Z = self._product(native.COSWEEP, W)
        return super().cosweep(W) if Z is None else Z

    def take(self, rows: np.ndarray) -> Any:
        return next(iter(self._block_map(slice(0, len(rows)), self.X.take(rows))))[1]

    @property
    def rows_by_kernels(self) -> bool:  # type: ignore[override]
        return self.uses_kernels and self._data is not None and native.takes_array(self._data)

    def _measure_rows(self) -> Array:
        data = self._data if self.rows_by_kernels else None
        norms = None if data is None else native.row_norms(data, threads(), **self._given)
        if norms is None:
            return super()._measure_rows()
        self._counter[0] += 1
        return norms.astype(self.dtype, copy=False)

    def _square(self, *, by_row: bool, single: bool, weights: Array | None = None) -> Array | None:
        """Return the Gram matrix of the rows, or of the columns: the kernels shift either."""
        data = None if self._data is None else self._data.T if by_row else self._data
        if data is None or not native.takes_gram(data, threads()):
            return None
        self._ensure_square(data.shape[1])
        self._counter[0] += 1
        single = single or self.dtype != self.X.dtype
        given = {**self._given, "by_row": by_row, "weights": weights}
        return native.gram(data, threads(), single=single, **given)

    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        S = self._square(by_row=False, single=single, weights=weights)
        return super().gram(weights, single=single) if S is None else S

    def kernel(self, *, single: bool = False) -> Array:
        K = self._square(by_row=True, single=single)
        return super().kernel(single=single) if K is None else K
