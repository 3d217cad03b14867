"""Feature maps: rows phi(x) with phi(x)^T phi(y) near k(x, y), for linear PCA in place of K."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.random import Generator
from sklearn.cluster import kmeans_plusplus

from .._memory import ensure
from ..operators import Blocks, Matrix
from ..operators.block_ops import as_float, as_float64, moments
from ..operators.row_blocks import RowBlocked
from ..operators.row_maps import Mapped
from .pairwise import (
    again,
    distances,
    far_origin,
    pairwise,
    row_slices,
    rows_of,
    shifted_rows,
    some_rows,
    squares,
)


class FeatureMap(Protocol):
    """``x -> phi(x)``: n rows, dense or CSR, to a dense n x dimension array of their float dtype."""

    @property
    def dimension(self) -> int: ...

    def __call__(self, X: Any) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class Nystroem:
    """``phi(x) = k(x, Z) K_ZZ^{-1/2}``, exact on the landmarks: phi(Z) phi(Z)^T = K_ZZ.

    Williams & Seeger (2001). ``kernel(X, Z)`` has a row for each row of X; ``root`` is K_ZZ^{-1/2}. An
    ``origin`` is subtracted from both, as in :func:`far_origin`.
    """

    landmarks: Any
    kernel: Any
    root: np.ndarray
    origin: np.ndarray | None = None

    @property
    def dimension(self) -> int:
        return self.root.shape[1]

    def __call__(self, X: Any) -> np.ndarray:
        X = as_float(rows_of(X))
        near, Z = (shifted_rows(A, self.origin) for A in (X, self.landmarks))
        K = np.asarray(self.kernel(near, Z), dtype=X.dtype)
        return K @ self.root.astype(X.dtype, copy=False)


def nystroem(
    X: Any, kernel: Any, landmarks: Any, origin: np.ndarray | None = None, **params: Any
) -> Nystroem:
    """``K_ZZ^{-1/2} = V Diag(theta)^{-1/2} V^T`` of the landmarks ``Z = X[landmarks]``.

    Williams & Seeger (2001). Eigenvalues below m eps theta_max, eps that of X, count as zero.

    Parameters
    ----------
    X : array, memory map or sparse matrix of shape (N, d)
    kernel : function of two blocks of rows, or a name for :func:`pairwise` with its ``params``
    landmarks : indices of m rows, as from :func:`choose_landmarks`, or a slice
    origin : a row to subtract from all first, as from :func:`far_origin`

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
    Z = as_float(rows_of(X)[landmarks])
    what = f"the kernel of {Z.shape[0]:,} landmarks and its root"
    ensure(24 * Z.shape[0] ** 2, what, "ask for fewer n_landmarks")
    near = shifted_rows(as_float64(Z), origin)
    K = np.asarray(kernel(near, near), dtype=np.float64)
    theta, V = scipy.linalg.eigh((K + K.T) / 2)
    limit = (1e-3 if Z.dtype == np.float32 else 1e-6) * np.abs(theta).max()
    if theta[0] < -limit or np.abs(K - K.T).max() > limit:
        raise ValueError(
            f"kernel={name!r} is not symmetric positive semidefinite on the landmarks; use a kernel "
            "that is, such as 'rbf', or other parameters of this one"
        )
    keep = theta > max(len(theta) * float(np.finfo(Z.dtype).eps) * theta[-1], 0.0)
    root = (V[:, keep] / np.sqrt(theta[keep])) @ V[:, keep].T
    return Nystroem(Z, kernel, root.astype(Z.dtype), origin)


@dataclass(frozen=True, eq=False)
class RandomFourier:
    """``phi(x) = sqrt(2/D) [cos(x Omega), sin(x Omega)]`` for ``exp(-gamma ||x - y||^2)``.

    Rahimi & Recht (2007) in the paired form, whose variance (1 - k^2)^2 / D is below the (1 + k^4/2
    - k^2) / D of cosines with random offsets at every distance (Sutherland & Schneider 2015), and
    where ||phi(x)|| = 1. An odd D ends the cosines with one that has an ``offset`` and no sine.
    """

    frequencies: np.ndarray
    offset: float | None = None
    origin: np.ndarray | None = None

    @property
    def dimension(self) -> int:
        return 2 * self.frequencies.shape[1] - (self.offset is not None)

    def __call__(self, X: Any) -> np.ndarray:
        X = shifted_rows(as_float(rows_of(X)), self.origin)
        phases = X @ self.frequencies.astype(X.dtype, copy=False)
        phases[:, -1] += self.offset or 0.0
        parts = [np.cos(phases), np.sin(phases[:, : self.dimension - phases.shape[1]])]
        return np.concatenate(parts, axis=1) * math.sqrt(2 / self.dimension)


