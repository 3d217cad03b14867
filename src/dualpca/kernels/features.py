"""Feature maps: rows phi(x) with phi(x)^T phi(y) near k(x, y), for linear PCA in place of K."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from numpy.random import Generator
from sklearn.cluster import kmeans_plusplus

from .._memory import ensure
from ..operators import Matrix, Operator
from ..operators.block_ops import as_float, as_float64
from ..operators.row_blocks import Mapped
from .pairwise import (
    kernel_diagonal,
    origin_near_rows,
    pairwise,
    row_array,
    row_operator,
    shifted_rows,
)

#: How landmarks may be chosen.
LANDMARKS = ("uniform", "kmeans++", "leverage")


@dataclass(frozen=True, eq=False)
class Nystroem:
    """``phi(x) = k(x, Z) K_ZZ^{-1/2}``, exact on the landmarks: phi(Z) phi(Z)^T = K_ZZ.

    Williams & Seeger (2001). ``kernel(X, Z)`` has a row for each row of X; ``root`` is K_ZZ^{-1/2}; an
    ``origin`` is subtracted from the rows of both (:func:`~dualpca.kernels.pairwise.origin_near_rows`).
    """

    landmarks: Any
    kernel: Any
    root: np.ndarray
    origin: np.ndarray | None = None

    @property
    def dimension(self) -> int:
        return self.root.shape[1]

    def __call__(self, X: Any) -> np.ndarray:
        X = as_float(row_array(X))
        shifted, Z = (shifted_rows(A, self.origin) for A in (X, self.landmarks))
        K = np.asarray(self.kernel(shifted, Z), dtype=X.dtype)
        return K @ self.root.astype(X.dtype, copy=False)


def nystroem(
    X: Any, kernel: Any, landmarks: Any, origin: np.ndarray | None = None, **params: Any
) -> Nystroem:
    """``K_ZZ^{-1/2} = V Diag(theta)^{-1/2} V^T`` of the landmarks ``Z = X[landmarks]``.

    Williams & Seeger (2001). Eigenvalues below m eps theta_max count as zero; eps is that of X.

    Parameters
    ----------
    X : array, memory map or sparse matrix of shape (N, d)
    kernel : function of two blocks of rows, or a name for :func:`pairwise` with its ``params``
    landmarks : indices of m rows, as from :func:`choose_landmarks`, or a slice
    origin : a row to subtract from all rows first, or None

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((200, 5))
    >>> phi = nystroem(X, "rbf", np.arange(50), gamma=0.2)
    >>> bool(np.allclose(phi(X) @ phi(X[:50]).T, pairwise(X, X[:50], gamma=0.2)))
    True
    """
    name = getattr(kernel, "keywords", {}).get("metric", kernel)
    name = getattr(name, "__name__", name)
    kernel = partial(pairwise, metric=kernel, **params) if isinstance(kernel, str) else kernel
    Z = as_float(row_array(X)[landmarks])
    m = Z.shape[0]
    ensure(24 * m**2, f"the kernel of {m:,} landmarks and its root", "ask for fewer n_landmarks")
    shifted = shifted_rows(as_float64(Z), origin)
    K = np.asarray(kernel(shifted, shifted), dtype=np.float64)
    theta, V = scipy.linalg.eigh((K + K.T) / 2)
    limit = (1e-3 if Z.dtype == np.float32 else 1e-6) * np.abs(theta).max()
    if theta[0] < -limit or np.abs(K - K.T).max() > limit:
        raise ValueError(
            f"kernel={name!r} is not symmetric positive semidefinite on the landmarks; use a kernel "
            "that is, such as 'rbf', or other parameters of this one"
        )
    keep = theta > max(m * float(np.finfo(Z.dtype).eps) * theta[-1], 0.0)
    root = (V[:, keep] / np.sqrt(theta[keep])) @ V[:, keep].T
    return Nystroem(Z, kernel, root.astype(Z.dtype), origin)


@dataclass(frozen=True, eq=False)
class RandomFourier:
    """``phi(x) = sqrt(2/D) [cos(x Omega), sin(x Omega)]`` for ``exp(-gamma ||x - y||^2)``.

    Rahimi & Recht (2007) in the paired form: ||phi(x)|| = 1, and its variance (1 - k^2)^2 / D is below
    the (1 + k^4/2 - k^2) / D of cosines with random offsets at every distance (Sutherland & Schneider
    2015). If D is odd, the last cosine has an ``offset`` and no sine.
    """

    frequencies: np.ndarray
    offset: float | None = None
    origin: np.ndarray | None = None

    @property
    def dimension(self) -> int:
        return 2 * self.frequencies.shape[1] - (self.offset is not None)

    def __call__(self, X: Any) -> np.ndarray:
        X = shifted_rows(as_float(row_array(X)), self.origin)
        phases = X @ self.frequencies.astype(X.dtype, copy=False)
        phases[:, -1] += self.offset or 0.0
        parts = [np.cos(phases), np.sin(phases[:, : self.dimension - phases.shape[1]])]
        return np.concatenate(parts, axis=1) * math.sqrt(2 / self.dimension)


def random_fourier(
    d: int, D: int, gamma: float, rng: Generator, orthogonal: bool = False
) -> RandomFourier:
    """``Omega ~ N(0, 2 gamma)``, d x D/2, or orthogonal columns whose norms are so distributed.

    Rahimi & Recht (2007); Yu et al. (2016) if ``orthogonal``: each d columns are an orthogonal matrix
    times chi-distributed norms, and the last columns are part of another one. D may be odd.

    Examples
    --------
    >>> phi = random_fourier(5, 5000, 0.1, np.random.default_rng(1), orthogonal=True)
    >>> bool(abs(phi(np.ones((1, 5))) @ phi(np.zeros((1, 5))).T - np.exp(-0.5)) < 0.05)
    True
    """
    m = (D + 1) // 2
    remedy = "ask for fewer n_random_features, or give fewer columns"
    ensure(16 * d * m, f"frequencies of {d:,} columns, {m:,} of them,", remedy)
    G = rng.standard_normal((d, m))
    if orthogonal:  # QR fixes the signs of the columns, on which phi phi^T does not depend
        Q = [np.linalg.qr(G[:, i : i + d])[0] for i in range(0, m, d)]
        G = np.concatenate(Q, axis=1) * np.sqrt(rng.chisquare(d, m))
    return RandomFourier(math.sqrt(2 * gamma) * G, rng.uniform(0, 2 * np.pi) if D % 2 else None)


def choose_landmarks(
    X: Any, count: int, how: str, rng: Generator, kernel: Any = None, gamma: float | None = None
) -> np.ndarray:
    """Return the sorted indices of ``count`` distinct rows of X, the landmarks of :func:`nystroem`.

    ``how`` is "uniform", "kmeans++" (Arthur & Vassilvitskii 2007) or "leverage" (in proportion to ridge
    leverage scores, Musco & Musco 2017), which takes ``kernel`` ("rbf" if None) and ``gamma`` as
    :func:`nystroem` does. The last two choose from at most 20 count rows, held in memory.
    """
    N = X.shape[0]
    if how not in LANDMARKS:
        raise ValueError(f"how={how!r} is unknown; use 'uniform', 'kmeans++' or 'leverage'")
    if count > N:
        raise ValueError(f"n_landmarks={count} exceeds the {N} rows of X; ask for at most {N}")
    if how == "uniform" or count == N:
        return np.sort(rng.choice(N, count, replace=False))
    pool = np.sort(rng.choice(N, min(N, 20 * count), replace=False))
    sample = as_float(row_operator(X).take(pool))
    if how == "kmeans++":
        shifted = shifted_rows(sample, origin_near_rows(sample))
        _, drawn = kmeans_plusplus(shifted, count, random_state=int(rng.integers(2**31 - 1)))
        # Equal rows may be drawn twice; other rows take their place.
        others = rng.permutation(np.setdiff1d(np.arange(len(pool)), drawn))
        return np.sort(pool[np.append(np.unique(drawn), others)[:count]])
    first = rng.choice(len(pool), count, replace=False)
    phi = nystroem(sample, kernel or "rbf", first, gamma=gamma)
    # Efraimidis & Spirakis (2006): the rows with the least keys are a draw without replacement.
    keys = rng.exponential(size=len(pool)) / np.maximum(_leverage(phi, sample), 1e-100)
    return np.sort(pool[np.argsort(keys)[:count]])


def _leverage(phi: Nystroem, X: Any, ridge: float | None = None) -> np.ndarray:
    """``l_i = ||phi(x_i) (Phi^T Phi + lambda n I)^{-1/2}||^2 + min(1, r_i / (lambda n))``.

    Ridge leverage scores (Musco & Musco 2017). ``r_i = k(x_i, x_i) - ||phi(x_i)||^2`` is what the m
    landmarks miss of a row: without it, rows far from all landmarks would count least, though they
    matter most. ``lambda n = sum_i r_i / m`` gives both terms about the same weight.
    """
    Phi = as_float64(phi(X))
    captured = np.sum(Phi**2, axis=1)
    missed = np.maximum(kernel_diagonal(phi.kernel, X) - captured, 0)
    least = max(np.finfo(X.dtype).eps * captured.sum(), 1e-100)  # all r_i may be rounding
    ridge = max(missed.sum() / phi.dimension, least) if ridge is None else ridge
    theta, V = scipy.linalg.eigh(Phi.T @ Phi)
    return np.sum((Phi @ V) ** 2 / (theta.clip(0) + ridge), axis=1) + np.minimum(missed / ridge, 1)


def landmark_rows(X: Operator, landmarks: Any, count: int, rng: Generator, kernel: Any) -> Any:
    """Return the rows that ``landmarks`` names or holds: a way to choose ``count`` rows of X, or rows."""
    if isinstance(landmarks, str):
        return X.take(choose_landmarks(X, count, landmarks, rng, kernel=kernel))
    rows = np.asarray(landmarks, dtype=X.dtype)
    if rows.ndim != 2 or rows.shape[1] != X.shape[1] or not np.isfinite(rows).all():
        raise ValueError(
            f"landmarks has shape {rows.shape}; give finite rows with {X.shape[1]} features, or "
            f"one of {', '.join(map(repr, LANDMARKS))}"
        )
    return rows


def feature_operator(phi: Nystroem | RandomFourier, X: Any, limit: int = 2**28) -> Operator:
    """``Phi = phi(X)``, N x D: stored up to ``limit`` bytes, else recomputed in each pass.

    Storing takes twice that for a moment; recomputing takes about four blocks of 32 MB (at least 64
    rows) and keeps X, an array, a sparse matrix or an operator, without a copy. Features of rows on a
    cluster are never stored.

    Examples
    --------
    >>> phi = random_fourier(5, 30, 0.1, np.random.default_rng(1))
    >>> feature_operator(phi, np.ones((200, 5))).shape
    (200, 30)
    """
    operator = row_operator(X)
    dtype = np.dtype(operator.dtype)
    features = Mapped(operator, phi, phi.dimension, dtype)
    small = math.prod(features.shape) * dtype.itemsize <= limit and not operator.is_distributed
    return Matrix(features.todense()) if small else features
