"""Operators that are known by their products: SciPy's, and the rows of any of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..linalg import Array
from ..linalg import total as sum_of
from .base import Operator
from .block_ops import GRAM_FACTOR, block_rows, float_type, scale_rows
from .centering import Centered, Shifted
from .row_blocks import RowBlocked
from .row_maps import RowMap
from .views import Same, Weighted


class LinearOperatorProducts(Operator):
    """A SciPy ``LinearOperator``; its products are counted as passes."""

    def __init__(self, A: Any) -> None:
        self._A = A
        self.shape = (int(A.shape[0]), int(A.shape[1]))
        self.dtype = float_type(np.float64 if A.dtype is None else A.dtype)

    def matmul(self, W: Array) -> Array:
        return self.asarray(self._A.matmat(W))

    def rmatmul(self, H: Array) -> Array:
        return self.asarray(self._A.rmatmat(H))


class ProductRows(Same, RowBlocked):
    """The rows of an operator that is known by its products, for methods that read row blocks.

    Products are those of X. Rows come from products with columns of the identity, so that reading
    all of them costs as many products as there are blocks.
    """

    explicit_rows = False

    def __init__(self, X: Operator) -> None:
        RowBlocked.__init__(self, X.shape, X.dtype)
        Same.__init__(self, X)

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        N, step = self.shape[0], block_rows(self.shape[1], 8, GRAM_FACTOR)
        for start in range(0, N, step):
            rows = slice(start, min(start + step, N))
            yield rows, self.X.take(np.arange(rows.start, rows.stop))

    def row_norms(self) -> Array:
        if self._norms is None:
            self._norms = self.X.row_norms()
        return self._norms

    def column_sums(
        self, weights: Array | None = None, *, exact: bool = True, keep: bool = False
    ) -> tuple[Array, float]:
        w = self.row_vector(np.ones(self.shape[0])) if weights is None else weights
        norms = self.row_norms()
        return self.X.rmatmul(w[:, None])[:, 0], sum_of(w * norms * norms)


def as_rows(X: Operator) -> RowBlocked:
    """X as an operator that is read by row blocks.

    Centred and weighted row blocks become row maps; sparse ones with a centre, and operators that
    are known by their products, become :class:`ProductRows`.
    """
    if isinstance(X, RowBlocked):
        return X
    if isinstance(X, Weighted):
        b, rows = X.b, as_rows(X.X)
        if rows.explicit_rows:
            return RowMap(rows, X.shape, lambda r, block: [(r, scale_rows(block, b[r]))])
    if isinstance(X, Centered):
        rows = as_rows(X.X)
        if rows.explicit_rows and not rows.sparse:
            return Shifted(rows, X._c)
    return ProductRows(X)