def random_fourier(
    d: int, D: int, gamma: float, rng: Generator, orthogonal: bool = False
) -> RandomFourier:
    """``Omega ~ N(0, 2 gamma)``, d x D/2, or orthogonal columns whose norms are so distributed.

    Rahimi & Recht (2007); Yu et al. (2016) where ``orthogonal``: each d columns are an orthogonal
    matrix times chi-distributed norms, the last ones part of another. D may be odd.

    Examples
    --------
    >>> phi = random_fourier(5, 5000, 0.1, np.random.default_rng(1), orthogonal=True)
    >>> bool(abs(phi(np.ones((1, 5))) @ phi(np.zeros((1, 5))).T - np.exp(-0.5)) < 0.05)
    True
    """
    m = (D + 1) // 2
    what = f"frequencies of {d:,} columns, {m:,} of them,"
    ensure(16 * d * m, what, "ask for fewer n_random_features, or give fewer columns")
    G = rng.standard_normal((d, m))
    if orthogonal:  # the signs of the columns, which QR fixes, do not show in phi phi^T
        Q = [np.linalg.qr(G[:, i : i + d])[0] for i in range(0, m, d)]
        G = np.concatenate(Q, axis=1) * np.sqrt(rng.chisquare(d, m))
    return RandomFourier(math.sqrt(2 * gamma) * G, rng.uniform(0, 2 * np.pi) if D % 2 else None)


def choose_landmarks(
    X: Any, count: int, how: str, rng: Generator, kernel: Any = None, gamma: float | None = None
) -> np.ndarray:
    """``Z = X[indices]``: the sorted indices of ``count`` distinct rows for :func:`nystroem`.

    Arthur & Vassilvitskii (2007) for "kmeans++", Musco & Musco (2017) for "leverage". Both look at
    no more than 20 count rows, drawn uniformly and held in memory.

    Parameters
    ----------
    how : "uniform", "kmeans++" or "leverage" (in proportion to ridge leverage scores)
    kernel, gamma : of "leverage", as in :func:`nystroem`; "rbf" where None

    Examples
    --------
    >>> X = np.repeat(np.eye(4), 25, axis=0)
    >>> (choose_landmarks(X, 4, "kmeans++", np.random.default_rng(0)) // 25).tolist()
    [0, 1, 2, 3]
    """
    N = X.shape[0]
    if how not in ("uniform", "kmeans++", "leverage"):
        raise ValueError(f"how={how!r} is unknown; use 'uniform', 'kmeans++' or 'leverage'")
    if count > N:
        raise ValueError(f"n_landmarks={count} exceeds the {N} rows of X; ask for at most {N}")
    if how == "uniform" or count == N:
        return np.sort(rng.choice(N, count, replace=False))
    pool = np.sort(rng.choice(N, min(N, 20 * count), replace=False))
    sample = as_float(some_rows(X, pool))
    if how == "kmeans++":
        near = shifted_rows(sample, far_origin(sample))
        _, drawn = kmeans_plusplus(near, count, random_state=int(rng.integers(2**31 - 1)))
        # Equal rows may be drawn twice; others take their place.
        others = rng.permutation(np.setdiff1d(np.arange(len(pool)), drawn))
        return np.sort(pool[np.append(np.unique(drawn), others)[:count]])
    first = rng.choice(len(pool), count, replace=False)
    phi = nystroem(sample, kernel or "rbf", first, gamma=gamma)
    # Efraimidis & Spirakis (2006): the least of these are a draw without replacement.
    keys = rng.exponential(size=len(pool)) / np.maximum(_leverage(phi, sample), 1e-100)
    return np.sort(pool[np.argsort(keys)[:count]])


