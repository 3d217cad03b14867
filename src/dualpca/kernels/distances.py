"""Squared distances of rows, to the digits that the rows have, and the RBF kernel of them."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs

from ..operators import block_ops
from ..operators.block_ops import (
    as_float64,
    block_rows,
    dense,
    multiply,
    one_blas_thread,
    one_thread,
    threads,
)
from ..operators.centering import subtract_from_sparse

#: A squared distance is computed anew from differences where the rounding of inner products may
#: change the kernel by more than this many units of its rounding.
REFINE_ABOVE = 16.0

#: Distances are in float32 only if those from the mean, times gamma, are at most this for any two rows.
SINGLE_SIZE = 8.0

#: The matrix of these kernels is then off by at most so many eps in the spectral norm, times the root of
#: its side: after centring 1.9 were measured on clusters (2000 x 20), 1.2 on digits (1797 x 64).
SINGLE_NOISE = 4.0

#: They are for a gamma between this and its inverse, so that float32 has the range for it.
SINGLE_GAMMA = 1e-12

#: Rows and columns of a tile of K. A product of this size is efficient, and what follows it finds it in
#: the cache (3000 rows of 784 numbers in float32, one thread: 55 ms, in tiles of 128 x 256 61).
TILE = (256, 256)

#: Below so many kernels, starting threads costs more than they save.
THREADED = 2**18


def row_slices(N: int, step: int, first: int = 0) -> list[slice]:
    """Return slices of ``step`` rows that cover N rows from the ``first`` on."""
    return [slice(i, min(i + step, N)) for i in range(first, N, step)]


def shifted_rows(X: Any, origin: np.ndarray | None) -> Any:
    """Return ``X - 1 origin^T``; sparse rows stay sparse where the origin is 0."""
    if origin is None:
        return X
    with np.errstate(over="ignore"):  # squares() refuses those rows
        return subtract_from_sparse(X, origin) if sp.issparse(X) else X - origin


def squares(A: Any) -> np.ndarray:
    """Return ``||a||^2`` for each row; raise an error where that overflows."""
    sums = _sums_of_squares(A)
    if not sums.max(initial=0.0) < np.finfo(float).max / 8:  # so that a distance is finite too
        raise ValueError(
            "X has entries so large that their squares overflow float64; divide X by its largest "
            "magnitude"
        )
    return sums


def _sums_of_squares(A: Any) -> np.ndarray:
    with np.errstate(over="ignore"):
        if sp.issparse(A):
            return np.asarray(block_ops.squares(A).sum(axis=1)).ravel()
        # Sums in float64, without an array of all squares.
        return np.einsum("ij,ij->i", A, A, dtype=np.float64)


def distances(A: Any, B: Any, a2: np.ndarray, b2: np.ndarray) -> np.ndarray:
    """Return ``||a - b||^2 = ||a||^2 + ||b||^2 - 2 a^T b``, off by the rounding of the squares."""
    D = dense((-2 * A) @ B.T)
    D += a2[:, None]
    D += b2
    return np.maximum(D, 0, out=D)


def refine_distances(D: np.ndarray, A: Any, B: Any, inexact: np.ndarray) -> None:
    """Compute the inexact squared distances in D from differences, which have all digits."""
    i, j = np.nonzero(inexact)
    for c in row_slices(len(i), block_rows(A.shape[1], 8)):
        D[i[c], j[c]] = squares(A[i[c]] - B[j[c]])


def rbf(
    X: Any,
    Y: Any,
    gamma: float,
    origin: np.ndarray | None = None,
    n_jobs: int | None = None,
    *,
    single: bool = False,
) -> np.ndarray:
    """Return ``exp(-gamma ||x - y||^2)`` by tiles, distances in float64; symmetric if Y is X.

    Where Y is X, ``single`` asks for float32 kernels from distances in float32, whatever the type of
    the rows; rows that lie too far apart for that have kernels of their own type nevertheless.
    """
    (N, d), M, same = X.shape, Y.shape[0], Y is X
    known = _in_float32(X, gamma, origin) if single and same else None
    dtype = np.result_type(X.dtype, Y.dtype) if known is None else known[0].dtype
    K = np.empty((N, M), dtype=dtype)
    count = threads() if n_jobs is None else effective_n_jobs(n_jobs)
    count = count if N * M >= THREADED else 1

    def prepared(A: Any) -> _Rows:
        A = shifted_rows(as_float64(A), origin)
        return _Rows.of(A, squares(A), None, gamma, dtype)

    def strip(r: slice, chunk: slice, columns: _Rows) -> None:
        inside = same and chunk.start <= r.start and r.stop <= chunk.stop
        rows = columns.part(r, chunk.start) if inside else prepared(X[r])
        # Where Y is X, K[c, r] is the transpose of K[r, c].
        for c in row_slices(min(chunk.stop, r.stop) if same else chunk.stop, TILE[1], chunk.start):
            part = columns.part(c, chunk.start)
            E = _padded((r.stop - r.start, c.stop - c.start), dtype)
            if rows.extended is not None and part.extended is not None:
                block_ops.exponential(rows.extended, part.factor(gamma), E)
            else:
                np.exp(_exponents(rows, part, gamma, dtype), out=E)
            low, high = max(r.start, c.start), min(r.stop, c.stop)
            if same and low < high:
                Q = E[low - r.start : high - r.start, low - c.start : high - c.start]
                Q[...] = (Q + Q.T) / 2
                np.fill_diagonal(Q, 1)
            K[r, c] = E
            if same:
                K[c, r] = E.T

    chunks = [slice(0, M)] if known else row_slices(M, block_rows(d, 8, 8))
    with one_blas_thread() if count > 1 else nullcontext(), ThreadPoolExecutor(count) as pool:
        for chunk in chunks:
            columns = prepared(Y[chunk]) if known is None else _Rows.of(*known, gamma, dtype)
            # The longest strips first, so that no thread is left with one.
            strips = [r for r in row_slices(N, TILE[0])[::-1] if not same or chunk.start < r.stop]
            list(pool.map(partial(strip, chunk=chunk, columns=columns), strips))
    return K


@dataclass(frozen=True)
class _Rows:
    """Rows A and their squares; where the C kernels take them also ``(A, 1, -gamma ||a||^2)``.

    They do where rounding of the squares does not show in squared distances.
    """

    A: Any
    sizes: np.ndarray
    extended: np.ndarray | None = None

    @classmethod
    def of(
        cls, A: Any, sizes: np.ndarray, room: np.ndarray | None, gamma: float, dtype: np.dtype
    ) -> _Rows:
        """Build it; ``room`` is an array that begins with A and has two more columns, if there is one."""
        dense = block_ops.takes_exponential(A) and A.dtype == dtype
        with np.errstate(over="ignore", invalid="ignore"):
            small = 2 * gamma * float(sizes.max(initial=0.0)) <= REFINE_ABOVE
        if not (dense and small):
            return cls(A, sizes)
        d = A.shape[1]
        if room is None:
            room = np.empty((len(A), d + 2), dtype=dtype)
            room[:, :d] = A
        room[:, d], room[:, d + 1] = 1, -gamma * sizes
        return cls(A, sizes, room)

    def part(self, rows: slice, first: int) -> _Rows:
        """Return some rows, of which the first here is number ``first``."""
        some = slice(rows.start - first, rows.stop - first)
        extended = None if self.extended is None else self.extended[some]
        return _Rows(self.A[some], self.sizes[some], extended)

    def factor(self, gamma: float) -> np.ndarray:
        """Return F such that ``extended F`` is ``-gamma ||a - b||^2``, b being the rows here."""
        d = self.A.shape[1]
        rows = np.empty((len(self.A), d + 2), dtype=self.A.dtype)
        np.multiply(self.A, 2 * gamma, out=rows[:, :d])
        rows[:, d], rows[:, d + 1] = -gamma * self.sizes, 1
        return rows.T


def single_noise(N: int) -> float:
    """Return how far the kernel matrix of N rows may be off where distances are in float32."""
    return SINGLE_NOISE * float(np.finfo(np.float32).eps) * math.sqrt(N)


def _in_float32(
    X: Any, gamma: float, origin: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return rows less the origin in float32, their squares, and an array with room for two more columns.

    None where float32 is too short.
    """
    if sp.issparse(X) or not SINGLE_GAMMA <= gamma <= 1 / SINGLE_GAMMA:
        return None
    room = np.empty((X.shape[0], X.shape[1] + 2), dtype=np.float32)
    A = room[:, :-2]
    with np.errstate(over="ignore", invalid="ignore"):
        # Any origin has the same distances; the mean has the smallest squares, and rounding is theirs.
        mean = X.mean(axis=0, dtype=np.float64) if origin is None else origin
        np.subtract(X, mean, out=A, casting="same_kind")
        sizes = _sums_of_squares(A)
    return (A, sizes, room) if 2 * gamma * sizes.max(initial=0.0) <= SINGLE_SIZE else None


