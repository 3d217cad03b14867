"""Kernels between rows, to the digits that the rows have: also far from 0, and beside huge rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.metrics.pairwise import pairwise_kernels

from ..linalg import to_numpy
from ..operators import Blocks
from ..operators.block_ops import as_float, as_float64, block_rows, dense, row_norms
from ..operators.centering import FULL, stored_by_column, subtract_from_sparse
from ..operators.row_blocks import RowBlocked

#: Rows are shifted where their mean has so many times the energy of their spread.
FAR = 10.0

#: Squared distances from inner products are taken again from differences where rounding, in units of
#: that of the kernel, may have changed the kernel by more than this.
DOUBT = 16.0


def rows_of(X: Any) -> Any:
    """X as an array (a memory map stays one) or in CSR, to be sliced by rows."""
    return X.tocsr() if sp.issparse(X) else np.asarray(X)


def some_rows(X: Any, rows: np.ndarray) -> Any:
    """The rows of X with these sorted indices, in memory."""
    return X.take(rows) if isinstance(X, RowBlocked) else rows_of(X)[rows]


def row_slices(N: int, step: int) -> list[slice]:
    return [slice(i, min(i + step, N)) for i in range(0, N, step)]


def far_origin(X: Any) -> np.ndarray | None:
    """A row about which the rows of X lie, where that is far from 0 against their spread; else None.

    Medians of columns over some rows: entries of X, so that equal rows differ from it by nothing, and
    one huge row does not move it. 0 in columns of sparse data with many zeros, whose mean is never
    large against their spread.
    """
    operator = X if isinstance(X, RowBlocked) else Blocks([rows_of(X)])
    N, d = operator.shape
    with np.errstate(over="ignore", invalid="ignore"):
        total, energy = operator.column_sums(exact="float32" not in str(operator.dtype))
        if not np.isfinite(energy):
            total, energy = operator.column_sums()
        mean = to_numpy(total).astype(float) / N
        offset = N * float(mean @ mean)
        if not offset > FAR * max(energy - offset, 0.0):
            return None
    some = np.linspace(0, N - 1, min(N - 1 + N % 2, 255)).astype(int)
    rows = some_rows(X, some)
    if not operator.sparse:
        return np.median(np.asarray(rows), axis=0)
    full = stored_by_column(operator) >= FULL * N
    origin = np.zeros(d)
    origin[full] = np.median(rows.tocsc()[:, full].toarray(), axis=0)
    return origin


def shifted_rows(X: Any, origin: np.ndarray | None) -> Any:
    """``X - 1 origin^T``; sparse rows stay sparse where the origin is 0."""
    if origin is None:
        return X
    with np.errstate(over="ignore"):  # whoever squares them sees it
        return subtract_from_sparse(X, origin) if sp.issparse(X) else X - origin


def pairwise(
    X: Any, Y: Any, metric: Any = "rbf", origin: np.ndarray | None = None, **params: Any
) -> np.ndarray:
    """``k(X, Y)`` of :func:`sklearn.metrics.pairwise.pairwise_kernels`, of any rows.

    Of rows far from 0 an ``origin`` near them is subtracted from both first, which changes nothing
    but the digits of "rbf", and of "linear" nothing that centring does not take away.
    """
    same, X = Y is X, as_float(rows_of(X))
    Y = X if same else as_float(rows_of(Y))
    if not isinstance(metric, str):
        return _finite(pairwise_kernels(X, Y, metric=metric, **params), metric)
    if metric == "rbf":
        gamma = params.get("gamma")
        gamma = 1 / X.shape[1] if gamma is None else float(gamma)
        return _rbf(X, Y, gamma, origin, params.get("n_jobs"))
    if "chi2" in metric and (sp.issparse(X) or not X.flags.writeable):  # dense copies, by blocks
        blocks = (np.array(dense(X[r])) for r in row_slices(X.shape[0], block_rows(X.shape[1], 8)))
        return np.concatenate([pairwise(b, np.array(dense(Y)), metric, **params) for b in blocks])
    if metric == "cosine":
        X, Y, metric = _units(X), _units(Y), "linear"
    if origin is None:
        parts = [(X, Y)]
    else:
        near = shifted_rows(X, origin)
        cuts = row_slices(Y.shape[0], block_rows(Y.shape[1], 8, 8))
        parts = [(near, shifted_rows(Y[c], origin)) for c in cuts]
    with np.errstate(over="ignore", invalid="ignore"):
        found = [pairwise_kernels(*p, metric=metric, filter_params=True, **params) for p in parts]
    K = found[0] if len(found) == 1 else np.concatenate(found, axis=1)
    return _finite(K.astype(X.dtype, copy=False), metric)  # some are float64 of any rows


def _finite(K: np.ndarray, kernel: Any) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(K.sum()) or np.isfinite(K).all()
    if not finite:
        raise ValueError(
            f"kernel={kernel!r} of the rows of X overflows {K.dtype}, or is not a number; divide X by "
            "its largest magnitude, or take other parameters of the kernel"
        )
    return K


def _units(X: Any) -> Any:
    """Rows of length 1, also where squares of entries overflow or vanish; zero rows stay."""
    norms = row_norms(X)
    norms = np.where(norms > 0, norms, 1).astype(X.dtype, copy=False)
    if not sp.issparse(X):
        return X / norms[:, None]
    unit = X.copy()
    unit.data /= np.repeat(norms, np.diff(X.indptr))
    return unit


def squares(A: Any) -> np.ndarray:
    """``||a||^2`` for each row, finite."""
    with np.errstate(over="ignore"):
        if sp.issparse(A):
            found = np.asarray(A.multiply(A).sum(axis=1)).ravel()
        else:
            found = np.einsum("ij,ij->i", A, A)
    if not found.max(initial=0.0) < np.finfo(float).max / 8:  # so that a distance is finite too
        raise ValueError(
            "X has entries so large that their squares overflow float64; divide X by its largest "
            "magnitude"
        )
    return found


def distances(A: Any, B: Any, a2: np.ndarray, b2: np.ndarray) -> np.ndarray:
    """``||a - b||^2 = ||a||^2 + ||b||^2 - 2 a^T b``, off by the rounding of the squares."""
    D = dense((-2 * A) @ B.T)
    D += a2[:, None]
    D += b2
    return np.maximum(D, 0, out=D)


def again(D: np.ndarray, A: Any, B: Any, doubtful: np.ndarray) -> None:
    """The doubtful squared distances again, from differences: these have all the digits there are."""
    i, j = np.nonzero(doubtful)
    for c in row_slices(len(i), block_rows(A.shape[1], 8)):
        difference = A[i[c]] - B[j[c]]
        D[i[c], j[c]] = squares(difference)


def _rbf(X: Any, Y: Any, gamma: float, origin: np.ndarray | None, n_jobs: int | None) -> np.ndarray:
    """``exp(-gamma ||x - y||^2)`` by blocks, distances in float64; symmetric where Y is X."""
    (N, d), M, same = X.shape, Y.shape[0], Y is X
    K = np.empty((N, M), dtype=np.result_type(X.dtype, Y.dtype))
    info = np.finfo(float)
    # Rounding of the squares may change gamma D by up to gamma (||a||^2 + ||b||^2) times this.
    limit = DOUBT * float(np.finfo(K.dtype).eps) / float(info.eps)
    far = 800 / gamma if gamma > 0 else info.max  # exp(-800) is 0
    cuts = row_slices(N, block_rows(min(M, block_rows(d, 8, 8)), 8))

    def strip(r: slice, c: slice, B: Any, b2: np.ndarray) -> None:
        if same:  # what is above the diagonal is below it
            c = slice(c.start, min(c.stop, r.stop))
            B, b2 = B[: c.stop - c.start], b2[: c.stop - c.start]
        A = shifted_rows(as_float64(X[r]), origin)
        a2 = squares(A)
        D = distances(A, B, a2, b2)
        with np.errstate(over="ignore", invalid="ignore"):
            if gamma * float(a2.max() + b2.max()) > limit:
                size = a2[:, None] + b2
                least = np.clip(D - 32 * info.eps * size, 0, far)
                again(D, A, B, gamma * size * np.exp(-gamma * least) > limit)
        if same:
            low, high = max(r.start, c.start), min(r.stop, c.stop)
            Q = D[low - r.start : high - r.start, low - c.start : high - c.start]
            Q[...] = (Q + Q.T) / 2
            np.fill_diagonal(Q, 0)
        if gamma * float(a2.max() + b2.max()) > 400:
            np.minimum(D, far, out=D)
        D *= -gamma
        np.exp(D.astype(K.dtype, copy=False), out=K[r, c])
        if same:
            K[c, r] = K[r, c].T

    with ThreadPoolExecutor(effective_n_jobs(n_jobs)) as pool:
        for c in row_slices(M, block_rows(d, 8, 8)):
            B = shifted_rows(as_float64(Y[c]), origin)
            b2 = squares(B)
            todo = [r for r in cuts if not same or r.stop > c.start]
            list(pool.map(lambda r, c=c, B=B, b2=b2: strip(r, c, B, b2), todo))
    return K
