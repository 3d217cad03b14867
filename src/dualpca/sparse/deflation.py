"""``C = X^T X`` less what components explain; variances and targets of loadings W, from ``C W`` alone."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from ..linalg import to_numpy
from ..operators import Operator
from ..operators.kernel import Kernel

#: A variance below this share of the largest one is rounding.
RANK = 1e-12


class DeflatedGram(Operator):
    """``C - L R^T``: ``C = X^T X`` less what the components removed so far explain.

    C is a dense matrix if ``formed``; otherwise each product is a pass over X.
    """

    dtype = np.dtype(float)

    def __init__(self, X: Operator, formed: bool = True) -> None:
        n = X.shape[1]
        self.X, self.shape, self.formed = X, (n, n), formed
        self._C: Any = to_numpy(X.gram()) if formed else None
        self._diagonal = X.column_squares() if self._C is None else np.diag(self._C).copy()
        self._L, self._R, self._basis = (np.zeros((n, 0)) for _ in range(3))
        #: A variance up to here is rounding.
        self.floor = RANK * max(float(self._diagonal.max(initial=0.0)), 0.0) * n

    def undeflated(self) -> DeflatedGram:
        """Return C itself."""
        C = copy(self)
        C._L, C._R, C._basis = (np.zeros((len(self._diagonal), 0)) for _ in range(3))
        return C

    @property
    def data(self) -> Operator:
        """X less the components, known by C only: the transpose of a feature map with kernel C."""
        return Kernel(self, lambda: self.variances).T

    @property
    def variances(self) -> np.ndarray:
        """The diagonal."""
        return self._diagonal - (self._L * self._R).sum(axis=1)

    @property
    def longest(self) -> float:
        """The largest length of a column of X less the components."""
        return max(float(self.variances.max(initial=0.0)), 0.0) ** 0.5

    def matmul(self, V: np.ndarray) -> np.ndarray:
        if self.formed:
            S = np.flatnonzero(V.any(axis=1))
            few = 4 * len(S) < len(V)  # C is symmetric, and rows are contiguous
            return self.corrected(V, self._C[S].T @ V[S] if few else self._C @ V)
        CV = to_numpy(self.X.sweep(self.X.asarray(V)))
        return self.corrected(V, CV.astype(float, copy=False))

    def rmatmul(self, V: np.ndarray) -> np.ndarray:
        return self.matmul(V)

    def corrected(self, V: np.ndarray, CV: np.ndarray) -> np.ndarray:
        """Return ``(C - L R^T) V``, given ``C V``."""
        return CV - self._L @ (self._R.T @ V) if self._L.shape[1] else CV

    def block(self, S: np.ndarray) -> np.ndarray:
        """Return the principal submatrix on the features S."""
        C = self._C[np.ix_(S, S)] if self.formed else to_numpy(self.X.take_columns(S).gram())
        return C - self._L[S] @ self._R[S].T

    def rows(self, S: np.ndarray | slice) -> np.ndarray:
        """Return the rows of the features S of a matrix that is ``formed``."""
        return self._C[S] - self._L[S] @ self._R.T

    def remove(self, w: np.ndarray, z: np.ndarray, rule: str) -> bool:
        """Remove the component w, where z is the product with w (Mackey 2008).

        "projection": ``(I - w w^T) C (I - w w^T)``; "orthogonal": the same with w orthogonalised
        against the components before it; "schur": ``C - z z^T / w^T z``. Return False if the variance
        of w is rounding, and remove nothing.
        """
        variance = float(np.vdot(w, z))
        if variance <= self.floor:
            return False
        left, right = z / variance, z
        if rule == "orthogonal":
            for _ in range(2):  # the second time removes the rounding of the first
                w = w - self._basis @ (self._basis.T @ w)
            length = float(np.linalg.norm(w))
            if length <= RANK:
                return True
            # The basis is in the kernel of C - L R^T, so z is also the product with the new w.
            w, z, variance = w / length, z / length, variance / length**2
            self._basis = np.hstack([self._basis, w])
        if rule != "schur":
            left, right = np.hstack([z - variance * w, w]), np.hstack([w, z])
        self._L, self._R = np.hstack([self._L, left]), np.hstack([self._R, right])
        return True


def adjusted_variances(W: np.ndarray, CW: np.ndarray) -> np.ndarray:
    """``R_jj^2`` of ``X W = Q R``: what each component adds (Zou, Hastie and Tibshirani 2006)."""
    G = W.T @ CW
    adjusted = np.zeros(len(G))
    floor = RANK * max(float(np.diag(G).max(initial=0.0)), 0.0) * len(G)
    for j in range(len(G)):
        if G[j, j] > floor:
            adjusted[j] = G[j, j]
            G = G - np.outer(G[:, j] / G[j, j], G[j])
    return adjusted


def cumulative_variances(W: np.ndarray, CW: np.ndarray) -> np.ndarray:
    """``||X P_j||^2 = tr (W_j^T W_j)^+ W_j^T C W_j``, P_j the projection on the first j loadings W_j.

    Shen and Huang (2008).
    """
    G, M = W.T @ W, W.T @ CW

    def captured(j: int) -> float:
        return float(np.vdot(np.linalg.pinv(G[:j, :j], RANK, hermitian=True), M[:j, :j]))

    return np.array([captured(j + 1) for j in range(len(G))])


def gaussian(n: int, s: int) -> np.ndarray:
    """Return the random vectors from which s leading eigenvectors are sought, the same in every fit."""
    return np.random.default_rng(0).standard_normal((n, min(n, s + 4)))


def leading_subspace(C: DeflatedGram, V: np.ndarray, steps: int) -> np.ndarray:
    """Return rough leading eigenvectors of C by subspace iteration from V."""
    for _ in range(steps):
        V = np.linalg.qr(V)[0]
        CV = C @ V
        V = CV @ np.linalg.eigh(V.T @ CV)[1][:, ::-1]
    return np.linalg.qr(V)[0]


def lengths(W: np.ndarray) -> np.ndarray:
    """Return the lengths of the columns, 1 for zero columns."""
    sizes = np.linalg.norm(W, axis=0)
    return np.where(sizes > 0, sizes, 1.0)


def unit(W: np.ndarray) -> np.ndarray:
    """Scale the columns to length 1; zero columns stay."""
    return W / lengths(W)


def column_targets(W: np.ndarray, CW: np.ndarray) -> np.ndarray:
    """``z = C w / ||X w||`` for each column: ``X^T dF(Xw)`` of problems with one component.

    F is the length of ``X w`` with penalties, half its square on the k-sparse ball, where the length
    of z does not matter.
    """
    variances = np.einsum("ij,ij->j", W, CW)
    return CW / np.sqrt(np.where(variances > 0, variances, 1.0))


def polar_targets(W: np.ndarray, CW: np.ndarray) -> np.ndarray:
    """``X^T polar(X W) = C W (W^T C W)^{-1/2}``: ``X^T dF(XW)`` of ``F = ||.||_{S_1}``.

    This is what :class:`dualpca.functions.Spectral` computes, with directions below ``RANK`` dropped.
    """
    theta, Q = np.linalg.eigh(W.T @ CW)
    theta, Q = theta[_above(theta)], Q[:, _above(theta)]
    Z = CW @ ((Q / np.sqrt(theta)) @ Q.T)
    return np.where(_above((Z**2).sum(axis=0)), Z, 0.0)


def fit_targets(W: np.ndarray, CW: np.ndarray) -> np.ndarray:
    """``w_j + (X - T W^T)^T t_j / ||t_j||^2``: the best fit of w_j to what the others leave of X.

    Its k largest entries are the best k-sparse one. No DCA: T are the scores that fit X best.
    """
    W, XT, G = best_scores(W, CW)
    return W + (XT - W @ G) / np.where(np.diag(G) > 0, np.diag(G), 1.0)


def best_scores(W: np.ndarray, CW: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return unit W, ``X^T T`` and ``T^T T`` of the scores ``T = X W (W^T W)^{-1}``.

    Columns are 0 where the scores are no more than rounding.
    """
    W, CW = W / lengths(W), CW / lengths(W)
    inverse = np.linalg.pinv(W.T @ W, RANK * W.shape[1], hermitian=True)
    XT = CW @ inverse
    G = inverse @ (W.T @ XT)
    significant = np.diag(G) > RANK * max(float(np.einsum("ij,ij->j", W, CW).max()), 0.0) * len(G)
    return tuple(np.where(significant, A, 0.0) for A in (W, XT, G))  # type: ignore[return-value]


def _above(values: np.ndarray) -> np.ndarray:
    """Return which values are more than rounding of the largest."""
    return values > RANK * max(float(values.max()), 0.0) * len(values)
