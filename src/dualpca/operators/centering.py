"""Centring: implicit by a rank-one correction, explicit block by block, and the choice of these."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..linalg import Array, at_least, cross, gram, is_single, max_abs, namespace, to_numpy
from ..linalg import total as sum_of
from .affine import Affine
from .base import Operator
from .block_ops import as_float64, dense, gathered, scale_rows, take
from .matrix import Matrix
from .row_blocks import RowMap
from .sweep_maps import Reweighting, Shift, SweepMap, split
from .views import View, Weighted

#: A spread below this share of ``N ||mean||^2`` may be the rounding of the mean.
LOST = 1e-8

#: Columns of sparse data with this share of stored entries are centred explicitly. In others the
#: zeros alone leave a spread of a quarter of the mean's square.
FULL = 0.8


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
        A centre that the rows of X have lost already; ``self.center`` is the sum of both.
    weighted_energy : float, optional
        ``sum_i w_i ||x_i - c||^2``, where c is the mean by the weights w.
    """

    def __init__(
        self,
        X: Operator,
        center: Array,
        total: Array | None = None,
        energy: float | None = None,
        before: Array | None = None,
        weighted_energy: float | None = None,
    ) -> None:
        super().__init__(X)
        self.center = center if before is None else center + before
        self._c, self._before = center, before
        self._total = total
        self._energy = energy
        self.weighted_energy = weighted_energy
        self._g: Array | None = None  # X c

    @property
    def removed_energy(self) -> float:  # type: ignore[override]
        return self.shape[0] * float(gram(self._c)[0, 0])

    @property
    def grams_by_kernels(self) -> bool:  # type: ignore[override]
        return self.X.grams_by_kernels

    def energy(self) -> float:
        return super().energy() if self._energy is None else self._energy

    def matmul(self, W: Array) -> Array:
        return self.X.matmul(W) - cross(self._c, W)

    def rmatmul(self, H: Array) -> Array:
        total = gathered(namespace(H).sum(H, axis=0, keepdims=True))
        return self.X.rmatmul(H) - self._c @ total

    def sweep(self, W: Array, row_map: SweepMap | None = None) -> Any:
        shift = cross(self._c, W)
        if row_map is None:
            Z, total = self.X.sweep(W, Shift(shift))
            return Z - self._c @ total
        if isinstance(row_map, Reweighting):
            Z, *sums, total = self.X.sweep(W, row_map.shifted(shift))
            return Z - self._c @ total, *sums, *([] if row_map.shift is None else [total])

        def centred(Y: Array, rows: slice) -> tuple[Any, ...]:
            H, sums = split(row_map(Y - shift, rows))
            return (H, *sums, namespace(H).sum(H, axis=0, keepdims=True))

        Z, *sums, total = self.X.sweep(W, centred)
        Z = Z - self._c @ total
        return (Z, *sums) if sums else Z

    def cosweep(self, W: Array) -> Array:
        if not self.X.takes_strips(W):
            return super().cosweep(W)
        if self._g is None:
            self._g = self.X.matmul(self._c)
        g, total = self._g, namespace(W).sum(W, axis=0, keepdims=True)
        return self.X.cosweep(W) - g @ total - (cross(g, W) - gram(self._c) * total)

    def take(self, rows: np.ndarray) -> Any:
        return dense(self.X.take(rows)) - self._c.T

    def take_columns(self, features: np.ndarray) -> Operator:
        total = None if self._total is None else take(self._total, features)
        return Centered(self.X.take_columns(features), take(self._c, features), total)

    def column_squares(self, weights: Array | None = None) -> np.ndarray:
        total, mass = self._sums(weights)
        c = to_numpy(self._c)[:, 0].astype(float)
        squares = self.X.column_squares(weights) - 2 * c * to_numpy(total)[:, 0] + mass * c**2
        return np.maximum(squares, 0.0)

    def _sums(self, weights: Array | None) -> tuple[Array, float]:
        """Return ``X^T w`` and the sum of w, w = 1 where None: a pass unless they are known."""
        if weights is None and self._total is not None:
            return self._total, float(self.shape[0])
        w = self.row_vector(np.ones(self.shape[0])) if weights is None else weights
        return self.X.rmatmul(w[:, None]), sum_of(w)

    def todense(self) -> Array:
        return self.X.todense() - self._c.T

    def in_float32(self, scale: float) -> Operator | None:
        # Centred before it is rounded.
        return self.X.in_float32(scale, self._c) if isinstance(self.X, Matrix) else None

    def _measure_rows(self) -> Array:
        if self.X.rows_by_kernels:
            return Shifted(self.X, self._c).row_norms()
        projection = self.X.matmul(self._c)[:, 0]
        norms = self.X.row_norms()
        xp = namespace(norms)
        wide = xp.astype(norms, xp.float64, copy=False)  # squares of float32 might overflow
        square = wide**2 - 2 * projection + gram(self._c)[0, 0]
        return self.persist_rows(
            xp.astype(xp.sqrt(at_least(square, 0.0)), norms.dtype, copy=False)
        )[0]

    def _shifted(self) -> Shifted | None:
        """The rows as the kernels that form Gram matrices subtract the center from them."""
        if not self.grams_by_kernels:
            return None
        known = self._c if self._total is None else self._total / self.shape[0]
        return Shifted(self.X, known)

    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        if rows := self._shifted():
            return rows.gram(weights, single=single)
        S = self.X.gram(weights, single=single)
        total, mass = self._sums(weights)
        c, s = as_float64(self._c), as_float64(total)  # as the products of X are
        half = s - (mass / 2) * c
        return S - (c * half.T + half * c.T)  # without BLAS, whose threads would spin

    def kernel(self, *, single: bool = False) -> Array:
        if rows := self._shifted():
            return rows.kernel(single=single)
        K = self.X.kernel(single=single)
        if self._total is not None:  # c is the mean
            xp = namespace(K)
            K = K - xp.mean(K, axis=0, keepdims=True)
            return K - xp.mean(K, axis=1, keepdims=True)
        if self.X.explicit_rows:
            c = as_float64(self._c)
            projection = self.X.map_rows(lambda rows, block: as_float64(block) @ c, 1)
        else:
            c, projection = self._c, self.X.matmul(self._c)
        projection = gathered(projection)
        return K - projection - projection.T + gram(c)


