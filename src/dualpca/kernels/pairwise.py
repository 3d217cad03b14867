"""Kernels between rows, to the digits that the rows have, also far from 0; and their bandwidths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from sklearn.metrics.pairwise import pairwise_kernels

from ..linalg import to_numpy
from ..operators import Operator, as_operator
from ..operators.block_ops import as_float, as_float64, block_rows, dense, moments, row_norms, stack
from ..operators.centering import FULL, stored_by_column
from ..preprocessing.columns import is_finite
from .distances import distances, rbf, refine_distances, row_slices, shifted_rows, squares

#: The kernels that have a name.
KERNELS = (
    *("linear", "poly", "polynomial", "rbf", "laplacian", "sigmoid", "cosine"),
    *("chi2", "additive_chi2", "precomputed"),
)

#: Rows are shifted where their mean has this many times the energy of their deviations from it.
SHIFT_RATIO = 10.0


def row_array(X: Any) -> Any:
    """Return X as an array (a memory map stays one) or in CSR, to be sliced by rows."""
    return X.tocsr() if sp.issparse(X) else np.asarray(X)


def row_operator(X: Any) -> Operator:
    """Return the operator that reads the rows of X, an array, a sparse matrix or an operator."""
    return as_operator(X.tocsr() if sp.issparse(X) else X)


def origin_near_rows(X: Any) -> np.ndarray | None:
    """Return a row amid the rows of X if these lie far from 0 against their spread; else None.

    It has the medians of the columns over at most 255 rows. These are entries of X, so that equal rows
    differ from it by nothing, and one huge row does not move it. It is 0 in columns of sparse data with
    many zeros, whose mean is never large against their spread.
    """
    operator = row_operator(X)
    N, d = operator.shape
    with np.errstate(over="ignore", invalid="ignore"):
        total, energy = operator.column_sums(exact="float32" not in str(operator.dtype))
        if not np.isfinite(energy):
            total, energy = operator.column_sums()
        mean = to_numpy(total).astype(float) / N
        offset = N * float(mean @ mean)
        if not offset > SHIFT_RATIO * max(energy - offset, 0.0):
            return None
    sample = operator.take(np.linspace(0, N - 1, min(N - 1 + N % 2, 255)).astype(int))
    if not operator.sparse:
        return np.median(np.asarray(sample), axis=0)
    full = stored_by_column(operator) >= FULL * N
    origin = np.zeros(d)
    origin[full] = np.median(sample.tocsc()[:, full].toarray(), axis=0)
    return origin


def pairwise(
    X: Any, Y: Any, metric: Any = "rbf", origin: np.ndarray | None = None, **params: Any
) -> np.ndarray:
    """Return ``k(X, Y)`` of :func:`sklearn.metrics.pairwise.pairwise_kernels`, of any rows.

    An ``origin`` near rows that are far from 0 is subtracted from both first: this changes only the
    digits of "rbf", and of "linear" only what centring takes away.
    """
    same, X = Y is X, as_float(row_array(X))
    Y = X if same else as_float(row_array(Y))
    if not isinstance(metric, str):
        return _finite(pairwise_kernels(X, Y, metric=metric, **params), metric)
    if metric == "rbf":
        gamma = params.get("gamma")
        gamma = 1 / X.shape[1] if gamma is None else float(gamma)
        return rbf(X, Y, gamma, origin, params.get("n_jobs"), single=params.get("single", False))
    if "chi2" in metric and (sp.issparse(X) or not X.flags.writeable):  # dense copies, by blocks
        blocks = (np.array(dense(X[r])) for r in row_slices(X.shape[0], block_rows(X.shape[1], 8)))
        return np.concatenate([pairwise(b, np.array(dense(Y)), metric, **params) for b in blocks])
    if metric == "cosine":
        X, Y, metric = _units(X), _units(Y), "linear"
    pairs = [(X, Y)]
    if origin is not None:
        shifted = shifted_rows(X, origin)
        columns = row_slices(Y.shape[0], block_rows(Y.shape[1], 8, 8))
        pairs = [(shifted, shifted_rows(Y[c], origin)) for c in columns]
    with np.errstate(over="ignore", invalid="ignore"):
        parts = [pairwise_kernels(*p, metric=metric, filter_params=True, **params) for p in pairs]
    K = stack(parts, axis=1)
    return _finite(K.astype(X.dtype, copy=False), metric)  # some kernels return float64 of any rows


def kernel_diagonal(kernel: Callable[[Any, Any], np.ndarray], X: Any) -> Any:
    """Return ``k(x, x)`` for each row of X."""

    def diagonal(rows: slice, block: Any) -> np.ndarray:
        chunks = (block[r] for r in row_slices(block.shape[0], 64))
        return np.concatenate([np.diagonal(kernel(chunk, chunk)) for chunk in chunks])

    return row_operator(X).map_rows(diagonal)


def check_kernel_matrix(K: np.ndarray) -> None:
    """Refuse a kernel matrix that is not square, or differs from its transpose by more than rounding."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel='precomputed' expects a square kernel matrix, got shape {K.shape}"
        )
    blocks = row_slices(K.shape[0], block_rows(K.shape[0], K.itemsize))
    difference = max(float(np.abs(K[r] - K[:, r].T).max()) for r in blocks)
    size = max(float(np.abs(K[r]).max()) for r in blocks)
    if difference > (1e-3 if K.dtype == np.float32 else 1e-6) * size:
        raise ValueError(
            f"kernel='precomputed' expects a symmetric matrix, and X differs from X.T by "
            f"{difference:.1e}; give (X + X.T) / 2, or the rows and a kernel"
        )


