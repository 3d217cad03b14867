"""Thin products, Gram matrices and fits of rows with wrong cells by C kernels, which are optional.

NumPy and SciPy do the same without them. A kernel keeps a few rows of X in the cache, for both products
of ``X^T (X W)`` or all steps of a fit, so that X is read from memory once. ``DUALPCA_NATIVE=0`` in the
environment turns the kernels off.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

#: The extension module; None where it was built without a C compiler, or is turned off.
kernels: Any = None
if os.environ.get("DUALPCA_NATIVE", "") != "0":
    with suppress(ImportError):
        kernels = import_module("._kernels", __name__)

#: The kinds of product: ``X^T (X W)``, ``X W``, ``X^T W``, ``X (X^T W)`` and ``exp(X W)``.
SWEEP, MATMUL, RMATMUL, COSWEEP, MATEXP = 0, 1, 2, 3, 4

#: Products of fewer numbers than this are left to BLAS: packing and threads would take longer.
LEAST = 2**21

#: BLAS multiplies more columns than this at its full rate. With 150 a sweep over 20,000 x 784 float32
#: numbers takes 49 ms, two products of BLAS 61.
WIDEST = 256

#: Sums over the rows are left to BLAS where those of one thread would take more bytes.
SUMS = 2**26

#: ``X^T H`` of a dense X with more than MANY columns is computed for COLUMNS of them at a time: sums of
#: their own for each thread would not fit into its cache (100 x 200,000, 20 columns, float32: 102 ms, and
#: 12 so; with 20,000 columns and fewer it takes longer).
MANY, COLUMNS = 2**15, 2**12

#: The sums of a Gram matrix, one for each thread, may take so many bytes; else BLAS computes it.
GRAM_SUMS = 2**30

#: The C kernels fit rows with wrong cells by at most so many components.
CELL_COMPONENTS = 32

TYPES = (np.dtype(np.float32), np.dtype(np.float64))


def native_available() -> bool:
    """Return whether products are computed by the C kernels.

    Examples
    --------
    >>> import dualpca
    >>> dualpca.native_available() in (True, False)
    True
    """
    return kernels is not None


def takes_array(X: Any) -> bool:
    """Whether the kernels can read X: a numpy array whose rows are contiguous."""
    if kernels is None or not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype not in TYPES:
        return False
    return X.flags.aligned and (X.shape[1] <= 1 or X.strides[1] == X.itemsize)


def takes(kind: int, X: Any, W: Any, *, convert: bool = False) -> bool:
    """Whether the kernels multiply X, dense or CSR, by the thin factor W.

    Both must have one type, unless rows of X are to be converted to that of W.
    """
    if kernels is None or not (isinstance(W, np.ndarray) and W.ndim == 2 and W.dtype in TYPES):
        return False
    if not (0 < W.shape[1] <= WIDEST and W.flags.aligned):
        return False
    summed = {MATMUL: 0, COSWEEP: X.shape[0]}.get(kind, X.shape[1])
    if not _by_columns(kind, X) and 8 * summed * W.shape[1] > SUMS:
        return False
    if X.size * W.shape[1] < LEAST:
        return False
    if sp.issparse(X):
        return X.format == "csr" and X.dtype == W.dtype and kind != COSWEEP
    return takes_array(X) and (convert or X.dtype == W.dtype)


def _by_columns(kind: int, X: Any) -> bool:
    """Whether a product is computed for some columns of X at a time."""
    return kind == RMATMUL and X.shape[1] > MANY and not sp.issparse(X)


def multiply(
    kind: int,
    X: Any,
    W: np.ndarray,
    threads: int,
    *,
    center: np.ndarray | None = None,
    scale: float = 1.0,
    shift: np.ndarray | None = None,
) -> Any:
    """Return a product in the type of W, of an X that the kernels take; dense for ``X (X^T W)``.

    ``center`` and ``scale`` replace a dense X by ``scale (X - 1 center^T)``, in float64 before it is
    rounded to the type of W. With a ``shift``, a sweep returns ``X^T (X W - 1 shift)`` and the sums of
    the columns of ``X W - 1 shift``.
    """
    rows = X.shape[0] if kind in (MATMUL, COSWEEP) else X.shape[1]
    out = np.empty((rows, W.shape[1]), dtype=W.dtype)
    total = None if shift is None else np.zeros(W.shape[1])
    if sp.issparse(X):
        parts = (X.data, X.indices, X.indptr, X.shape[1])
        kernels.csr_product(kind, *parts, W, out, shift, total, threads)
    elif _by_columns(kind, X):

        def product(first: int) -> None:
            some = slice(first, first + COLUMNS)
            c = None if center is None else center[some]
            kernels.product(kind, X[:, some], W, out[some], c, scale, None, None, None, 1)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(product, range(0, rows, COLUMNS)))
    else:
        kernels.product(kind, X, W, out, center, scale, shift, total, None, threads)
    return out if total is None else (out, total.astype(W.dtype)[None, :])


@dataclass(frozen=True)
class RowLosses:
    """``-sum_i m_i c^2 psi((alpha_i^2 - ||y_i||^2) / c^2)`` of rows ``y_i = b_i (x_i^T W - shift)``.

    ``psi`` is the number of a loss that the kernels know, ``parameter`` its exponent, if it has one. The
    masses m and the scales b are 1 where None. ``beside`` are numbers a, for one more column.
    """

    alpha: np.ndarray
    psi: int
    c2: float
    parameter: float
    mass: np.ndarray | None
    scales: np.ndarray | None
    beside: np.ndarray | None


def reweigh(
    X: np.ndarray,
    W: np.ndarray,
    losses: RowLosses,
    threads: int,
    *,
    shift: np.ndarray,
    center: np.ndarray | None = None,
    scale: float = 1.0,
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return ``X^T H``, the sums of the columns of H, that of the losses, and ``sum_i w_i a_i^2``.

    The rows of H are ``b_i w_i (y_i, a_i)``, w being the weights of the rows in the loss. ``center`` and
    ``scale`` are those of :func:`multiply`; ``X W`` is a sweep that the kernels take.
    """
    rows = (losses.alpha, losses.mass, losses.scales, losses.beside)
    columns = W.shape[1] + (losses.beside is not None)
    out, sums = np.empty((X.shape[1], columns), dtype=W.dtype), np.zeros(columns + 2)
    numbers = tuple(None if a is None else np.ascontiguousarray(a, dtype=float) for a in rows)
    known = losses.psi, losses.c2, losses.parameter, float(np.finfo(losses.alpha.dtype).eps)
    kernels.reweigh(X, W, out, center, scale, shift, sums, numbers, known, threads)
    return out, sums[:columns].astype(W.dtype)[None, :], float(sums[-2]), float(sums[-1])