class Shifted(Affine):
    """``X - 1 c^T`` with c subtracted from each block before the products: keeps every digit.

    Sparse blocks stay sparse where c is zero; in the other columns all entries are stored.
    ``remainder`` is a part of c that its float64 has no digits for.
    """

    def __init__(self, X: Operator, center: Array, remainder: Any = 0.0) -> None:
        # A float64 c is subtracted from float32 rows in two parts: its rounding, the same in every
        # row, would be as large as the spread where the mean is 1e7 times that.
        #: c without its remainder, in float64
        self.wide = to_numpy(center).astype(float)[:, 0]
        column = self.wide[:, None]
        self.center = X.asarray(column + remainder)
        high = X.asarray(column)
        low = X.asarray(column - to_numpy(high) + remainder)
        c, high, low, is_rounded = self.wide, high.T, low.T, max_abs(low) > 0

        def subtract(block: Any) -> Any:
            if sp.issparse(block):
                return subtract_from_sparse(block, c)
            return (block - high) - low if is_rounded else block - high

        # The kernels subtract in float64, which has digits to spare for float32 rows only.
        exact = is_single(X) or not is_rounded
        known = to_numpy(column + remainder)[:, 0].astype(float) if exact else None
        super().__init__(X, lambda rows, block: [(rows, subtract(block))], known)

    def in_float32(self, scale: float) -> Operator | None:
        # In float64, where float32 is of use, c is exact, or its remainder below the rounding.
        return self.X.in_float32(scale, self.center) if isinstance(self.X, Matrix) else None


def shifted(X: Operator, c: np.ndarray) -> Operator:
    """Return ``X - 1 c^T``, explicitly; that of a sparse matrix is stored once for all passes."""
    if X.sparse and isinstance(X, Matrix):
        return Matrix(subtract_from_sparse(X.data, c), X._counter)
    return Shifted(X, c[:, None])


def minus_center(X: Operator, center: Array) -> Operator:
    """Return ``X - 1 c^T`` for a vector c: explicit for dense rows, else implicit."""
    column = center[:, None]
    if X.explicit_rows and not X.sparse:
        return Shifted(X, column)
    return Centered(X, X.asarray(column))


def moved(X: Operator, shift: Array) -> Operator:
    """Return ``X - 1 shift^T``, with one correction where X has one already."""
    if isinstance(X, Centered):
        return Centered(X.X, X._c + shift, before=X._before)
    return Centered(X, shift)