def _finite(K: np.ndarray, kernel: Any) -> np.ndarray:
    """Return K; raise an error if it holds infinity or NaN."""
    if not is_finite(K):
        raise ValueError(
            f"kernel={kernel!r} of the rows of X overflows {K.dtype}, or is not a number; divide X by "
            "its largest magnitude, or take other parameters of the kernel"
        )
    return K


def _units(X: Any) -> Any:
    """Return rows of length 1, also where squares of entries overflow or vanish; zero rows stay."""
    norms = row_norms(X)
    norms = np.where(norms > 0, norms, 1).astype(X.dtype, copy=False)
    if not sp.issparse(X):
        return X / norms[:, None]
    unit = X.copy()
    unit.data /= np.repeat(norms, np.diff(X.indptr))
    return unit


def bandwidth(gamma: Any, X: Any, rng: Generator) -> float:
    """Return gamma itself, or the number that "median", "scale" or None (1/d) stands for."""
    if gamma is None:
        return 1 / X.shape[1]
    if not isinstance(gamma, str):
        return gamma
    return median_gamma(X, rng) if gamma == "median" else scale_gamma(X)


def median_gamma(X: Any, rng: Generator) -> float:
    """``gamma = 1 / median ||x - y||^2`` over the pairs of different rows among at most 1000.

    The median heuristic (Garreau et al. 2017); 1.0 if all rows are equal.
    """
    N = X.shape[0]
    S = as_float64(row_operator(X).take(np.sort(rng.choice(N, min(N, 1000), replace=False))))
    with np.errstate(over="ignore"):  # squares() refuses those rows
        S = shifted_rows(S, origin_near_rows(S) if sp.issparse(S) else np.median(S, axis=0))
    n, sizes = S.shape[0], squares(S)
    D = distances(S, S, sizes, sizes)
    # Rounding of the sizes is then below 1e-9 of a distance: one huge row hides no close pairs.
    refine_distances(D, S, S, np.triu(1e-6 * np.add.outer(sizes, sizes) > D, 1))
    D = D[np.triu_indices(n, 1)]
    median = float(np.median(D[D > 0])) if D.any() else 0.0
    if median > 1 / np.finfo(float).max:
        return 1 / median
    if (S - S[np.zeros(n, dtype=int)] != 0).sum() == 0:
        return 1.0
    raise ValueError(
        "gamma='median' has no value, as X has rows so near one another that the squares of their "
        "distances underflow; divide X by its largest magnitude, or give gamma as a number"
    )


def scale_gamma(X: Any) -> float:
    """``gamma = 1 / (d Var(X))`` over all entries of X: scikit-learn's "scale"; 1.0 if Var is 0."""
    operator = row_operator(X)
    (N, d), origin = operator.shape, origin_near_rows(operator)
    total, energy = operator.sum_blocks(
        lambda rows, block: moments(shifted_rows(block, origin), None, True)
    )
    shifted = total / N
    means = shifted if origin is None else shifted + origin
    with np.errstate(over="ignore", invalid="ignore"):
        variance = (energy / N - shifted @ shifted) / d + float(means.var())
    if not np.isfinite(variance):
        raise ValueError(
            "gamma='scale' has no value, as X has entries so large that their squares overflow; divide X "
            "by its largest magnitude, or give gamma as a number"
        )
    # A smaller variance is the rounding of equal entries.
    return float(1 / (d * variance)) if variance > 1e-28 * np.max(means**2) else 1.0