def both_products(X: np.ndarray, W: np.ndarray, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``X W`` and ``X^T (X W)``, of an array X whose sweep the kernels take."""
    out, middle = (np.empty((n, W.shape[1]), dtype=W.dtype) for n in X.shape[::-1])
    kernels.product(SWEEP, X, W, out, None, 1.0, None, None, middle, threads)
    return middle, out


def exponential(X: np.ndarray, W: np.ndarray, out: np.ndarray) -> None:
    """Set ``out`` to ``exp(X W)``, at most 1, in this thread; all are arrays of one type."""
    kernels.product(MATEXP, X, W, out, None, 1.0, None, None, None, 1)


def cell_rows(
    X: np.ndarray,
    model: tuple[np.ndarray, np.ndarray, np.ndarray],
    constants: np.ndarray,
    steps: np.ndarray,
    B: np.ndarray,
    threads: int,
    sums: np.ndarray | None = None,
) -> float:
    """Set robust scores B of rows with holes, or take a step from them; see :mod:`dualpca.robust.cells`.

    ``model`` is a centre c, axes V (d x s) and scales. ``steps`` are the factors of the scales, one after
    the other, 0 for what the row asks for. With ``sums`` (d x k) they are the masses of rows: the scores
    move, the sums of the columns are set, ``sum_i w_ij h_i h_i^T`` (upper triangle) of ``h = (1, b)`` and
    ``sum_i w_ij r_ij h_i``, and the objective before is returned.
    """
    whole = X if takes_array(X) else np.ascontiguousarray(X, dtype=np.float64)
    numbers = (np.ascontiguousarray(a, dtype=np.float64) for a in model)
    return kernels.cell_rows(whole, *numbers, constants, steps, B, sums, threads)


def takes_gram(X: Any, threads: int) -> bool:
    """Whether the kernels compute ``X^T X``: they can read X by rows or by columns, and have room."""
    if not (takes_array(X) or (isinstance(X, np.ndarray) and takes_array(X.T))):
        return False
    return 8 * threads * X.shape[1] ** 2 <= GRAM_SUMS


def gram(
    X: np.ndarray,
    threads: int,
    *,
    single: bool,
    center: np.ndarray | None = None,
    by_row: bool = False,
    scale: float = 1.0,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return ``X^T X``, or ``X^T Diag(weights) X``, in float64, of products in float32 or float64.

    Products of 256 rows are summed in their own precision, then in float64. ``center`` and ``scale``
    replace X by ``scale (X - 1 center^T)``, or by ``scale (X - center 1^T)`` with ``by_row``, in float64
    before it is rounded. Rows of weight 0 are not read; ``by_row`` with a center takes no weights.
    """
    d = X.shape[1]
    # An odd multiple of 16 numbers from row to row: powers of two would share sets of the cache.
    out = np.zeros((d + 8, 16 * (-(-d // 16) | 1)))
    w = None if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    kernels.gram(X, out, center, by_row, scale, w, single, threads)
    return out[:d, :d]


def moments(
    X: np.ndarray, threads: int, weights: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """Return ``sum_i w_i x_i`` and ``sum_i w_i ||x_i||^2`` in float64; w is 1 where None."""
    sums = np.zeros(X.shape[1])
    w = None if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    return sums, kernels.moments(X, sums, w, threads)


def row_norms(
    X: np.ndarray, threads: int, center: np.ndarray | None = None, scale: float = 1.0
) -> np.ndarray | None:
    """Return the norms of the rows of ``scale (X - 1 center^T)``, in the type of X.

    None where squares in float64 might overflow or vanish.
    """
    squares = np.empty(X.shape[0])
    kernels.row_squares(X, squares, center, scale, threads)
    if X.dtype == np.float64:
        info = np.finfo(float)
        if not (squares.min() >= info.smallest_normal / info.eps and squares.max() < np.inf):
            return None
    with np.errstate(over="ignore"):  # a norm may be infinite
        return np.sqrt(squares).astype(X.dtype)