def subtract_from_sparse(block: Any, c: np.ndarray) -> Any:
    """Return ``X - 1 c^T`` as CSR, which stores every entry of the columns where c is not 0."""
    n, d = block.shape
    full = np.flatnonzero(c)
    values = (block[:, full].toarray() - c[full]).astype(block.dtype).ravel()
    layout = np.tile(full, n), np.arange(n + 1) * len(full)
    others = sp.diags_array((c == 0).astype(block.dtype), format="csr")
    others.eliminate_zeros()
    return block.tocsr() @ others + sp.csr_array((values, *layout), shape=(n, d))


def centered(X: Operator, weights: Any = None) -> Operator:
    """Return X minus its (weighted) column means, at the digits the data has.

    Implicit (a rank-one correction) where that is accurate. Where the mean is large against the
    spread, the correction would cancel the leading digits of every product; a dense X that is read
    by rows is then centred block by block before each product. For sparse X, only columns with at
    least 80 % stored entries are centred explicitly; the others stay sparse and are corrected
    implicitly. An X that is known by its products is always centred implicitly.
    """
    N = X.shape[0]
    if X.implicit:
        mean = X.rmatmul(X.asarray(np.full((N, 1), 1.0 / N)))
        return Centered(X, mean, mean * float(N))
    single = is_single(X)
    mass = N if weights is None else sum_of(weights)
    for exact in (False, True) if single else (True,):
        total, energy = X.column_sums(weights, exact=exact)
        mean = total / mass
        offset = _removed(mean, mass)
        if offset < 0.1 * energy < np.inf:
            break  # else rounding of the sums might show: once more, exactly
    # The correction keeps eps * offset / spread of relative accuracy: 5e-7 here, 2e-13 in float64.
    spread, limit = max(energy - offset, 0.0), 4.0 if single else 1e3
    if offset > limit * spread and X.explicit_rows:
        return _explicit(X, mean, weights, mass, lost=spread <= LOST * offset)
    return _implicit(X, total, energy, weights, mass)


def _removed(mean: Any, mass: float) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(mass * (mean @ mean))


def _explicit(X: Operator, mean: Any, weights: Any, mass: float, lost: bool) -> Operator:
    """Subtract means that are large against the spread, which rounding may have ``lost``."""
    c = to_numpy(mean).astype(float)
    if lost:  # equal entries are their own mean, which a sum would round
        first = to_numpy(dense(X.take(np.zeros(1, dtype=int))))[0].astype(float)
        c = np.where(np.abs(first - c) <= 1e-12 * np.abs(c), first, c)
    if X.sparse:
        c = np.where(stored_by_column(X) >= FULL * X.shape[0], c, 0.0)
        Xc = shifted(X, c)
        total, energy = Xc.column_sums(weights)
        return _implicit(Xc, total, energy, weights, mass, before=X.asarray(c)[:, None])
    column = c[:, None]
    if not lost:
        return Shifted(X, column)
    total = Shifted(X, column).column_sums(weights)[0]
    return Shifted(X, column, to_numpy(total).astype(float)[:, None] / mass)


def stored_by_column(X: Operator) -> np.ndarray:
    """Return how many entries are stored in each column of sparse rows."""
    d = X.shape[1]
    return X.sum_blocks(lambda rows, block: (np.bincount(block.tocsr().indices, minlength=d),))[0]


def _implicit(
    X: Operator, total: Any, energy: float, weights: Any, mass: float, before: Any = None
) -> Centered:
    mean = total / mass
    energy = max(energy - _removed(mean, mass), 0.0)
    known: dict[str, Any] = {"weighted_energy": energy}
    if weights is None:
        known = {"total": total[:, None], "energy": energy}
    return Centered(X, X.asarray(mean)[:, None], before=before, **known)


def by_weights(X: Operator, weights: Array) -> Operator:
    """Return ``Diag(sqrt(w)) X``, of an X that may be centred at its mean by the weights."""
    energy = X.weighted_energy if isinstance(X, Centered) else None
    return Weighted(X, namespace(weights).sqrt(weights), energy)


def as_rows(X: Operator) -> Operator:
    """Return X, or if X centres or weights explicit rows, the operator of the rows that result."""
    if isinstance(X, Weighted):
        b, rows = X.b, as_rows(X.X)
        if rows.explicit_rows:
            return RowMap(rows, X.shape, lambda r, block: [(r, scale_rows(block, b[r]))])
    if isinstance(X, Centered):
        rows = as_rows(X.X)
        if rows.explicit_rows and not rows.sparse:
            return Shifted(rows, X._c)
    return X
