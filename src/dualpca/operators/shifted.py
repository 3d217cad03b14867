"""Explicit centring: the centre is subtracted from each block before the products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..linalg import Array, max_abs, to_numpy
from .base import Operator
from .rows import Matrix, RowBlocked


class Shifted(RowBlocked):
    """``X - 1 c^T`` with c subtracted from each block before the products: keeps every digit."""

    def __init__(self, X: RowBlocked, center: Array) -> None:
        super().__init__(X.shape, X.dtype, X._counter)
        self._base = X
        self.asarray = X.asarray  # type: ignore[method-assign]
        # A float64 c is subtracted from float32 rows in two parts: its rounding, the same in every
        # row, would be as large as the spread where the mean is 1e7 times that.
        self.center = X.asarray(center)
        wide = to_numpy(center).astype(float)
        self._rest = X.asarray(wide - to_numpy(self.center))
        self._exact = max_abs(self._rest) == 0

    def single(self, scale: float) -> Operator | None:
        # In float64, where a copy is of use, the centre is exact.
        return self._base.single(scale, self.center) if isinstance(self._base, Matrix) else None

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        for rows, block in self._base.blocks(factor):
            shifted = block - self.center.T
            yield rows, shifted if self._exact else shifted - self._rest.T
