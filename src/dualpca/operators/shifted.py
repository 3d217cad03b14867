"""Explicit centring: the centre is subtracted from each block before the products."""

from __future__ import annotations

from typing import Any

from ..linalg import Array, max_abs, to_numpy
from .base import Operator
from .derived import Derived, Turn
from .rows import Matrix, RowBlocked


class Shifted(Derived):
    """``X - 1 c^T`` with c subtracted from each block before the products: keeps every digit."""

    def __init__(self, X: RowBlocked, center: Array) -> None:
        super().__init__(X, X.shape)
        # A float64 c is subtracted from float32 rows in two parts: its rounding, the same in every
        # row, would be as large as the spread where the mean is 1e7 times that.
        self.center = X.asarray(center)
        wide = to_numpy(center).astype(float)
        self._rest = X.asarray(wide - to_numpy(self.center))
        self._exact = max_abs(self._rest) == 0

    @property
    def sparse(self) -> bool:
        return False

    def single(self, scale: float) -> Operator | None:
        # In float64, where a copy is of use, the centre is exact.
        return self._base.single(scale, self.center) if isinstance(self._base, Matrix) else None

    def _turn(self) -> Turn:
        center, rest = self.center.T, None if self._exact else self._rest.T

        def turn(rows: slice, block: Any) -> list[tuple[slice, Any]]:
            shifted = block - center
            return [(rows, shifted if rest is None else shifted - rest)]

        return turn
