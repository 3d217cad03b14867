"""Views of an operator: centred rows, weighted rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linalg import Array, cross, gram, namespace
from ..linalg import total as sum_of
from .base import Operator, RowMap, View, split
from .block_ops import as_float64
from .row_blocks import Matrix, RowBlocked


class Centered(View):
    """``X - 1 c^T``: a rank-one correction, so sparse data stays sparse and a kernel stays a kernel.

    Parameters
    ----------
    X : Operator
    center : thin factor with one column
        c, in the space of the rows: a ``d x 1`` array, or an implicit one for a kernel.
    total : thin factor with one column, optional
        ``X^T 1`` where it is known (N c for the mean); else :meth:`gram` takes a pass to find it.
    energy : float, optional
        ``||X - 1 c^T||_F^2`` where it is known.
    before : thin factor with one column, optional
        What the rows of X have lost already; ``center`` is the sum of both.
    """

    def __init__(
        self,
        X: Operator,
        center: Array,
        total: Array | None = None,
        energy: float | None = None,
        before: Array | None = None,
    ) -> None:
        super().__init__(X)
        self.center = center if before is None else center + before
        self._c = center
        self._total = total
        self._energy = energy

    @property
    def removed_energy(self) -> float:
        return self.shape[0] * float(gram(self._c)[0, 0])

    def energy(self) -> float:
        return super().energy() if self._energy is None else self._energy

    def matmul(self, W: Array) -> Array:
        return self.X.matmul(W) - cross(self._c, W)

    def rmatmul(self, H: Array) -> Array:
        total = self.gather(namespace(H).sum(H, axis=0, keepdims=True))
        return self.X.rmatmul(H) - self._c @ total

    def sweep(self, W: Array, row_map: RowMap | None = None) -> Any:
        shift = cross(self._c, W)

        def centred(Y: Array, rows: slice) -> tuple[Any, ...]:
            H, sums = split(row_map(Y - shift, rows)) if row_map else (Y - shift, ())
            return (H, *sums, namespace(H).sum(H, axis=0, keepdims=True))

        Z, *sums, total = self.X.sweep(W, centred)
        Z = Z - self._c @ total
        return (Z, *sums) if sums else Z

    def rowwise(self, W: Array, f: RowMap) -> Array:
        shift = cross(self._c, W)
        return self.X.rowwise(W, lambda Y, rows: f(Y - shift, rows))

    def todense(self) -> Array:
        return self.X.todense() - self._c.T

    def float32_copy(self, scale: float) -> Operator | None:
        # Centred before it is rounded.
        return self.X.float32_copy(scale, self._c) if isinstance(self.X, Matrix) else None

    def row_norms(self) -> Array:
        if self.is_distributed:
            projection = self.X.rowwise(self._c, lambda Y, rows: Y[:, 0])
        else:
            projection = self.X.matmul(self._c)[:, 0]
        norms = self.X.row_norms()
        xp = namespace(norms)
        wide = xp.astype(norms, xp.float64, copy=False)  # squares of float32 might overflow
        square = wide**2 - 2 * projection + gram(self._c)[0, 0]
        return self.persist_rows(
            xp.astype(xp.sqrt(xp.clip(square, 0.0, None)), norms.dtype, copy=False)
        )[0]

    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        S = self.X.gram(weights, single=single)
        if self._total is None or weights is not None:
            w = self.asarray(np.ones(self.shape[0])) if weights is None else weights
            total, mass = self.X.rmatmul(w[:, None]), sum_of(w)
        else:
            total, mass = self._total, float(self.shape[0])
        c, s = as_float64(self._c), as_float64(total)  # as the products of X are
        return S - c @ s.T - s @ c.T + mass * (c @ c.T)

    def kernel(self, *, single: bool = False) -> Array:
        K = self.X.kernel(single=single)
        if self._total is not None:  # c is the mean
            xp = namespace(K)
            K = K - xp.mean(K, axis=0, keepdims=True)
            return K - xp.mean(K, axis=1, keepdims=True)
        if isinstance(self.X, RowBlocked):
            c = as_float64(self._c)
            projection = self.X.map_rows(lambda rows, block: as_float64(block) @ c, 1)
        else:
            c, projection = self._c, self.X.matmul(self._c)
        projection = self.gather(projection)
        return K - projection - projection.T + gram(c)


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

    def sweep(self, W: Array, row_map: RowMap | None = None) -> Any:
        b = self.b

        def weighted(Y: Array, rows: slice) -> Any:
            scale = b[rows][:, None]
            H, sums = split(row_map(scale * Y, rows)) if row_map else (scale * Y, ())
            return (scale * H, *sums) if sums else scale * H

        return self.X.sweep(W, weighted)

    def rowwise(self, W: Array, f: RowMap) -> Array:
        b = self.b
        return self.X.rowwise(W, lambda Y, rows: f(b[rows][:, None] * Y, rows))

    def row_norms(self) -> Array:
        return self.persist_rows(namespace(self.b).abs(self.b) * self.X.row_norms())[0]

    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        b2 = self.b**2
        return self.X.gram(b2 if weights is None else b2 * weights, single=single)

    def kernel(self, *, single: bool = False) -> Array:
        b = self.gather(self.b)
        return b[:, None] * self.X.kernel(single=single) * b[None, :]

    def todense(self) -> Array:
        return self._scale(self.X.todense())

    def float32_copy(self, scale: float) -> Operator | None:
        X = self.X.float32_copy(scale)
        return None if X is None else Weighted(X, X.asarray(self.b))
