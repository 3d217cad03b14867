"""Weighted rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linalg import Array, namespace
from .base import Operator, SweepMap, View, split
from .block_ops import scale_rows


class Weighted(View):
    """``Diag(b) X``: rows scaled by b, the B of the paper's IRLS (Appendix D)."""

    def __init__(self, X: Operator, b: Array) -> None:
        super().__init__(X)
        self.b = b

    def _scale(self, Y: Array) -> Array:
        return self.b[:, None] * Y

    def matmul(self, W: Array) -> Array:
        return self._scale(self.X.matmul(W))

    def rmatmul(self, H: Array) -> Array:
        return self.X.rmatmul(self._scale(H))

    def sweep(self, W: Array, row_map: SweepMap | None = None) -> Any:
        b = self.b

        def weighted(Y: Array, rows: slice) -> Any:
            scale = b[rows][:, None]
            H, sums = split(row_map(scale * Y, rows)) if row_map else (scale * Y, ())
            return (scale * H, *sums) if sums else scale * H

        return self.X.sweep(W, weighted)

    def rowwise(self, W: Array, f: SweepMap) -> Array:
        b = self.b
        return self.X.rowwise(W, lambda Y, rows: f(b[rows][:, None] * Y, rows))

    def take(self, rows: np.ndarray) -> Any:
        return scale_rows(self.X.take(rows), self.b[rows])

    def take_columns(self, features: np.ndarray) -> Operator:
        return Weighted(self.X.take_columns(features), self.b)

    def row_norms(self) -> Array:
        return self.persist_rows(namespace(self.b).abs(self.b) * self.X.row_norms())[0]

    def _times_squares(self, weights: Array | None) -> Array:
        return self.b**2 if weights is None else self.b**2 * weights

    def column_squares(self, weights: Array | None = None) -> np.ndarray:
        return self.X.column_squares(self._times_squares(weights))

    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        return self.X.gram(self._times_squares(weights), single=single)

    def kernel(self, *, single: bool = False) -> Array:
        b = self.gather(self.b)
        return b[:, None] * self.X.kernel(single=single) * b[None, :]

    def todense(self) -> Array:
        return self._scale(self.X.todense())

    def float32_copy(self, scale: float) -> Operator | None:
        X = self.X.float32_copy(scale)
        return None if X is None else Weighted(X, X.asarray(self.b))