def _exponents(rows: _Rows, columns: _Rows, gamma: float, dtype: np.dtype) -> np.ndarray:
    """Return ``-gamma ||a - b||^2`` for kernels of this type."""
    A, B, a2, b2 = rows.A, columns.A, rows.sizes, columns.sizes
    info = np.finfo(float)
    # Rounding of the squares may change gamma D by up to gamma (||a||^2 + ||b||^2) times this.
    limit = REFINE_ABOVE * float(np.finfo(dtype).eps) / float(info.eps)
    longest = 800 / gamma if gamma > 0 else info.max  # exp(-800) is 0
    with np.errstate(over="ignore", invalid="ignore"):
        largest = gamma * float(a2.max() + b2.max())
    E = _padded((len(a2), len(b2)), dtype)
    if not (sp.issparse(A) or sp.issparse(B)) and largest <= min(limit, 400.0):
        out = E if A.dtype == dtype else _padded(E.shape, A.dtype)
        with one_thread():  # others compute other tiles
            out[...] = multiply((2 * gamma) * A, B.T)
        out -= (gamma * a2[:, None]).astype(A.dtype)
        out -= (gamma * b2).astype(A.dtype)
        return np.minimum(out, 0, out=E, casting="same_kind")
    D = distances(A, B, a2, b2)
    with np.errstate(over="ignore", invalid="ignore"):
        if largest > limit:
            size = a2[:, None] + b2
            least = np.clip(D - 32 * info.eps * size, 0, longest)
            refine_distances(D, A, B, gamma * size * np.exp(-gamma * least) > limit)
    if largest > 400:
        np.minimum(D, longest, out=D)
    D *= -gamma
    E[...] = D
    return E


def _padded(shape: tuple[int, int], dtype: Any) -> np.ndarray:
    """Return an array whose columns do not share one set of the cache, for a quick transpose."""
    pad = 64 // np.dtype(dtype).itemsize
    return np.empty((shape[0], shape[1] + pad), dtype=dtype)[:, : shape[1]]