def _leverage(phi: Nystroem, X: Any, ridge: float | None = None) -> np.ndarray:
    """``l_i = ||phi(x_i) (Phi^T Phi + lambda n I)^{-1/2}||^2 + min(1, r_i / (lambda n))``.

    Ridge leverage scores (Musco & Musco 2017), where ``r_i = k(x_i, x_i) - ||phi(x_i)||^2`` is what
    the m landmarks miss of a row: without it rows far from all of them would count least, though
    they matter most. ``lambda n = sum_i r_i / m`` gives both terms about the same weight.
    """
    Phi = as_float64(phi(X))
    found = np.sum(Phi**2, axis=1)
    squares = [np.diagonal(phi.kernel(X[r], X[r])) for r in row_slices(X.shape[0], 64)]
    missed = np.maximum(np.concatenate(squares) - found, 0)
    least = max(np.finfo(X.dtype).eps * found.sum(), 1e-100)  # all that is missed may be rounding
    ridge = max(missed.sum() / phi.dimension, least) if ridge is None else ridge
    theta, V = scipy.linalg.eigh(Phi.T @ Phi)
    return np.sum((Phi @ V) ** 2 / (theta.clip(0) + ridge), axis=1) + np.minimum(missed / ridge, 1)


def median_gamma(X: Any, rng: Generator) -> float:
    """``gamma = 1 / median ||x - y||^2`` over the pairs of at most 1000 rows, equal ones left out.

    The median heuristic (Garreau et al. 2017); 1.0 where all rows are equal.

    Examples
    --------
    >>> median_gamma(np.array([[0.0], [0.0], [2.0]]), np.random.default_rng(0))
    0.25
    """
    N = X.shape[0]
    S = as_float64(some_rows(X, np.sort(rng.choice(N, min(N, 1000), replace=False))))
    with np.errstate(over="ignore"):  # squares tells
        S = shifted_rows(S, far_origin(S) if sp.issparse(S) else np.median(S, axis=0))
    n, sizes = S.shape[0], squares(S)
    D = distances(S, S, sizes, sizes)
    pairs = np.triu_indices(n, 1)
    # Rounding of the sizes is below 1e-9 of what is left: one huge row hides no near pairs.
    again(D, S, S, np.triu(1e-6 * np.add.outer(sizes, sizes) > D, 1))
    apart = D[pairs][D[pairs] > 0]
    middle = float(np.median(apart)) if apart.size else 0.0
    if middle > 1 / np.finfo(float).max:
        return 1 / middle
    if (S - S[np.zeros(n, dtype=int)] != 0).sum() == 0:
        return 1.0
    raise ValueError(
        "gamma='median' has no value, as X has rows so near one another that the squares of their "
        "distances underflow; divide X by its largest magnitude, or give gamma as a number"
    )


def scale_gamma(X: Any) -> float:
    """``gamma = 1 / (d Var(X))`` over all entries of X: scikit-learn's "scale"; 1.0 where Var is 0.

    Examples
    --------
    >>> scale_gamma(np.array([[0.0, 2.0], [2.0, 0.0]]))
    0.5
    """
    operator = X if isinstance(X, RowBlocked) else Blocks([rows_of(X)])
    (N, d), origin = operator.shape, far_origin(X)
    total, energy = operator.sum_blocks(
        lambda rows, block: moments(shifted_rows(block, origin), None, True)
    )
    near = total / N
    means = near if origin is None else near + origin
    with np.errstate(over="ignore", invalid="ignore"):
        variance = (energy / N - near @ near) / d + float(means.var())
    if not np.isfinite(variance):
        raise ValueError(
            "gamma='scale' has no value, as X has entries so large that their squares overflow; divide X "
            "by its largest magnitude, or give gamma as a number"
        )
    # What is below is the rounding of equal entries.
    return float(1 / (d * variance)) if variance > 1e-28 * np.max(means**2) else 1.0


def feature_operator(phi: FeatureMap, X: Any, limit: int = 2**28) -> RowBlocked:
    """``Phi = phi(X)``, N x D: stored up to ``limit`` bytes, else recomputed in each pass.

    Storing takes twice that for a moment; recomputing, about four blocks of 32 MB (at least 64
    rows). X, an array, a sparse matrix or an operator, is kept then and not copied. On a cluster
    features are never stored.

    Examples
    --------
    >>> phi = random_fourier(5, 30, 0.1, np.random.default_rng(1))
    >>> feature_operator(phi, np.ones((200, 5))).shape
    (200, 30)
    """
    operator = X if isinstance(X, RowBlocked) else Matrix(rows_of(X))
    dtype = np.dtype(operator.dtype)
    features = Mapped(operator, phi, phi.dimension, dtype)
    small = math.prod(features.shape) * dtype.itemsize <= limit and not operator.is_distributed
    return Matrix(features.todense()) if small else features
