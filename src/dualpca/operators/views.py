"""Operators that are known by products: of SciPy, transposed, of some columns, with row weights."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..linalg import Array, finfo, largest, namespace, to_numpy
from .base import Operator, check_length
from .block_ops import float_type, gathered, scale_rows, take
from .sweep_maps import Reweighting, SweepMap, split

#: A sum of squares keeps this far from the ends of the range of its precision.
RANGE = 2.0**10


class View(Operator):
    """What every wrapper of an operator passes on to the one below it."""

    def __init__(
        self, X: Operator, shape: tuple[int, int] | None = None, dtype: Any = None
    ) -> None:
        self.X = X
        self.shape = X.shape if shape is None else shape
        self.dtype = X.dtype if dtype is None else dtype
        self.implicit = X.implicit
        self.is_distributed = X.is_distributed
        self.read_seconds = X.read_seconds

    @property
    def sparse(self) -> bool:  # type: ignore[override]
        return self.X.sparse

    @property
    def uses_kernels(self) -> bool:  # type: ignore[override]
        return self.X.uses_kernels

    @property
    def takes_rows(self) -> bool:  # type: ignore[override]
        return self.X.takes_rows

    @property
    def entries(self) -> int:
        (N, d), (rows, columns) = self.X.shape, self.shape
        return self.X.entries * rows * columns // max(1, N * d)

    @property
    def removed_energy(self) -> float:  # type: ignore[override]
        return self.X.removed_energy

    @property
    def passes(self) -> int:
        return self.X.passes

    def blas_limited(self) -> AbstractContextManager[Any]:
        return self.X.blas_limited()

    def asarray(self, values: Any) -> Array:
        return self.X.asarray(values)

    def row_vector(self, values: Any, name: str = "the vector") -> Array:
        if self.shape[0] == self.X.shape[0]:
            return self.X.row_vector(values, name)
        return super().row_vector(values, name)

    def persist_rows(self, *arrays: Array) -> tuple[Array, ...]:
        return self.X.persist_rows(*arrays)


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


class Transposed(View):
    """``X^T``. Its sweep by rows of X needs X^T H finished before the first row: two passes over them."""

    takes_rows = False

    def __init__(self, X: Operator) -> None:
        super().__init__(X, (X.shape[1], X.shape[0]))
        self.implicit = False

    @property
    def T(self) -> Operator:
        return self.X

    def matmul(self, W: Array) -> Array:
        return self.X.rmatmul(W)

    def rmatmul(self, H: Array) -> Array:
        return gathered(self.X.matmul(H))

    def sweep(self, W: Array, row_map: SweepMap | None = None) -> Any:
        return gathered(self.X.cosweep(W)) if row_map is None else super().sweep(W, row_map)

    def cosweep(self, W: Array) -> Array:
        return self.X.sweep(W)

    def row_vector(self, values: Any, name: str = "the vector") -> Array:
        return self.asarray(check_length(values, self.shape[0], name))

    def row_norms(self) -> Array:
        return self.asarray(np.sqrt(self.X.column_squares()))

    def energy(self) -> float:
        return self.X.energy()

    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        return self.X.kernel(single=single) if weights is None else super().gram(weights)

    def kernel(self, *, single: bool = False) -> Array:
        return self.X.gram(single=single)


class ColumnsView(View):
    """The columns ``features`` of an operator that is known by its products."""

    takes_rows = False

    def __init__(self, X: Operator, features: np.ndarray) -> None:
        super().__init__(X, (X.shape[0], len(features)))
        self._features = features

    def matmul(self, W: Array) -> Array:
        whole = np.zeros((self.X.shape[1], W.shape[1]))
        np.add.at(whole, self._features, to_numpy(W))
        return self.X.matmul(self.asarray(whole))

    def rmatmul(self, H: Array) -> Array:
        return take(self.X.rmatmul(H), self._features)


class Weighted(View):
    """``Diag(b) X``: rows scaled by b, the B of the paper's IRLS (Appendix D)."""

    def __init__(self, X: Operator, b: Array, energy: float | None = None) -> None:
        super().__init__(X)
        self.b, self._energy = b, energy

    @property
    def grams_by_kernels(self) -> bool:  # type: ignore[override]
        return self.X.grams_by_kernels

    def _scale(self, Y: Array) -> Array:
        return self.b[:, None] * Y

    def matmul(self, W: Array) -> Array:
        return self._scale(self.X.matmul(W))

    def rmatmul(self, H: Array) -> Array:
        return self.X.rmatmul(self._scale(H))

    def sweep(self, W: Array, row_map: SweepMap | None = None) -> Any:
        b = self.b
        if isinstance(row_map, Reweighting) and row_map.shift is None:
            return self.X.sweep(W, row_map.scaled(b))

        def weighted(Y: Array, rows: slice) -> Any:
            scale = b[rows][:, None]
            H, sums = split(row_map(scale * Y, rows)) if row_map else (scale * Y, ())
            return (scale * H, *sums) if sums else scale * H

        return self.X.sweep(W, weighted)

    def take(self, rows: np.ndarray) -> Any:
        return scale_rows(self.X.take(rows), self.b[rows])

    def energy(self) -> float:
        return super().energy() if self._energy is None else self._energy

    def take_columns(self, features: np.ndarray) -> Operator:
        return Weighted(self.X.take_columns(features), self.b)

    def _measure_rows(self) -> Array:
        return self.persist_rows(namespace(self.b).abs(self.b) * self.X.row_norms())[0]

    def _times_squares(self, weights: Array | None) -> Array:
        return self.b**2 if weights is None else self.b**2 * weights

    def column_squares(self, weights: Array | None = None) -> np.ndarray:
        return self.X.column_squares(self._times_squares(weights))

    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        return self.X.gram(self._times_squares(weights), single=single)

    def kernel(self, *, single: bool = False) -> Array:
        b = gathered(self.b)
        return b[:, None] * self.X.kernel(single=single) * b[None, :]

    def todense(self) -> Array:
        return self._scale(self.X.todense())

    def in_float32(self, scale: float) -> Operator | None:
        X = self.X.in_float32(scale)
        return None if X is None else Weighted(X, X.asarray(self.b))


def check_energy(energy: float, X: Operator) -> None:
    """Refuse data whose energy ``||X||_F^2`` is outside the range of its precision, or nearly.

    Variances would overflow, or lose digits below the least normal number.
    """
    info = finfo(X)
    if not energy <= float(info.max) / RANGE:
        size = "large that their squares overflow"
    elif energy >= float(info.smallest_normal) * RANGE or _is_zero(energy, X):
        return
    else:
        size = "small that their squares underflow"
    raise ValueError(f"X has entries so {size} {info.dtype}; divide X by its largest magnitude")


def _is_zero(energy: float, X: Operator) -> bool:
    """Return whether X is 0, by the norms of rows, which do not vanish where their squares do.

    It is also 0 where all of these rows, whose squares are in range, are taken away by a centre.
    """
    while isinstance(X, View) and not X.explicit_rows:
        X = X.X
    if energy != 0:
        return False
    size = largest(X.row_norms())
    return size == 0 or size**2 >= float(finfo(X).smallest_normal) * RANGE
