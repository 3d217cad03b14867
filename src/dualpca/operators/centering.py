"""Explicit centring: the centre is subtracted from each block before the products."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..linalg import Array, max_abs, to_numpy
from .base import Operator
from .row_blocks import Matrix, RowBlocked
from .row_maps import Derived, Turn


class Shifted(Derived):
    """``X - 1 c^T`` with c subtracted from each block before the products: keeps every digit.

    Sparse blocks stay sparse where c is zero; in the other columns all entries are stored. ``rest`` is
    a part of c that its float64 has no digits for.
    """

    def __init__(self, X: RowBlocked, center: Array, rest: Any = 0.0) -> None:
        super().__init__(X, X.shape)
        # A float64 c is subtracted from float32 rows in two parts: its rounding, the same in every
        # row, would be as large as the spread where the mean is 1e7 times that.
        #: c without its rest, in float64
        self.wide = to_numpy(center).astype(float)[:, 0]
        self.center = X.asarray(self.wide[:, None] + rest)
        self._c = X.asarray(self.wide[:, None])
        self._rest = X.asarray(self.wide[:, None] - to_numpy(self._c) + rest)
        self._exact = max_abs(self._rest) == 0

    def float32_copy(self, scale: float) -> Operator | None:
        # In float64, where a copy is of use, the centre is exact, or its rest below the rounding.
        return (
            self._base.float32_copy(scale, self.center) if isinstance(self._base, Matrix) else None
        )

    def _turn(self) -> Turn:
        if self.sparse:
            c = self.wide
            return lambda rows, block: [(rows, filled(block, c))]
        center, rest = self._c.T, None if self._exact else self._rest.T

        def turn(rows: slice, block: Any) -> list[tuple[slice, Any]]:
            shifted = block - center
            return [(rows, shifted if rest is None else shifted - rest)]

        return turn


def shifted(X: RowBlocked, c: np.ndarray) -> RowBlocked:
    """``X - 1 c^T``, explicitly; that of a sparse matrix is stored once for all passes."""
    if X.sparse and isinstance(X, Matrix):
        return Matrix(filled(X.data, c), X._counter)
    return Shifted(X, c[:, None])


def filled(block: Any, c: np.ndarray) -> Any:
    """``X - 1 c^T`` as CSR, for CSR or CSC: every entry is stored in the columns where c is not 0."""
    n, d = block.shape
    full = np.flatnonzero(c)
    values = (block[:, full].toarray() - c[full]).astype(block.dtype).ravel()
    layout = np.tile(full, n), np.arange(n + 1) * len(full)
    kept = sp.diags_array((c == 0).astype(block.dtype), format="csr")
    kept.eliminate_zeros()
    return block.tocsr() @ kept + sp.csr_array((values, *layout), shape=(n, d))
